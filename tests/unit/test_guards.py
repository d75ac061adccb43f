"""The marks of guards follow the code: ``make test-mutations`` finds each, and the page of hazards names it."""

import subprocess
import sys
from pathlib import Path

import pytest
from links import find_problems
from mutations.guards import Guard, list_guards

from docs.site.hazards import render_page

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("guard", list_guards(), ids=lambda guard: guard.name)
def test_guard_can_be_switched_off(guard: Guard) -> None:
    assert (ROOT / guard.file).read_text().count(guard.text) == 1, f"{guard.file}: correct the mark of {guard.test}"


def test_code_without_a_guard_has_no_unknown_name(tmp_path: Path) -> None:
    """Its test would fail for that, whatever it asserts, and pass for one that notices."""
    for number, guard in enumerate(guard for guard in list_guards() if guard.file.endswith(".py")):
        without = (ROOT / guard.file).read_text().replace(guard.text, guard.off)
        (tmp_path / f"{number}.py").write_text(f"# {guard.name}\n{without}")
    ruff = [sys.executable, "-m", "ruff", "check", "--no-cache", "--isolated", "--select", "F821", str(tmp_path)]
    process = subprocess.run(ruff, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout


def test_page_of_hazards_lists_every_guard_and_only_tests_that_are_there(tmp_path: Path) -> None:
    page = tmp_path / "hazards.md"
    page.write_text(render_page().replace("](guarantees.md)", "](#guards)"))
    assert not [guard.name for guard in list_guards() if f"| {guard.name} |" not in page.read_text()]
    assert list(find_problems(page)) == []
