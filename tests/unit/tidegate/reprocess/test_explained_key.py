"""explain, without a server: which cause is told, and that none is told where another one is possible."""

from dataclasses import replace
from typing import Any

import pytest
from tidegate.reprocess.explained_key import (
    Cause,
    Evidence,
    ExplainedRecord,
    Letter,
    Passage,
    Passed,
    judge,
    name_effects,
)

PUBLISHED = (Passed(Passage.PUBLISHED, at_ms=9, snapshot_id=70, batch=7, attempt="a"),)
ROLLED_BACK = (Passed(Passage.ROLLED_BACK, at_ms=9, snapshot_id=70, batch=7, attempt="a"),)
EXPIRED = (replace(PUBLISHED[0], how=Passage.EXPIRED),)
MOVED = (Passed(Passage.MOVED, at_ms=9, snapshot_id=71),)
BACKFILLED = (*MOVED, Passed(Passage.PUBLISHED, at_ms=11, snapshot_id=72, batch=8, attempt="b", backfill="f00 1/1"))
WAITING = Letter("waiting", "bad", written_at_ms=9, over_at_ms=None, replayed_by=None)
DISCARDED = replace(WAITING, state="discarded", over_at_ms=10)
REPLAYED = replace(WAITING, state="replayed", over_at_ms=10, replayed_by="c")
READ_AGAIN = replace(WAITING, state="read again", over_at_ms=10)


def record(offset: int, op: str = "u", fate: str = "staged", **facts: Any) -> ExplainedRecord:
    known: dict[str, Any] = {
        "topic": "t", "partition": 0, "i": 0, "at_ms": 0, "reason": None, "value": None, "is_ahead": False,
        "passed": PUBLISHED,
    }  # fmt: skip
    return ExplainedRecord(offset=offset, op=op, fate=fate, **{**known, **facts})


def bad(offset: int, letter: Letter | None = WAITING, fate: str = "value", **facts: Any) -> ExplainedRecord:
    return record(offset, "bad", fate, letter=letter, reason="n", **facts)


def rowless(offset: int, fate: str, **facts: Any) -> ExplainedRecord:
    return record(offset, "bad", fate, **facts)


def gather(*records: ExplainedRecord, rows: int = 1, kind: str | None = "equal", **facts: Any) -> Evidence:
    known: dict[str, Any] = {
        "refusal": "", "count": len(records), "count_ahead": sum(record.is_ahead for record in records),
        "partitions": 1, "unreadable": 0, "unreadable_at": None, "unlettered": 0, "form": "last", "winner": None,
        "deleted_at": None, "is_log_whole": True, "reaches_position": True, "followed_from": {"t": {0: 0}},
        "limits": (),
    }  # fmt: skip
    return Evidence(rows=rows, kind=kind, records=records, **{**known, **facts})


ABSENT: dict[str, Any] = {"rows": 0, "kind": ""}
DIFFERENT: dict[str, Any] = {"rows": 0, "kind": "unknowable"}
CASES: dict[str, tuple[Evidence, Cause, int | None]] = {
    "the last record": (gather(record(1), record(2)), Cause.RECORD, 2),
    "not a later one that is bad": (gather(record(1), bad(2)), Cause.RECORD, 1),
    "not a later one that may have been merged": (gather(record(1), bad(2, None)), Cause.UNKNOWN, None),
    "a later one than was replayed": (gather(bad(1, REPLAYED), record(2)), Cause.RECORD, 2),
    "one before a replayed one": (gather(record(1), bad(2, REPLAYED)), Cause.UNKNOWN, None),
    "one beside a replayed one of any sequence": (
        gather(bad(1, REPLAYED), record(2), form="sequenced", winner=("t", 2)), Cause.UNKNOWN, None,
    ),
    "one in a range that ends before the position": (gather(record(1), reaches_position=False), Cause.UNKNOWN, None),
    "not a later one that is not flushed": (gather(record(1), record(2, is_ahead=True)), Cause.RECORD, 1),
    "the one of the highest sequence": (
        gather(record(1), record(2), form="sequenced", winner=("t", 1)), Cause.RECORD, 1,
    ),
    "one that is not listed": (gather(record(3), form="sequenced", winner=("t", 1)), Cause.UNKNOWN, None),
    "several records": (gather(record(1), record(2), form="folded"), Cause.FOLDED, 2),
    "records of two partitions": (gather(record(1), record(2, partition=1), partitions=2), Cause.UNKNOWN, None),
    "one that history lost, followed by the table": (gather(record(1, passed=())), Cause.RECORD, 1),
    "one from before the table followed the log": (
        gather(record(1, passed=()), followed_from={"t": {0: 2}}), Cause.UNKNOWN, None,
    ),
    "one whose batch was rolled back": (gather(record(1, passed=ROLLED_BACK)), Cause.UNKNOWN, None),
    "one that was rolled back and read again": (gather(record(1, passed=ROLLED_BACK + PUBLISHED)), Cause.RECORD, 1),
    "one whose snapshot has expired": (gather(record(1, passed=EXPIRED)), Cause.RECORD, 1),
    "one whose snapshot has expired, and that the position was moved past": (
        gather(record(1, passed=EXPIRED + MOVED)), Cause.UNKNOWN, None,
    ),
    "one that was read again after that": (gather(record(1, passed=EXPIRED + MOVED + PUBLISHED)), Cause.RECORD, 1),
    "one that a backfill brought in": (gather(record(1, passed=BACKFILLED)), Cause.RECORD, 1),
    "a dead letter that waits": (gather(record(1, letter=WAITING)), Cause.UNKNOWN, None),
    "a dead letter that was replayed": (gather(record(1, letter=REPLAYED)), Cause.RECORD, 1),
    "a dead letter that a batch has read again": (gather(record(1, letter=READ_AGAIN)), Cause.RECORD, 1),
    "a dead letter that was read again, in a batch that was rolled back": (
        gather(record(1, letter=READ_AGAIN, passed=ROLLED_BACK)), Cause.UNKNOWN, None,
    ),
    "no row of one that was read again, and is bad today": (
        gather(record(1, "d"), bad(2, READ_AGAIN), **ABSENT), Cause.UNKNOWN, None,
    ),
    "one that was read again, and is not for this table": (
        gather(rowless(1, "filtered", letter=READ_AGAIN), **ABSENT), Cause.FILTERED, 1,
    ),
    "a row flagged as deleted": (gather(record(1), record(2, "d"), form="soft_delete"), Cause.DELETED, 2),
    "a delete": (gather(record(1), record(2, "d"), **ABSENT), Cause.DELETED, 2),
    "a delete that was rolled back": (gather(record(1), record(2, "d", passed=MOVED), **ABSENT), Cause.UNKNOWN, None),
    "a delete by sequence": (
        gather(record(1, "d"), record(2), form="sequenced", winner=("t", 2), deleted_at=("t", 1), **ABSENT),
        Cause.DELETED, 1,
    ),
    "a delete whose snapshot has expired, and that the position was moved past": (
        gather(record(1), record(2, "d", passed=EXPIRED + MOVED), **ABSENT), Cause.UNKNOWN, None,
    ),
    "deletes in two partitions": (gather(record(1, "d"), partitions=2, **ABSENT), Cause.UNKNOWN, None),
    "no record": (gather(**ABSENT), Cause.NEVER, None),
    "no record in a part of the log": (gather(is_log_whole=False, **ABSENT), Cause.UNKNOWN, None),
    "no record, but an unreadable key": (gather(unreadable=1, unreadable_at="t:0:5", **ABSENT), Cause.UNKNOWN, None),
    "a record behind the position": (gather(record(1, is_ahead=True), **ABSENT), Cause.AHEAD, 1),
    "two deletes": (gather(record(1, "d"), record(2, "d"), **ABSENT), Cause.DELETED, 2),
    "a delete in a range that ends before the position": (
        gather(record(1), record(2, "d"), reaches_position=False, **ABSENT), Cause.UNKNOWN, None,
    ),
    "a delete, and a bad record after it": (gather(record(1), record(2, "d"), bad(3), **ABSENT), Cause.DELETED, 2),
    "a delete, and a replayed record after it": (
        gather(record(1), record(2, "d"), bad(3, REPLAYED), **ABSENT), Cause.UNKNOWN, None,
    ),
    "a delete after a replayed record": (
        gather(record(1), bad(2, REPLAYED), record(3, "d"), **ABSENT), Cause.DELETED, 3,
    ),
    "filtered ones, and older records that are not listed": (
        gather(*(rowless(n, "filtered") for n in range(2, 102)), count=102, **ABSENT), Cause.UNKNOWN, None,
    ),
    "none of a long tail": (
        gather(rowless(1, "filtered"), record(2, is_ahead=True), count=9, count_ahead=8, **ABSENT), Cause.FILTERED, 1,
    ),
    "a tail with rows": (gather(record(1, is_ahead=True), count=9, count_ahead=9, **ABSENT), Cause.AHEAD, None),
    "the first row behind the position": (
        gather(
            rowless(1, "filtered", is_ahead=True), record(2, "d", is_ahead=True), record(3, is_ahead=True), **ABSENT,
        ),
        Cause.AHEAD, 3,
    ),
    "no row behind the position either": (
        gather(rowless(1, "filtered", is_ahead=True), record(2, "d", is_ahead=True), **ABSENT), Cause.NEVER, None,
    ),
    "no row in what is listed of the tail": (
        gather(rowless(1, "filtered", is_ahead=True), count=9, count_ahead=9, **ABSENT), Cause.UNKNOWN, None,
    ),
    "a bad record": (gather(bad(1), **ABSENT), Cause.BAD, 1),
    "a discarded record": (gather(bad(1, DISCARDED), **ABSENT), Cause.BAD, 1),
    "a bad record that may have been merged": (gather(bad(1, None), **ABSENT), Cause.UNKNOWN, None),
    "a bad record that the position was moved past": (gather(bad(1, None, passed=MOVED), **ABSENT), Cause.BAD, 1),
    "a replayed record": (gather(bad(1, REPLAYED), **ABSENT), Cause.UNKNOWN, None),
    "a filtered one after a bad one": (gather(bad(1), rowless(2, "filtered"), **ABSENT), Cause.BAD, 1),
    "ones of each fate": (
        gather(rowless(1, "filtered"), bad(2), rowless(3, "ignored"), **ABSENT), Cause.BAD, 2,
    ),
    "an ignored one after a bad one": (gather(bad(1), rowless(2, "ignored"), **ABSENT), Cause.BAD, 1),
    "a filtered one after a replayed one": (
        gather(bad(1, REPLAYED), rowless(2, "filtered"), **ABSENT), Cause.UNKNOWN, None,
    ),
    "one for another table, and one that changes nothing": (
        gather(rowless(1, "filtered"), rowless(2, "ignored"), **ABSENT), Cause.UNKNOWN, None,
    ),
    "filtered ones in two partitions": (
        gather(rowless(1, "filtered"), rowless(2, "filtered", partition=1), **ABSENT), Cause.UNKNOWN, None,
    ),
    "a row whose record waits for another row's sake": (gather(bad(1, fate="ignored"), **ABSENT), Cause.BAD, 1),
    "a row whose record was replayed": (gather(bad(1, REPLAYED, fate="ignored"), **ABSENT), Cause.UNKNOWN, None),
    "a delete that is not taken": (gather(rowless(1, "ignored"), **ABSENT), Cause.IGNORED, 1),
    "a bad record in a part of the log": (gather(bad(1), is_log_whole=False, **ABSENT), Cause.UNKNOWN, None),
    "a missing row whose letter waits": (gather(record(1, letter=WAITING), **DIFFERENT), Cause.BAD, 1),
    "a missing row whose letter was replayed": (gather(record(1, letter=REPLAYED), **DIFFERENT), Cause.UNKNOWN, None),
    "a missing row that was rolled back": (
        gather(record(1, passed=ROLLED_BACK + MOVED), **DIFFERENT), Cause.ROLLED_BACK, 1,
    ),
    "a missing row that was skipped": (gather(record(1, passed=MOVED), **DIFFERENT), Cause.SKIPPED, 1),
    "a missing row whose snapshot has expired": (
        gather(record(1, passed=EXPIRED + MOVED), **DIFFERENT), Cause.UNKNOWN, None,
    ),
    "a missing row of which a batch is known": (
        gather(record(1), record(2, passed=MOVED), **DIFFERENT), Cause.UNKNOWN, None,
    ),
    "a missing row of which nothing is known": (gather(record(1, passed=()), **DIFFERENT), Cause.UNKNOWN, None),
    "a missing row with older records": (gather(record(1, passed=MOVED), count=2, **DIFFERENT), Cause.UNKNOWN, None),
    "a missing row in a part of the log": (
        gather(record(1, passed=MOVED), is_log_whole=False, **DIFFERENT), Cause.UNKNOWN, None,
    ),
    "a missing row beside a replayed record": (
        gather(record(1, passed=MOVED), bad(2, REPLAYED), **DIFFERENT), Cause.UNKNOWN, None,
    ),
    "a row that differs for no known reason": (gather(record(1, passed=MOVED), kind="unknowable"), Cause.UNKNOWN, None),
    "another writer's row": (gather(kind="surplus"), Cause.OTHER_WRITER, None),
    "another writer's value": (gather(record(1), kind="different"), Cause.OTHER_WRITER, None),
    "another value where a letter waits": (gather(record(1), bad(2), kind="different"), Cause.OTHER_WRITER, None),
    "another value where a bad record has no letter": (
        gather(record(1), bad(2, None), kind="different"), Cause.UNKNOWN, None,
    ),
    "another value where a letter was replayed": (
        gather(record(1), bad(2, REPLAYED), kind="different"), Cause.UNKNOWN, None,
    ),
    "a row where an unreadable record has no letter": (
        gather(rows=1, kind="surplus", unreadable=1, unreadable_at="t:0:5", unlettered=1), Cause.UNKNOWN, None,
    ),
    "a row where an unreadable record waits": (
        gather(rows=1, kind="surplus", unreadable=1, unreadable_at="t:0:5"), Cause.OTHER_WRITER, None,
    ),
    "what is not compared": (gather(record(1), kind=None, refusal="history"), Cause.UNKNOWN, None),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_cause_is_told_only_where_no_other_is_possible(case: str) -> None:
    evidence, cause, offset = CASES[case]
    judgement = judge(evidence)
    assert (judgement.cause, judgement.record and judgement.record.offset) == (cause, offset)
    assert judgement.because


def test_each_record_shows_what_it_did() -> None:
    evidence = gather(
        record(1), record(2, passed=ROLLED_BACK), bad(3), rowless(4, "filtered"), record(5), record(6, is_ahead=True)
    )
    effects = [entry.effect for entry in name_effects(evidence, judge(evidence))]
    assert effects == ["superseded", "rolled back", "bad", "filtered", "wrote the row", "not flushed"]
    unknown = replace(evidence, partitions=2)
    effects = [entry.effect for entry in name_effects(unknown, judge(unknown))]
    assert effects == ["", "rolled back", "bad", "filtered", "", "not flushed"]


@pytest.mark.parametrize("start", [1, 2])
def test_absence_before_the_table_followed_the_log_is_told_as_the_file_reads_it_today(start: int) -> None:
    followed: dict[str, Any] = {"followed_from": {"t": {0: start}}, **ABSENT}
    for entry in (record(1, "d"), record(1, "bad", "filtered")):
        assert ("as the file reads the log today" in judge(gather(entry, **followed)).because) == (start == 2)


def test_log_with_deletes_alone_claims_no_row() -> None:
    only = judge(gather(record(1, "d"), record(2, "d"), bad(3), **ABSENT)).because
    assert only.startswith(
        "the log has only deletes of it, the last one t:0:2, in batch=7 snapshot=70, but the record t:0:3 "
    )
    assert only.endswith("cannot be read: n, waiting as a dead letter")
    cut = judge(gather(record(2, "d"), count=2, **ABSENT)).because
    assert cut.startswith("the listed records are only deletes of it, the last one t:0:2")
    assert "deleted it" in judge(gather(record(1), record(2, "d"), **ABSENT)).because
