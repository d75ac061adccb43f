"""The tables of keys: every key of the models with its default, and what a page adds to some of them."""

from pathlib import Path

import pytest

from docs.site.keys import SECTION_PATTERN, SECTIONS, expand_page, list_keys, render_table

DOCS = Path(__file__).parents[3] / "docs"
PAGE = """
before
<!-- keys: tables -->
| key | more |
| --- | --- |
| `create.partition_by` | `s.x` for a field of a struct |

after
"""


def test_table_has_each_key_with_its_default_and_the_notes_of_the_page() -> None:
    lines = expand_page(PAGE).splitlines()
    assert lines[:5] == ["", "before", "| key | default | meaning |", "| --- | --- | --- |", lines[4]]
    assert lines[-1] == "after"
    rows = {line.split("`")[1]: line for line in lines[4:-2]}
    assert list(rows) == [key.name for key in list_keys(SECTIONS["tables"])]
    assert rows["create.partition_by"].endswith("bucket(4, id). `s.x` for a field of a struct |")
    assert rows["tombstone_retention"] == "| `tombstone_retention` | `7d` | How long deletes are remembered. |"
    assert rows["deletes"].endswith("One of `hard`, `soft`. |")
    assert "route.pattern" in rows
    assert "key.fields" not in rows, "a table's own key is one key, as source.key has the rest"


def test_durations_and_required_keys_are_written_as_in_the_file() -> None:
    defaults = {key.name: key.default for key in list_keys(SECTIONS["pipeline"])}
    assert defaults["merge.interval"] == "`1m`"
    assert defaults["maintenance.interval"] == "`1d`"
    assert defaults["merge.records_threshold"] == "`-1`"
    assert {key.name: key.default for key in list_keys(SECTIONS["publication"])}["table"] == "required"


def test_note_on_a_key_that_no_model_has_is_refused() -> None:
    with pytest.raises(ValueError, match="keys=colour: section=csv has no such keys"):
        render_table("csv", "| `colour` | red |\n")


def test_every_page_adds_to_keys_that_are_there() -> None:
    parts = {name for page in DOCS.glob("*.md") for name, _ in SECTION_PATTERN.findall(page.read_text())}
    assert parts == set(SECTIONS), "each part of the files stands on one page"
    for page in DOCS.glob("*.md"):
        expand_page(page.read_text())


@pytest.mark.parametrize("name", SECTIONS)
def test_every_key_has_a_description(name: str) -> None:
    assert [key.name for key in list_keys(SECTIONS[name]) if not key.description] == []
