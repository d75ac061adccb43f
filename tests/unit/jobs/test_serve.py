"""What the Spark Connect server's program removes: empty folders of ended sessions, and nothing else."""

import os
import time
from pathlib import Path

from serve import MIN_FOLDER_AGE_SECONDS, remove_empty_folders


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
