"""`make setup` does each step once per lock, and says in one line what a machine lacks."""

import subprocess
from pathlib import Path

import pytest

from local import setup

ROOT = Path(__file__).parents[3]


def test_an_unchanged_step_is_skipped_and_a_changed_one_is_done_again(tmp_path: Path) -> None:
    runs: list[str] = []
    for digest in ("a", "a", "b"):
        setup.build_unless_stamped(tmp_path, digest, "step", lambda: runs.append("run"))
    assert len(runs) == 2


def test_an_interrupted_step_is_done_again(tmp_path: Path) -> None:
    def breaks() -> None:
        raise setup.SetupError("network")

    setup.build_unless_stamped(tmp_path, "a", "step", lambda: None)
    with pytest.raises(setup.SetupError):
        setup.build_unless_stamped(tmp_path, "b", "step", breaks)
    runs: list[str] = []
    assert setup.build_unless_stamped(tmp_path, "a", "step", lambda: runs.append("run"))


def test_uv_is_installed_from_the_lock_with_its_hashes() -> None:
    entry = setup._find_locked_entry("uv", setup.LOCK_FILE.read_text())
    assert entry.startswith("uv==")
    assert entry.count("--hash=sha256:") > 1
    assert entry.count("==") == 1


def test_a_machine_without_java_and_maven_gets_one_line(tmp_path: Path) -> None:
    for tool in ("bash", "dirname", "sed", "head", "python3"):
        found = subprocess.run(["bash", "-c", f"command -v {tool}"], capture_output=True, text=True, check=True)
        (tmp_path / tool).symlink_to(found.stdout.strip())
    answer = subprocess.run(
        ["bash", str(ROOT / "local" / "setup.sh")],
        env={"PATH": str(tmp_path), "PYTHON": str(ROOT / ".venv" / "bin" / "python")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 1
    assert len(answer.stderr.splitlines()) == 1
    assert "JDK 17" in answer.stderr
    assert "Maven" in answer.stderr
