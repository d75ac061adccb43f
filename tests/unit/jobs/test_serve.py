"""What the Spark Connect server's program removes: empty folders and hooks of what has ended, and nothing else."""

import os
import time
from pathlib import Path

import pytest
from serve import MIN_FOLDER_AGE_SECONDS, remove_empty_folders, remove_hooks


def test_only_empty_folders_go_and_only_when_nobody_has_just_made_them(tmp_path: Path) -> None:
    for name in ("ended", "filled", "new"):
        (tmp_path / name).mkdir()
    (tmp_path / "filled" / "model").write_text("kept")
    (tmp_path / "file").touch()
    past = time.time() - 2 * MIN_FOLDER_AGE_SECONDS
    for name in ("ended", "filled", "file"):
        os.utime(tmp_path / name, (past, past))
    remove_empty_folders(tmp_path)
    assert {entry.name for entry in tmp_path.iterdir()} == {"filled", "new", "file"}


def test_server_without_such_a_folder_goes_on(tmp_path: Path) -> None:
    remove_empty_folders(tmp_path / "missing")


def test_jvm_that_does_not_show_its_hooks_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    calls: list[int] = []

    def refuse() -> None:
        calls.append(1)
        raise ValueError("Unable to make field accessible\nmore")

    assert remove_hooks(remove_hooks(refuse)) is None
    assert calls == [1]
    assert capsys.readouterr().out == "Each compaction leaves its session in memory: Unable to make field accessible\n"


def test_hooks_are_removed_again_and_again() -> None:
    calls: list[int] = []
    removal = remove_hooks(remove_hooks(lambda: calls.append(1)))
    assert removal is not None
    assert calls == [1, 1]
