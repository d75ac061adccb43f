"""Finds the offsets at which a sink stopped, so that the pipeline starts there and skips or repeats no record."""

from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.migration.draft import Draft, PositionSource
from tidegate.model.kafka_log import Log
from tidegate.model.offsets import Offsets, get_offset, iterate_offsets, merge_offsets
from tidegate.sinks.world import AnnouncedFiles, CommitNote, ControlTopic, GroupState, World

MAIN = "main"
READ_COMMITTED = "read_committed"
READ_UNCOMMITTED = "read_uncommitted"


class PositionState(StrEnum):
    """How much is known of a sink's position."""

    EXACT = "exact"
    RUNNING = "running"
    PENDING = "pending"
    LOST = "lost"
    AHEAD = "ahead of the tables"
    BEGIN = "begin of the topics"
    NOT_ASKED = "not asked"


@dataclass(frozen=True, kw_only=True)
class ConnectorPosition:
    """A sink's exact offsets, or why they cannot be used, and what to do.

    `valid_through`: by table, from an Iceberg sink's newest commit.
    """

    state: PositionState
    reason: str
    group: str = ""
    offsets: Offsets = field(default_factory=dict)
    valid_through: dict[str, str] = field(default_factory=dict)


def find_position(source: PositionSource, draft: Draft, world: World) -> ConnectorPosition:
    """It is exact only if the sink has stopped and its tables contain all that it read."""
    if not source.groups:
        state = PositionState.BEGIN if source.from_begin else PositionState.LOST
        return ConnectorPosition(state=state, reason=source.reason)
    if source.ahead:
        return ConnectorPosition(state=PositionState.AHEAD, group=source.groups[0], reason=source.ahead)
    topics = _list_topics(draft, world)
    isolation = draft.data["source"].get("isolation", READ_COMMITTED)
    log = world.read_log(topics, isolation) if topics else None
    if log is None:
        return ConnectorPosition(
            state=PositionState.NOT_ASKED,
            group=source.groups[0],
            reason="the brokers were not asked; run the command again with the connection to Kafka, or with --brokers",
        )
    group, group_state = _choose_group(source, world, topics)
    if group_state.members:
        return ConnectorPosition(
            state=PositionState.RUNNING,
            group=group,
            reason=f"group={group} has members={group_state.members}: the connector is running; stop it "
            "(PUT /connectors/NAME/stop), and run the command again",
        )
    refusal = _refuse_offsets(group, group_state.offsets, log, world, isolation)
    if refusal is not None:
        return refusal
    return _check_tables(source, draft, world, _complete_offsets(source, group, group_state.offsets, log))


def _complete_offsets(source: PositionSource, group: str, committed_offsets: Offsets, log: Log) -> "_Committed":
    missing = [f"{t} {p}" for t, p, _ in iterate_offsets(log.end) if get_offset(committed_offsets, t, p) is None]
    # where the sink would begin
    first = log.end if source.reset == "latest" else log.begin
    return _Committed(group, merge_offsets(first, committed_offsets), missing)


@dataclass(frozen=True)
class _Committed:
    """A group's committed offsets, completed for every partition; `missing` are the partitions without a commit."""

    group: str
    offsets: Offsets
    missing: list[str]


def _list_topics(draft: Draft, world: World) -> tuple[str, ...]:
    source = draft.data["source"]
    if "topic_pattern" in source:
        return world.list_topics(source["topic_pattern"]) or ()
    return tuple(source.get("topics", ()))


def _choose_group(source: PositionSource, world: World, topics: tuple[str, ...]) -> tuple[str, GroupState]:
    states = {group: world.read_group(group, topics) or GroupState(0, {}) for group in source.groups}
    chosen_group = next((group for group, state in states.items() if state.offsets), source.groups[0])
    # it counts as running if any of the groups is
    return chosen_group, GroupState(max(state.members for state in states.values()), states[chosen_group].offsets)


def _refuse_offsets(group: str, offsets: Offsets, log: Log, world: World, isolation: str) -> ConnectorPosition | None:
    open_transaction = _find_open_transaction(offsets, log, world) if isolation == READ_COMMITTED else ""
    if open_transaction:
        return ConnectorPosition(state=PositionState.PENDING, group=group, reason=open_transaction)
    lost_partitions = _find_lost(group, offsets, log)
    return ConnectorPosition(state=PositionState.LOST, group=group, reason=lost_partitions) if lost_partitions else None


def _find_open_transaction(offsets: Offsets, log: Log, world: World) -> str:
    for topic, partition, offset in iterate_offsets(offsets):
        stable = get_offset(log.end, topic, partition)
        # a sink of uncommitted records may be further than a committed read goes
        if stable is None or offset <= stable:
            continue
        whole_log = world.read_log((topic,), READ_UNCOMMITTED)
        end = get_offset(whole_log.end, topic, partition) if whole_log else None
        if end is not None and offset <= end:
            return (
                f"topic={topic} partition={partition} offset={offset}: the connector reads uncommitted records, and is "
                f"behind the begin of an open transaction, offset={stable}; run the command again when the transaction "
                "has ended"
            )
    return ""


def _find_lost(group: str, offsets: Offsets, log: Log) -> str:
    if not offsets:
        return (
            f"group={group} has committed no offset of topics={', '.join(log.end)}: the name is another one "
            "(--connector), "
            "or the offsets have expired; say where to begin in source.start"
        )
    for topic, partition, offset in iterate_offsets(offsets):
        first = get_offset(log.begin, topic, partition)
        last = get_offset(log.end, topic, partition)
        if first is None or last is None or not first <= offset <= last:
            return (
                f"topic={topic} partition={partition} offset={offset}: outside of the log [{first}, {last}]: "
                "records that "
                "the connector has not read are gone, or the topic was made anew; say where to begin in source.start"
            )
    return ""


def _check_tables(source: PositionSource, draft: Draft, world: World, committed_group: _Committed) -> ConnectorPosition:
    notes: dict[str, CommitNote] = {}
    if source.control is not None:
        for table in draft.data["tables"]:
            note = world.read_commit_note(table["name"], source.control, table.get("branch", MAIN))
            if note is not None:
                notes[table["name"]] = note
        # an Iceberg sink commits offsets when it announces files, before its tables contain them
        waiting_tables = _list_waiting(source.control, draft, world, notes)
        if waiting_tables:
            first = waiting_tables[0]
            return ConnectorPosition(
                state=PositionState.PENDING,
                group=committed_group.group,
                reason=f"topic={source.control.name} partition={first.partition} offset={first.offset}: "
                f"files={sum(table.files for table in waiting_tables)} are announced, and not committed to "
                f"table={first.table}; their "
                "records are behind the group's offsets already; start the connector again, wait for its next "
                "commit, and "
                "stop it",
            )
    place = f"group={committed_group.group}"
    text = f"; it had committed nothing in: {', '.join(committed_group.missing)}" if committed_group.missing else ""
    return ConnectorPosition(
        state=PositionState.EXACT,
        group=committed_group.group,
        offsets=committed_group.offsets,
        valid_through={name: note.valid_through for name, note in notes.items() if note.valid_through},
        reason=f"{place}: what it has committed{text}",
    )


def _list_waiting(
    control: ControlTopic, draft: Draft, world: World, notes: dict[str, CommitNote]
) -> list[AnnouncedFiles]:
    done_offsets = (world.read_group(control.coordinator, (control.name,)) or GroupState(0, {})).offsets.get(
        control.name, {}
    )
    tables = {table["name"].partition(".")[2]: table["name"] for table in draft.data["tables"]}
    waiting_announcements = []
    for announcement in world.read_announcements(control.name, done_offsets):
        note = notes.get(tables.get(announcement.table, ""))
        # the sink's own rule
        is_committed = note is not None and announcement.offset < note.control_offsets.get(announcement.partition, 0)
        if announcement.group == control.group and announcement.files and not is_committed:
            waiting_announcements.append(announcement)
    return waiting_announcements


def apply_position(draft: Draft, position: ConnectorPosition) -> None:
    """Write the position into the draft: the offsets, or the group that keeps them until the first flush."""
    source = draft.data["source"]
    if position.state == PositionState.EXACT:
        source["start"] = {"offsets": position.offsets}
        draft.comments[("source", "start")] = f"Where the connector stopped: {position.reason}."
    elif position.state == PositionState.BEGIN:
        source["start"] = "earliest"
        draft.comments[("source", "start")] = position.reason
    elif position.state in (PositionState.LOST, PositionState.AHEAD):
        # the file is invalid until the user says where to begin: no default may repeat records
        source["start"] = "FILL-IN"
        draft.fill_in(("source", "start"), f"where to begin. {position.reason}")
    else:
        source["group"], source["start"] = position.group, "group"
        draft.check(
            ("source", "group"),
            "The connector's own consumer group: the first flush begins at what it has committed. Run the "
            "import again when "
            "the connector has stopped: then the file has the exact offsets, and a group of its own.",
        )
