"""The tables of the five designs name keys, commands and metadata words that are there."""

import re
from collections.abc import Iterator
from pathlib import Path

from command_words import list_commands
from tidegate.spec.source import METADATA_TYPES

from docs.site.keys import SECTIONS, list_keys

PAGE = Path(__file__).parents[3] / "docs" / "designs.md"
DESIGNS = 5
PREFIXES = {"source": "source.", "tables": "tables[].", "pipeline": "", "publication": "publication."}


def list_names() -> Iterator[tuple[str, str]]:
    """The requirement, and each name that the second column of its row has in backticks."""
    for line in PAGE.read_text().splitlines():
        if line.startswith("| ") and not line.startswith(("| requirement", "| ---")):
            requirement, places, _difference = (cell.strip() for cell in line.split("|")[1:-1])
            yield from ((requirement, name) for name in re.findall("`([^`]+)`", places))


def explain_unknown(name: str) -> str:
    """Why a name leads nowhere; empty if it is there."""
    program, _, rest = name.partition(" ")
    if program == "bin/tidegate":
        command, *options = rest.split()
        known = list_commands()
        is_known = command in known and set(options) <= known[command]
        return "" if is_known else "no such command or option"
    keys = {f"{prefix}{key.name}" for section, prefix in PREFIXES.items() for key in list_keys(SECTIONS[section])}
    return "" if name in keys or name in METADATA_TYPES else "neither a key nor a metadata word"


def test_page_has_a_table_for_each_design() -> None:
    assert PAGE.read_text().count("| requirement | where it is set | what differs, and why |") == DESIGNS
    assert len(list(list_names())) > 60


def test_every_name_is_a_key_a_command_or_a_metadata_word() -> None:
    assert [(row, name, why) for row, name in list_names() if (why := explain_unknown(name))] == []


def test_name_that_is_not_there_is_noticed() -> None:
    assert explain_unknown("tables[].colour") == "neither a key nor a metadata word"
    assert explain_unknown("bin/tidegate flush --backwards") == "no such command or option"
    assert explain_unknown("bin/tidegate flush --until") == ""
    assert explain_unknown("publication.delivery") == ""
