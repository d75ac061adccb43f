"""All that a person who looks for a fault wants to see of one pipeline: files, staged batches, history, offsets."""

from typing import Any

from tidegate.errors import GiveUp, RetryLater
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.offsets import offset_of, pairs
from tidegate.monitoring.status import as_time, shown_batch
from tidegate.ports.context import Ports, TableFiles
from tidegate.progress.risks import cautions
from tidegate.progress.table_progress import come_to, see, views
from tidegate.progress.topic_log import known_log
from tidegate.reprocess.backfill import applied_slices, open_backfills
from tidegate.steps.maintain import maintained_tables
from tidegate.tables.batch_history import advances
from tidegate.tables.templated_tables import fan_out

GROUP_RETENTION = 7 * 86_400.0  # offsets.retention.minutes of a broker that nobody has set otherwise


def offsets(ports: Ports) -> list[dict[str, Any]]:
    """For each partition where the log begins and what the group has committed."""
    ports = fan_out(ports)
    log, _ = known_log(ports)
    committed = ports.broker.committed(ports.pipeline.source.group, tuple(log.end))
    return [
        {
            "topic": topic,
            "partition": partition,
            "begin": offset_of(log.begin, topic, partition),
            "committed": offset_of(committed, topic, partition),
        }
        for topic, partition, _ in pairs(log.end)
    ]


def group_retention(ports: Ports) -> dict[str, Any]:
    """For how many seconds brokers keep the offsets of a quiet group; their default where they will not say."""
    told = ports.broker.group_retention()
    return {"seconds": GROUP_RETENTION if told is None else told, "assumed": told is None}


def warnings(ports: Ports) -> list[str]:
    """What may go wrong soon: hanging transactions, and records that wait until they expire."""
    ports, seen = see(ports)
    log, gone = known_log(ports)
    return cautions(ports, log, come_to(log, views(ports, seen, log, gone)))


def past(ports: Ports, limit: int) -> dict[str, Any]:
    """The newest batches, newest first, and when each partition last moved as far as they tell."""
    rows = ports.destination.history(resource_names.control_table(ports.pipeline), limit)
    moved = advances(rows)
    return {
        "batches": [shown_batch(row) for row in rows],
        "advances": [{"topic": t, "partition": p, "at": as_time(ms)} for (t, p), ms in sorted(moved.items())],
    }


def storage(ports: Ports) -> list[dict[str, Any]]:
    """The files of every table that the pipeline owns, and what waits in the intermediate ones."""
    ports = fan_out(ports)
    kinds = _kinds(ports)
    return [_readable(ports, name, *kinds.get(name, ("other", None))) for name in maintained_tables(ports)]


def _readable(ports: Ports, name: str, kind: str, destination: str | None) -> dict[str, Any]:
    """What is stored under a name, or why that cannot be read: one table hides no other."""
    try:
        return _stored(ports, name, kind, destination)
    except (GiveUp, RetryLater) as reason:
        return {"table": name, "kind": kind, "staged": [], "error": str(reason)}


def _kinds(ports: Ports) -> dict[str, tuple[str, str | None]]:
    """By name: what a table is for, and the destination whose batches it stages."""
    pipeline = ports.pipeline
    kinds: dict[str, tuple[str, str | None]] = {
        resource_names.dead_letter_table(pipeline): ("dead letters", None),
        resource_names.control_table(pipeline): ("history", None),
    }
    for table in pipeline.tables:
        kinds[table.name] = ("destination", None)
        kinds[resource_names.intermediate_table(pipeline, table)] = ("staged", table.name)
        kinds[resource_names.deletes_table(table)] = ("remembered deletes", None)
    return kinds


def _stored(ports: Ports, name: str, kind: str, destination: str | None) -> dict[str, Any]:
    files = ports.destination.files(name) or TableFiles()
    maintained = ports.destination.property(name, resource_names.maintenance_property(ports.pipeline.name))
    state = ports.destination.state(destination, ports.pipeline.name) if destination else None
    published = state.highest_batch if state else 0
    staged = ports.destination.staged(name, destination) if destination else []
    return {
        "table": name,
        "kind": kind,
        "files": files.data_files,
        "bytes": files.data_bytes,
        "rows": files.rows,
        "small_files": files.small,
        "delete_files": files.delete_files,
        "snapshots": files.snapshots,
        "maintained": maintained is not None,
        "staged": [_staged(batch) for batch in staged if batch.batch > published],
    }


def _staged(batch: StagedBatch) -> dict[str, Any]:
    return {
        "batch": batch.batch,
        "table": batch.table,
        "attempt": batch.attempt,
        "records": batch.counts.read,
        "rows": batch.counts.staged,
        "dead_lettered": batch.counts.dead_lettered,
        "ranges": batch.ranges.to_dict(),
    }


def backfills(ports: Ports) -> list[dict[str, Any]]:
    """Backfills that are under way, stopped or given up, with how many of their slices each table has."""
    ports = fan_out(ports)
    found = []
    for one in open_backfills(ports).values():
        applied = applied_slices(ports, one)
        rows = [{"table": t.table, "applied": len(applied.get(t.table, ()))} for t in one.tables]
        found.append({"backfill": one.id, "slices": len(one.numbers), "tables": rows})
    return found
