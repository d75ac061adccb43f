"""What is asked of Spark for one table of a batch, and what is known of the batch before anything is read."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from tidegate.errors import RetryLater
from tidegate.flush.key_deduplication import can_keep_last_per_key
from tidegate.jobs.stage_job import UNUSUAL_BATCH_PROPERTY, StageJob, StageTable
from tidegate.jobs.statements_job import StatementsJob
from tidegate.model import resource_names
from tidegate.model.batch import Counts, Plan, PlannedBatch, StagedBatch
from tidegate.model.kafka_log import Epochs
from tidegate.model.offsets import Offsets, Ranges, get_offset
from tidegate.model.ownership import SHAPE_PROPERTY, describe_intermediate
from tidegate.model.table_state import TableState
from tidegate.ports.session import Session
from tidegate.schema.data_types import Column
from tidegate.spec.source import Errors
from tidegate.spec.table import Table
from tidegate.table.columns import (
    build_projection,
    compute_shape,
    find_grouped,
    find_names_of_columns,
    find_retracting_answers,
    list_destination_columns,
    list_fixed_names,
    list_record_key_columns,
    list_sequence_columns,
    list_staged_columns,
    list_staged_key_columns,
    list_unavailable_columns,
    list_value_columns,
    list_verified_fields,
    stages_kept_columns,
)
from tidegate.table.compatibility import check_adopted_types, check_compatible, list_key_limits, list_value_limits
from tidegate.table.log import check_same_log
from tidegate.table.observed_table import observe_tables
from tidegate.table.queue import describe_shape
from tidegate.table.session import TableSession, find_table, format_pins, open_table, pin_dimensions

SKIPPED_PROPERTY = "skipped"
MAX_SKIPPED_RECORDS = 100  # more of them say that the schema is wrong, not a record
SET_ASIDE = Errors("all", MAX_SKIPPED_RECORDS)
NO_COLUMN = Column("_tidegate_none", "STRING")  # of staged rows, before records have made any


@dataclass(frozen=True)
class SkippedRecord:
    """The place of a record, in the topic of this id."""

    topic: str
    partition: int
    offset: int
    topic_id: str

    @property
    def place(self) -> tuple[str, int, int]:
        return self.topic, self.partition, self.offset


def list_skipped_records(pipeline: str, state: TableState | None) -> list[SkippedRecord]:
    marks = state.marks if state else {}
    text = marks.get(resource_names.name_pipeline_property(pipeline, SKIPPED_PROPERTY), "[]")
    return [SkippedRecord(**entry) for entry in json.loads(text)]


def build_property(pipeline: str, records: list[SkippedRecord]) -> dict[str, str]:
    text = json.dumps([asdict(skipped_record) for skipped_record in records], separators=(",", ":"))
    return {resource_names.name_pipeline_property(pipeline, SKIPPED_PROPERTY): text}


def add_skipped_record(
    known: list[SkippedRecord], record: SkippedRecord, position: Offsets
) -> list[SkippedRecord] | None:
    """Return the list with one more record; None if it is full.

    Records that the table has passed, or whose topic was created again, make room.
    """

    def is_over(skipped_record: SkippedRecord) -> bool:
        is_old = skipped_record.topic == record.topic and skipped_record.topic_id != record.topic_id
        return is_old or skipped_record.offset < (
            get_offset(position, skipped_record.topic, skipped_record.partition) or 0
        )

    other_records = [skipped_record for skipped_record in known if skipped_record != record]
    if sum(not is_over(skipped_record) for skipped_record in other_records) >= MAX_SKIPPED_RECORDS:
        return None
    while len(other_records) >= MAX_SKIPPED_RECORDS:
        other_records.remove(next(filter(is_over, other_records)))
    return [*other_records, record]


def has_skipped_ahead(pipeline: str, state: TableState | None) -> bool:
    """Whether the table has yet to read a record that is to be set aside."""
    reached = state.position.offsets if state and state.position else {}
    return any(
        record.offset >= (get_offset(reached, record.topic, record.partition) or 0)
        for record in list_skipped_records(pipeline, state)
    )


def find_skipped_places(
    pipeline: str, state: TableState | None, ranges: Ranges, topic_ids: dict[str, str]
) -> tuple[tuple[str, int, int], ...] | None:
    """Return the skipped places within a batch; None if the table has no skipped record at all."""
    known = list_skipped_records(pipeline, state)
    current = (record for record in known if topic_ids.get(record.topic, "") == record.topic_id)
    places = (record.place for record in current if ranges.contains(*record.place))
    return tuple(sorted(places)) if known else None


def make_room_for_letters(table: Table) -> Table:
    return replace(table, errors=SET_ASIDE)


# After a batch with unusually spelled records so many get no plain pass: a plain pass that fails reads a batch twice.
BATCHES_READ_WHOLE = 50
# What is known of a staged batch before it is written; these fields travel with its rows in the snapshot's summary.
SUMMARY_FIELDS = (
    "ranges",
    "cluster_id",
    "topic_ids",
    "epochs",
    "table_uuid",
    "shape",
    "follows",
    "watermark",
    "keys_differ",
    "added",
)


def build_stage_table(
    session: Session, plan: Plan, planned: PlannedBatch, *, intermediate: str = "", note: str = ""
) -> StageTable:
    table_session = open_table(session, planned.table).add_columns(planned.added).refresh()
    check_adopted_types(table_session.spec, table_session.resolved)
    table = pin_dimensions(session, table_session.resolved)
    list_destination_columns(table)  # refuses columns that no table holds together
    into = intermediate or table_session.intermediate
    if len(session.pipeline.tables) == 1:  # of several, only the merge into this one fails, and the others go on
        check_compatible(table_session, planned.ranges)
    is_flush_or_backfill = not intermediate or bool(note)  # not a replay of dead letters, nor a look at one record
    skips = None
    if is_flush_or_backfill and table.errors.max_dead_letters is None:
        skips = find_skipped_places(session.pipeline.name, table_session.state, planned.ranges, plan.topic_ids)
    staged_table = table if skips is None else make_room_for_letters(table)
    attempt = session.new_attempt()
    note_property = {resource_names.BACKFILL_PROPERTY: note} if note else {}
    create, current_properties = _render_table_creation(session, staged_table, planned.batch, into, note_property)
    if create and planned.follows and has_waiting_rows(session, planned):
        raise RetryLater(
            f"{table_session.prefix} batch={planned.batch}: a record was skipped meanwhile, and the intermediate "
            "table, made anew for it, has rows that are not published; it is staged again"
        )
    folder = session.staging.find_landing_folder(into, planned.batch, attempt)
    if folder is not None and create:
        # Spark does not write such a table, so it is made here; what it is made of anew is dropped
        if current_properties is not None and not intermediate:
            prefix = f"{table_session.prefix} batch={planned.batch}"
            check_same_log(session, prefix, planned.ranges, plan, is_read=False)
        session.engine.run(StatementsJob(session.pipeline.name, planned.batch, create, table=into))
    # a plain pass may do if no batch shortly before needed another one
    unusual = (current_properties or {}).get(UNUSUAL_BATCH_PROPERTY)
    is_usual = unusual is None or not int(unusual) <= planned.batch <= int(unusual) + BATCHES_READ_WHOLE
    staged_batch = _build_staged_batch(table_session, plan, planned)
    return replace(
        _describe_records(session, table, planned, attempt),
        intermediate=into,
        summary=_build_summary(session, staged_batch, attempt) | format_pins(table.select),
        property=resource_names.name_counted_property(attempt),
        create=() if folder is not None else create,
        tries_plain=folder is None and is_usual,
        folder=folder or "",
        last_per_raw_key=planned.last_per_key and not skips and can_keep_last_per_key(session.pipeline, table),
        set_aside=staged_table.errors.max_dead_letters,
        skips=skips,
        fixed=list_fixed_names(table_session.spec) if table.value.adds_columns else (),
    )


def build_stage_job(
    session: Session, batch: int, ranges: Ranges, tables: Iterable[StageTable], **sources: Any
) -> StageJob:
    """Return the job that fills these tables from one read; `sources` are its finder, or the letters that it reads."""
    isolation = session.pipeline.source.isolation
    return StageJob(
        pipeline=session.pipeline.name, batch=batch, ranges=ranges, isolation=isolation, tables=tuple(tables), **sources
    )


def drops_queue(session: Session, planned: PlannedBatch) -> bool:
    """Whether staging this batch makes the table anew, and drops others that wait there.

    Skipping a record does, and a plan that knows fewer columns than records have made since.
    """
    table_session = open_table(session, planned.table)
    if not planned.follows and not table_session.spec.value.adds_columns:
        return False
    table_session = table_session.add_columns(planned.added).refresh()
    table = pin_dimensions(session, table_session.resolved)
    skips = table.errors.max_dead_letters is None and bool(
        list_skipped_records(session.pipeline.name, table_session.state)
    )
    if not skips and not table.value.adds_columns:
        return False
    own = describe_intermediate(session.pipeline, table)
    current = session.tables.claim(table_session.intermediate, own) or {}
    wanted = compute_shape(make_room_for_letters(table) if skips else table)
    return current.get(SHAPE_PROPERTY, wanted) != wanted


def has_waiting_rows(session: Session, planned: PlannedBatch) -> bool:
    # of a plan that was carried out before, the batch itself may wait too: it is staged anew
    waiting = list_waiting(session, planned.table)
    return any(batch.counts.to_write for batch in waiting if batch.batch != planned.batch)


def list_waiting(session: Session, table: str) -> tuple[StagedBatch, ...]:
    """Return the table's queue as it is now. Raises why it is not known."""
    (observed,) = observe_tables(session, [find_table(session, table)])
    observed.check_queue_is_known()
    return observed.queue


def _describe_records(session: Session, table: Table, planned: PlannedBatch, attempt: str) -> StageTable:
    folder_limits = session.tables.list_folder_limits(table.name, table.create.partition_by)
    return StageTable(
        intermediate="", attempt=attempt, summary={}, property="",
        key=replace(table.key, columns=None), key_columns=list_record_key_columns(table),
        value=replace(table.value, columns=None, added=()), value_columns=list_value_columns(_fill_columns(table)),
        metadata=table.metadata,
        ignore_deletes=not table.delete,
        when=table.when, route=table.route, delete_when=table.delete_when, retracts=find_retracting_answers(table),
        epochs=read_epochs(session, table, planned),
        naming=table.naming, has_history=table.history is not None,
        sequence=tuple(c.name for c in list_sequence_columns(table)),
        unchanged=list_unavailable_columns(table), stages_kept=stages_kept_columns(table), grouped=find_grouped(table),
        partition_time=table.create.partition_time,
        is_partial=bool(table.partial_updates),
        topic_column=table.topic_column, names_of=find_names_of_columns(table),
        select=build_projection(table),
        verified=list_verified_fields(table) if session.pipeline.source.verify_integrity else (),
        key_limits=list_key_limits(table, folder_limits),
        value_limits=list_value_limits(table, folder_limits),
    )  # fmt: skip


def _fill_columns(table: Table) -> Table:
    if not table.value.adds_columns or list_value_columns(table):
        return table
    return replace(table, value=replace(table.value, columns=(NO_COLUMN,)))


def _render_table_creation(
    session: Session, table: Table, batch: int, intermediate: str, properties: dict[str, str]
) -> tuple[tuple[str, ...], Mapping[str, str] | None]:
    shape = compute_shape(table)
    own = describe_intermediate(session.pipeline, table)
    current_properties = session.tables.claim(intermediate, own)
    if current_properties is not None and current_properties.get(SHAPE_PROPERTY) == shape:
        return (), current_properties
    # who reads a live view goes on reading the table that is made anew
    is_viewed = resource_names.PUBLISHED_PROPERTY in (current_properties or {})
    fields = list_staged_key_columns(table)
    values = {
        "table": intermediate,
        "parent": table.name.rsplit(".", 1)[0],
        "keys": fields or (Column("bytes", "BINARY"),),
        "values": list_staged_columns(_fill_columns(table)),
        "sequence": list_sequence_columns(table),
        "shape": shape,
        "batch": batch,
        "dead_letters": table.errors.max_dead_letters is not None,
        "properties": {**properties, **({resource_names.PUBLISHED_PROPERTY: "{}"} if is_viewed else {})},
        "own": own,
        "kept": stages_kept_columns(table),
    }
    statements = (
        # what waits in a table of another shape was staged under another pipeline file and is never merged
        *(["drop_intermediate"] if current_properties is not None else []),
        "create_namespace",
        "create_intermediate",
    )
    rendered = tuple(session.get_sql(intermediate).render(name, **values) for name in statements)
    return rendered, current_properties


def _build_staged_batch(table: TableSession, plan: Plan, planned: PlannedBatch) -> StagedBatch:
    return StagedBatch(
        table=table.name, batch=planned.batch, attempt="", snapshot_id=0, ranges=planned.ranges, counts=Counts(),
        cluster_id=plan.cluster_id,
        topic_ids={t: i for t, i in plan.topic_ids.items() if t in planned.ranges.by_topic},
        epochs={t: parts for t, parts in plan.epochs.items() if t in planned.ranges.by_topic},
        table_uuid=table.state.uuid if table.state else None,
        shape=describe_shape(table),
        follows=planned.follows,
        watermark=planned.watermark,
        keys_differ=planned.keys_differ,
        added=planned.added,
    )  # fmt: skip


def _build_summary(session: Session, staged: StagedBatch, attempt: str) -> dict[str, str]:
    data = staged.to_dict()
    return {
        "tidegate.pipeline": session.pipeline.name,
        "tidegate.batch": str(staged.batch),
        "tidegate.attempt": attempt,
        "tidegate.staged": json.dumps({k: data[k] for k in SUMMARY_FIELDS}),
        # a mark costs a statement in BigQuery, and without a clock of staging nothing waits for long
        **({resource_names.VIEWED_SUMMARY: "true"} if session.pipeline.stage.has_clock else {}),
    }


def read_epochs(session: Session, table: Table, planned: PlannedBatch) -> Epochs:
    if "leader-epoch" not in table.metadata.values():
        return {}
    return session.broker.read_leader_epochs(planned.ranges, session.pipeline.source.isolation)
