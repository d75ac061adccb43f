"""discover: the part of stage that finds the tables that a batch's records name for the first time."""

from dataclasses import replace
from functools import partial

from tidegate.errors import BadRecord, GiveUp, RetryLater
from tidegate.flush.stage_request import read_epochs
from tidegate.jobs.stage_job import StageTable
from tidegate.jobs.stage_outcome import DiscoveredNames, require_first_bad
from tidegate.jobs.statements_job import StatementsJob
from tidegate.merge.attempt import begin_attempt, publish_attempt, retry_commits
from tidegate.model import resource_names
from tidegate.model.batch import Plan, PlannedBatch
from tidegate.model.counts import format_count
from tidegate.model.ownership import describe_name_registry
from tidegate.model.position import Position, WatermarkSide
from tidegate.schema.data_types import Column
from tidegate.spec.table import Table
from tidegate.table.columns import find_retracting_answers, list_record_key_columns, list_value_columns
from tidegate.table.position import check_not_overtaken
from tidegate.table.session import TableSession, make_concrete_table


def build_name_finder(registry: TableSession, planned_batch: PlannedBatch) -> StageTable:
    """Return the request to list the table names in a batch.

    The names lie in a property of the table of names, or in a folder if Spark does not write that table.
    """
    session = registry.session
    pipeline = session.pipeline
    table = registry.spec
    attempt = session.new_attempt()
    folder = session.staging.find_landing_folder(registry.intermediate, planned_batch.batch, attempt)
    create = _render_registry_creation(
        registry, planned_batch, "create_intermediate" if folder is None else "create_names"
    )
    if folder is not None and create:
        session.engine.run(StatementsJob(pipeline.name, planned_batch.batch, create, table=table.name))
    return StageTable(
        intermediate=table.name,
        attempt=attempt,
        key=replace(table.key, columns=None),
        key_columns=list_record_key_columns(table),
        value=replace(table.value, columns=None, unknown_fields="ignore"),  # they are told by the tables themselves
        value_columns=list_value_columns(table),
        metadata=table.metadata,
        epochs=read_epochs(session, table, planned_batch),  # a condition may look at them
        ignore_deletes=True,  # to a table that does not exist yet a delete does nothing
        when=table.when,
        route=table.route,
        delete_when=table.delete_when,
        retracts=find_retracting_answers(table),
        summary={},
        property=resource_names.name_registry_property(pipeline),
        create=create if folder is None else (),
        folder=folder or "",
        naming=table.naming,
        max_names=table.max_tables,
    )


def _render_registry_creation(registry: TableSession, planned_batch: PlannedBatch, statement: str) -> tuple[str, ...]:
    owner = describe_name_registry(registry.pipeline)
    if registry.session.tables.claim(registry.name, owner) is not None:
        return ()
    values = {
        "table": registry.name,
        "parent": registry.name.rsplit(".", 1)[0],
        "keys": (Column("bytes", "BINARY"),),
        "values": list_value_columns(registry.spec),
        "sequence": (),
        "dead_letters": False,
        "kept": False,
        "properties": {},
        "own": owner,
        "shape": "names",
        "batch": planned_batch.batch,
    }
    return tuple(registry.sql.render(name, **values) for name in ("create_namespace", statement))


def discover_tables(registry: TableSession, planned_batch: PlannedBatch, stage_table: StageTable) -> list[Table]:
    """Return the new tables that records of the batch name. Creates nothing.

    `BadRecord` if a record names no table, `GiveUp` for more than `max_tables`, `RetryLater` if the job's list is gone.
    """
    pipeline = registry.pipeline
    place = f"pipeline={pipeline.name} batch={planned_batch.batch}"
    names = _require_names(registry, planned_batch, stage_table, place)
    known_names = {table.identifier for table in pipeline.tables}
    catalog = registry.name.partition(".")[0]
    new = [name for name in names if name not in known_names]
    existing = [table for table in pipeline.tables if table.naming and not table.discovers_names]
    max_tables = registry.spec.max_tables
    if len(existing) + len(new) > max_tables:
        raise GiveUp(
            f"{place}: records name {format_count(len(new), 'new table')} beside {len(existing)}, more than "
            f"max_tables={max_tables}, e.g. {', '.join(new[:3])}; nothing was merged; raise tables[].max_tables "
            "if they are meant"
        )
    return [make_concrete_table(pipeline, f"{catalog}.{name}") for name in new]


def _require_names(
    registry: TableSession, planned_batch: PlannedBatch, stage_table: StageTable, place: str
) -> tuple[str, ...]:
    discovered = None
    if stage_table.folder:
        discovered = registry.session.staging.read_job_result(
            registry.intermediate, planned_batch.batch, stage_table.attempt, DiscoveredNames.from_json
        )
    else:
        state = registry.refresh().state
        text = state.marks.get(resource_names.name_registry_property(registry.pipeline)) if state else None
        if text:
            discovered = DiscoveredNames.from_json(text, registry.prefix)
    if discovered is None or discovered.attempt != stage_table.attempt:
        raise RetryLater(
            f"{place}: the list of the tables that attempt={stage_table.attempt} names is lost; it will be staged again"
        )
    if discovered.bad:
        first = require_first_bad(discovered, place)
        raise BadRecord(
            f"{place}: {format_count(discovered.bad, 'record')} cannot be decoded, or assigned to a table; the first: "
            f"topic={first.topic} partition={first.partition} offset={first.offset} reason={first.reason}; nothing was "
            "merged; correct the producer, or tables[].name and tables[].namespaces"
        )
    return discovered.names


def advance_registry(registry: TableSession, plan: Plan, planned_batch: PlannedBatch) -> None:
    """Move the position of the table of names behind the batch, whose tables are all staged. One compare-and-swap."""
    advance = partial(_commit_registry_advance, registry, plan, planned_batch)
    retry_commits(registry.session, registry.prefix, advance)


def _commit_registry_advance(table: TableSession, plan: Plan, planned_batch: PlannedBatch) -> None:
    name = table.pipeline.name

    def guard(table: TableSession) -> None:
        check_not_overtaken(table, planned_batch.batch, planned_batch.ranges, plan)

    table = table.refresh()
    attempt = begin_attempt(table, planned_batch.batch, guard, f"{table.prefix} batch={planned_batch.batch}")
    ids = {topic: i for topic, i in plan.topic_ids.items() if topic in planned_batch.ranges.by_topic}
    end = Position(
        planned_batch.ranges.end, planned_batch.batch, attempt.id,
        cluster_id=plan.cluster_id, topic_ids=ids, epochs=plan.epochs,
        outside=planned_batch.watermark == WatermarkSide.OUTSIDE,
    )  # fmt: skip

    if table.state is not None and table.state.snapshot_id is None:
        start = replace(
            end, offsets=planned_batch.ranges.start, batch=0, outside=planned_batch.watermark != WatermarkSide.INSIDE
        )
        table.session.commits.seed(table.name, name, start)
        table = table.refresh()
    if table.state is None:
        raise RetryLater(f"{table.prefix}: it was created, and the catalog lacks it; it will be staged again")
    properties = end.to_properties(name)
    summary = {**properties, "tidegate.batch": str(planned_batch.batch)}
    attempt = replace(attempt, table=table, properties=properties, summary=summary)
    publish_attempt(attempt)
