"""What a first pipeline file often gets wrong is one problem, which names the mistake and not what follows from it."""

from pathlib import Path

import pytest
from pipeline_files import find_problems

PLAIN = """\
source:
  topics: [t]
  key: {fields: [id], schema: id BIGINT}
tables:
  - name: lake.a.b
merge:
  interval: 30s
"""
TAB = "a tab before the first word of a line; write blanks in its place"
MISTAKES = {
    "a tab before a key": ("  topics:", "\ttopics:", f"2: not YAML: {TAB}"),
    "a tab behind blanks": ("  - name:", "  \t- name:", f"5: not YAML: {TAB}"),
    "a tab before an item": ("  topics: [t]", "  topics:\n\t- t", f"3: not YAML: {TAB}"),
    "a required key in other letters": ("tables:", "table:", "4: table: unknown key; did you mean tables or stage?"),
    "a section in other letters": ("source:", "Source:", "1: Source: unknown key; did you mean source?"),
    "topics in other letters": (
        "topics:",
        "topic:",
        "2: source.topic=[t]: unknown key; did you mean topics or topic_pattern?",
    ),
    "a table's name in other letters": (
        "  - name:",
        "  - naem:",
        "5: tables[0].naem=lake.a.b: unknown key; did you mean name?",
    ),
    "an interval in words": (
        "30s",
        "30 seconds",
        "7: merge.interval=30 seconds: not a cron expression, nor a duration; "
        "write minute hour day month weekday, e.g. '0 * * * *', or e.g. 30s",
    ),
    "a start without its word": (
        "  topics: [t]",
        "  topics: [t]\n  start: 2026-01-01T00:00:00Z",
        "3: source.start=2026-01-01T00:00:00Z: no place to start at; write earliest, latest, group, "
        "{timestamp: 2026-01-01T00:00:00Z} or {offsets: {topic: {0: 42}}}",
    ),
    "brokers in place of a connection": (
        "  topics: [t]",
        "  topics: [t]\n  kafka: localhost:9092",
        "3: source.kafka=localhost:9092: an address, and not the id of a connection; "
        "write {bootstrap.servers: 'localhost:9092'}",
    ),
    "a table without a dash": (
        "  - name: lake.a.b",
        "  name: lake.a.b",
        "4: tables: must be a list; begin each entry with a dash, e.g. - name: lake.shop.orders",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_first_mistake_is_one_problem_that_names_it(include: Path, mistake: str) -> None:
    right, wrong, expected = MISTAKES[mistake]
    assert right in PLAIN
    assert find_problems(include, PLAIN.replace(right, wrong)) == [f"pipelines/orders.yaml:{expected}"]


def test_key_that_is_missing_beside_a_word_unlike_it_is_told_too(include: Path) -> None:
    problems = find_problems(include, PLAIN.replace("topics: [t]", "zebra: 1").replace("tables:", "x:"))
    assert [line.split(";")[0].removeprefix("pipelines/orders.yaml:") for line in problems] == [
        "1: tables: missing, and it has no default",
        "1: source.topics: no topic to read",
        "2: source.zebra=1: unknown key",
        "4: x: unknown key",
    ]


def test_tab_in_a_value_or_a_comment_is_no_mistake(include: Path) -> None:
    text = PLAIN.replace("  topics: [t]", "  topics:\t[t]  #\ttopics\n\t# a comment")
    invalid_text = text.replace("interval: 30s", "interval: [")
    assert "a tab" not in find_problems(include, invalid_text)[0]
