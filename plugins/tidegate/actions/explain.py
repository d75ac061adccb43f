"""The action explain: why tables have the row of one key, or have none. It changes nothing."""

import json
from collections.abc import Iterator

from tidegate.actions.proposed_action import ProposedAction
from tidegate.errors import NothingToDo, TidegateError, join_tables
from tidegate.model.offsets import Ranges
from tidegate.ports.session import Session
from tidegate.reprocess.explain import explain_key
from tidegate.reprocess.explained_key import Cause, ExplainedRecord, Explanation, Passage, Passed, describe_fate
from tidegate.spec.time_text import format_utc, to_utc_datetime
from tidegate.table.position import select_tables

Refusals = dict[str, TidegateError]


def propose_explain(session: Session, key: str, table: str | None = None) -> ProposedAction:
    """`NothingToDo` with the answer, without a value of row or record: it is kept by Airflow."""
    explanations, refusals = explain_tables(session, key, table)
    raise NothingToDo("\n".join(format_answer(explanations, refusals, with_values=False)))


def explain_tables(
    session: Session, key: str, name: str | None = None, within: Ranges | None = None
) -> tuple[list[Explanation], Refusals]:
    """Explain the key in each table, or in the one named; the refusals by table. Raises if every table is refused."""
    explanations: list[Explanation] = []
    refusals: Refusals = {}
    for table in select_tables(session, name):
        try:
            explanations.append(explain_key(session, table.name, key, within))
        except TidegateError as refusal:
            refusals[table.name] = refusal
    if len(refusals) == 1 and not explanations:
        raise next(iter(refusals.values()))
    if refusals and not explanations:
        raise join_tables("\n".join(dict.fromkeys(map(str, refusals.values()))), map(type, refusals.values()))
    return explanations, refusals


def format_answer(explanations: list[Explanation], refusals: Refusals, *, with_values: bool = True) -> Iterator[str]:
    """Yield the lines of the answer; without values it says no more of rows and records than the key and places."""
    for entry in explanations:
        yield from _format_explanation(entry, with_values=with_values)
    yield from (f"{name}: not explained: {reason}" for name, reason in refusals.items())


def _format_explanation(entry: Explanation, *, with_values: bool) -> Iterator[str]:
    there = {0: "no row"}.get(entry.row_count, "a row" if entry.row_count == 1 else f"{entry.row_count} rows")
    yield f"{entry.table}: {there} of key={json.dumps(entry.key, ensure_ascii=False)}"
    yield f"  {'not known' if entry.cause == Cause.UNKNOWN else entry.cause}: {entry.because}"
    if with_values:
        yield from (f"  row: {row}" for row in entry.rows)
    for difference in entry.differences:
        values = (("table", difference.table), ("log", difference.log)) if with_values else ()
        shown = "".join(f" {side}={'NULL' if text is None else text}" for side, text in values)
        yield f"  differs: {difference.column or difference.kind}{':' if shown else ''}{shown}"
    if entry.other_tables and not entry.row_count:
        yield f"  another table has it: {', '.join(entry.other_tables)}"
    if entry.record_count > len(entry.records):
        yield f"  records: {entry.record_count}, of which these are the newest"
    for record in entry.records:
        yield f"  {_format_record(record, with_values=with_values)}"
        yield from (f"    {_format_passed(passed)}" for passed in record.passed)
    yield from (f"  not known: {limit}" for limit in entry.limits)


def _format_record(record: ExplainedRecord, *, with_values: bool) -> str:
    at = format_utc(to_utc_datetime(record.at_ms))
    if record.fate != "staged":
        return f"{record.place} {at} {record.effect}: {describe_fate(record)}"
    kind = "delete" if record.is_delete else "row"
    letter = "" if record.letter is None else f", a dead letter, {record.letter.state}"
    effect = f" {record.effect}" if record.effect else ""
    value = f": {record.value}" if with_values and record.value is not None else ""
    return f"{record.place} {at} {kind}{effect}{letter}{value}"


def _format_passed(passed: Passed) -> str:
    at = format_utc(to_utc_datetime(passed.at_ms))
    if passed.how == Passage.MOVED:
        return f"{at} the position was moved past it, snapshot={passed.snapshot_id}"
    of = f"backfill={passed.backfill}" if passed.backfill else f"batch={passed.batch}"
    gone = {Passage.ROLLED_BACK: ", rolled back", Passage.EXPIRED: ", which has expired"}.get(passed.how, "")
    run = f" run={passed.run}" if passed.run else ""
    return f"{at} {of} attempt={passed.attempt} snapshot={passed.snapshot_id}{gone}{run}"
