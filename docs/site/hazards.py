"""Renders the manual's page ``hazards.md``: each guard with the test that fails without it, and what the tests try.

Guards come from the marks at their tests. A test's name says its hazard, so the rest of the page is those names.
"""

import ast
import runpy
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
GUARDS = TESTS / "mutations" / "guards.py"
# what is tried over several steps, on every destination, and by each step that moves or reads a position
GROUPS = {
    "Crash points": ("unit/test_failpoints.py", "integration/test_crash_points.py", "integration/test_concurrency.py"),
    "Scenarios": ("unit/scenarios",),
    "Every destination": ("contract",),
    "Steps": ("unit/tidegate/flush", "unit/tidegate/table", "unit/tidegate/merge", "unit/tidegate/reprocess"),
}
HEAD = """# Hazards

What could lose or double a record, and the test that shows that it does not. Tests are named `file::test`, the file
below `tests/`. [Guarantees](guarantees.md) say how each step keeps its promise.

## Guards

`make test-mutations` switches off one guard at a time; its test must fail.

| guard | test that fails without it |
| --- | --- |
"""


def render_page() -> str:
    """The whole page."""
    return HEAD + "".join(_render_guards()) + "".join(_render_groups())


def _render_guards() -> Iterator[str]:
    for guard in runpy.run_path(str(GUARDS))["list_guards"]():
        yield f"| {guard.name} | `{guard.test.removeprefix('tests/')}` |\n"


def _render_groups() -> Iterator[str]:
    for title, places in GROUPS.items():
        yield f"\n## {title}\n"
        for file in [file for place in places for file in _list_files(TESTS / place)]:
            yield f"\n`{file.relative_to(TESTS)}`\n\n"
            yield from (f"- {sentence}\n" for sentence in read_hazards(file))


def _list_files(place: Path) -> list[Path]:
    return sorted(place.rglob("test_*.py")) if place.is_dir() else [place]


def read_hazards(file: Path) -> list[str]:
    """The names of a file's tests as sentences, in their order."""
    tests = (node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef))
    return [name.removeprefix("test_").replace("_", " ") for name in tests if name.startswith("test_")]
