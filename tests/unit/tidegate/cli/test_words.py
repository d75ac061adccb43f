"""Help, version and shell completion: what they say, and that they load no library."""

import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tidegate.cli.main import COMMANDS
from tidegate.cli.parser import build_parser

ROOT = Path(__file__).parents[4]
# what takes a tenth of a second and more
HEAVY = {"pyspark", "pyarrow", "airflow", "pyiceberg", "confluent_kafka", "pydantic", "yaml", "jinja2", "sqlglot"}
HEAVY |= {"pandas", "sqlalchemy", "httpx", "google", "grpc", "numpy"}
ALL_HELP = """
import sys
from contextlib import suppress
before = set(sys.modules)  # files beside the packages load some at each start of Python
from tidegate.cli.main import COMMANDS, main
for words in ([], ["--version"], *([name] for name in COMMANDS), ["airflow", "install"]):
    with suppress(SystemExit):
        main([*words, "--help"] if words != ["--version"] else words)
print("LOADED", *sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def build_environment(**variables: str) -> dict[str, str]:
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT / "jobs")])
    return os.environ | {"PYTHONPATH": path, "COLUMNS": "200"} | variables


@pytest.fixture
def include(tmp_path) -> Path:
    for kind, names in (("pipelines", ("orders", "order_lines")), ("publications", ("outlet",))):
        (tmp_path / kind).mkdir()
        for name in names:
            (tmp_path / kind / f"{name}.yaml").write_text("no one reads this: {")
    return tmp_path


def complete_line(line: str, include: Path, folder: Path) -> tuple[list[str], set[str]]:
    """What a shell is offered behind `line`, and the packages that were loaded for that."""
    answer = folder / "offered"
    answer.unlink(missing_ok=True)
    variables = {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_IFS": "\n"}
    variables |= {"_ARGCOMPLETE_STDOUT_FILENAME": str(answer), "TIDEGATE_INCLUDE": str(include)}
    command = [sys.executable, "-X", "importtime", "-m", "tidegate"]
    process = subprocess.run(
        command, env=build_environment(**variables), cwd=folder, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr[-500:]
    modules = {
        name.partition(".")[0] for name in re.findall(r"^import time:.*\| +(\S+)$", process.stderr, re.MULTILINE)
    }
    return [name.strip() for name in answer.read_text().split("\n") if name], modules


def test_help_of_every_command_loads_no_library() -> None:
    process = subprocess.run(
        [sys.executable, "-c", ALL_HELP], env=build_environment(), capture_output=True, text=True, check=True
    )
    modules = set(process.stdout.rpartition("LOADED ")[2].split())
    assert "tidegate" in modules
    assert not modules & HEAVY
    assert process.stdout.count("usage: tidegate") == len(COMMANDS) + 2


@pytest.mark.parametrize(
    ("line", "verbose"),
    [("flush users", False), ("flush users -v", True), ("-v flush users", True), ("status --verbose users", True)],
)
def test_each_step_is_said_on_request_wherever_the_request_stands(line: str, verbose: bool) -> None:
    """Behind the command it was refused as unknown."""
    assert build_parser().parse_args(line.split()).verbose is verbose


def test_every_command_has_words_and_a_function() -> None:
    (commands,) = (action for action in build_parser()._actions if action.dest == "command")
    assert set(commands.choices) == set(COMMANDS)
    for place in COMMANDS.values():
        module, _, function = place.partition(":")
        assert callable(getattr(import_module(f"tidegate.cli.commands.{module}"), function))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_says_what_the_command_does_and_what_each_of_its_words_means(command: str) -> None:
    (commands,) = (action for action in build_parser()._actions if action.dest == "command")
    (summary,) = (choice.help for choice in commands._choices_actions if choice.dest == command)
    parser = commands.choices[command]
    assert summary
    assert parser.description.endswith(".")
    assert [action.dest for action in parser._actions if not action.help] == []


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("tidegate fl", ["flush"]),
        ("tidegate flush ", ["order_lines", "orders"]),
        ("tidegate flush order_", ["order_lines"]),
        ("tidegate flush orders --until-", ["--until-current"]),
        ("tidegate status o", ["order_lines", "orders", "outlet"]),
        ("tidegate publish ", ["outlet"]),
        ("tidegate schema pu", ["publication"]),
        ("tidegate airflow ", ["install"]),
    ],
)
def test_shell_is_offered_commands_options_and_names_and_no_library_is_loaded(line, offered, include, tmp_path) -> None:
    candidates, modules = complete_line(line, include, tmp_path)
    assert sorted(name for name in candidates if offered[0].startswith("-") or not name.startswith("-")) == offered
    assert "argcomplete" in modules
    assert not modules & HEAVY


def test_folder_without_pipelines_offers_no_name_and_says_nothing(tmp_path) -> None:
    candidates, _ = complete_line("tidegate flush ", tmp_path / "nowhere", tmp_path)
    assert [name for name in candidates if not name.startswith("-")] == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_takes_the_code_that_completion_prints(shell, tmp_path) -> None:
    command = [sys.executable, "-m", "tidegate", "completion", shell]
    code = subprocess.run(command, env=build_environment(), capture_output=True, text=True, check=True).stdout
    assert "tidegate" in code
    if shutil.which(shell):
        (tmp_path / "code").write_text(code)
        assert subprocess.run([shell, "-n", str(tmp_path / "code")], check=False).returncode == 0


def test_bash_completes_the_name_of_a_pipeline(include, tmp_path) -> None:
    script = """
    eval "$(tidegate completion bash)"
    COMP_LINE="tidegate flush order_" COMP_POINT=21 COMP_WORDS=(tidegate flush order_) COMP_CWORD=2 COMP_TYPE=9
    _python_argcomplete tidegate
    echo "${COMPREPLY[@]}"
    """
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tidegate").symlink_to(ROOT / "bin" / "tidegate")
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    process = subprocess.run(
        ["bash", "-c", script],
        env=build_environment(TIDEGATE_INCLUDE=str(include), PATH=path),
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.split() == ["order_lines"]


def test_library_that_is_not_installed_is_told_with_the_way_out(tmp_path) -> None:
    code = """
import sys
sys.modules["pyiceberg"] = None
from tidegate.cli import main
main.COMMANDS["list"] = "files:run_list"
import tidegate.cli.commands.files as files
def run(words): import pyiceberg.catalog
files.run_list = run
sys.exit(main.main(["list"]))
"""
    (tmp_path / "pipelines").mkdir()
    process = subprocess.run(
        [sys.executable, "-c", code],
        env=build_environment(TIDEGATE_INCLUDE=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert process.stderr == "module=pyiceberg is not installed; run: make setup\n"
