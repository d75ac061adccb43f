"""backfill: apply a part of the log again, slice by slice, while the flush goes on; nothing newer is overwritten."""

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial

from tidegate.errors import GiveUp, RetryLater, TidegateError, join_tables
from tidegate.merge.compare_and_swap import retry_commits
from tidegate.model import resource_names
from tidegate.model.backfill import AppliedSlice, Backfill
from tidegate.model.ownership import describe_intermediate
from tidegate.ports.context import Ports
from tidegate.reprocess.backfill_merge import merge_slice
from tidegate.reprocess.backfill_stage import Slice, stage_missing
from tidegate.spec.table import Table
from tidegate.tables.batch_history import record_slice

log = logging.getLogger(__name__)


def apply_backfill(ports: Ports, planned: Backfill, report: Callable[[AppliedSlice], None]) -> None:
    """Apply every slice, newest first, and clean up; `report` is called for each slice and table.

    A repeat call goes on where the last one stopped: what is staged and what is applied stand in the backfill's own
    intermediate tables. A slice that is applied twice changes nothing.
    """
    for number in planned.numbers:
        for result in apply_slice(ports, planned, number):
            report(result)
    drop_backfill(ports, planned.id)


def apply_slice(ports: Ports, planned: Backfill, number: int) -> list[AppliedSlice]:
    """Apply slice `number` to each table that has one. Right in any order, and again.

    1. Stage what is missing, for all tables at once where they need the same offsets.
    2. Merge and publish each table on its own; one that fails does not hold up the others.
    """
    slices = [
        Slice.from_backfill(ports, planned, mine.table, number)
        for mine in planned.tables
        if number <= len(planned.list_slices(mine.table))
    ]
    stage_missing([(table_slice, _read_position(table_slice)) for table_slice in slices if not table_slice.is_applied])
    results: list[AppliedSlice] = []
    failures: list[TidegateError] = []
    for table_slice in slices:
        try:
            result, staged = merge_slice(table_slice)
        except TidegateError as failure:
            failures.append(failure)
            continue
        if staged is not None:
            record_slice(ports, staged, result)
        results.append(result)
    _raise_failures(ports, slices, failures)
    return results


def _read_position(table_slice: Slice) -> dict[str, dict[int, int]]:
    state = table_slice.ports.tables.read_state(table_slice.table.name, table_slice.ports.pipeline.name)
    return table_slice.require_position(state).offsets


def _raise_failures(ports: Ports, slices: list[Slice], failures: list[TidegateError]) -> None:
    if failures and len(slices) == 1:
        raise failures[0]
    if failures:
        reasons = "\n".join(str(failure) for failure in failures)
        message = f"pipeline={ports.pipeline.name}: {len(failures)} tables failed:\n{reasons}"
        raise join_tables(message, map(type, failures))


def read_open_backfills(ports: Ports) -> dict[str, Backfill]:
    """Backfills that have intermediate tables, by id: under way, stopped, or given up.

    A namespace is listed once for all tables: the page asks every few seconds, and most tables have no backfill.
    """
    name, list_names = ports.pipeline.name, cache(ports.tables.list_tables)
    notes = [
        note
        for table in ports.pipeline.tables
        if _has_backfills(name, table, list_names)
        for note in ports.history.list_backfills(table.name, name)
    ]
    backfills = [Backfill.from_dict(json.loads(note)) for note in notes]
    return {backfill.id: backfill for backfill in backfills}


def _has_backfills(pipeline: str, table: Table, list_names: Callable[[str], list[str]]) -> bool:
    """Whether some backfill may have an intermediate table for this one, by its name."""
    namespace, _, bare_name = table.name.rpartition(".")
    prefix = resource_names.get_backfill_prefix(pipeline, bare_name).casefold()  # some catalogs keep names so
    return any(listed.casefold().startswith(prefix) for listed in list_names(namespace))


def read_applied_slices(ports: Ports, planned: Backfill) -> dict[str, list[int]]:
    """The slices of each table of the pipeline that are applied and need not be again, newest first."""
    names = {table.name for table in ports.pipeline.tables}
    slices = [Slice.from_backfill(ports, planned, mine.table, 1) for mine in planned.tables if mine.table in names]
    return {part.table.name: sorted(part.list_applied(), reverse=True) for part in slices}


def drop_backfill(ports: Ports, backfill_id: str) -> list[str]:
    """Drop what a backfill keeps: intermediate tables with their files, branches and marks. Rows stay as they are.

    Returns the tables that were dropped. For a backfill that is done, and for one that is given up.
    """
    dropped = []
    for table in ports.pipeline.tables:
        for own in _list_backfill_tables(ports, table, backfill_id):
            if ports.tables.claim(own, describe_intermediate(ports.pipeline, table)) is not None:
                ports.staging.drop(own)
                dropped.append(own)
        forget = partial(ports.history.forget_backfill, table.name, ports.pipeline.name, backfill_id)
        with suppress(RetryLater):  # branches of a backfill without a table mean nothing; the next call drops them
            retry_commits(ports, f"pipeline={ports.pipeline.name} table={table.name} backfill={backfill_id}", forget)
    return dropped


def _list_backfill_tables(ports: Ports, table: Table, backfill_id: str) -> list[str]:
    """Full names of its intermediate tables for `table`, those of a former `merge.intermediate_suffix` among them."""
    begin = f"{resource_names.get_backfill_prefix(ports.pipeline.name, table.name)}{backfill_id}".casefold()
    namespace = table.name.rpartition(".")[0]
    listed = [f"{namespace}.{name}" for name in ports.tables.list_tables(namespace)]
    return [name for name in listed if name.casefold().startswith(begin)]


def abandon_backfill(ports: Ports, backfill_id: str) -> list[str]:
    """Give up an open backfill, and drop what it kept; slices that are applied stay applied. Returns what was dropped.

    GiveUp where no backfill of this id is open: so a second call says that it is gone.
    """
    open_backfills = read_open_backfills(ports)
    if backfill_id not in open_backfills:
        raise GiveUp(
            f"pipeline={ports.pipeline.name} backfill={backfill_id}: there is no such backfill; "
            f"open ones: {', '.join(sorted(open_backfills)) or 'none'}"
        )
    return drop_backfill(ports, backfill_id)
