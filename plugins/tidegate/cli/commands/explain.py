"""``tidegate explain``: why a table has the row of one key, or has none."""

import argparse
import json
from collections.abc import Iterator

from tidegate.cli.output import make_line_printable, print_text
from tidegate.cli.session import open_named_pipeline
from tidegate.errors import TidegateError, join_tables
from tidegate.reprocess.backfill_plan import parse_request
from tidegate.reprocess.explain import explain_key
from tidegate.reprocess.explained_key import Cause, ExplainedRecord, Explanation, Passage, Passed, describe_fate
from tidegate.spec.time_text import format_utc, to_utc_datetime
from tidegate.table.position import select_tables


def run_explain(words: argparse.Namespace) -> int:
    """Exit code 0, also for a row whose cause is not known, and where some tables are refused; 1 if all are."""
    session = open_named_pipeline(words)
    within = parse_request(words.range, None, None).ranges if words.range else None
    explanations: list[Explanation] = []
    refusals: dict[str, TidegateError] = {}
    for table in select_tables(session, words.table):
        try:
            explanations.append(explain_key(session, table.name, words.key, within))
        except TidegateError as refusal:
            refusals[table.name] = refusal
    if len(refusals) == 1 and not explanations:
        raise next(iter(refusals.values()))
    if refusals and not explanations:
        raise join_tables("\n".join(dict.fromkeys(map(str, refusals.values()))), map(type, refusals.values()))
    if words.json:
        refused = [{"table": name, "because": str(reason)} for name, reason in refusals.items()]
        tables = [entry.to_dict() for entry in explanations]
        print(json.dumps({"pipeline": words.pipeline, "tables": tables, "refused": refused}))
    else:
        print_text("\n".join(line for entry in explanations for line in _format_explanation(entry)))
        for name, reason in refusals.items():
            print_text(f"{name}: not explained: {make_line_printable(str(reason))}")
    return 0


def _format_explanation(entry: Explanation) -> Iterator[str]:
    there = {0: "no row"}.get(entry.row_count, "a row" if entry.row_count == 1 else f"{entry.row_count} rows")
    yield f"{entry.table}: {there} of key={make_line_printable(json.dumps(entry.key, ensure_ascii=False))}"
    certain = "not known" if entry.cause == Cause.UNKNOWN else entry.cause
    yield f"  {certain}: {make_line_printable(entry.because)}"
    yield from (f"  row: {make_line_printable(row)}" for row in entry.rows)
    for difference in entry.differences:
        column = difference.column or difference.kind
        values = (("table", difference.table), ("log", difference.log))
        shown = " ".join(f"{side}={'NULL' if text is None else make_line_printable(text)}" for side, text in values)
        yield f"  differs: {column}: {shown}"
    if entry.other_tables and not entry.row_count:
        yield f"  another table has it: {', '.join(entry.other_tables)}"
    if entry.record_count > len(entry.records):
        yield f"  records: {entry.record_count}, of which these are the newest"
    for record in entry.records:
        yield f"  {_format_record(record)}"
        yield from (f"    {_format_passed(passed)}" for passed in record.passed)
    yield from (f"  not known: {limit}" for limit in entry.limits)


def _format_record(record: ExplainedRecord) -> str:
    at = format_utc(to_utc_datetime(record.at_ms))
    if record.fate != "staged":
        return f"{record.place} {at} {record.effect}: {make_line_printable(describe_fate(record))}"
    kind = "delete" if record.is_delete else "row"
    letter = "" if record.letter is None else f", a dead letter, {record.letter.state}"
    effect = f" {record.effect}" if record.effect else ""
    value = "" if record.value is None else f": {make_line_printable(record.value)}"
    return f"{record.place} {at} {kind}{effect}{letter}{value}"


def _format_passed(passed: Passed) -> str:
    at = format_utc(to_utc_datetime(passed.at_ms))
    if passed.how == Passage.MOVED:
        return f"{at} the position was moved past it, snapshot={passed.snapshot_id}"
    of = f"backfill={passed.backfill}" if passed.backfill else f"batch={passed.batch}"
    gone = {Passage.ROLLED_BACK: ", rolled back", Passage.EXPIRED: ", which has expired"}.get(passed.how, "")
    return f"{at} {of} attempt={passed.attempt} snapshot={passed.snapshot_id}{gone}"
