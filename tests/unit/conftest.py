"""What several unit tests start from."""

from pathlib import Path

import pytest
from pipeline_files import CATALOGS


@pytest.fixture
def include(tmp_path: Path) -> Path:
    """An include folder with catalogs and no pipeline yet."""
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    return tmp_path
