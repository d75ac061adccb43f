"""Finds the offsets at which a sink stopped, so that the pipeline starts there and skips or repeats no record."""

from dataclasses import dataclass, field, replace
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
    settings = draft.data["source"]
    pattern = settings.get("topic_pattern")
    topics = tuple(settings.get("topics", ())) if pattern is None else world.list_topics(pattern) or ()
    isolation = settings.get("isolation", READ_COMMITTED)
    log = world.read_log(topics, isolation) if topics else None
    if log is None:
        return ConnectorPosition(
            state=PositionState.NOT_ASKED,
            group=source.groups[0],
            reason="the brokers were not asked; run the command again with the connection to Kafka or with "
            "--brokers, or go on from the sink's group: --offline",
        )
    group, group_state = _choose_group(source, world, topics)
    if group_state.members:
        return ConnectorPosition(
            state=PositionState.RUNNING,
            group=group,
            reason=f"group={group} has members={group_state.members}: the connector is running; stop it "
            "(PUT /connectors/NAME/stop), and run the command again",
        )
    offsets = group_state.offsets
    open_transaction = _find_open_transaction(offsets, log, world) if isolation == READ_COMMITTED else ""
    refusal = open_transaction or _find_lost(group, offsets, log)
    if refusal:
        state = PositionState.PENDING if open_transaction else PositionState.LOST
        return ConnectorPosition(state=state, group=group, reason=refusal)
    missing = ", ".join(f"{t} {p}" for t, p, _ in iterate_offsets(log.end) if get_offset(offsets, t, p) is None)
    text = f"; it had committed nothing in: {missing}" if missing else ""
    # where the sink would begin
    first = log.end if source.reset == "latest" else log.begin
    exact = ConnectorPosition(
        state=PositionState.EXACT,
        group=group,
        offsets=merge_offsets(first, offsets),
        reason=f"group={group}: what it has committed{text}",
    )
    return exact if source.control is None else _check_tables(source.control, draft, world, exact)


def _choose_group(source: PositionSource, world: World, topics: tuple[str, ...]) -> tuple[str, GroupState]:
    states = {group: world.read_group(group, topics) or GroupState(0, {}) for group in source.groups}
    chosen_group = next((group for group, state in states.items() if state.offsets), source.groups[0])
    # it counts as running if any of the groups is
    return chosen_group, GroupState(max(state.members for state in states.values()), states[chosen_group].offsets)


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
            "(--connector), or the offsets have expired; say where to begin in source.start"
        )
    for topic, partition, offset in iterate_offsets(offsets):
        first = get_offset(log.begin, topic, partition)
        last = get_offset(log.end, topic, partition)
        if first is None or last is None or not first <= offset <= last:
            return (
                f"topic={topic} partition={partition} offset={offset}: outside of the log [{first}, {last}]: records "
                "that the connector has not read are gone, or the topic was created again; say where to begin in "
                "source.start"
            )
    return ""


def _check_tables(control: ControlTopic, draft: Draft, world: World, exact: ConnectorPosition) -> ConnectorPosition:
    notes: dict[str, CommitNote] = {}
    for table in draft.data["tables"]:
        note = world.read_commit_note(table["name"], control, table.get("branch", MAIN))
        if note is not None:
            notes[table["name"]] = note
    # an Iceberg sink commits offsets when it announces files, before its tables contain them
    waiting_tables = _list_waiting(control, draft, world, notes)
    if not waiting_tables:
        valid_through = {name: note.valid_through for name, note in notes.items() if note.valid_through}
        return replace(exact, valid_through=valid_through)
    first = waiting_tables[0]
    return ConnectorPosition(
        state=PositionState.PENDING,
        group=exact.group,
        reason=f"topic={control.name} partition={first.partition} offset={first.offset}: "
        f"files={sum(table.files for table in waiting_tables)} are announced, and not committed to "
        f"table={first.table}; their records are behind the group's offsets already; start the connector "
        "again, wait for its next commit, and stop it",
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
        source |= {"group": position.group, "start": "group"}
        draft.check(
            ("source", "group"),
            "The connector's own consumer group: the first flush begins at what it has committed. Run the import again "
            "when the connector has stopped: then the file has the exact offsets, and a group of its own.",
        )
