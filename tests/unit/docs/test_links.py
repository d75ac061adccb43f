"""What a page names must be there: a guarantee whose test was renamed is guarded by nobody."""

from pathlib import Path

import pytest
from links import ROOT, find_problems

HERE = "unit/docs/test_links.py"
OWN = "test_page_names_only_tests_that_are_there"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"`{HERE}`, `test_links.py`, `tests/{HERE}`, `{HERE}::{OWN}`, `{HERE}::{OWN}[a-1]`", None),
        ("`unit/docs/test_gone.py`", "test=unit/docs/test_gone.py does not exist"),
        ("`unit/docs/test_gone.py::test_it[True]`", "test=unit/docs/test_gone.py does not exist"),
        ("`test_sql_golden.py` (`nested_key`)", "test=test_sql_golden.py does not exist"),
        (f"`{HERE}::test_gone`", f"test={HERE}::test_gone does not exist"),
        (f"`{HERE}::test_gone[a-1]`", f"test={HERE}::test_gone does not exist"),
        (f"`{HERE}::{OWN[:-3]}`", f"test={HERE}::{OWN[:-3]} does not exist"),
    ],
)
def test_page_names_only_tests_that_are_there(tmp_path: Path, text: str, problem: str | None) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"| a promise | {text} |")
    assert list(find_problems(page)) == ([] if problem is None else [problem])


def test_rows_behind_an_empty_line_are_not_shown_as_a_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "text\n\n| a | b |\n| --- | --- |\n| 1 | 2 |\n\n1. step\n\n   | c | d |\n   | --- | :---: |\n   | 3 | 4 |\n"
    )
    assert list(find_problems(page)) == []
    page.write_text("| a | b |\n| --- | --- |\n| 1 | 2 |\n\n| 3 | 4 |\n\ntext\n")
    assert list(find_problems(page)) == ["row=| 3 | 4 | stands behind an empty line, outside of its table"]


def test_every_test_of_the_guarantees_is_there() -> None:
    assert list(find_problems(ROOT / "docs" / "guarantees.md")) == []
