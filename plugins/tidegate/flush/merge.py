"""merge: publish one staged batch, or several as one: create, evolve, cut, merge, check, publish."""

import logging
from dataclasses import dataclass, replace
from functools import partial

from tidegate.errors import AuditFailed, GiveUp, PositionLost, RetryLater
from tidegate.flush.staged import NOTHING_TO_MAKE
from tidegate.jobs.statements_job import StatementsJob
from tidegate.merge import write_mode
from tidegate.merge.attempt import Attempt, begin_attempt, make_first_snapshot, publish_attempt, retry_commits
from tidegate.merge.audits import prepare_audits
from tidegate.merge.hold import hold_schema, leaves_schema
from tidegate.merge.owed import account, evolve_memory
from tidegate.merge.statements import build_merge_input, find_written_memory, render_merge_statements
from tidegate.model import resource_names
from tidegate.model.batch import PublishedBatch, PublishOutcome, StagedBatch
from tidegate.model.offsets import format_offsets
from tidegate.model.position import Position, WatermarkSide
from tidegate.model.table_state import Head, StagedSource, TableState
from tidegate.ports.session import Session
from tidegate.schema.data_types import Column, format_type, parse_type
from tidegate.schema.evolution import find_missing_path, to_struct
from tidegate.table.approval import clear_approval
from tidegate.table.columns import list_destination_columns, list_identifier_columns
from tidegate.table.compatibility import build_row_properties, check_is_destination, check_mergeable
from tidegate.table.coverage import extend_coverage
from tidegate.table.position import check_not_overtaken, resolve_position
from tidegate.table.queue import check_shape, publishes_without_rows
from tidegate.table.session import TableSession, open_table

log = logging.getLogger(__name__)

# what is set of a table that was just created, each only where this value is not empty
FINISHING_STATEMENTS = {"order_table": "cluster_by", "identify_table": "identifiers"}


@dataclass(frozen=True)
class BatchMerge:
    """A staged batch, or several as one, on the way into the table. The table is read again for each round."""

    table: TableSession
    staged: StagedBatch
    started_ms: int

    @property
    def prefix(self) -> str:
        return f"{self.table.prefix} {self.staged.label}"


def merge(session: Session, staged_batch: StagedBatch) -> PublishedBatch:
    """Publish `staged_batch`, which may stand for several, and return what changed.

    1. Create the table if it is missing, evolve its schema if needed; give it a first snapshot.
    2. Cut a branch from the snapshot that the position was read from.
    3. Merge the pinned snapshot of the intermediate table into the branch.
    4. Check that the branch's head is that one snapshot, and that the table's audits hold on it.
    5. Publish: main, tag and position move in one commit, if main is still the cut.

    If main moved and the position did not, it begins again at 2. A batch that is published already is a success;
    `PublishedElsewhere` if another run has moved the position.
    """
    table = open_table(session, staged_batch.table).add_columns(staged_batch.added)
    work = BatchMerge(table, staged_batch, started_ms=session.now_ms())
    return retry_commits(session, work.prefix, partial(_run_round, work))


def _run_round(work: BatchMerge) -> PublishedBatch:
    # 1.
    work = replace(work, table=prepare_table(work))
    if published_batch := _find_published(work, work.table):
        return published_batch
    check_shape(work.table, work.staged)
    if not work.staged.counts.to_write and not publishes_without_rows(work.table, work.staged):
        return _build_result(work, None, None, PublishOutcome.NO_ROWS)
    try:
        return _cut_merge_publish(work)
    except (RetryLater, AuditFailed):
        # a run that published first has removed this run's branch, and Spark's error would hide that
        table_now = work.table.refresh()
        if table_now.state and (published_batch := _find_published(work, table_now)):  # by this very task, sent twice
            return published_batch
        _check_still_staged(work)
        raise


def _check_still_staged(work: BatchMerge) -> None:
    intermediate = work.table.intermediate
    for part in work.staged.parts:
        if work.table.session.staging.read_staged_outcome(intermediate, part.attempt) is None:
            raise GiveUp(
                f"{work.prefix}: the staged rows are gone from intermediate={intermediate} "
                f"attempt={part.attempt}; nothing was merged; the next flush stages them again"
            )


def prepare_table(work: BatchMerge) -> TableSession:
    """Run step 1 of `merge` and return the table as it is now.

    Refuses a rolled-back table before it changes anything.
    """
    table = work.table.refresh()
    _check_same_table(work, table.state)
    check_is_destination(work.prefix, table.state)
    resolve_position(table)
    if table.state is None:
        _create_table(work, "create_namespace", "create_table", *FINISHING_STATEMENTS)
        table = table.refresh()
    # the run that created the table may have ended before it set the order and the identifier fields
    elif _may_be_unfinished(table):
        _create_table(work, *FINISHING_STATEMENTS)
        table = table.refresh()
    if table.state is None:
        raise RetryLater(f"{work.prefix}: the catalog lacks the table that was created; it will be tried again")
    check_mergeable(table)
    if table.spec.approve is not None and _find_published(work, table):
        return table  # nobody is asked about it any more
    if not leaves_schema(table, work.staged):
        hold_schema(table, work.staged)
        table = table.evolve()
        evolve_memory(work.prefix, table)
    state = table.require_state()
    missing = find_missing_path(state.struct, to_struct(work.staged.added))
    if missing:  # a merge would leave it out without a word
        raise RetryLater(
            f"{work.prefix} column={'.'.join(missing)}: the table does not show the column that was added to it; "
            "nothing was merged; it will be tried again"
        )
    if state.snapshot_id is not None:
        return table
    start = replace(work.staged.compute_end_position(None), offsets=work.staged.ranges.start, staged_attempt="")
    start = replace(
        start, batch=state.highest_batch, timestamps={}, outside=work.staged.watermark != WatermarkSide.INSIDE
    )
    make_first_snapshot(table, start)
    seeded = table.refresh()
    return table if seeded.state is None else seeded


def _may_be_unfinished(table: TableSession) -> bool:
    create = table.spec.create
    # both are set before the first snapshot, and setting them again does no harm
    if table.require_state().snapshot_id is not None or not create.enabled:
        return False
    if not create.cluster_by and not _find_identifiers(table):
        return False
    creator = table.session.tables.read_property(table.name, resource_names.CREATED_BY_PROPERTY)
    return creator == table.pipeline.name


def _create_table(work: BatchMerge, *statement_names: str) -> None:
    table = work.table
    create = table.spec.create
    pipeline = table.pipeline.name
    if not create.enabled:
        raise GiveUp(f"{work.prefix}: the table does not exist and create.enabled=false; create it and run again")
    columns = _list_created_columns(table)
    if not columns:
        raise GiveUp(f"{work.prefix}: {NOTHING_TO_MAKE}")
    values = {
        "table": table.name,
        "parent": table.name.rsplit(".", 1)[0],
        "columns": columns,
        "partition_by": create.partition_by,
        "cluster_by": create.cluster_by,
        "identifiers": _find_identifiers(table),
        "properties": create.properties,
        "format_version": create.format_version,
        "pipeline": pipeline,
    }
    left_out = {name for name, value in FINISHING_STATEMENTS.items() if not values[value]}
    rendered = (table.sql.render(name, **values) for name in statement_names if name not in left_out)
    try:
        statements = tuple(statement for statement in rendered if statement)
        table.session.engine.run(StatementsJob(pipeline, work.staged.batch, statements, table=table.name))
    except RetryLater:
        if table.refresh().state is None:  # else another first run has created the table
            raise


def _find_identifiers(table: TableSession) -> tuple[str, ...]:
    """Return the identifier fields as the table spells them; none if it is there, and one of them is optional."""
    columns = table.state.columns if table.state else _list_created_columns(table)
    by_name = {column.name.casefold(): column for column in columns}
    fields = [by_name.get(name.casefold()) for name in list_identifier_columns(table.resolved)]
    names = tuple(field.name for field in fields if field and (table.state is None or not field.nullable))
    return names if len(names) == len(fields) else ()


def _list_created_columns(table: TableSession) -> tuple[Column, ...]:
    columns = list_destination_columns(table.spec)
    if not table.spec.create.force_optional:
        return columns
    return tuple(Column(column.name, format_type(parse_type(column.type))) for column in columns)


def _check_same_table(work: BatchMerge, state: TableState | None) -> None:
    staged_for = work.staged.table_uuid
    current_uuid = state.uuid if state else None
    # a batch from the middle of the log must not become the first of another table
    if staged_for is not None and staged_for != current_uuid:
        raise PositionLost(
            f"{work.prefix}: the table was dropped, or replaced by another of the same name: "
            f"uuid={current_uuid} staged_for={staged_for}; nothing was merged; the next flush plans again for the "
            "table as it is then, from source.start if it has no position"
        )
    if work.staged.follows and (state is None or state.recorded_position is None):
        raise PositionLost(
            f"{work.prefix}: the table has no position, and this batch follows attempt={work.staged.follows}: "
            "somebody dropped the table and created it again, or removed its position; nothing was merged; the next "
            "flush plans again for the table as it is then, from source.start if it has no position"
        )


def _find_published(work: BatchMerge, table: TableSession) -> PublishedBatch | None:
    """Return the result if this batch stands in the table, None if it is next; else raise."""
    staged_batch = work.staged
    position = resolve_position(table)
    if (
        position is not None
        and position.offsets == staged_batch.ranges.end
        and position.staged_attempt == staged_batch.attempt
    ):
        head = table.session.commits.read_head(table.name, resource_names.name_tag(table.pipeline.name))
        return _build_result(work, head, position, PublishOutcome.ALREADY_PUBLISHED)
    check_not_overtaken(table, staged_batch.parts[0].batch, staged_batch.ranges, staged_batch)
    return None


def _cut_merge_publish(work: BatchMerge) -> PublishedBatch:
    position = work.staged.compute_end_position(resolve_position(work.table))
    # 2.
    attempt, rows = build_attempt(work, position)
    # 3. to 5.
    head = publish_attempt(attempt, *rows)
    log.info("published: %s position=%s", work.prefix, format_offsets(position.offsets))
    return _build_result(work, head, position, PublishOutcome.PUBLISHED)


def build_attempt(work: BatchMerge, position: Position) -> tuple[Attempt, tuple[str, ...]]:
    """Return the attempt that moves the table to `position`, and the statements that write its rows."""
    table = work.table
    staged_batch = work.staged
    write_mode.check_is_sole_writer(table, staged_batch)

    def check_fits(table_now: TableSession) -> None:
        _check_same_table(work, table_now.state)
        _find_published(work, table_now)

    attempt = begin_attempt(table, staged_batch.batch, check_fits, work.prefix)
    values = build_merge_input(table, staged_batch, attempt.branch)
    plan = write_mode.WritePlan(written_as="")
    if staged_batch.counts.staged:
        plan = write_mode.choose_write_mode(table, staged_batch, values)
    highest = max(staged_batch.batch, table.require_state().highest_batch)
    numbered = replace(position, batch=highest).to_properties(table.pipeline.name)
    attempt = replace(
        attempt,
        properties={
            **numbered,
            **build_row_properties(table),
            **extend_coverage(table, staged_batch.ranges.start, position),
            **clear_approval(table),
        },
        summary={**numbered, **write_mode.describe_write(staged_batch, plan)},
        audits=prepare_audits(table, staged_batch, attempt.branch, attempt.id),
        memory=find_written_memory(table, staged_batch),
        source=StagedSource(table.intermediate, staged_batch.parts),
        batch_in_turn=staged_batch,
        conf=write_mode.choose_spark_conf(staged_batch, plan),
        reparenting=write_mode.plan_reparenting(table.resolved, staged_batch, values),
        min_added_rows=staged_batch.counts.staged if write_mode.is_always_written(table.spec, staged_batch) else 0,
    )
    rows = render_merge_statements(table, staged_batch, attempt.branch, plan) if staged_batch.counts.staged else ()
    return attempt, rows


def _build_result(
    work: BatchMerge, head: Head | None, position: Position | None, outcome: PublishOutcome
) -> PublishedBatch:
    return PublishedBatch(
        table=work.table.name,
        batch=work.staged.batch,
        ranges=work.staged.ranges,
        staged=work.staged.counts.staged,
        **account(head),
        seconds=round((work.table.session.now_ms() - work.started_ms) / 1000, 2),
        valid_through_ms=position.valid_through_ms if position else None,
        outcome=outcome,
        batches=len(work.staged.parts),
        written_as=head.summary.get(write_mode.WRITTEN_AS_PROPERTY, "") if head else "",
    )
