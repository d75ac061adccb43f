"""A build that would write what it compares with could not fail."""

from pathlib import Path

import pytest
from golden_files import compare_with_golden


@pytest.fixture
def golden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("REGENERATE_GOLDEN", raising=False)
    statement_file = tmp_path / "statement.sql"
    statement_file.write_text("SELECT 1")
    return statement_file


def test_text_that_differs_fails(golden: Path) -> None:
    compare_with_golden(golden, "SELECT 1")
    with pytest.raises(AssertionError):
        compare_with_golden(golden, "SELECT 2")
    assert golden.read_text() == "SELECT 1"


def test_file_is_written_anew_where_a_developer_asks(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGENERATE_GOLDEN", "1")
    compare_with_golden(golden, "SELECT 2")
    assert golden.read_text() == "SELECT 2"


def test_build_never_writes_a_file_anew(golden: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGENERATE_GOLDEN", "1")
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="never writes them"):
        compare_with_golden(golden, "SELECT 2")
    assert golden.read_text() == "SELECT 1"
