"""The documentation's table of values is made of the cases that the tests prove."""

from pathlib import Path

import value_cases

PAGE = Path(__file__).parents[3] / "docs" / "format-values.md"


def test_page_shows_the_cases_that_are_proved() -> None:
    text = PAGE.read_text()
    assert text == value_cases.render_page(text), "write value_cases.render_page(text) back to docs/format-values.md"


def test_table_names_every_case() -> None:
    cases = [case for group in value_cases.GROUPS.values() for case in group]
    assert len([line for line in value_cases.render_table().splitlines() if line.startswith("| `")]) == len(cases)
