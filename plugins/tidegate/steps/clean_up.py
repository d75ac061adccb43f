"""clean_up: remove what published batches left behind, in this pipeline's own intermediate tables and branches only."""

import logging
from typing import Any

from tidegate.merge.dead_letter_topic import send_dead_letters
from tidegate.model import resource_names
from tidegate.ports.context import Ports, TableState
from tidegate.spec.table import Table
from tidegate.steps.compact import is_due
from tidegate.tables.templated_tables import expand_template

log = logging.getLogger(__name__)
FORGET_SHARE = 7  # of tombstone_retention, a day of the default week: who is billed for a whole table forgets so often


def clean_up(ports: Ports) -> list[dict[str, Any]]:
    """Return, for each table, what was removed.

    For each table: batches up to the one published *for that table* send their dead letters to `errors.topic`, if there
    is one, and go from its intermediate table, with their snapshots and files; so do attempts at later batches that a
    bad record has ended, which are never merged; then this pipeline's branches of the published batches; then deletes
    that have been remembered long enough. Idempotent, but for what was sent before a failure. A failure is reported and
    logged and never fails the flush: the next run does what this one left.

    `measure` says that so many batches were published that the table's files should be looked at: see compact.
    """
    ports = expand_template(ports)
    return [_clean_table(ports, table) for table in ports.pipeline.tables]


def _clean_table(ports: Ports, table: Table) -> dict[str, Any]:
    report: dict[str, Any] = {"table": table.name, "published": None}
    try:
        state = ports.destination.read_state(table.name, ports.pipeline.name)
        if state is None or state.recorded is None:
            return report | ports.destination.clean_up(resource_names.name_intermediate_table(ports.pipeline, table), 0)
        batch = report["published"] = state.recorded.batch
        report |= _send_letters_first(ports, table, batch)
        cleaned = ports.destination.clean_up(*_find_leftovers(ports, table, batch))
        report |= {**cleaned, "measure": is_due(ports.pipeline.maintenance, batch, cleaned.get("batches", 0))}
        report["branches"] = ports.destination.drop_branches(table.name, ports.pipeline.name, batch)
        if table.remembers:
            report |= _forget_old_deletes(ports, table, state)
    except Exception as error:  # whatever it is, rows are published and must not be held up by rubbish
        reason = f"{type(error).__name__}: {error}"
        where = f"pipeline={ports.pipeline.name} table={table.name} batch={report['published']}"
        log.warning("not cleaned up, the next run will: %s: %s", where, reason)
        report["failed"] = reason
    return report


def _find_leftovers(ports: Ports, table: Table, batch: int) -> tuple[str, int]:
    """What to clean, and up to which batch: where names are a property of their table, all but its newest snapshot."""
    if table.finds and ports.destination.has_branches(table.name):
        return table.name, batch - 1
    return resource_names.name_intermediate_table(ports.pipeline, table), batch


def _send_letters_first(ports: Ports, table: Table, batch: int) -> dict[str, int]:
    """First of all: what is removed afterwards says which dead letters may not have been sent yet."""
    return {"sent_dead_letters": send_dead_letters(ports, table, batch)} if table.errors.topic else {}


def _forget_old_deletes(ports: Ports, table: Table, state: TableState) -> dict[str, Any]:
    """By the records' own time, not by the clock: a pipeline that stood still forgets nothing that may still come.

    The memory is shared by all pipelines that publish into the table, so the one that is farthest behind decides.
    """
    times = {ports.pipeline.name: _read_valid_through_ms(state)}
    for other in ports.destination.list_pipelines(table.name):
        found = ports.destination.read_state(table.name, other) if other != ports.pipeline.name else None
        if found is not None and found.recorded is not None:
            times[other] = _read_valid_through_ms(found)
    reached = [ms for ms in times.values() if ms is not None]
    if len(reached) < len(times):
        return {"forgotten_deletes": 0, "unknown_valid_through": sorted(p for p, ms in times.items() if ms is None)}
    kept_ms = table.tombstone_retention_seconds * 1000
    before_ms, every_ms = min(reached) - kept_ms, kept_ms // FORGET_SHARE
    return {
        "forgotten_deletes": ports.destination.forget_deletes(
            resource_names.name_memory_table(table), before_ms, every_ms
        )
    }


def _read_valid_through_ms(state: TableState) -> int | None:
    """None also where the table was rolled back: what the answer to that reads again is older."""
    return state.recorded.valid_through_ms if state.recorded and not state.rolled_back else None
