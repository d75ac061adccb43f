"""What the command line prints for people."""

import argparse
import json
import logging
import re
import sys
from collections.abc import Sequence
from typing import Any

from tidegate.cli.main import COMMANDS
from tidegate.errors import ConfigurationError, RetryLater, TidegateError
from tidegate.flush.maintain import MaintenanceReport
from tidegate.flush.preview import Preview
from tidegate.model.batch import Plan, PublishedBatch, Refusal, StagedBatch
from tidegate.model.counts import format_count, format_span
from tidegate.monitoring.reports import (
    ActionReport,
    BatchReport,
    PartitionStatus,
    PipelineStatus,
    TableStatus,
    UnknownStatus,
)
from tidegate.monitoring.runbook import DEFAULT_PAGE, find_page, locate_pages, name_page_file
from tidegate.monitoring.status import format_verification
from tidegate.redaction import mask_addresses
from tidegate.settings import read_command_name

MAX_SHOWN_BATCHES = 5
MAX_SHOWN_ACTIONS = 5
# `airflow install` is named where another environment's command is meant
COMMAND_WORDS = "|".join(command for command in COMMANDS if command != "airflow")
COMMAND_PATTERN = re.compile(rf"(?<![\w./=-])tidegate(?= (?:{COMMAND_WORDS})(?:[\s;,)`]|$))")
# what moves a terminal's cursor, changes its colours or its title, or turns the direction of writing
CONTROL_PATTERN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
RETRY_PROMISE = re.compile(r"it will be (tried|staged|merged) again")


def print_result(args: argparse.Namespace, text: str, data: dict[str, Any]) -> None:
    """A line for people, or a line of JSON."""
    if getattr(args, "json", False):
        print(json.dumps(data), flush=True)
    else:
        print_text(name_command(text))


def print_text(text: str) -> None:
    print(make_printable(text), flush=True)


def is_yes(answer: str) -> bool:
    return answer.strip().lower() in ("y", "yes")


def make_printable(text: str) -> str:
    """Escape control characters, which records and servers may contain. Line breaks and tabs stay."""
    return CONTROL_PATTERN.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


class PrintableFormatter(logging.Formatter):
    """Log lines and traces without secrets of addresses and control characters."""

    def format(self, record: logging.LogRecord) -> str:
        return make_printable(mask_addresses(super().format(record)))


def build_log_handler(*, verbose: bool) -> logging.Handler:
    """Return what prints log lines on standard error; PyIceberg's warnings only if `verbose`.

    PyIceberg warns of commits that it repeats by itself; what it gives up becomes an error of ours.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(levelname)s %(name)s: %(message)s"))
    if not verbose:
        of_pyiceberg = logging.Filter("pyiceberg")
        handler.addFilter(lambda record: record.levelno >= logging.ERROR or not of_pyiceberg.filter(record))
    return handler


def make_line_printable(text: str) -> str:
    """Also escapes line breaks and tabs."""
    return make_printable(text).replace("\n", "\\n")


def name_command(text: str) -> str:
    """`text` with each of our commands as it can be typed, `bin/tidegate` in a checkout, and each page's own path."""
    return locate_pages(COMMAND_PATTERN.sub(read_command_name(), text))


def format_problem(problem: TidegateError) -> str:
    text = make_printable(name_command(str(problem)))
    return RETRY_PROMISE.sub("run the command again", text) if isinstance(problem, RetryLater) else text


def format_runbook_page(problem: TidegateError) -> str | None:
    """Where to read on; None for a problem that needs no page, or has none."""
    page = None if isinstance(problem, ConfigurationError) else find_page(str(problem), type(problem).__name__)
    return None if page in (None, DEFAULT_PAGE) else f"see {name_page_file(page)}"


def format_interruption(args: argparse.Namespace) -> str:
    if args.command in ("flush", "stage", "merge"):
        return (
            f"pipeline={args.pipeline}: interrupted: published batches stay, and none is half published; "
            f"the next {args.command} goes on from the table's position and takes up what is staged"
        )
    return f"{args.command}: interrupted: nothing is half published; run the command again"


def format_published(batch: PublishedBatch) -> str:
    rows = f"staged={batch.staged} inserted={batch.inserted} updated={batch.updated} deleted={batch.deleted}"
    billed = "" if batch.bytes_billed is None else f" bytes_billed={batch.bytes_billed}"
    mode = f" written_as={batch.written_as}" if batch.written_as else ""
    return f"{batch.table}: batch={batch.batch} {batch.outcome}: {rows} seconds={batch.seconds}{mode}{billed}"


def format_staged(batch: StagedBatch) -> str:
    counts = f"read={batch.counts.read} staged={batch.counts.staged} bytes={batch.bytes}"
    return f"{batch.table}: batch={batch.batch} staged: {counts} seconds={batch.stage_seconds}"


def format_preview(preview: Preview, *, shows_rows: bool) -> str:
    """What a batch would change; its first rows only on a terminal, as logs must not hold records."""
    counts = " ".join(f"{name}={count}" for name, count in preview.counts.items())
    lines = [f"{preview.table}: batch={preview.batch} would change: {counts or 'unknown'}"]
    lines += [f"  {preview.note}"] if preview.note else []
    lines += [f"  schema: {change}" for change in preview.schema_changes]
    lines += [f"  waits for an approval: {rule}" for rule in preview.rules]
    lines += [f"  column {entry['column']}: rows={entry['rows']}" for entry in preview.columns]
    for sample in preview.samples if shows_rows else ():
        rows = (f"{side} {make_line_printable(sample[side])}" for side in ("before", "after") if sample.get(side))
        lines.append(f"  {sample['kind']}: {' '.join(rows)}")
    return "\n".join(lines)


def format_plan(plan: Plan) -> str:
    lines = []
    for table in plan.tables:
        verb = "resumes" if table.is_resumed else "reads"
        condition = ", the last record of each key" if table.last_per_key else ""
        share = table.superseded_share
        share_text = "" if share is None else f", about {share:.0%} of the records superseded"
        offsets = format_count(table.ranges.span, "offset")
        lines.append(f"{table.table}: batch={table.batch} {verb} {offsets}{condition}{share_text}")
        lines += [f"  {t} {p}: [{start}, {end})" for t, p, start, end in table.ranges if end > start]
    lines += [f"a batch takes less than it may: {plan.size_reason}"] if plan.size_reason else []
    return "\n".join([*lines, *map(format_refusal, plan.refusals)])


def format_refusal(refusal: Refusal) -> str:
    return f"{refusal.table}: refused: {refusal.message}"


def format_pairs(data: dict[str, Any]) -> str:
    """What a run of a publication did, or would do."""

    def format_value(value: Any) -> str:
        if isinstance(value, list):
            return ", ".join(value)
        return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)

    return " ".join(f"{name}={format_value(value)}" for name, value in data.items())


def format_maintenance(report: MaintenanceReport) -> str:
    after = vars(report.after)
    counts = " ".join(f"{name}={number}->{after[name]}" for name, number in vars(report.before).items())
    result = "compacted" if report.compacted else "not compacted"
    return f"{report.table}: {result}: {counts} orphans_removed={report.orphans_removed}"


def _format_past_batch(batch: BatchReport) -> str:
    rows = f"inserted={batch['inserted']} updated={batch['updated']} deleted={batch['deleted']}"
    kind = f"backfill={batch['backfill']}" if batch["backfill"] else f"batch={batch['batch']}"
    records = f"read={batch['read']} dead_lettered={batch['dead_lettered']}"
    if batch["unknown_fields"] is not None:
        records += f" unknown_fields_in={batch['unknown_fields']['records']}"
    stage_seconds = "-" if batch["stage_seconds"] is None else batch["stage_seconds"]
    cost = f"stage_seconds={stage_seconds} seconds={batch['seconds']}"  # `seconds` are those of the merge, as in JSON
    return f"{batch['published_at']} {batch['table']}: {kind} {records} {rows} {cost}"


def format_action(table: str, action: ActionReport) -> str:
    user = f" by {action['by']}" if action["by"] else ""
    return f"    {action['at']} {table}: {action['action']}{user}: {make_line_printable(action['details'])}"


def _format_table(table: TableStatus) -> str:
    lag = _format_lag(table)
    if table["exists"] is False:
        return f"{table['table']}: does not exist yet, lag={lag}"
    batch, rows = ("-" if number is None else number for number in (table["batch"], table["rows"]))
    text = f"{table['table']}: batch={batch} rows={rows} lag={lag}"
    if (staging := table["staging"]) is None:
        return text
    # with a clock of staging, lag_seconds of the table is that of its merges
    merged_text = f"{text} behind={_format_age(table['lag_seconds'])}"
    staging_lag = staging["lag"] if table["lag_known"] else "unknown"
    return f"{merged_text} staged: lag={staging_lag} behind={_format_age(staging['lag_seconds'])}"


def _format_lag(counted: TableStatus | PipelineStatus) -> str:
    return str(counted["lag"]) if counted["lag_known"] else "unknown"


def _format_age(seconds: float | None) -> str:
    return "-" if seconds is None else format_span(seconds)


def format_status(status: PipelineStatus | UnknownStatus) -> str:
    if "error" in status:
        return f"{status['pipeline']}: {status['error']}"
    lines = [f"{status['pipeline']}: lag={_format_lag(status)} complete_to={status['freshness'] or 'unknown'}"]
    lines += [f"  {_format_table(table)}" for table in status["tables"]]
    for problem, page in ((t["problem"], t["runbook"]) for t in status["tables"] if t["problem"]):
        lines += [f"    {problem}", f"    see {name_page_file(page)}"]
    lines += [
        f"    {table['table']}: batch={a['batch']} is approved by {a['by']}, and waits for the next flush"
        for table in status["tables"]
        if (a := table["approved"])
    ]
    lines += [
        format_action(t["table"], action) for t in status["tables"] for action in t["actions"][:MAX_SHOWN_ACTIONS]
    ]
    lines += [f"    {format_verification(t['table'], t['verified'])}" for t in status["tables"] if t["verified"]]
    lines += [f"    warning: {warning}" for warning in status["warnings"]]
    lines += [f"  {_format_past_batch(batch)}" for batch in status["batches"][:MAX_SHOWN_BATCHES]]
    if newest := status["newest_dead_letter"]:
        place = f"{newest['topic']} {newest['partition']} {newest['offset']}"
        message = make_line_printable(newest["message"])
        lines.append(f"    dead letters: {status['dead_letters']}, the newest at {place}: {message}")
    for backfill in status["backfills"]:
        applied = (f"{t}: {len(done)} of {backfill['slices']} slices" for t, done in backfill["applied"].items())
        lines.append(f"  open backfill={backfill['backfill']}: applied {', '.join(applied)}")
    return "\n".join([*lines, *_format_partitions(status["partitions"])])


def _format_partitions(partitions: Sequence[PartitionStatus]) -> list[str]:
    if not partitions:
        return []
    has_staging = any(row["staging"] for row in partitions)
    titles = ["begin", "published", "committed", *(["staged"] if has_staging else []), "end"]
    lines = [f"  {'topic':<32} {'partition':>9}{''.join(f'{title:>11}' for title in titles)}{'lag':>7} {'behind':>10}"]
    for row in partitions:
        offsets = [row["begin"], row["published"], row["committed"]]
        offsets += [row["staging"]["staged"]] if row["staging"] else []
        numbers = "".join(f"{'-' if offset is None else offset:>11}" for offset in [*offsets, row["end"]])
        age = _format_age(row["lag_seconds"])
        lines.append(f"  {row['topic']:<32} {row['partition']:>9}{numbers} {row['lag']:>6} {age:>10}")
    return lines
