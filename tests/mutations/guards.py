"""The guards that keep records from being lost or doubled. How one is switched off stands at the test that then fails.

``@pytest.mark.guard(name, file=…, text=…, off=…, case=…)``: `text`, once in `file`, is the guard. With `off` in its
place the test must fail; of a test with parameters the one of this `case`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
MARK = "pytest.mark.guard"


@dataclass(frozen=True)
class Guard:
    """`text` in `file` is the guard. With `off` in its place, `test` must fail."""

    name: str
    file: str
    text: str
    off: str
    test: str


def list_guards() -> list[Guard]:
    """Return the guards of all tests, by file and in the order of the tests in it."""
    files = [file for file in sorted(TESTS.rglob("test_*.py")) if f"@{MARK}(" in file.read_text()]
    return [guard for file in files for guard in _read_guards(file)]


def _read_guards(file: Path) -> Iterator[Guard]:
    tests = [node for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)]
    marked = [(test, mark) for test in tests for mark in test.decorator_list]
    for test, mark in marked:
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) == MARK:
            facts = {word.arg: ast.literal_eval(word.value) for word in mark.keywords if word.arg}
            case = f"[{facts.pop('case')}]" if "case" in facts else ""
            place = f"{file.relative_to(TESTS.parent)}::{test.name}{case}"
            yield Guard(ast.literal_eval(mark.args[0]), test=place, **facts)
