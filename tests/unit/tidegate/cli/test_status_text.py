"""What a person reads of `status` and `plan`: the values of the report, in lines."""

from typing import Any

import pytest
from tidegate.cli import output
from tidegate.model.batch import Plan, PlannedBatch, Refusal
from tidegate.model.offsets import Ranges


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
        "lag_known": True,
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
        "pipeline": "orders", "lag": 3, "lag_known": True, "freshness": None, "tables": [{**table, "actions": []}],
        "partitions": [partition(0, 10, 10), partition(1, 7, 10)], "batches": [batch], "backfills": [], "warnings": [],
        "dead_letters": 0, "newest_dead_letter": None, **changed,
    }  # fmt: skip


def format_lines(status: Any) -> list[str]:
    return [" ".join(line.split()) for line in output.format_status(status).splitlines()]


def test_status_shows_both_partitions_the_table_and_the_last_batch() -> None:
    status: Any = build_status()
    status["tables"][0]["exists"] = True
    assert format_lines(status) == [
        "orders: lag=3 complete_to=unknown",
        "lake.shop.orders: batch=7 rows=1234567 lag=3",
        "2026-01-01T00:00:00Z lake.shop.orders: batch=7 read=5 dead_lettered=1 inserted=1 updated=2 deleted=0 "
        "stage_seconds=1.5 seconds=2.5",
        "topic partition begin published committed end lag behind",
        "shop[x].orders 0 0 10 - 10 0 0 s",
        "shop[x].orders 1 0 7 - 10 3 12 s",
    ]


def test_pipeline_with_two_clocks_shows_how_far_it_is_staged_beside_how_far_it_is_merged() -> None:
    status: Any = build_status()
    status["tables"][0] |= {"exists": True, "staging": {"lag": 1, "lag_seconds": 2.0}}
    for part in status["partitions"]:
        part["staging"] = {"staged": part["end"] - 1, "lag": 1, "lag_seconds": 2.0}
    lines = format_lines(status)
    assert "lake.shop.orders: batch=7 rows=1234567 lag=3 behind=12 s staged: lag=1 behind=2 s" in lines
    assert lines[-3] == "topic partition begin published committed staged end lag behind"
    assert lines[-1] == "shop[x].orders 1 0 7 - 9 10 3 12 s"


def test_batch_whose_staging_nobody_timed_has_a_dash_and_not_no_seconds() -> None:
    status: Any = build_status()
    status["tables"][0]["exists"] = True
    status["batches"][0]["stage_seconds"] = None
    assert format_lines(status)[2].endswith("deleted=0 stage_seconds=- seconds=2.5")


def test_partition_of_which_nobody_knows_since_when_its_records_wait_has_no_seconds() -> None:
    status: Any = build_status()
    status["tables"][0]["exists"] = True
    status["partitions"][0] |= {"lag": 2, "lag_seconds": None}
    assert [line.split()[6:] for line in format_lines(status)[-2:]] == [["2", "-"], ["3", "12", "s"]]


def test_records_that_wait_for_days_leave_a_space_between_their_number_and_their_age() -> None:
    status: Any = build_status()
    status["tables"][0]["exists"] = True
    status["partitions"][0] |= {"lag": 2, "lag_seconds": 100_000.5}
    status["partitions"][1] |= {"lag": 12_345_678, "lag_seconds": 1_234_567.5}
    columns = [line.split(maxsplit=6)[6] for line in format_lines(status)[-2:]]
    assert columns == ["2 1 d 3 h", "12345678 14 d"]


def test_topic_that_is_not_there_has_no_lag_of_zero(capsys) -> None:
    """`lag=0` and `behind 0 s` looked as if all of it were published."""
    problem = "topic=app.users does not exist on brokers=b:1; create it, or correct source.topics"
    table = {**build_status()["tables"][0], "exists": False, "batch": None, "rows": None, "lag": 0}
    table |= {"lag_known": False, "lag_seconds": None, "problem": problem, "runbook": "topic-missing", "actions": []}
    status: Any = build_status(tables=[table], partitions=[], batches=[], lag=0, lag_known=False)
    assert format_lines(status) == [
        "orders: lag=unknown complete_to=unknown",
        "lake.shop.orders: does not exist yet, lag=unknown",
        problem,
        "see docs/runbook/topic-missing.md",
    ]
    staged = {**table, "staging": {"lag": 0, "lag_seconds": None}, "exists": True}
    assert output.format_status({**status, "tables": [staged]}).splitlines()[1].endswith("staged: lag=unknown behind=-")
    other = {**build_status()["tables"][0], "table": "lake.shop.lines", "exists": True, "actions": []}
    status |= {"tables": [{**table, "exists": True}, other], "lag": 3, "lag_known": True}
    assert format_lines(status)[:2] == [
        "orders: lag=3 complete_to=unknown",
        "lake.shop.orders: batch=- rows=- lag=unknown",
    ]


@pytest.mark.parametrize("different", [0, 2])
def test_last_verification_is_a_line(different: int) -> None:
    facts = {"equal": 5, "missing": 0, "surplus": 0, "different": different, "unknowable": 1}
    verified = {"at": "2026-01-01T00:00:00Z", "position": {}, "sample_per_million": 10_000, **facts}
    table = {**build_status()["tables"][0], "verified": verified, "actions": [], "exists": True}
    assert (
        f"verified 2026-01-01T00:00:00Z lake.shop.orders: equal=5 missing=0 surplus=0 different={different} "
        "unknowable=1 of a sample of 1%"
    ) in format_lines(build_status(tables=[table]))


def test_what_needs_a_person_stands_below_its_table() -> None:
    letter = {"topic": "shop.orders", "partition": 1, "offset": 8, "message": "no number"}
    table = {**build_status()["tables"][0], "exists": True, "problem": "it was rolled back", "runbook": "rolled-back"}
    lines = format_lines(
        build_status(tables=[table], warnings=["no key"], dead_letters=2, newest_dead_letter=letter, batches=[])
    )
    assert lines[2:6] == [
        "it was rolled back",
        "see docs/runbook/rolled-back.md",
        "warning: no key",
        "dead letters: 2, the newest at shop.orders 1 8: no number",
    ]


EVIL = "fields are \x1b]0;title\x07\x1b[2J\rname\u202e\nlake.shop.orders: well"
HARMLESS = r"fields are \x1b]0;title\x07\x1b[2J\rname\u202e\nlake.shop.orders: well"


def test_names_that_a_record_made_up_write_no_lines_of_their_own_and_move_no_cursor(capsys) -> None:
    """A record whose fields have other names is bad, and its reason has these names."""
    letter = {"topic": "shop.orders", "partition": 1, "offset": 8, "message": EVIL}
    action = {"at": "2026-01-01T00:00:00Z", "by": "me", "action": "discard", "details": EVIL}
    table = {**build_status()["tables"][0], "exists": True, "actions": [action]}
    status: Any = build_status(tables=[table], dead_letters=1, newest_dead_letter=letter)
    output.print_text(output.format_status(status))
    text = capsys.readouterr().out
    assert text.count(HARMLESS) == 2
    assert not [letter for letter in text if ord(letter) < 32 and letter != "\n"]
    assert not [line for line in text.splitlines() if line.startswith("lake.shop.orders: well")]


def test_pipeline_that_cannot_be_read_says_why() -> None:
    assert format_lines({"pipeline": "orders", "error": "topic=a does not exist"}) == ["orders: topic=a does not exist"]


def test_plan_shows_each_partition_with_work_and_each_refused_table() -> None:
    ranges = Ranges({"a": {0: (1, 3), 1: (5, 5)}, "b": {0: (0, 1500)}})
    planned = PlannedBatch("lake.shop.orders", 4, ranges, last_per_key=True)
    refusal = Refusal("lake.shop.lines", "RolledBack", "it was rolled back")
    assert output.format_plan(Plan((planned,), "c", {}, refusals=(refusal,))).splitlines() == [
        "lake.shop.orders: batch=4 reads 1502 offsets, the last record of each key",
        "  a 0: [1, 3)",
        "  b 0: [0, 1500)",
        "lake.shop.lines: refused: it was rolled back",
    ]


def test_table_without_a_batch_yet_is_told_in_words() -> None:
    new_status = build_status()
    new_status["tables"][0] |= {"exists": False, "batch": None, "rows": None, "lag": 3}
    new_status |= {"batches": [], "newest_dead_letter": None}
    status = output.format_status(new_status).splitlines()
    assert status[1] == "  lake.shop.orders: does not exist yet, lag=3"
    new_status["tables"][0] |= {"exists": True}
    assert output.format_status(new_status).splitlines()[1] == "  lake.shop.orders: batch=- rows=- lag=3"
