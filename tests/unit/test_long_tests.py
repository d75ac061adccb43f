"""What `make test` leaves out is listed, test by test, and each has a quick test beside it that is there."""

import ast
from functools import cache
from pathlib import Path

from long_tests import LONG, find_unknown, is_long

ROOT = Path(__file__).parents[2]


@cache
def list_functions(file: str) -> set[str]:
    path = ROOT / file
    tree = ast.parse(path.read_text() if path.exists() else "")
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def is_there(name: str) -> bool:
    file, _, test = name.partition("::")
    return test.partition("[")[0] in list_functions(file)


def test_every_long_test_and_every_quick_one_that_stands_for_it_is_there() -> None:
    assert [name for name in (*LONG, *LONG.values()) if not is_there(name)] == [], "correct tests/long_tests.py"


def test_quick_test_that_stands_for_long_ones_runs_in_every_build() -> None:
    assert [quick for quick in LONG.values() if is_long(quick)] == []
    assert [name for name in LONG if name.startswith("tests/unit")] == []


def test_parameter_that_no_test_has_is_found() -> None:
    listed = ("tests/a.py::test_a[gone]", "tests/b.py::test_b")
    assert find_unknown({"tests/a.py::test_a[here]", "tests/a.py::test_c"}, listed) == ["tests/a.py::test_a[gone]"]
    assert find_unknown({"tests/a.py::test_a[gone]"}, listed) == []
    assert find_unknown({"tests/c.py::test_c"}, listed) == []
