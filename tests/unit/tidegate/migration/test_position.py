"""A sink's position is taken only where it is exact; what is known is said, and nothing is read twice by default."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from tidegate.migration.draft import Draft, PositionSource
from tidegate.migration.position import apply_position, find_position
from tidegate.model.kafka_log import Log
from tidegate.sinks.world import AnnouncedFiles, CommitNote, ControlTopic, GroupState, UnreachableWorld

CONTROL = ControlTopic(name="control", group="cg", property="p", coordinator="cg-coord")
LOG = Log("c", {}, {"a": {0: 2, 1: 0}, "b": {0: 0, 1: 0}}, {"a": {0: 9, 1: 9}, "b": {0: 9, 1: 0}})


@dataclass
class StillWorld(UnreachableWorld):
    """Groups, notes and announcements as they stand; `asked` is where the control topic was read from."""

    groups: dict[str, GroupState] = field(default_factory=dict)
    notes: dict[tuple[str, str], CommitNote] = field(default_factory=dict)
    announced: list[AnnouncedFiles] = field(default_factory=list)
    asked: dict[int, int] = field(default_factory=dict)
    uncommitted_end: dict[int, int] = field(default_factory=lambda: {0: 9, 1: 9})

    def list_topics(self, pattern: str) -> tuple[str, ...]:
        return ("a", "b")

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log:
        is_whole = isolation == "read_uncommitted"
        return replace(LOG, end={**LOG.end, "a": self.uncommitted_end}) if is_whole else LOG

    def read_group(self, group: str, topics: tuple[str, ...]) -> GroupState | None:
        return self.groups.get(group)

    def read_commit_note(self, table: str, control: ControlTopic, branch: str) -> CommitNote | None:
        return self.notes.get((table, branch))

    def read_announcements(self, topic: str, start: dict[int, int]) -> list[AnnouncedFiles]:
        self.asked = start
        return [letter for letter in self.announced if letter.offset >= start.get(letter.partition, 0)]


def build_draft(**source: Any) -> Draft:
    tables = [{"name": "lake.s.x"}, {"name": "lake.s.y", "branch": "staging"}]
    return Draft("p", {"source": source or {"topics": ["a", "b"]}, "tables": tables}, "lake")


def build_announced_files(table: str, offset: int, **options: Any) -> AnnouncedFiles:
    return AnnouncedFiles(**{"partition": 0, "offset": offset, "group": "cg", "table": table, "files": 1, **options})


def test_partitions_without_a_commit_begin_where_the_sink_would() -> None:
    world = StillWorld(groups={"g": GroupState(0, {"a": {0: 5}, "b": {1: 0}})})
    position = find_position(PositionSource(groups=("g",)), build_draft(), world)
    assert position.offsets == {"a": {0: 5, 1: 0}, "b": {0: 0, 1: 0}}
    assert position.reason.endswith("it had committed nothing in: a 1, b 0")
    latest = find_position(PositionSource(groups=("g",), reset="latest"), build_draft(topic_pattern="a|b"), world)
    assert latest.offsets == {"a": {0: 5, 1: 9}, "b": {0: 9, 1: 0}}


def test_first_group_with_offsets_counts_and_members_of_any() -> None:
    world = StillWorld(groups={"own": GroupState(0, {}), "connect": GroupState(0, {"a": {0: 4}})})
    source = PositionSource(groups=("own", "connect"))
    assert find_position(source, build_draft(), world).group == "connect"
    world.groups["own"] = GroupState(2, {"a": {0: 3}})
    position = find_position(source, build_draft(), world)
    assert (position.state, position.group) == ("running", "own")
    world.groups = {"own": GroupState(0, {"a": {0: 3}}), "connect": GroupState(1, {})}
    assert find_position(source, build_draft(), world).state == "running"


@pytest.mark.parametrize("offset", [1, 10])
def test_offsets_outside_of_the_log_are_no_position(offset: int) -> None:
    world = StillWorld(groups={"g": GroupState(0, {"a": {0: offset}})})
    draft = build_draft()
    position = find_position(PositionSource(groups=("g",)), draft, world)
    assert position.state == "lost"
    assert f"topic=a partition=0 offset={offset}: outside of the log [2, 9]" in position.reason
    apply_position(draft, position)
    assert draft.data["source"]["start"] == "FILL-IN"


def test_sink_that_reads_uncommitted_waits_for_an_open_transaction() -> None:
    """The log a committed read sees ends before its offset; nothing is gone."""
    world = StillWorld(groups={"g": GroupState(0, {"a": {0: 3, 1: 11}})}, uncommitted_end={0: 9, 1: 12})
    source = PositionSource(groups=("g",))
    position = find_position(source, build_draft(), world)
    assert position.state == "pending"
    assert "topic=a partition=1 offset=11: the connector reads uncommitted records" in position.reason
    uncommitted = find_position(source, build_draft(topics=["a", "b"], isolation="read_uncommitted"), world)
    assert (uncommitted.state, uncommitted.offsets["a"]) == ("exact", {0: 3, 1: 11})
    world.uncommitted_end = {0: 9, 1: 10}
    assert find_position(source, build_draft(), world).state == "lost"


def test_offsets_that_run_ahead_of_the_tables_are_no_position() -> None:
    world = StillWorld(groups={"g": GroupState(0, {"a": {0: 5}})})
    draft = build_draft()
    position = find_position(PositionSource(groups=("g",), ahead="files wait"), draft, world)
    assert (position.state, position.offsets) == ("ahead of the tables", {})
    apply_position(draft, position)
    assert (draft.data["source"]["start"], draft.to_fill_in) == ("FILL-IN", ["where to begin. files wait"])


def test_files_wait_that_neither_coordinator_nor_table_has_committed() -> None:
    """Of other groups, without rows, or before a note or the coordinator's offsets: nothing waits."""
    world = StillWorld(
        groups={"g": GroupState(0, {"a": {0: 5}}), "cg-coord": GroupState(0, {"control": {0: 3}})},
        notes={("lake.s.x", "main"): CommitNote({0: 7}, "then"), ("lake.s.y", "main"): CommitNote({0: 99})},
        announced=[
            build_announced_files("s.x", 2),
            build_announced_files("s.x", 6),
            build_announced_files("s.x", 8, group="other"),
            build_announced_files("s.y", 9, files=0),
        ],
    )
    source = PositionSource(groups=("g",), control=CONTROL)
    position = find_position(source, build_draft(), world)
    assert (position.state, position.valid_through, world.asked) == ("exact", {"lake.s.x": "then"}, {0: 3})
    world.announced += [build_announced_files("s.x", 7), build_announced_files("s.y", 9)]
    pending = find_position(source, build_draft(), world)
    assert pending.state == "pending"
    assert "topic=control partition=0 offset=7: files=2 are announced, and not committed to table=s.x" in pending.reason


def test_group_of_the_sink_stands_in_where_brokers_were_not_asked() -> None:
    draft = build_draft()
    apply_position(draft, find_position(PositionSource(groups=("g",)), draft, UnreachableWorld()))
    assert (draft.data["source"]["group"], draft.data["source"]["start"]) == ("g", "group")
    begin = build_draft()
    apply_position(begin, find_position(PositionSource(reason="r", from_begin=True), begin, UnreachableWorld()))
    assert begin.data["source"]["start"] == "earliest"
