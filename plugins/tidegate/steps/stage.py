"""stage: read exactly the planned offsets once and put their rows into the intermediate tables."""

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from itertools import groupby

from tidegate.errors import GiveUp, RetryLater
from tidegate.jobs.merge_job import MergeJob
from tidegate.jobs.stage_job import UNUSUAL_BATCH_PROPERTY, StageJob, StageTable
from tidegate.model import resource_names as names
from tidegate.model.batch import Counts, Plan, PlannedBatch, Refusal, StagedBatch
from tidegate.model.leader_epochs import Epochs
from tidegate.model.ownership import SHAPE_PROPERTY, describe_intermediate
from tidegate.planning.blocked_tables import Failure, isolate_failure, join_failures, note_refusals
from tidegate.planning.key_deduplication import can_keep_last_per_key
from tidegate.ports.context import Ports, TableState
from tidegate.progress.position_checks import check_not_overtaken
from tidegate.schema.column import Column
from tidegate.spec.table import Table
from tidegate.staging.skipped_records import find_skipped_places, make_room_for_letters
from tidegate.staging.stage_outcome import find_staged, read_staged_batch
from tidegate.staging.takeover import run_or_take_over
from tidegate.steps.discover_tables import advance_registry, build_name_finder, discover_tables
from tidegate.tables.columns import (
    build_projection,
    compute_shape,
    list_flat_key_columns,
    list_record_key_columns,
    list_sequence_columns,
    list_staged_columns,
    list_unavailable_columns,
    list_value_columns,
    list_verified_fields,
    resolve_columns,
    stages_kept_columns,
)
from tidegate.tables.compatibility import check_compatible
from tidegate.tables.dimension_tables import format_pins, pin_dimensions
from tidegate.tables.lookup import find_table
from tidegate.tables.partial_updates import find_grouped, find_retracting_answers
from tidegate.tables.templated_tables import expand_template

log = logging.getLogger(__name__)
# Behind a batch with records in an unusual spelling so many are not tried to be read plainly: each might be read twice.
BATCHES_READ_WHOLE = 50
# What of a staged batch is known before it is written, and so travels with its rows in the snapshot's summary.
SUMMARY_FIELDS = ("ranges", "cluster_id", "topic_ids", "table_uuid", "shape", "follows", "watermark", "keys_differ")


def stage(ports: Ports, plan: Plan, refused: list[Refusal] | None = None) -> list[StagedBatch]:
    """Return the staged batches of the plan, each table's in the order of its queue.

    1. A batch that is staged already is taken as it stands.
    2. Tables whose ranges are the same share one job, and so one read of Kafka.
    3. Each job overwrites batch N under a new attempt; what it left behind is found by that attempt.
    4. A bad record, or records that do not add up, fail their table: nothing of its batch can be merged.
    5. Tables that records name for the first time are staged over the same ranges, from where the batch starts.

    A table that fails is added to `refused`, for a caller that goes on with the others; without it, or where nothing is
    staged, the reason is raised.
    """
    ports = expand_template(ports)
    staged = [_resume_batch(ports, table) for table in plan.tables if table.resumed]
    failures: list[Failure] = []
    fresh = sorted((t for t in plan.tables if not t.resumed), key=_get_group_key)
    for _, group in groupby(fresh, key=_get_group_key):
        done, failed = _stage_group(ports, plan, tuple(group))
        staged, failures = staged + done, failures + failed
    if failures and (refused is None or not staged):
        raise join_failures(failures)
    if refused is not None:
        refused += note_refusals(failures)
    order = {table.table: place for place, table in enumerate(plan.tables)}
    return sorted(staged, key=lambda batch: (order.get(batch.table, len(order)), batch.table, batch.batch))


def _get_group_key(planned: PlannedBatch) -> tuple[int, str]:
    return planned.batch, str(planned.ranges.to_dict())


def _resume_batch(ports: Ports, planned: PlannedBatch) -> StagedBatch:
    intermediate = names.name_intermediate_table(ports.pipeline, find_table(ports, planned.table))
    return find_staged(ports, intermediate, planned, planned.attempt or "")


def _stage_group(ports: Ports, plan: Plan, group: tuple[PlannedBatch, ...]) -> tuple[list[StagedBatch], list[Failure]]:
    """Tables of the same ranges, by one job. One that fails, before or after it, leaves the others what they have."""
    requests, failures = list[tuple[PlannedBatch, StageTable]](), list[Failure]()
    named: tuple[PlannedBatch, StageTable] | None = None
    for planned in sorted(group, key=lambda one: find_table(ports, one.table).finds):
        table = find_table(ports, planned.table)
        with isolate_failure(planned.table, failures):
            if table.finds:
                named = planned, build_name_finder(ports, table, planned)
            else:
                requests.append((planned, build_stage_table(ports, plan, planned)))
    if not requests and named is None:
        return [], failures
    try:
        stage_tables, took = _run_group(
            ports, group[0], [stage_table for _, stage_table in requests], named and named[1]
        )
        staged: list[StagedBatch] = []
        for (planned, _), stage_table in zip(requests, stage_tables, strict=True):
            with isolate_failure(planned.table, failures):
                staged.append(replace(read_staged_batch(ports, planned, stage_table), stage_seconds=took))
        if named is not None:
            with isolate_failure(named[0].table, failures):
                staged += _stage_new_tables(ports, plan, *named)
        return staged, failures
    except GiveUp as error:  # of the job itself
        failed = {name for name, _ in failures}
        return [], failures + [(planned.table, error) for planned in group if planned.table not in failed]
    except RetryLater:
        for planned in group:  # the winner of a race cleans up what the loser stages
            if planned.follows:
                continue  # it starts behind the queue, where the position is not yet
            state = ports.tables.read_state(planned.table, ports.pipeline.name)
            check_not_overtaken(ports.pipeline, find_table(ports, planned.table), state, planned.batch, planned.ranges)
        raise


def _run_group(
    ports: Ports, first: PlannedBatch, tables: list[StageTable], names: StageTable | None
) -> tuple[tuple[StageTable, ...], float]:
    """Stage a group of tables by one job; each with the attempt that counts, and the seconds that it took."""
    job = StageJob(
        pipeline=ports.pipeline.name,
        batch=first.batch,
        ranges=first.ranges,
        isolation=ports.pipeline.source.isolation,
        tables=tuple(tables),
        finder=names,
    )
    log.info("staging: pipeline=%s batch=%s offsets=%s", ports.pipeline.name, job.batch, job.ranges.span)
    started_ms = ports.now_ms()
    staged = run_or_take_over(ports, job)
    return staged, round((ports.now_ms() - started_ms) / 1000, 2)


def _read_epochs(ports: Ports, planned: PlannedBatch) -> Epochs:
    """The leaders' epochs of a batch's records, asked once and only where a column wants them."""
    if "leader-epoch" not in ports.pipeline.source.metadata.values():
        return {}
    return ports.broker.read_leader_epochs(planned.ranges, ports.pipeline.source.isolation)


def _stage_new_tables(ports: Ports, plan: Plan, named: PlannedBatch, stage_table: StageTable) -> list[StagedBatch]:
    """Stage what the batch holds for tables that it names first; only then are its names known."""
    new = discover_tables(ports, named, stage_table)
    staged: list[StagedBatch] = []
    if new:
        wider = replace(ports, pipeline=replace(ports.pipeline, tables=(*ports.pipeline.tables, *new)))
        group = (replace(named, table=table.name) for table in new)
        staged, failures = _stage_group(wider, plan, tuple(group))
        if failures:  # the names are not known as long as one of them is not staged: it would begin behind this batch
            raise join_failures(failures)
    advance_registry(ports, plan, named)
    return staged


def build_stage_table(
    ports: Ports, plan: Plan, planned: PlannedBatch, *, intermediate: str = "", note: str = ""
) -> StageTable:
    """What is asked of the stage job for one table; `intermediate` and `note` are a backfill's own."""
    state = ports.tables.read_state(planned.table, ports.pipeline.name)
    table = pin_dimensions(
        ports, resolve_columns(find_table(ports, planned.table), ports.pipeline.source.metadata, state)
    )
    into = intermediate or names.name_intermediate_table(ports.pipeline, table)
    if len(ports.pipeline.tables) == 1:  # of several, only the merge into this one fails, and the others go on
        check_compatible(ports.pipeline, table, state, planned.ranges)
    skips = None if intermediate or table.errors.set_aside is not None else _find_skips(ports, plan, planned, state)
    attempt, staged_table = ports.new_attempt(), table if skips is None else make_room_for_letters(table)
    note_property = {names.BACKFILL_PROPERTY: note} if note else {}
    create, current_properties = _render_table_creation(ports, staged_table, planned.batch, into, note_property)
    staged_batch = _build_staged_batch(ports, plan, planned, table, state.uuid if state else None)
    folder = _find_landing_folder(ports, planned, into, attempt, create)
    return StageTable(
        intermediate=into,
        attempt=attempt,
        key=replace(table.key, columns=None), key_columns=list_record_key_columns(table),
        value=replace(table.value, columns=None), value_columns=list_value_columns(table),
        metadata=ports.pipeline.source.metadata,
        ignore_deletes=not table.delete,
        when=table.when, route=table.route, delete_when=table.delete_when, retracts=find_retracting_answers(table),
        summary=_build_summary(ports, staged_batch, attempt) | format_pins(table.select),
        property=names.name_staged_property(attempt),
        epochs=_read_epochs(ports, planned),
        create=() if folder is not None else create,
        tries_plain=folder is None and _tries_plain(current_properties, planned.batch),
        folder=folder or "",
        naming=table.naming, has_history=table.history is not None,
        last_per_raw_key=planned.last_per_key and not skips and can_keep_last_per_key(ports.pipeline, table),
        sequence=tuple(c.name for c in list_sequence_columns(table, ports.pipeline.source.metadata)),
        set_aside=staged_table.errors.set_aside, skips=skips,
        unchanged=list_unavailable_columns(table), stages_kept=stages_kept_columns(table), grouped=find_grouped(table),
        partition_time=ports.pipeline.merge.partition_time,
        select=build_projection(table, ports.pipeline.source.metadata),
        verified=list_verified_fields(table) if ports.pipeline.source.verify_integrity else (),
    )  # fmt: skip


def _find_skips(
    ports: Ports, plan: Plan, planned: PlannedBatch, state: TableState | None
) -> tuple[tuple[str, int, int], ...] | None:
    return find_skipped_places(ports.pipeline.name, state, planned.ranges, plan.topic_ids)


def _find_landing_folder(
    ports: Ports, planned: PlannedBatch, intermediate: str, attempt: str, create: tuple[str, ...]
) -> str | None:
    """The folder for the job's files, if it is to leave any; Spark has no hand in such a table, so it is made here."""
    folder = ports.staging.find_landing_folder(intermediate, planned.batch, attempt)
    if folder is not None and create:
        ports.engine.run(MergeJob(ports.pipeline.name, planned.batch, create, table=intermediate))
    return folder


def _tries_plain(properties: Mapping[str, str] | None, batch: int) -> bool:
    """Whether a plain pass may do: no batch shortly before needed another one."""
    last = (properties or {}).get(UNUSUAL_BATCH_PROPERTY)
    return last is None or not int(last) <= batch <= int(last) + BATCHES_READ_WHOLE


def _render_table_creation(
    ports: Ports, table: Table, batch: int, intermediate: str, properties: dict[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str] | None]:
    """Statements that make the intermediate table, none where it is there with this shape; and its properties now.

    One of another shape is dropped: what waits in it was staged under another pipeline file and is never merged. A
    table of this name that is not ours is an error.
    """
    shape = compute_shape(table, ports.pipeline.source.metadata)
    own = describe_intermediate(ports.pipeline, table)
    current_properties = ports.tables.claim(intermediate, own)
    if current_properties is not None and current_properties.get(SHAPE_PROPERTY) == shape:
        return (), current_properties
    fields = tuple(Column(c.name.removeprefix(table.key.prefix), c.type) for c in list_flat_key_columns(table))
    values = {
        "table": intermediate,
        "parent": table.name.rsplit(".", 1)[0],
        "keys": fields or (Column("bytes", "BINARY"),),
        "values": list_staged_columns(table, ports.pipeline.source.metadata),
        "sequence": list_sequence_columns(table, ports.pipeline.source.metadata),
        "shape": shape,
        "batch": batch,
        "dead_letters": table.errors.set_aside is not None,
        "properties": properties,
        "own": own,
        "kept": stages_kept_columns(table),
    }
    statements = (
        *(["drop_intermediate"] if current_properties is not None else []),
        "create_namespace",
        "create_intermediate",
    )
    rendered = tuple(ports.sql_for(intermediate).render(name, **values) for name in statements)
    return rendered, current_properties


def _build_staged_batch(ports: Ports, plan: Plan, planned: PlannedBatch, table: Table, uuid: str | None) -> StagedBatch:
    """The batch as it is known before anything is read."""
    return StagedBatch(
        table=table.name, batch=planned.batch, attempt="", snapshot_id=0, ranges=planned.ranges, counts=Counts(),
        cluster_id=plan.cluster_id,
        topic_ids={t: i for t, i in plan.topic_ids.items() if t in planned.ranges.by_topic},
        table_uuid=uuid,
        shape=compute_shape(table, ports.pipeline.source.metadata),
        follows=planned.follows,
        watermark=planned.watermark,
        keys_differ=planned.keys_differ,
    )  # fmt: skip


def _build_summary(ports: Ports, staged: StagedBatch, attempt: str) -> dict[str, str]:
    data = staged.to_dict()
    return {
        "tidegate.pipeline": ports.pipeline.name,
        "tidegate.batch": str(staged.batch),
        "tidegate.attempt": attempt,
        "tidegate.staged": json.dumps({k: data[k] for k in SUMMARY_FIELDS}),
    }
