"""What a person sees in a terminal: the values of the report, aligned, with colour only where it is wanted."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

import pytest
from tidegate.cli import output
from tidegate.cli.commands import progress
from tidegate.model.batch import Plan, PlannedBatch, Refusal
from tidegate.model.offsets import Ranges

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal(io.StringIO):
    """Standard output as a person has it."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch) -> Terminal:
    for name, value in (("COLUMNS", "160"), ("TERM", "xterm-256color")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


def read_lines(terminal: Terminal) -> list[list[str]]:
    plain = COLOUR.sub("", terminal.getvalue())
    return [re.split(r"\s{2,}", line.strip()) for line in plain.splitlines() if line.strip()]


def build_status(**changed: Any) -> dict[str, Any]:
    def partition(number: int, published: int, end: int) -> dict[str, Any]:
        return {"topic": "shop[x].orders", "partition": number, "begin": 0, "published": published, "committed": None,
                "end": end, "lag": end - published, "lag_seconds": 12.4 if end > published else 0,
                "staging": None}  # fmt: skip

    table = {
        "table": "lake.shop.orders",
        "mode": "upsert",
        "batch": 7,
        "rows": 1234567,
        "lag": 3,
        "lag_seconds": 12.4,
        "staging": None,
        "verified": None,
        "problem": None,
        "approved": None,
        "runbook": None,
    }
    batch = {
        "published_at": "2026-01-01T00:00:00Z",
        "table": "lake.shop.orders",
        "batch": 7,
        "backfill": None,
        "read": 5,
    }
    batch |= {"inserted": 1, "updated": 2, "deleted": 0, "dead_lettered": 1, "seconds": 2.5, "stage_seconds": 1.5}
    batch |= {"unknown_fields": None}
    return {
        "pipeline": "orders", "lag": 3, "freshness": None, "tables": [{**table, "actions": []}],
        "partitions": [partition(0, 10, 10), partition(1, 7, 10)], "batches": [batch], "backfills": [], "warnings": [],
        "dead_letters": 0, "newest_dead_letter": None, **changed,
    }  # fmt: skip


def test_status_shows_both_partitions_the_table_and_the_last_batch(terminal) -> None:
    with redirect_stdout(terminal):
        progress.print_status(build_status())
    lines = read_lines(terminal)
    assert lines[0] == ["orders", "lag 3", "complete to unknown"]
    assert ["lake.shop.orders", "upsert", "7", "1234567", "3"] in lines
    assert ["shop[x].orders", "0", "0", "10", "-", "10", "0", "0 s"] in lines
    assert ["shop[x].orders", "1", "0", "7", "-", "10", "3", "12 s"] in lines
    assert ["2026-01-01T00:00:00Z", "lake.shop.orders", "7", "5", "1", "2", "0", "1", "1.5", "2.5"] in lines


def test_pipeline_with_two_clocks_shows_how_far_it_is_staged_beside_how_far_it_is_merged(terminal) -> None:
    status: Any = build_status()
    status["tables"][0] |= {"exists": True, "staging": {"lag": 1, "lag_seconds": 2.0}}
    for part in status["partitions"]:
        part["staging"] = {"staged": part["end"] - 1, "lag": 1, "lag_seconds": 2.0}
    with redirect_stdout(terminal):
        progress.print_status(status)
    lines = read_lines(terminal)
    assert ["lake.shop.orders", "upsert", "7", "1234567", "3", "12 s", "1", "2 s"] in lines
    assert ["shop[x].orders", "1", "0", "7", "-", "10", "3", "12 s", "9"] in lines
    plain = output.format_status(status).splitlines()
    assert "  lake.shop.orders: batch=7 rows=1234567 lag=3 behind=12.4s staged: lag=1 behind=2.0s" in plain
    numbers = [line.split() for line in plain if "topic  " in line or "shop[x]" in line]
    assert numbers[0] == ["topic", "partition", "begin", "published", "committed", "staged", "end", "lag", "behind"]
    assert numbers[2] == ["shop[x].orders", "1", "0", "7", "-", "9", "10", "3", "12.4s"]


def test_seconds_of_each_partition_are_shown_also_where_nobody_looks_at_a_terminal() -> None:
    """Two partitions: of one the brokers do not tell since when its record waits."""
    status: Any = build_status()
    status["tables"][0]["exists"] = True
    status["partitions"][0] |= {"lag": 2, "lag_seconds": None}
    numbers = [line.split() for line in output.format_status(status).splitlines() if "topic  " in line or "[x]" in line]
    assert [row[-2:] for row in numbers] == [["lag", "behind"], ["2", "-"], ["3", "12.4s"]]


@pytest.mark.parametrize("different", [0, 2])
def test_last_verification_is_a_line_also_where_nobody_looks_at_a_terminal(terminal, different: int) -> None:
    facts = {"equal": 5, "missing": 0, "surplus": 0, "different": different, "unknowable": 1}
    verified = {"at": "2026-01-01T00:00:00Z", "position": {}, "sample_per_million": 10_000, **facts}
    line = (
        f"verified 2026-01-01T00:00:00Z lake.shop.orders: equal=5 missing=0 surplus=0 different={different} "
        "unknowable=1 of a sample of 1%"
    )
    table = {**build_status()["tables"][0], "verified": verified, "actions": [], "exists": True}
    status = build_status(tables=[table])
    with redirect_stdout(terminal):
        progress.print_status(status)
    assert line in " ".join(" ".join(words) for words in read_lines(terminal))
    assert f"    {line}" in output.format_status(status).splitlines()


def test_what_needs_a_person_stands_above_the_tables(terminal) -> None:
    letter = {"topic": "shop.orders", "partition": 1, "offset": 8, "message": "no number [/red]"}
    problem = {**build_status()["tables"][0], "problem": "it was rolled back: tidegate undo-rollback orders"}
    problem["runbook"] = "rolled-back"
    with redirect_stdout(terminal):
        progress.print_status(
            build_status(tables=[problem], warnings=["no key"], dead_letters=2, newest_dead_letter=letter)
        )
    lines = [" ".join(line) for line in read_lines(terminal)]
    assert lines[1:5] == [
        "lake.shop.orders: it was rolled back: tidegate undo-rollback orders",
        "see docs/runbook/rolled-back.md",
        "warning: no key",
        "dead letters: 2, the newest at shop.orders 1 8: no number [/red]",
    ]


EVIL = "fields are \x1b]0;title\x07\x1b[2J\rname\u202e\nlake.shop.orders: well"
HARMLESS = r"fields are \x1b]0;title\x07\x1b[2J\rname\u202e\nlake.shop.orders: well"


def test_names_that_a_record_made_up_write_no_lines_of_their_own_and_move_no_cursor(terminal) -> None:
    """A record whose fields have other names is bad, and its reason has these names."""
    letter = {"topic": "shop.orders", "partition": 1, "offset": 8, "message": EVIL}
    action = {"at": "2026-01-01T00:00:00Z", "by": "me", "action": "discard", "details": EVIL}
    table = {**build_status()["tables"][0], "exists": True, "actions": [action]}
    status: Any = build_status(tables=[table], dead_letters=1, newest_dead_letter=letter)
    with redirect_stdout(terminal):
        progress.print_status(status)
    plain = COLOUR.sub("", terminal.getvalue())
    wrapped = plain.replace("\n", "").replace(" ", "")
    assert wrapped.count(HARMLESS.replace(" ", "")) == 2
    for text in (plain, output.format_status(status)):
        assert not [letter for letter in text if ord(letter) < 32 and letter != "\n"]
        assert not [line for line in text.splitlines() if line.startswith("lake.shop.orders: well")]


def test_pipeline_that_cannot_be_read_says_why(terminal) -> None:
    with redirect_stdout(terminal):
        progress.print_status({"pipeline": "orders", "error": "topic=a does not exist"})
    assert read_lines(terminal) == [["orders", "topic=a does not exist"]]


def test_plan_shows_each_partition_with_work_and_each_refused_table(terminal) -> None:
    ranges = Ranges({"a": {0: (1, 3), 1: (5, 5)}, "b": {0: (0, 1500)}})
    planned = PlannedBatch("lake.shop.orders", 4, ranges, last_per_key=True)
    refusal = Refusal("lake.shop.lines", "RolledBack", "it was rolled back")
    with redirect_stdout(terminal):
        progress.print_plan(Plan((planned,), "c", {}, refusals=(refusal,)))
    assert read_lines(terminal)[1:] == [
        ["lake.shop.orders", "4", "last of each key", "a", "0", "1", "3", "2"],
        ["lake.shop.orders", "4", "last of each key", "b", "0", "0", "1500", "1500"],
        ["lake.shop.lines: refused: it was rolled back"],
    ]


def test_no_color_takes_the_colours_away(terminal, monkeypatch) -> None:
    with redirect_stdout(terminal):
        progress.print_status(build_status())
    assert "\x1b[32m" in terminal.getvalue()
    terminal.truncate(0)
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(terminal):
        progress.print_status(build_status())
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", terminal.getvalue())


def test_table_without_a_batch_yet_is_told_in_words_also_where_nobody_looks_at_a_terminal() -> None:
    new_status = build_status()
    new_status["tables"][0] |= {"exists": False, "batch": None, "rows": None, "lag": 3}
    new_status |= {"batches": [], "newest_dead_letter": None}
    status = output.format_status(new_status).splitlines()
    assert status[1] == "  lake.shop.orders: does not exist yet, lag=3"
    new_status["tables"][0] |= {"exists": True}
    assert output.format_status(new_status).splitlines()[1] == "  lake.shop.orders: batch=- rows=- lag=3"
