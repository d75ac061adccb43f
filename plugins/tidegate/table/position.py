"""Where a table stands against the log: its effective position, and every reason not to read on from it."""

import json
from dataclasses import replace
from typing import NamedTuple

from tidegate.errors import (
    CommitRefused,
    GiveUp,
    NothingToDo,
    PositionLost,
    PublishedElsewhere,
    RetryLater,
    TopicsUnavailable,
)
from tidegate.model import resource_names
from tidegate.model.batch import Plan, StagedBatch
from tidegate.model.counts import format_being, format_count
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import (
    MAX_NAMED_PARTITIONS,
    Offsets,
    Ranges,
    RecordAddress,
    format_names,
    format_offsets,
    format_partitions,
    get_offset,
    iterate_offsets,
    keep_partitions,
    merge_offsets,
)
from tidegate.model.position import Position
from tidegate.model.resource_names import name_positions_table
from tidegate.model.table_state import NO_TOPIC_ID, TableState, is_another_cluster, is_recreated
from tidegate.ports.session import Session
from tidegate.spec.pipeline import RiskPolicy, RollbackPolicy
from tidegate.table.session import TableSession, select_tables


def check_home(table: TableSession) -> None:
    """Raise `GiveUp` if the file names other tables of the pipeline's own than those of the first publish."""
    marks = {} if table.state is None else table.state.marks
    # what waits in the old tables would be forgotten, perhaps after Kafka has lost it
    home = resource_names.describe_home(table.pipeline)
    moved = [name for name, value in home.items() if marks.get(name, value) != value]
    if moved:
        words = ", ".join(f"{name}={marks[name]} and the file says {home[name]}" for name in moved)
        raise GiveUp(
            f"{table.prefix}: its staged batches, dead letters and history lie where the file does not look: {words}; "
            "set it back: name a table of that namespace first in the file, and that merge.intermediate_suffix; or, "
            "when no dead letter waits there, go on from the same offsets with new tables: tidegate rebase "
            f"{table.pipeline.name} --to '{{}}'"
        )


def check_homes(session: Session) -> None:
    for table in session.pipeline.tables:
        check_home(TableSession(session, table).refresh())


def _describe_rollback(table: TableSession, state: TableState) -> str:
    pipeline = table.pipeline
    branch = table.spec.branch
    table_words = table.arguments
    recorded = _format_position(state.recorded_position)
    keep = f"tidegate answer-rollback {table_words} --keep"
    rebase = f"tidegate rebase {name_moved(table)} --to earliest"
    # without a tag nothing can be undone; where rows were picked onto the branch no position can be gone back to
    if state.is_untagged:
        return _describe_lost_tag(table, state)
    if state.is_untraceable:
        return (
            f"{table.prefix}: the snapshots between {branch} and the last published "
            f"one have expired, so it is not known whether the table was rolled back behind position={recorded}; if it "
            f"was not, go on with: {keep}; if it was, move the position, e.g. with: {rebase}"
        )
    if state.cherry_picked_batch is not None:
        return (
            f"table={table.name} was rolled back behind position={recorded} of pipeline={pipeline.name}, and the rows "
            f"of batch={state.cherry_picked_batch} were picked onto {branch} since (cherrypick_snapshot), so "
            "that records that are read again may be there already; undo both with: "
            f"tidegate undo-rollback {table_words} --discard-foreign; or go on after the position with: {keep}; or "
            f"move it, e.g. with: {rebase}"
        )
    if state.position is None:
        return (
            f"table={table.name} was rolled back or replaced: the last published snapshot of pipeline={pipeline.name} "
            f"is no longer part of {branch}, and no snapshot of {branch} has a position to rewind to; "
            f"go on after position={recorded} with: {keep}; or move the position, e.g. with: {rebase}"
        )
    return (
        f"table={table.name} was rolled back: the last published snapshot of pipeline={pipeline.name} is no longer "
        f"part of {branch}, which stands at position={_format_position(state.position)} recorded={recorded}; "
        f"undo that with: tidegate undo-rollback {table_words}; or read its records again with: tidegate "
        f"answer-rollback {table_words} --rewind; or go on after them with: {keep} (on_rollback: rewind or keep "
        "answers every rollback so)"
    )


def _describe_lost_tag(table: TableSession, state: TableState) -> str:
    branch = table.spec.branch
    table_words = table.arguments
    recorded = state.recorded_position
    carried = state.position
    keep = f"tidegate answer-rollback {table_words} --keep"
    tag = resource_names.name_tag(table.pipeline.name)
    place = f"{table.prefix}: the tag {tag} of its last published snapshot is gone, as somebody dropped it"
    if carried and recorded and (carried.batch, carried.offsets) == (recorded.batch, recorded.offsets):
        return (
            f"{place}; {branch} carries the recorded position={_format_position(recorded)}, so no published row "
            f"is missing; go on, and set the tag again, with: {keep}"
        )
    if carried:
        return (
            f"{place}, and the table was rolled back: {branch} stands at position={_format_position(carried)} "
            f"recorded={_format_position(recorded)}; read its records again with: tidegate answer-rollback "
            f"{table_words} --rewind; or go on after them with: {keep}"
        )
    return (
        f"{place}, and no snapshot of {branch} tells a position, so it is not known whether the table was rolled "
        f"back behind position={_format_position(recorded)}; if it was not, go on with: {keep}; if it was, move the "
        f"position, e.g. with: tidegate rebase {name_moved(table)} --to earliest"
    )


def _format_position(position: Position | None) -> str:
    return format_offsets(position.offsets if position else {})


def list_rolled_back_tables(session: Session, name: str | None) -> list[TableSession]:
    """Return the selected tables that were rolled back, refreshed; `NothingToDo` if none was."""
    tables = [TableSession(session, table).refresh() for table in select_tables(session, name)]
    rolled_back = [table for table in tables if table.state is not None and table.state.is_rolled_back]
    if not rolled_back:
        names = format_names([table.name for table in tables])
        raise NothingToDo(f"pipeline={session.pipeline.name} tables={names}: none was rolled back; nothing was changed")
    return rolled_back


def refuse_rolled_back(table: TableSession) -> None:
    """Raise `GiveUp` for a rolled back table: a note beside its recorded position would silently answer that."""
    if table.state is not None and table.state.is_rolled_back:
        table_words = table.arguments
        raise GiveUp(
            f"{table.prefix}: it was rolled back, and nothing was changed; answer that "
            f"first with: tidegate undo-rollback {table_words}; or: tidegate answer-rollback {table_words} --rewind "
            "(or --keep)"
        )


def build_unanswered_error(table: TableSession) -> GiveUp:
    """For a table whose rollback the pipeline file answers, but no flush has published since."""
    words = f"{table.arguments} --{table.pipeline.on_rollback}"
    return GiveUp(
        f"{table.prefix}: the table was rolled back and no flush has answered that yet; "
        f"run: tidegate flush {table.pipeline.name}; or: tidegate answer-rollback {words}"
    )


def check_not_rolled_back(table: TableSession) -> None:
    """Raise `CommitRefused`, which asks for another look, if the table was rolled back meanwhile."""
    if table.require_state().is_rolled_back:
        raise CommitRefused(f"{table.prefix}: it was rolled back meanwhile")


REMAINING = "remaining"  # what `rebase` moves to: partitions that lost records to what is left, the others not at all


def resolve_position(table: TableSession) -> Position | None:
    """Return the position to continue from, None if there is none. `on_rollback` decides for a rolled back table.

    `PositionLost` if the table has rows and no position, or was rolled back without an answer.
    """
    state = table.state
    on_rollback = table.pipeline.on_rollback
    if state is None:
        return None
    if state.is_position_lost:
        raise PositionLost(
            f"{table.prefix}: the table has rows of this pipeline, and its position is "
            f"gone: {name_positions_table(table.name)} was dropped or has expired, or the pipeline's row in it "
            f"was removed; "
            "nothing is read again from the start, which would bring rows in twice; say where to go on, e.g. where the "
            f"consumer group stands: tidegate rebase {name_moved(table)} --to group"
        )
    if not state.is_rolled_back:
        return state.position
    if on_rollback == RollbackPolicy.KEEP:
        return state.recorded_position
    if on_rollback == RollbackPolicy.REWIND and state.position is not None:
        return state.position
    raise PositionLost(_describe_rollback(table, state))


def require_position(table: TableSession) -> Position:
    """Return the table's position; `GiveUp` if there is none, or if a rollback waits for an answer."""
    check_home(table)
    position = resolve_position(table)
    if table.state is None or position is None:
        raise GiveUp(
            f"{table.prefix}: the table has no position yet, so nothing can be applied again; run: "
            f"tidegate flush {table.pipeline.name}"
        )
    if table.state.is_rolled_back:  # a flush without new records answers nothing
        raise build_unanswered_error(table)
    return position


def name_moved(table: TableSession) -> str:
    """Return the arguments of `rebase` that move this table alone."""
    return table.arguments if table.pipeline.has_several else table.pipeline.name


def check_not_overtaken(table: TableSession, batch: int, ranges: Ranges, planned: Plan | StagedBatch) -> None:
    """Raise `PublishedElsewhere` if the table's position is no longer the start of the batch in the `planned` log."""
    state = table.state
    position = resolve_position(table)
    # it was published, or is older than a rebase, and its offsets may mean other records now
    is_old = state is not None and batch <= state.highest_batch
    # a rebase does not see the number of a batch whose job is still running
    is_other = position is not None and is_of_other_log(position, planned)
    if position is not None and (is_old or is_other or not ranges.continues(position.offsets)):
        reason = "another run published first"
        if is_other:
            reason = "the position was moved to another log since it was planned"
        if state is not None and state.is_rolled_back:
            reason = "the table was rolled back meanwhile"
        raise PublishedElsewhere(
            f"{table.prefix} batch={batch}: {reason}: "
            f"position={format_offsets(position.offsets)} start={format_offsets(ranges.start)}; nothing was changed "
            "and nothing needs repair"
        )


def is_of_other_log(position: Position, other: Plan | StagedBatch) -> bool:
    """Whether clusters or topics differ: equal offsets mean other records then. False where ids are unknown."""
    is_moved = is_another_cluster(position.cluster_id, other.cluster_id)
    ids = other.topic_ids
    return is_moved or any(is_recreated(known, ids.get(topic, known)) for topic, known in position.topic_ids.items())


class _MessageSubject(NamedTuple):
    """The table in words, and the command that moves its position."""

    table: str
    rebase: str
    stays: bool  # partitions that a move does not name stay at the position that is checked

    def name_move(self, offsets: Offsets) -> str:
        return name_move(self.rebase, offsets) if self.stays and offsets else self.move_to_begin

    @property
    def move_to_begin(self) -> str:
        return f"{self.rebase} --to earliest"


def name_move(rebase: str, offsets: Offsets) -> str:
    """Return the command that moves partitions that lost records; for many partitions, a word that finds them."""
    is_long = sum(map(len, offsets.values())) > MAX_NAMED_PARTITIONS
    return f"{rebase} --to {REMAINING}" if is_long else f"{rebase} --to '{json.dumps(offsets)}'"


def check_log(table: TableSession, position: Position, log: Log, *, rewound: bool = False) -> None:
    """Raise `PositionLost` if the log is another one than was read, or has lost the next records.

    `RetryLater` if a topic has fewer partitions than before: topics do not shrink, so the answer was partial;
    `TopicsUnavailable` if an open transaction hides the position from committed reads.
    `rewound`: the position is not the recorded one, from which `rebase` moves.
    """
    subject = _MessageSubject(table.prefix, f"tidegate rebase {name_moved(table)}", stays=not rewound)
    if is_another_cluster(position.cluster_id, log.cluster_id):
        raise PositionLost(
            f"{subject.table}: the brokers are another cluster: cluster_id={log.cluster_id} "
            f"recorded={position.cluster_id}; "
            f"connect to the recorded one, or move the position by hand, e.g. with: {subject.move_to_begin}"
        )
    for topic, recorded in position.topic_ids.items():
        _check_topic(subject, topic, recorded, position, log)
    for topic, partition, offset in iterate_offsets(position.offsets):
        if topic in log.begin:
            _check_offset(subject, table.session, (topic, partition, offset), log)
    _check_nothing_is_lost(subject, position, log)
    _check_topics_are_read(subject, position, log)


def _check_nothing_is_lost(subject: _MessageSubject, position: Position, log: Log) -> None:
    lost_offsets = log.find_begins_behind(position.offsets)
    if lost_offsets:
        topic, partition, begin = next(iterate_offsets(lost_offsets))
        offset = position.offsets[topic][partition]
        raise PositionLost(
            f"{subject.table}: topic={topic} partition={partition} position={offset}: the log starts at "
            f"offset={begin}, so {format_being(begin - offset, 'offset')} gone before being read"
            f"{describe_all_losses(position.offsets, lost_offsets)}; lengthen the topic's retention, and move the "
            f"position, e.g. with: {subject.name_move(lost_offsets)}"
        )


def describe_all_losses(offsets: Offsets, ends: Offsets) -> str:
    """Count what lies between these offsets and `ends`, for a message that names the first partition alone."""
    losses = [end - (get_offset(offsets, topic, partition) or 0) for topic, partition, end in iterate_offsets(ends)]
    if len(losses) < 2:
        return ""
    return f", {format_count(sum(losses), 'offset')} of {format_count(len(losses), 'partition')} in all"


def _check_topics_are_read(subject: _MessageSubject, position: Position, log: Log) -> None:
    unread_topics = [topic for topic in position.offsets if topic not in log.begin]
    if unread_topics:
        current_topic = next((topic for topic in position.offsets if topic in log.begin), None)
        raise PositionLost(
            f"{subject.table}: topic={unread_topics[0]} is not read any more: the pipeline file names it no longer, or "
            "it is gone from the brokers; put it back, or leave it, with what was not read of it, with: "
            f"{subject.name_move({} if current_topic is None else {current_topic: {}})}"
        )


def _check_topic(subject: _MessageSubject, topic: str, recorded: str, position: Position, log: Log) -> None:
    topic_id = log.topic_ids.get(topic, "")
    if not topic_id or recorded == NO_TOPIC_ID:
        return
    if topic_id == NO_TOPIC_ID:
        raise RetryLater(
            f"{subject.table}: topic={topic}: the brokers do not return its id now, recorded={recorded}; "
            "it will be tried again"
        )
    if topic_id != recorded:
        raise PositionLost(
            f"{subject.table}: topic={topic} was deleted and created again: topic_id={topic_id} "
            f"recorded={recorded}; its offsets mean other records now; move the position, e.g. with: "
            f"{subject.name_move({topic: {}} if len(position.topic_ids) > 1 else {})}"
        )
    log_partitions = log.begin.get(topic, {})
    missing = [partition for partition in position.offsets.get(topic, {}) if partition not in log_partitions]
    if log_partitions and missing:
        raise RetryLater(
            f"{subject.table}: topic={topic} partition={missing[0]}: the brokers name "
            f"partitions={format_partitions(log_partitions)} only, and a topic never shrinks; it will be tried again"
        )


def _check_offset(subject: _MessageSubject, session: Session, position: RecordAddress, log: Log) -> None:
    topic, partition, offset = position
    begin = get_offset(log.begin, topic, partition)
    end = get_offset(log.end, topic, partition)
    at = f"{subject.table}: topic={topic} partition={partition} position={offset}"
    if begin is None or end is None:
        raise PositionLost(
            f"{at}: the log has no such partition; move the position, e.g. with: {subject.move_to_begin}"
        )
    if end < offset:
        # uncommitted records were read up to there, before source.isolation was changed
        whole_end = get_offset(session.broker.read_end_offsets((topic,), "read_uncommitted"), topic, partition)
        if whole_end is not None and offset <= whole_end:
            raise TopicsUnavailable(
                f"{at}: a transaction that began at offset={end} is still open, and hides records up to the position; "
                "the table goes on when it has ended"
            )
        raise PositionLost(
            f"{at}: the log ends at offset={end}, before the position; the topic was truncated or recreated; "
            f"move the position, e.g. with: {subject.move_to_begin}"
        )


def check_read_log(table: TableSession, position: Position, log: Log) -> None:
    """Raise `PositionLost` if this log is another one than was read up to the position."""
    # first: another cluster's leaders know no cuts of this log
    check_log(table, replace(position, offsets={}), log)
    check_not_cut(table, position, log)
    check_log(table, position, log)


def check_not_cut(table: TableSession, position: Position, log: Log) -> None:
    """Raise `PositionLost` if an unclean leader has cut the log below the position, even if it has grown again."""
    # only a batch records newer epochs, and only after this check
    if any(get_offset(position.offsets, topic, partition) != end for topic, partition, end in iterate_offsets(log.end)):
        refuse_cut(table, position, log)


def refuse_cut(table: TableSession, position: Position, log: Log) -> None:
    """Check as `check_not_cut` does, also if nothing is to be read behind the position."""
    cuts = find_position_cuts(table.session, position, log)
    if not cuts:
        return
    topic, partition, cut_offset = next(iterate_offsets(cuts))
    offset = position.offsets[topic][partition]
    command = name_move(f"tidegate rebase {name_moved(table)}", cuts)
    raise PositionLost(
        f"{table.prefix}: topic={topic} partition={partition} position={offset}: the log was cut "
        f"at offset={cut_offset} by a leader that lacked the records after it (an unclean election): "
        f"leader_epoch={log.epochs[topic][partition]} recorded={position.epochs[topic][partition]}; what was "
        f"read from there on, {format_count(offset - cut_offset, 'offset')}"
        f"{describe_all_losses(cuts, keep_partitions(position.offsets, cuts))}, means other records now; read these "
        f"with: {command}"
    )


def find_position_cuts(session: Session, position: Position, log: Log) -> Offsets:
    """Return where newer leaders have cut the log below the position. Asks no leader if none is newer."""
    epochs = log.find_older_epochs(position.epochs, position.offsets)
    return session.broker.find_log_cuts(position.offsets, epochs) if epochs else {}


def resolve_next_start(table: TableSession, position: Position, log: Log) -> Offsets:
    """Return where the next batch starts: at the position, and in new partitions at the log's begin.

    `PositionLost` if a topic has new partitions and the records of a key are ordered by offset alone.
    """
    new_partitions = [
        (topic, partition)
        for topic, partition, _ in iterate_offsets(log.begin)
        if topic in position.offsets and partition not in position.offsets[topic]
    ]
    ordered_by_offset = (table.spec.upsert or table.spec.delete) and not table.spec.sequence_by
    if new_partitions and ordered_by_offset and table.pipeline.on_partition_growth == RiskPolicy.FAIL:
        topic, partition = new_partitions[0]
        others = f" ({len(new_partitions)} new partitions in all)" if len(new_partitions) > 1 else ""
        raise PositionLost(
            f"{table.prefix}: topic={topic} has a new partition={partition}{others}: keys may have "
            "moved between partitions, so offsets no longer order them; "
            "if that is harmless here, set on_partition_growth: accept"
        )
    return merge_offsets(log.begin, position.offsets)
