"""Messages and pages name only commands, options and targets of `make` that are there, as they are spelled."""

import re
from pathlib import Path

import pytest
from command_words import find_unknown_words

from docs.site.message_index import collect_messages

ROOT = Path(__file__).parents[3]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "runbook").glob("*.md")),
)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_every_command_of_a_message_is_there() -> None:
    texts = [text for message in collect_messages() for text in (message.text, message.advice)]
    assert sum("tidegate rebase" in text for text in texts) > 3
    assert [(text, words) for text in texts if (words := find_unknown_words(text))] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_command_and_target_of_a_page_is_there(page: Path) -> None:
    text = page.read_text()
    assert find_unknown_words(text) == []
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)) <= TARGETS


@pytest.mark.parametrize(
    ("text", "unknown_words"),
    [
        ("run: tidegate unroll p --table lake.shop.orders", ["unroll"]),
        ("run `tidegate rebase p --until latest`, or `tidegate flush p --until latest`", ["rebase --until"]),
        ("bin/tidegate airflow install --dags-folder d\nbin/tidegate flush Orders --json  # not --yaml", []),
    ],
)
def test_what_is_not_there_is_named(text: str, unknown_words: list[str]) -> None:
    for _ in range(2):
        assert find_unknown_words(text) == unknown_words
