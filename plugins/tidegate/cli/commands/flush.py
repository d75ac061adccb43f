"""``tidegate flush``: one whole cycle, or as many as it takes; ``stage`` and ``merge``: one half of it.

``maintain``: each table of a pipeline compacted and cleaned up.
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
from tidegate.model.batch import PublishedBatch


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
