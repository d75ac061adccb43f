"""``tidegate flush``: one whole cycle, or as many as it takes; ``stage`` and ``merge``: one half of it.

``maintain``: each table of a pipeline compacted and cleaned up; ``backfill``: a part of the log applied again.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial

from tidegate.cli import output
from tidegate.cli.session import open_named_pipeline
from tidegate.errors import NothingToDo, SomeTables
from tidegate.flush.batch_size import resolve_stop_offsets
from tidegate.flush.flush import FlushResult, flush, merge_staged_batches, stage_new_batches
from tidegate.flush.maintain import MaintenanceReport, list_maintained_tables, maintain_all
from tidegate.model.backfill import AppliedSlice
from tidegate.model.batch import PublishedBatch
from tidegate.reprocess.backfill import abandon_backfill, apply_backfill
from tidegate.reprocess.backfill_plan import ProposedBackfill, parse_request, propose_backfill


def run_flush(args: argparse.Namespace) -> int:
    """Exit code 0, or an error, raised after the other tables have ended."""
    session = open_named_pipeline(args)
    stop_offsets = None if args.until is None else resolve_stop_offsets(session, args.until)
    repeats = args.until_current or stop_offsets is not None
    has_printed = args.json  # programs count lines of batches: they get no sentence beside them
    while True:
        try:
            published_batches, failure = _split_failure(partial(flush, session, args.merges_at_once, stop_offsets))
        except NothingToDo as reason:
            if not repeats:
                raise
            if not has_printed:
                output.print_text(output.name_command(str(reason)))
            return 0
        _print_published(args, published_batches)
        has_printed = has_printed or bool(published_batches)
        if not repeats or all(batch.snapshot_id is None for batch in published_batches):
            if failure is not None:
                # what kept some tables back is raised after the last flush
                raise failure
            return 0


def run_staging(args: argparse.Namespace) -> int:
    """Exit code 0, or an error, raised after other tables' results are printed."""
    result = stage_new_batches(open_named_pipeline(args))
    for batch in result.batches:
        output.print_result(args, output.format_staged(batch), batch.to_dict())
    if result.failure is not None:
        raise result.failure
    return 0


def run_merging(args: argparse.Namespace) -> int:
    """Exit code 0, or an error, raised after other tables' results are printed."""
    session = open_named_pipeline(args)
    merge = partial(merge_staged_batches, session, args.merges_at_once)
    published_batches, failure = _split_failure(merge)
    _print_published(args, published_batches)
    if failure is not None:
        raise failure
    return 0


def _split_failure(run: Callable[[], FlushResult]) -> tuple[Sequence[PublishedBatch], SomeTables | None]:
    try:
        return run().published, None
    except SomeTables as error:
        return error.published, error


def _print_published(args: argparse.Namespace, batches: Sequence[PublishedBatch]) -> None:
    for batch in batches:
        output.print_result(args, output.format_published(batch), batch.to_dict())


def run_maintain(args: argparse.Namespace) -> int:
    """A table that fails stops none of those behind it."""
    session = open_named_pipeline(args)
    tables = list_maintained_tables(session)
    if not tables:
        raise NothingToDo(
            f"pipeline={args.pipeline}: nothing to maintain: it has no Iceberg table yet; BigQuery keeps its own small"
        )

    def print_report(report: MaintenanceReport) -> None:
        output.print_result(args, output.format_maintenance(report), report.to_dict())

    maintain_all(session, tables, print_report)
    return 0


def run_backfill(args: argparse.Namespace) -> int:
    if (args.from_time is None) != (args.to_time is None):
        args.usage_error("--from and --to belong together")
    if args.abandon and (args.dry_run or args.table):
        args.usage_error("--abandon gives the whole backfill up; --dry-run and --table say nothing of that")
    session = open_named_pipeline(args)
    if args.abandon:
        dropped_tables = abandon_backfill(session, args.abandon)
        output.print_result(
            args,
            f"given up: dropped {', '.join(dropped_tables)}",
            {"backfill": args.abandon, "dropped": dropped_tables},
        )
        return 0
    proposal = propose_backfill(session, parse_request(args.range, args.from_time, args.to_time, tuple(args.table)))
    if args.dry_run or not args.json:
        output.print_result(args, format_proposal(proposal, args.dry_run), proposal.to_dict())
    if not args.dry_run:

        def report(result: AppliedSlice) -> None:
            output.print_result(args, format_applied_slice(result), result.to_dict())

        apply_backfill(session, proposal.backfill, report)
    return 0


def format_proposal(proposal: ProposedBackfill, is_dry: bool) -> str:
    """Table by table: batches, records at most, later offsets to read, and each partition's range."""
    real, dry = ("goes on with", "would go on with") if proposal.is_resumed else ("applies", "would apply")
    begin = dry if is_dry else real
    lines = [f"backfill={proposal.backfill.id} {begin}:"]
    for table in proposal.to_dict()["tables"]:
        counts = f"records<={table['records']} batches={table['batches']} later offsets to read={table['later']}"
        lines.append(f"{table['table']}: {counts}")
        lines += [
            f"  {p.topic} {p.partition}: [{p.start}, {p.end})" for p in proposal.parts if p.table == table["table"]
        ]
    lines += ["nothing was written"] if is_dry else []
    return "\n".join(lines)


def format_applied_slice(result: AppliedSlice) -> str:
    rows = f"staged={result.staged} inserted={result.inserted} updated={result.updated} deleted={result.deleted}"
    place = f"{result.table}: backfill={result.backfill} slice={result.slice}/{result.slices}"
    return f"{place} {result.outcome}: {rows} seconds={result.seconds}"
