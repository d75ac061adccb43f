"""What jobs leave behind is kept byte for byte as before, read whole, or refused with one error that says why."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from tidegate.errors import GiveUp
from tidegate.jobs.maintain_job import MaintenanceOutcome, ProcedureOutcome
from tidegate.jobs.stage_outcome import DiscoveredNames, FirstBadRecord, RecordExplanation, StageOutcome
from tidegate.jobs.statements_job import JobAnswers

COUNTS = '{"read": 9, "staged": 5, "superseded": 1, "filtered": 1, "ignored": 1, "dead_lettered": 1, "bad": 0'
ENDS = ', "timestamps": {"orders": {"0": 17, "10": 18}}, "first_bad": null}'
FIRST = '{"topic": "orders", "partition": 2, "offset": 7, "reason": "id is no INT"}'
PLAIN = COUNTS + ENDS
ALL_COUNTS = (
    COUNTS + ', "rows": 6, "deletes": 2, "unsequenced_deletes": 1, "kept": 3, "truncated_at": 42, "timestamps": {}, '
    f'"first_bad": {FIRST}}}'
)
UNKNOWN = ', "unknown_fields": {"records": 3, "fields": {"zip": [2, "STRING"], "at.q": [1, "BIGINT"]}, "others": 4}'
REFUSED = FIRST[:-1] + ', "columns": ["n", "a.b"]}'
LACKING = (
    ', "lacking_columns": {"columns": [{"name": "at", "type": "STRUCT<`q`: INT>", "nullable": true}], "fields": 2}'
)
NAMES = f'{{"attempt": "a1", "names": ["shop.b", "shop.a"], "bad": 1, "first_bad": {FIRST}}}'
FIELD = '{"part": "value", "name": "id", "type": "INT NOT NULL", "found": "x", "accepted": false, "reason": "no INT"}'
EXPLANATION = (
    '{"found": true, "rows": 1, "fate": "bad", "reason": "id is no INT", "stage": "value", "operation": "c", '
    f'"row": null, "fields": [{FIELD}]}}'
)
MAINTAINED = '{"attempt": "m1", "compact": {"failed": "conflict"}, "expire": {"rows": 1, "deleted_files": 4}}'
ANSWERS = '{"attempt": "m1", "broken": [0, 3]}'
TEXTS: list[tuple[Any, str]] = [
    (StageOutcome, PLAIN),
    (StageOutcome, COUNTS + ', "rows": 6' + ENDS),
    (StageOutcome, COUNTS + ', "truncated_at": null' + ENDS),
    (StageOutcome, ALL_COUNTS),
    (StageOutcome, ALL_COUNTS.replace(FIRST, REFUSED)),
    (StageOutcome, COUNTS + UNKNOWN + ENDS),
    (StageOutcome, COUNTS + LACKING + ENDS),
    (DiscoveredNames, NAMES),
    (DiscoveredNames, '{"attempt": "a1", "names": [], "bad": 0, "first_bad": null}'),
    (RecordExplanation, '{"found": false}'),
    (RecordExplanation, EXPLANATION),
    (JobAnswers, ANSWERS),
    (MaintenanceOutcome, MAINTAINED),
    (MaintenanceOutcome, '{"attempt": "m1"}'),
]


@pytest.mark.parametrize(("kind", "text"), TEXTS)
def test_what_a_job_left_is_kept_byte_for_byte(kind: Any, text: str) -> None:
    assert kind.from_json(text, "here").to_json() == text


def test_counts_are_known_by_their_names() -> None:
    outcome = StageOutcome.from_json(ALL_COUNTS, "here")
    counts = outcome.count_records(12)
    assert (counts.span, counts.read, counts.staged, counts.superseded) == (12, 9, 5, 1)
    assert (counts.filtered, counts.ignored, counts.dead_lettered) == (1, 1, 1)
    assert (outcome.rows, outcome.deletes, outcome.unsequenced_deletes, outcome.kept) == (6, 2, 1, 3)
    assert (outcome.truncated_at, outcome.first_bad) == (42, FirstBadRecord("orders", 2, 7, "id is no INT"))


def test_staged_batch_knows_what_was_asked_and_what_was_counted() -> None:
    request_text = json.dumps(
        {"ranges": {"orders": {"0": [0, 12]}}, "cluster_id": "c", "shape": "s", "stage_seconds": 1.5}
        | {"epochs": {}, "watermark": "inside"}
    )
    summary = {
        "tidegate.staged": request_text,
        "tidegate.batch": "3",
        "tidegate.attempt": "a1",
        "added-files-size": "70",
    }
    full = StageOutcome.from_json(ALL_COUNTS, "here").to_staged_batch("lake.shop.orders", summary, 5)
    assert (full.table, full.batch, full.attempt, full.snapshot_id, full.bytes) == ("lake.shop.orders", 3, "a1", 5, 70)
    assert (full.ranges.span, full.counts.span, full.counts.staged, full.cluster_id, full.shape) == (
        12,
        12,
        5,
        "c",
        "s",
    )
    assert (full.deletes, full.unsequenced_deletes, full.kept, full.truncated_at) == (2, 1, 3, 42)
    plain = StageOutcome.from_json(PLAIN, "here").to_staged_batch("lake.shop.orders", summary, 5)
    assert (plain.deletes, plain.unsequenced_deletes, plain.kept, plain.truncated_at) == (0, 0, 0, None)
    assert plain.timestamps == {"orders": {0: 17, 10: 18}}


@pytest.mark.parametrize(
    ("text", "span", "may_be_merged"),
    [
        (PLAIN, 9, True),
        (PLAIN, 8, False),  # more records than offsets
        (PLAIN.replace('"staged": 5', '"staged": 4'), 9, False),
        (PLAIN.replace('"bad": 0', '"bad": 1'), 9, False),
        (COUNTS + LACKING + ENDS, 9, False),  # its rows lack a column
    ],
)
def test_batch_with_a_bad_record_or_counts_that_do_not_add_up_is_never_merged(
    text: str, span: int, may_be_merged: bool
) -> None:
    assert StageOutcome.from_json(text, "here").can_be_merged(span) is may_be_merged


@pytest.mark.parametrize(
    ("parse", "text", "reason"),
    [
        (StageOutcome.from_json, PLAIN.replace('"ignored"', '"left"'), "'ignored' is missing"),
        (StageOutcome.from_json, PLAIN.replace('"timestamps"', '"times"'), "'timestamps' is missing"),
        (StageOutcome.from_json, PLAIN.replace('"bad": 0', '"bad": "x"'), "bad='x' is no number"),
        (StageOutcome.from_json, PLAIN.replace('"10": 18', '"ten": 18'), "invalid literal"),
        (StageOutcome.from_json, ALL_COUNTS.replace('"partition"', '"place"'), "'partition' is missing"),
        (StageOutcome.from_json, "[]", "is not a mapping"),
        (StageOutcome.from_json, PLAIN[:40], "Expecting"),
        (DiscoveredNames.from_json, NAMES.replace('"names"', '"tables"'), "'names' is missing"),
        (DiscoveredNames.from_json, NAMES.replace('["shop.b", "shop.a"]', '"shop.b"'), "names='shop.b' is no list"),
        (DiscoveredNames.from_json, NAMES.replace('"a1"', "1"), "attempt=1 is no text"),
        (RecordExplanation.from_json, EXPLANATION.replace('"accepted"', '"taken"'), "'accepted' is missing"),
        (MaintenanceOutcome.from_json, MAINTAINED.replace("4", '"x"'), "deleted_files='x' is no number"),
        (MaintenanceOutcome.from_json, '{"attempt": "m1", "expire": 1}', "no attribute 'items'"),
        (JobAnswers.from_json, '{"broken": [0]}', "'attempt' is missing"),
        (JobAnswers.from_json, '{"attempt": "m1", "broken": 0}', "broken=0 is no list"),
    ],
)
def test_what_is_not_what_a_job_leaves_is_refused_with_its_place_and_reason(
    parse: Callable[[str, str], Any], text: str, reason: str
) -> None:
    with pytest.raises(GiveUp) as refusal:
        parse(text, "intermediate=shop.orders_tmp attempt=a1")
    message = str(refusal.value)
    assert message.startswith("intermediate=shop.orders_tmp attempt=a1: what its job left behind cannot be read: ")
    assert reason in message


def test_what_a_later_version_counts_besides_is_passed_over() -> None:
    known, later_counts = StageOutcome.from_json(PLAIN, "here"), json.loads(PLAIN) | {"truncated_rows": 3}
    assert StageOutcome.from_json(json.dumps(later_counts), "here") == known


def test_outcome_of_maintenance_tells_numbers_and_failures_apart() -> None:
    steps = MaintenanceOutcome.from_json(MAINTAINED, "here").steps
    assert steps == {
        "compact": ProcedureOutcome(failed="conflict"),
        "expire": ProcedureOutcome(1, {"deleted_files": 4}),
    }
