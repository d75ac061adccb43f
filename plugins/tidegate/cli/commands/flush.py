"""``tidegate flush``: one whole cycle, or as many as it takes; ``stage`` and ``merge``: one half of it.

``maintain``: each table of a pipeline compacted and cleaned up.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from tidegate.cli import output
from tidegate.cli.commands.progress_bar import ProgressBar, WatchedEngine, show_progress
from tidegate.cli.session import open_named_pipeline
from tidegate.errors import NothingToDo, SomeTables
from tidegate.flush import two_clocks
from tidegate.flush.batch_size import resolve_stop_offsets
from tidegate.flush.flush import FlushResult, flush
from tidegate.flush.maintain import MaintenanceReport, list_maintained_tables, maintain_all
from tidegate.model.batch import Plan, PublishedBatch
from tidegate.model.offsets import Offsets
from tidegate.ports.session import Session


def run_flush(words: argparse.Namespace) -> int:
    """Exit code 0, or an error, raised after the other tables have ended."""
    session = open_named_pipeline(words)
    stop_offsets = None if words.until is None else resolve_stop_offsets(session, words.until)
    with _watch(words, session) as (watched_session, bar):
        return _run_flushes(words, watched_session, stop_offsets, bar)


def run_staging(words: argparse.Namespace) -> int:
    """Exit code 0, or an error, raised after other tables' results are printed."""
    with _watch(words, open_named_pipeline(words)) as (session, bar):
        result = two_clocks.stage_new_batches(session, lambda _: bar.expect(1))
        with bar.make_room():
            for batch in result.batches:
                output.print_result(words, output.format_staged(batch), batch.to_dict())
    if result.failure is not None:
        raise result.failure
    return 0


def run_merging(words: argparse.Namespace) -> int:
    """Exit code 0, or an error, raised after other tables' results are printed."""
    with _watch(words, open_named_pipeline(words)) as (session, bar):
        merge = partial(
            two_clocks.merge_staged_batches, session, words.merges_at_once, report=partial(_expect_work, bar)
        )
        published_batches, failure = _split_failure(merge)
        _print_published(words, bar, published_batches)
    if failure is not None:
        raise failure
    return 0


@contextmanager
def _watch(words: argparse.Namespace, session: Session) -> Iterator[tuple[Session, ProgressBar]]:
    with show_progress(words, f"{words.command} {words.pipeline}") as bar:
        yield replace(session, engine=WatchedEngine(session.engine, bar)), bar


def _run_flushes(words: argparse.Namespace, session: Session, stop_offsets: Offsets | None, bar: ProgressBar) -> int:
    repeats = words.until_current or stop_offsets is not None
    has_printed = words.json  # programs count lines of batches: they get no sentence beside them
    while True:
        try:
            published_batches, failure = _split_failure(
                partial(flush, session, words.merges_at_once, stop_offsets, partial(_expect_work, bar))
            )
        except NothingToDo as reason:
            if not repeats:
                raise
            if not has_printed:
                output.print_text(output.name_command(str(reason)))
            return 0
        _print_published(words, bar, published_batches)
        has_printed = has_printed or bool(published_batches)
        if not repeats or all(batch.snapshot_id is None for batch in published_batches):
            if failure is not None:
                # what kept some tables back is raised after the last flush
                raise failure
            return 0


def _split_failure(run: Callable[[], FlushResult]) -> tuple[Sequence[PublishedBatch], SomeTables | None]:
    try:
        return run().published, None
    except SomeTables as error:
        return error.published, error


def _print_published(words: argparse.Namespace, bar: ProgressBar, batches: Sequence[PublishedBatch]) -> None:
    with bar.make_room():
        for batch in batches:
            output.print_result(words, output.format_published(batch), batch.to_dict())


def _expect_work(bar: ProgressBar, flush_plan: Plan) -> None:
    # a merge for each batch, and one job that stages the new ones
    bar.expect(len(flush_plan.tables) + any(not batch.is_resumed for batch in flush_plan.tables))


def run_maintain(words: argparse.Namespace) -> int:
    """A table that fails stops none of those behind it."""
    session = open_named_pipeline(words)
    tables = list_maintained_tables(session)
    if not tables:
        raise NothingToDo(
            f"pipeline={words.pipeline}: nothing to maintain: it has no Iceberg table yet; BigQuery keeps its own small"
        )

    def print_report(report: MaintenanceReport) -> None:
        output.print_result(words, output.format_maintenance(report), report.to_dict())

    maintain_all(session, tables, print_report)
    return 0
