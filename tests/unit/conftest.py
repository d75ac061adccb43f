"""What several unit tests start from."""

from pathlib import Path

import pytest
from pipeline_files import CATALOGS
from tidegate.flush.clean_up import CleanUpReport, clean_up
from tidegate.ports.session import Session


@pytest.fixture
def include(tmp_path: Path) -> Path:
    """An include folder with catalogs and no pipeline yet."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    return tmp_path


@pytest.fixture
def clean_up_reports(monkeypatch: pytest.MonkeyPatch) -> list[CleanUpReport]:
    """What the clean_up of every flush has done, the newest last."""
    reports = list[CleanUpReport]()

    def clean_up_and_note(session: Session) -> list[CleanUpReport]:
        done = clean_up(session)
        reports.extend(done)
        return done

    monkeypatch.setattr("tidegate.flush.flush.clean_up", clean_up_and_note)
    return reports
