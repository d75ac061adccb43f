"""`make setup` does each step once per lock, and says in one line what a machine lacks."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
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


def test_steps_run_beside_each_other_and_their_results_keep_their_order() -> None:
    meeting = threading.Barrier(3)

    def step(name: str) -> str:
        meeting.wait(timeout=60)
        return name

    assert setup.run_beside([partial(step, name) for name in ("jars", "server", "packages")]) == [
        "jars",
        "server",
        "packages",
    ]


def test_a_step_that_fails_is_told_once_the_others_have_ended() -> None:
    ended_steps: list[str] = []
    failed = threading.Event()

    def breaks() -> None:
        failed.set()
        raise setup.SetupError("network")

    def goes_on() -> None:
        failed.wait(timeout=60)
        ended_steps.append("server")

    with pytest.raises(setup.SetupError, match="network"):
        setup.run_beside([breaks, goes_on])
    assert ended_steps == ["server"]


def test_the_reason_of_a_failed_command_is_its_own_last_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "LOG_FILE", tmp_path / "setup.log")
    tries_file = tmp_path / "tries"
    commands = {
        "fetch the jars": f"echo again >> {tries_file}; echo no route; exit 3",
        "install uv": "echo installed",
    }
    with pytest.raises(setup.SetupError, match="cannot fetch the jars, exit_code=3: no route \\(log: "):
        setup.run_beside([partial(setup.run_command, label, ["bash", "-c", code]) for label, code in commands.items()])
    assert tries_file.read_text().splitlines() == ["again"] * 2
    assert sorted(setup.LOG_FILE.read_text().splitlines()) == ["installed", "no route", "no route"]


@pytest.mark.usefixtures("keyboard")
def test_ctrl_c_ends_the_commands_and_none_is_tried_again(tmp_path: Path) -> None:
    code = (
        "from local import setup; from functools import partial; from pathlib import Path\n"
        f"setup.LOG_FILE = Path({str(tmp_path / 'setup.log')!r})\n"
        "commands = {name: ['bash', '-c', f'echo >> {name}; exec sleep 600'] for name in 'ab'}\n"
        "steps = [partial(setup.run_command, *command) for command in commands.items()]\n"
        "try:\n    setup.run_beside(steps)\nexcept setup.SetupError as error:\n    print(error)\n"
    )
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, cwd=tmp_path, env=path, stdout=subprocess.PIPE, text=True) as steps:
        deadline = time.monotonic() + 60
        while not all((tmp_path / name).exists() for name in "ab"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        steps.send_signal(signal.SIGINT)
        assert steps.communicate(timeout=60)[0].strip() == "interrupted"
    assert [(tmp_path / name).read_text() for name in "ab"] == ["\n", "\n"]


def test_uv_is_installed_from_the_lock_with_its_hashes() -> None:
    entry = setup._find_locked_entry("uv", setup.LOCK_FILE.read_text())
    assert entry.startswith("uv==")
    assert entry.count("--hash=sha256:") > 1
    assert entry.count("==") == 1


def test_a_machine_without_java_and_maven_gets_one_line(tmp_path: Path) -> None:
    for tool in ("bash", "dirname", "sed", "head", "python3"):
        process = subprocess.run(["bash", "-c", f"command -v {tool}"], capture_output=True, text=True, check=True)
        (tmp_path / tool).symlink_to(process.stdout.strip())
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


# local/setup.sh hands over to this in the tests below: it says which Python was chosen
TELLING_SETUP = "import sys\n\n\ndef main(words):\n    print('chosen', sys.argv, sys.executable)\n    return 0\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile and local/setup.sh in a folder, with `python3.13` and `python3.11` on a path of its own."""
    for name in ("Makefile", "local/setup.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "local" / "__init__.py").write_text("")
    (tmp_path / "local" / "setup.py").write_text(TELLING_SETUP)
    for place in ("bin/python3.11", "bin/python3.13", "bin/mvn", ".venv/bin/python"):
        write_program(tmp_path / place, f'echo "ran ${{0#{tmp_path}/}}" >&2\nexec {sys.executable} "$@"')
    write_program(tmp_path / "bin" / "java", "echo 'openjdk version \"17.0.15\"' >&2")
    write_program(tmp_path / "bin" / "python3.10", "exit 1")
    return tmp_path


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/usr/bin/env bash\n{text}\n")
    path.chmod(0o755)


def make_setup(checkout: Path, *words: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {"HOME": str(checkout), "PATH": f"{checkout / 'bin'}:/usr/bin:/bin", **variables}
    command = ["make", "-C", str(checkout), "setup", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def read_chosen_python(answer: "subprocess.CompletedProcess[str]") -> str:
    assert "chosen" in answer.stdout, answer.stderr
    return answer.stderr.strip().splitlines()[-1].removeprefix("ran ")


def test_python_that_the_user_names_is_chosen_in_the_environment_and_behind_make(checkout: Path) -> None:
    assert read_chosen_python(make_setup(checkout, PYTHON="python3.13")) == "bin/python3.13"
    assert read_chosen_python(make_setup(checkout, "PYTHON=python3.13")) == "bin/python3.13"


def test_python_of_the_environment_is_kept_where_none_is_named(checkout: Path) -> None:
    assert read_chosen_python(make_setup(checkout)) == ".venv/bin/python"
    (checkout / ".venv" / "bin" / "python").unlink()
    assert read_chosen_python(make_setup(checkout)) == "bin/python3.11"


def test_python_that_pyenv_has_is_chosen_by_its_name(checkout: Path) -> None:
    place = ".pyenv/versions/3.12.1/bin/python3.12"
    write_program(checkout / place, f'echo "ran ${{0#{checkout}/}}" >&2\nexec {sys.executable} "$@"')
    write_program(checkout / "bin" / "python3.12", "echo 'pyenv: python3.12: command not found' >&2; exit 127")
    assert read_chosen_python(make_setup(checkout, PYTHON="python3.12")) == place


@pytest.mark.parametrize("name", ["python3.10", "python9", "no such"])
def test_python_that_cannot_be_used_is_refused_and_no_other_taken(checkout: Path, name: str) -> None:
    answer = make_setup(checkout, PYTHON=name)
    assert answer.returncode != 0
    assert "chosen" not in answer.stdout
    assert f"setup: PYTHON={name} is no Python 3.11-3.13 that runs here" in answer.stderr


def test_jars_are_not_fetched_again_for_another_python(tmp_path: Path) -> None:
    (tmp_path / setup.STAMP_NAME).write_text("digest python 3.11")
    assert not setup.build_unless_stamped(tmp_path, "digest", "jars", lambda: pytest.fail("fetched again"))
