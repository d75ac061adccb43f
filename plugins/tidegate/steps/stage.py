"""stage: read exactly the planned offsets once and put their rows into the intermediate tables."""

import json
import logging
from dataclasses import replace
from itertools import groupby
from typing import Any

from tidegate import names
from tidegate.batch import Counts, Plan, PlannedBatch, StagedBatch
from tidegate.columns import (
    flat_key_columns,
    projection,
    resolved,
    sequence_columns,
    shape,
    staged_columns,
    stages_kept,
    unchanged_columns,
    value_columns,
    verified_fields,
)
from tidegate.compatibility import check_compatible
from tidegate.dimensions import described, pinned, told
from tidegate.dynamic import concrete, fan_out
from tidegate.epochs import Epochs
from tidegate.errors import BadRecord, GiveUp, RetryLater
from tidegate.jobs import MergeJob, StageJob, StageTable
from tidegate.pipeline import Column, Table
from tidegate.ports import Ports
from tidegate.standing import check_not_overtaken
from tidegate.steps.discover import advance, discovered, finder
from tidegate.superseding import last_per_raw_key
from tidegate.takeover import run_or_take_over

log = logging.getLogger(__name__)
# What of a staged batch is known before it is written, and so travels with its rows in the snapshot's summary.
IN_SUMMARY = ("ranges", "cluster_id", "topic_ids", "table_uuid", "shape", "follows", "watermark", "keys_differ")


def stage(ports: Ports, plan: Plan) -> list[StagedBatch]:
    """Return the staged batches of the plan, each table's in the order of its queue.

    1. A batch that is staged already is taken as it stands.
    2. Tables whose ranges are the same share one job, and so one read of Kafka.
    3. Each job overwrites batch N under a new attempt; what it left behind is found by that attempt.
    4. A bad record, or records that do not add up, fail the step: nothing of the batch can be merged.
    5. Tables that records name for the first time are staged over the same ranges, from where the batch starts.
    """
    ports = fan_out(ports)
    staged = [_resume(ports, table) for table in plan.tables if table.resumed]
    fresh = sorted((t for t in plan.tables if not t.resumed), key=_group)
    for _, group in groupby(fresh, key=_group):
        staged += _stage_group(ports, plan, tuple(group))
    order = {table.table: place for place, table in enumerate(plan.tables)}
    return sorted(staged, key=lambda batch: (order.get(batch.table, len(order)), batch.table, batch.batch))


def _group(planned: PlannedBatch) -> tuple[int, str]:
    return planned.batch, str(planned.ranges.to_dict())


def _resume(ports: Ports, planned: PlannedBatch) -> StagedBatch:
    intermediate = names.intermediate_table(ports.pipeline, table_named(ports, planned.table))
    return _by_attempt(ports, intermediate, planned, planned.attempt or "")


def _by_attempt(ports: Ports, intermediate: str, planned: PlannedBatch, attempt: str) -> StagedBatch:
    for staged in ports.destination.staged(intermediate, planned.table):
        if staged.attempt == attempt:
            return staged
    raise RetryLater(
        f"pipeline={ports.pipeline.name} table={planned.table} batch={planned.batch}: the staged attempt={attempt} "
        "is no longer there; run the flush again, it will plan anew"
    )


def _stage_group(ports: Ports, plan: Plan, group: tuple[PlannedBatch, ...]) -> list[StagedBatch]:
    named = next((planned for planned in group if table_named(ports, planned.table).finds), None)
    group = tuple(planned for planned in group if planned is not named)
    asked = [stage_table(ports, plan, planned) for planned in group]
    first = named or group[0]
    asked_names = finder(ports, table_named(ports, named.table), named) if named else None
    job = StageJob(
        pipeline=ports.pipeline.name,
        batch=first.batch,
        ranges=first.ranges,
        isolation=ports.pipeline.source.isolation,
        tables=tuple(asked),
        finder=asked_names,
    )
    log.info("staging: pipeline=%s batch=%s offsets=%s", ports.pipeline.name, job.batch, job.ranges.span)
    started_ms = ports.now_ms()
    try:
        asked = list(run_or_take_over(ports, job))
        took = round((ports.now_ms() - started_ms) / 1000, 2)
        found = (outcome(ports, planned, table) for planned, table in zip(group, asked, strict=True))
        staged = [replace(batch, stage_seconds=took) for batch in found]
        return staged + (_stage_new(ports, plan, named, asked_names) if named and asked_names else [])
    except RetryLater:
        for planned in (*group, *([named] if named else [])):  # the winner of a race cleans up what the loser stages
            if planned.follows:
                continue  # it starts behind the queue, where the position is not yet
            state = ports.destination.state(planned.table, ports.pipeline.name)
            table = table_named(ports, planned.table)
            check_not_overtaken(ports.pipeline, table, state, planned.batch, planned.ranges)
        raise


def _epochs(ports: Ports, planned: PlannedBatch) -> Epochs:
    """The leaders' epochs of a batch's records, asked once and only where a column wants them."""
    if "leader-epoch" not in ports.pipeline.source.metadata.values():
        return {}
    return ports.broker.epochs(planned.ranges, ports.pipeline.source.isolation)


def _stage_new(ports: Ports, plan: Plan, named: PlannedBatch, asked: StageTable) -> list[StagedBatch]:
    """Stage what the batch holds for tables that it names first; only then are its names known."""
    new = discovered(ports, named, asked)
    staged: list[StagedBatch] = []
    if new:
        wider = replace(ports, pipeline=replace(ports.pipeline, tables=(*ports.pipeline.tables, *new)))
        group = (replace(named, table=table.name) for table in new)
        staged = _stage_group(wider, plan, tuple(group))
    advance(ports, plan, named)
    return staged


def stage_table(
    ports: Ports, plan: Plan, planned: PlannedBatch, *, intermediate: str = "", note: str = ""
) -> StageTable:
    """What is asked of the stage job for one table; `intermediate` and `note` are a backfill's own."""
    state = ports.destination.state(planned.table, ports.pipeline.name)
    table = pinned(ports, resolved(table_named(ports, planned.table), ports.pipeline.source.metadata, state))
    into = intermediate or names.intermediate_table(ports.pipeline, table)
    if len(ports.pipeline.tables) == 1:  # of several, only the merge into this one fails, and the others go on
        check_compatible(ports.pipeline, table, state, planned.ranges)
    attempt = ports.new_attempt()
    create = _create(ports, table, planned.batch, into, {names.NOTE: note} if note else {})
    asked = _as_asked(ports, plan, planned, table, state.uuid if state else None)
    folder = _landing(ports, planned, into, attempt, create)
    return StageTable(
        intermediate=into,
        attempt=attempt,
        key=replace(table.key, columns=None), key_columns=flat_key_columns(table),
        value=replace(table.value, columns=None), value_columns=value_columns(table),
        metadata=ports.pipeline.source.metadata,
        ignore_deletes=not table.delete,
        when=table.when, route=table.route, delete_when=table.delete_when,
        summary=_summary(ports, asked, attempt) | told(table.select),
        property=names.staged_property(attempt),
        epochs=_epochs(ports, planned),
        create=() if folder is not None else create,
        folder=folder or "",
        naming=table.naming, has_history=table.history is not None,
        last_per_raw_key=planned.last_per_key and last_per_raw_key(ports.pipeline, table),
        sequence=tuple(c.name for c in sequence_columns(table, ports.pipeline.source.metadata)),
        set_aside=table.errors.set_aside,
        unchanged=unchanged_columns(table), stages_kept=stages_kept(table),
        partition_time=ports.pipeline.merge.partition_time,
        select=projection(table, ports.pipeline.source.metadata),
        verified=verified_fields(table) if ports.pipeline.source.verify_integrity else (),
    )  # fmt: skip


def _landing(
    ports: Ports, planned: PlannedBatch, intermediate: str, attempt: str, create: tuple[str, ...]
) -> str | None:
    """The folder for the job's files, if it is to leave any; Spark has no hand in such a table, so it is made here."""
    folder = ports.destination.landing(intermediate, planned.batch, attempt)
    if folder is not None and create:
        ports.engine.run(MergeJob(ports.pipeline.name, planned.batch, create, table=intermediate))
    return folder


def _create(ports: Ports, table: Table, batch: int, intermediate: str, properties: dict[str, str]) -> tuple[str, ...]:
    """Statements that make the intermediate table, none where it is there with this shape.

    One of another shape is dropped: what waits in it was staged under another pipeline file and is never merged.
    """
    wanted = shape(table, ports.pipeline.source.metadata)
    found = ports.destination.intermediate_shape(intermediate)
    if found == wanted:
        return ()
    fields = tuple(Column(c.name.removeprefix(table.key.prefix), c.type) for c in flat_key_columns(table))
    values = {
        "table": intermediate,
        "parent": table.name.rsplit(".", 1)[0],
        "keys": fields or (Column("bytes", "BINARY"),),
        "values": staged_columns(table, ports.pipeline.source.metadata),
        "sequence": sequence_columns(table, ports.pipeline.source.metadata),
        "shape": wanted,
        "batch": batch,
        "dead_letters": table.errors.set_aside is not None,
        "properties": properties,
        "kept": stages_kept(table),
    }
    statements = (*(["drop_intermediate"] if found is not None else []), "create_namespace", "create_intermediate")
    return tuple(ports.sql_for(intermediate).render(name, **values) for name in statements)


def _as_asked(ports: Ports, plan: Plan, planned: PlannedBatch, table: Table, uuid: str | None) -> StagedBatch:
    """The batch as it is known before anything is read."""
    return StagedBatch(
        table.name, planned.batch, "", 0, planned.ranges, Counts(),
        cluster_id=plan.cluster_id,
        topic_ids={t: i for t, i in plan.topic_ids.items() if t in planned.ranges.by_topic},
        table_uuid=uuid,
        shape=shape(table, ports.pipeline.source.metadata),
        follows=planned.follows,
        watermark=planned.watermark,
        keys_differ=planned.keys_differ,
    )  # fmt: skip


def _summary(ports: Ports, staged: StagedBatch, attempt: str) -> dict[str, str]:
    data = staged.to_dict()
    return {
        "tidegate.pipeline": ports.pipeline.name,
        "tidegate.batch": str(staged.batch),
        "tidegate.attempt": attempt,
        "tidegate.staged": json.dumps({k: data[k] for k in IN_SUMMARY}),
    }


def outcome(ports: Ports, planned: PlannedBatch, asked: StageTable) -> StagedBatch:
    """What the job left behind for one table; a bad record, or records that do not add up, are errors.

    Files in a folder are first brought into the table.
    """
    if asked.folder:
        ports.destination.land(asked.intermediate, planned.batch, asked.attempt, asked.summary)
    where = f"pipeline={ports.pipeline.name} table={planned.table} batch={planned.batch}"
    found = ports.destination.staged_outcome(asked.intermediate, asked.attempt)
    if found is None:
        raise RetryLater(f"{where}: the stage job ended without a result: attempt={asked.attempt}; stage again")
    if found.get("bad"):
        raise BadRecord(f"{where}: {_bad(found, asked.set_aside)}")
    counts = Counts.of(planned.ranges.span, found)
    problem = counts.unexplained()
    if problem:
        raise GiveUp(f"{where}: {problem}")
    return _by_attempt(ports, asked.intermediate, planned, asked.attempt)


def _bad(found: dict[str, Any], set_aside: int | None) -> str:
    first = found["first_bad"]
    place = f"topic={first['topic']} partition={first['partition']} offset={first['offset']}"
    limit = "" if set_aside is None else f", more than errors.max_per_batch={set_aside}"
    return (
        f"{found['bad']} records cannot be decoded{limit}; the first: {place} "
        f"reason={first['reason']}; nothing was merged; "
        "correct the schema in the pipeline file, or the producer"
    )


def table_named(ports: Ports, name: str) -> Table:
    """The pipeline's table of that name, as its schemas describe it; one that is not among them its template made."""
    found = next((table for table in ports.pipeline.tables if table.name == name), None)
    return described(ports, found or concrete(ports.pipeline, name))
