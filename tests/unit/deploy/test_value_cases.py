"""The manual's page of values is made of the cases that the tests prove."""

import value_cases


def test_page_shows_every_case() -> None:
    cases = [case for group in value_cases.GROUPS.values() for case in group]
    assert len([line for line in value_cases.render_page().splitlines() if line.startswith("| `")]) == len(cases)
