"""skip: set exactly one bad record aside in the next batch, while every other bad one fails its batch as before."""

import json
from dataclasses import dataclass, replace
from functools import partial

from tidegate.errors import ConfigurationError, GiveUp
from tidegate.flush.merge import BatchMerge, prepare_table
from tidegate.flush.plan import plan
from tidegate.flush.stage_request import (
    MAX_SKIPPED_RECORDS,
    SkippedRecord,
    add_skipped_record,
    build_property,
    list_skipped_records,
)
from tidegate.merge.attempt import retry_commits
from tidegate.model.batch import Counts, StagedBatch
from tidegate.model.offsets import get_offset
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ActionPart, ProposedAction
from tidegate.reprocess.rebase import note_beside_position
from tidegate.reprocess.record import (
    RecordAddress,
    Verdict,
    describe_record,
    explain_record,
    format_record,
    format_verdict,
    outline_record,
    outline_verdict,
    read_record,
)
from tidegate.table.history import add_action
from tidegate.table.position import check_not_rolled_back, refuse_rolled_back, resolve_position
from tidegate.table.session import TableSession, open_table

ACTION = "skip"


@dataclass(frozen=True)
class ProposedSkip:
    """One table for which the record is bad, and the topic's id."""

    address: RecordAddress
    verdict: Verdict
    topic_id: str


def propose_skips(session: Session, at: RecordAddress, name: str | None = None) -> list[ProposedSkip]:
    """Return what `skip_record` would set aside, for each table that has yet to read it, or the one named.

    `GiveUp` if the record decodes in all of them, all have passed it, or bad records are set aside anyway.
    """
    verdicts = explain_record(session, at, name)
    bad = [verdict for verdict in verdicts if verdict.is_bad]
    if not bad:
        names = ", ".join(verdict.table for verdict in verdicts)
        raise GiveUp(f"pipeline={session.pipeline.name} {at.words}: it decodes for tables={names}; nothing is skipped")
    topic_id = session.broker.read_log((at.topic,), session.pipeline.source.isolation).topic_ids.get(at.topic, "")
    # a table that came later meets what was set aside of the others long ago
    skippable = [verdict for verdict in bad if not _has_passed(session, at, verdict.table)] or bad
    for verdict in skippable:
        _check_ahead(open_table(session, verdict.table), at)
    return [ProposedSkip(at, verdict, topic_id) for verdict in skippable]


def _has_passed(session: Session, at: RecordAddress, name: str) -> bool:
    state = session.tables.read_state(name, session.pipeline.name)
    if state is None or state.is_rolled_back or state.position is None:
        return False
    return at.offset < (get_offset(state.position.offsets, at.topic, at.partition) or 0)


def _check_ahead(table: TableSession, at: RecordAddress) -> None:
    place = f"{table.prefix} {at.words}"
    if table.spec.errors.max_dead_letters is not None:
        raise GiveUp(
            f"{place}: errors.tolerance=all sets bad records aside already; run: tidegate flush {table.pipeline.name}"
        )
    if table.has_branches != table.session.commits.has_branches(table.session.letters_table):
        raise GiveUp(
            f"{place}: it would become a dead letter in {table.session.letters_table}, which is in a catalog of "
            "another type, and a dead letter is written in the commit of its batch; nothing is skipped; correct format "
            "or schema in the pipeline file, or give the table a pipeline of its own"
        )
    table = table.refresh()
    refuse_rolled_back(table)
    position = resolve_position(table)
    reached_offset = get_offset(position.offsets, at.topic, at.partition) if position else None
    if reached_offset is not None and at.offset < reached_offset:
        raise GiveUp(f"{place}: the table has passed it: position={reached_offset}; nothing is skipped")


def skip_record(session: Session, skip: ProposedSkip, by: str) -> None:
    """Note for the table that the record is to be set aside, and `by` whom; a repeat call notes it once.

    One compare-and-swap beside the position. A table that does not exist yet is created.
    """
    table = open_table(session, skip.verdict.table)
    retry_commits(session, table.prefix, partial(_note_skip, table, skip, by))


def _note_skip(table: TableSession, skip: ProposedSkip, by: str) -> None:
    table = table.refresh()
    if table.state is None or table.state.recorded_position is None:
        table = _create_table(table)
    _check_ahead(table, skip.address)
    state = table.require_state()
    if _build_record(skip) in list_skipped_records(table.pipeline.name, state) or state.recorded_position is None:
        return
    note_beside_position(table, state.recorded_position, partial(_build_properties, skip=skip, by=by))


def _create_table(table: TableSession) -> TableSession:
    # as its first batch would find it: empty, with the position at which that batch starts
    flush_plan = plan(table.session)
    first = next((batch for batch in flush_plan.tables if batch.table == table.name), None)
    if first is None:
        raise ConfigurationError(
            f"{table.prefix}: the table is not there yet, and no batch can be planned for it now; nothing was skipped; "
            f"answer what `tidegate status {table.pipeline.name}` says, and run the command again"
        )
    topic_ids = {topic: topic_id for topic, topic_id in flush_plan.topic_ids.items() if topic in first.ranges.by_topic}
    batch = StagedBatch(
        table=table.name,
        batch=0,
        attempt="",
        snapshot_id=0,
        ranges=first.ranges,
        counts=Counts(),
        cluster_id=flush_plan.cluster_id,
        topic_ids=topic_ids,
        epochs=flush_plan.epochs,
    )
    return prepare_table(BatchMerge(table, replace(batch, watermark=first.watermark), started_ms=0))


def _build_properties(table: TableSession, skip: ProposedSkip, by: str) -> dict[str, str]:
    check_not_rolled_back(table)
    state = table.require_state()
    pipeline = table.pipeline.name
    position = state.recorded_position.offsets if state.recorded_position else {}
    skipped_records = add_skipped_record(list_skipped_records(pipeline, state), _build_record(skip), position)
    if skipped_records is None:
        raise GiveUp(
            f"{table.prefix}: {MAX_SKIPPED_RECORDS} records ahead are skipped already; "
            "correct the schema in the pipeline file, or set errors.tolerance: all"
        )
    details = f"{skip.address.words} reason={json.dumps(skip.verdict.reason)}"
    return {**build_property(pipeline, skipped_records), **add_action(table, ACTION, by, details)}


def _build_record(skip: ProposedSkip) -> SkippedRecord:
    return SkippedRecord(*skip.address, skip.topic_id)


# ---- the action: shown first, then done

EFFECT = "the next batch sets this record aside as a dead letter, and no other bad one; it can be replayed later"


def propose_skip(session: Session, at: RecordAddress, table: str | None = None) -> ProposedAction:
    """Set exactly this record aside, for each table for which it is bad, or for the one named."""
    record = read_record(session, at)
    proposals = propose_skips(session, at, table)
    verdicts = [skip.verdict for skip in proposals]
    address = f"{at.topic}:{at.partition}:{at.offset}"
    where_to_look = f"the record itself is shown by: tidegate record {session.pipeline.name} --at {address}"
    return ProposedAction(
        preview="\n".join([outline_record(record), *map(outline_verdict, verdicts), where_to_look, EFFECT]),
        full_preview="\n".join([format_record(record), *map(format_verdict, verdicts), EFFECT]),
        subject={"pipeline": session.pipeline.name, **describe_record(record)},
        parts=tuple(
            ActionPart(skip.verdict.table, skip.verdict.to_dict(), partial(skip_record, session, skip))
            for skip in proposals
        ),
        question="Set it aside?",
        success_message="the next batch sets it aside; after a correction, Replay brings it in",
    )
