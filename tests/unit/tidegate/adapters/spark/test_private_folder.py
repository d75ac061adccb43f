"""What a submitted job needs lies in a folder with its secrets: a killed process must not leave that for ever."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tidegate.adapters.spark.submit import open_private_folder

ROOT = Path(__file__).parents[5]
HOLDER = """
import sys
from tidegate.adapters.spark.submit import open_private_folder
with open_private_folder() as folder:
    (folder / "spark.properties").write_text("a password")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


@pytest.fixture
def holders(place: Path) -> Iterator[list[tuple["subprocess.Popen[str]", Path]]]:
    """Three processes, each with a folder of its own."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "plugins"), "TMPDIR": str(place)}
    processes = [
        subprocess.Popen([sys.executable, "-c", HOLDER], stdin=-1, stdout=-1, text=True, env=env) for _ in range(3)
    ]
    yield [(holder, Path(holder.stdout.readline().strip())) for holder in processes if holder.stdout]
    for process in processes:
        process.kill()
        process.communicate()


def test_folder_of_a_killed_process_goes_with_the_next_and_that_of_a_running_one_stays(
    place: Path, holders: list[tuple["subprocess.Popen[str]", Path]]
) -> None:
    for process, _ in holders[:2]:
        process.kill()
        process.wait()
    just_made = place / "tidegate-submit-x"
    just_made.mkdir()
    with open_private_folder() as own:
        assert own.stat().st_mode & 0o777 == 0o700
        assert {*place.iterdir()} == {own, holders[2][1], just_made}
    assert (holders[2][1] / "spark.properties").read_text() == "a password"
    assert not own.exists()
