"""What `make test` leaves out is listed, test by test, and each has a quick test beside it that is there."""

import subprocess
import sys
from pathlib import Path

import pytest
from long_tests import LONG, is_long

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def nodes() -> set[str]:
    """Every test of the files that the table names, by pytest's name."""
    files = {name.partition("::")[0] for name in (*LONG, *LONG.values())}
    words = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *sorted(files)]
    told = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-3000:]
    return {line for line in told.stdout.splitlines() if "::" in line}


def named(nodes: set[str], name: str) -> set[str]:
    """The tests of that name, all of its parameters where it names none."""
    return {node for node in nodes if name in (node, node.partition("[")[0])}


def test_every_long_test_is_there(nodes: set[str]) -> None:
    assert [name for name in LONG if not named(nodes, name)] == [], "correct tests/long_tests.py"


def test_every_quick_test_that_stands_for_long_ones_is_there_and_runs_in_every_build(nodes: set[str]) -> None:
    wrong = [quick for quick in set(LONG.values()) if all(is_long(node) for node in named(nodes, quick))]
    assert wrong == [], "correct tests/long_tests.py"


def test_no_unit_test_is_long() -> None:
    assert not [name for name in LONG if name.startswith("tests/unit")]
