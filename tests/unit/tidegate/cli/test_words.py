"""Help and version: what they say, and that they load no library."""

import os
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


def test_help_of_every_command_loads_no_library() -> None:
    process = subprocess.run(
        [sys.executable, "-c", ALL_HELP], env=build_environment(), capture_output=True, text=True, check=True
    )
    modules = set(process.stdout.rpartition("LOADED ")[2].split())
    assert "tidegate" in modules
    assert not modules & HEAVY
    assert process.stdout.count("usage: tidegate") == len(COMMANDS) + 2


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
