"""The marks of guards follow the code: ``make test-mutations`` finds each, and the page of hazards names it."""

from pathlib import Path

import pytest
from links import find_problems
from mutations.guards import Guard, list_guards

from docs.site.hazards import render_page

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("guard", list_guards(), ids=lambda guard: guard.name)
def test_guard_can_be_switched_off(guard: Guard) -> None:
    assert (ROOT / guard.file).read_text().count(guard.text) == 1, f"{guard.file}: correct the mark of {guard.test}"


def test_page_of_hazards_lists_every_guard_and_only_tests_that_are_there(tmp_path: Path) -> None:
    page = tmp_path / "hazards.md"
    page.write_text(render_page().replace("](guarantees.md)", "](#guards)"))
    assert not [guard.name for guard in list_guards() if f"| {guard.name} |" not in page.read_text()]
    assert list(find_problems(page)) == []
