"""replay: dead letters come in after a fix, never over newer rows; what is still bad stays."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
from fakes import BAD, Crash, CrashAt, World, build_pipeline, build_table
from tidegate.errors import (
    ConfigurationError,
    GiveUp,
    IncompatibleSchema,
    NothingToDo,
    PositionLost,
    RetryLater,
)
from tidegate.flush.flush import flush
from tidegate.model.offsets import Ranges
from tidegate.model.position import Position
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.replay import Replay, group_letters, replay_dead_letters
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from tidegate.table.session import TableSession

ALL, TABLE, LETTERS = Errors("all", 9), "lake.shop.orders", "lake.shop.tidegate_shop_dead_letters"


def build_tolerant_pipeline(mode: str = "upsert_delete", **options) -> Pipeline:
    return build_pipeline(replace(build_table(mode=mode), errors=ALL), source={"errors": ALL}, **options)


def build_world(*records: tuple) -> World:
    world = World()
    world.broker.create("orders")
    for key, value in records:
        world.broker.produce("orders", {"id": key}, value)
    return world


def build_record(key: str, name: str) -> tuple:
    return key, {"id": key, "name": name}


def correct_letters(world: World, *offsets: int) -> World:
    """As if the pipeline file had been corrected: these dead letters can be read now, in the log and where they lie."""
    records = world.broker.partitions["orders"][0].records
    for offset in offsets:
        value = {"id": records[offset].key["id"], "name": "fixed"}
        records[offset] = replace(records[offset], value=value)
        world.engine.fixed_values[offset] = value
    return world


def read_table(world: World) -> dict[str, str]:
    return {row["id"]: row["name"] for row in world.read_rows(TABLE)}


def list_waiting_offsets(world: World) -> list[int]:
    return sorted(row["offset"] for row in world.read_rows(LETTERS) if row["replayed_at"] is None)


def test_dead_letters_that_can_be_read_now_come_in_and_are_marked() -> None:
    world = build_world(build_record("a", "x"), ("b", BAD), ("c", BAD), build_record("d", "y"))
    session = world.open_session(build_tolerant_pipeline())
    flush(session)
    (result,) = replay_dead_letters(
        world.open_session(build_tolerant_pipeline()) if correct_letters(world, 1) else session
    )
    assert (result.tried, result.replayed, result.still_bad, result.inserted) == (2, 1, 1, 1)
    assert read_table(world) == {"a": "x", "b": "fixed", "d": "y"}
    assert list_waiting_offsets(world) == [2]


def test_newer_row_is_not_overwritten_and_a_deleted_one_not_brought_back() -> None:
    world = build_world(
        ("a", BAD), ("b", BAD), ("c", BAD), build_record("a", "newer"), ("b", None), build_record("d", "other")
    )
    flush(world.open_session(build_tolerant_pipeline()))
    correct_letters(world, 0, 1, 2)
    replay_dead_letters(world.open_session(build_tolerant_pipeline()))
    assert read_table(world) == {"a": "newer", "c": "fixed", "d": "other"}
    assert list_waiting_offsets(world) == []


def test_row_that_came_before_the_dead_letter_is_overwritten() -> None:
    world = build_world(build_record("a", "before"), build_record("b", "x"), ("b", BAD), ("a", BAD))
    flush(world.open_session(build_tolerant_pipeline()))
    correct_letters(world, 2, 3)
    replay_dead_letters(world.open_session(build_tolerant_pipeline()))
    assert read_table(world) == {"a": "fixed", "b": "fixed"}


def test_position_stays_and_the_next_flush_goes_on() -> None:
    world = build_world(build_record("a", "x"), ("b", BAD))
    session = world.open_session(build_tolerant_pipeline())
    flush(session)
    before = world.destination.read_state(TABLE, "shop").position
    correct_letters(world, 1)
    replay_dead_letters(session)
    state = world.destination.read_state(TABLE, "shop")
    assert (state.position, state.is_rolled_back) == (before, False)
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"})
    flush(session)
    assert read_table(world) == {"a": "x", "b": "fixed", "c": "z"}


def test_dead_letters_are_read_from_their_own_bytes_when_the_log_no_longer_has_them() -> None:
    world = build_world(("a", BAD), build_record("b", "x"))
    flush(world.open_session(build_tolerant_pipeline()))
    correct_letters(world, 0)
    world.broker.retain_from("orders", 1)
    replay_dead_letters(world.open_session(build_tolerant_pipeline()))
    assert read_table(world) == {"a": "fixed", "b": "x"}


@pytest.mark.guard(
    "a topic that was created again while its keys were read decides about no dead letter",
    file="plugins/tidegate/reprocess/replay.py",
    text="        check_same_log(session, work.prefix, ranges, position)\n",
    off="        pass\n",
)
def test_topic_that_is_created_again_while_the_later_keys_are_read_decides_about_no_dead_letter() -> None:
    world, calls = build_world(("a", BAD), build_record("a", "newer"), build_record("b", "x")), list[int]()
    flush(world.open_session(build_tolerant_pipeline()))
    correct_letters(world, 0)

    def create_again(call: str, moment: str) -> None:
        """Just before the keys that came after the dead letters are read."""
        if (call, moment) == ("engine.run", "before") and world.engine.stages[-1].letters is not None and not calls:
            calls.append(len(world.engine.stages))
            world.broker.create("orders")
            for name in "cdef":
                world.broker.produce("orders", {"id": name}, {"id": name, "name": "other"})

    with pytest.raises(PositionLost, match="a topic was created again"):
        replay_dead_letters(world.open_session(build_tolerant_pipeline(), create_again))
    assert len(calls) == 1
    assert (read_table(world), list_waiting_offsets(world)) == ({"a": "newer", "b": "x"}, [0])


def test_log_that_is_cut_while_the_later_keys_are_read_decides_about_no_dead_letter() -> None:
    """Of key a something newer was published; the log does not tell of it any more, and has grown again."""
    world, calls = build_world(("a", BAD), build_record("a", "newer"), build_record("b", "x")), list[int]()
    flush(world.open_session(build_tolerant_pipeline()))
    correct_letters(world, 0)

    def cut_log(call: str, moment: str) -> None:
        if (call, moment) == ("engine.run", "before") and world.engine.stages[-1].letters is not None and not calls:
            calls.append(len(world.engine.stages))
            world.broker.elect("orders", has=1)
            for name in "cdef":
                world.broker.produce("orders", {"id": name}, {"id": name, "name": "other"})

    with pytest.raises(PositionLost, match="the log was cut at offset=1"):
        replay_dead_letters(world.open_session(build_tolerant_pipeline(), cut_log))
    assert len(calls) == 1
    assert (read_table(world), list_waiting_offsets(world)) == ({"a": "newer", "b": "x"}, [0])


def test_refusal_of_a_log_that_lost_what_would_decide_counts_all_partitions() -> None:
    world = World()
    world.broker.create("orders", 2)
    for partition, key in enumerate("ab"):
        for value in (BAD, {"id": key, "name": "x"}, {"id": key, "name": "y"}):
            world.broker.produce("orders", {"id": key}, value, partition)
    flush(world.open_session(build_tolerant_pipeline()))
    for partition in (0, 1):
        world.broker.retain_from("orders", 2 + partition, partition)
    with pytest.raises(
        PositionLost, match=r"records \[1, 2\) are gone .* of its key, 3 offsets of 2 partitions in all; nothing was"
    ):
        replay_dead_letters(world.open_session(build_tolerant_pipeline()))


def test_log_that_lost_what_would_decide_is_refused_and_nothing_changes() -> None:
    world = build_world(("a", BAD), build_record("a", "x"), build_record("b", "x"))
    flush(world.open_session(build_tolerant_pipeline()))
    correct_letters(world, 0)
    world.broker.retain_from("orders", 2)
    with pytest.raises(PositionLost, match=r"the records \[1, 2\) are gone"):
        replay_dead_letters(world.open_session(build_tolerant_pipeline()))
    assert (read_table(world), list_waiting_offsets(world)) == ({"a": "x", "b": "x"}, [0])


def test_append_gets_each_dead_letter_once_whenever_it_is_killed() -> None:
    number = 0
    while True:
        number += 1
        world, hook = build_world(build_record("a", "x"), ("a", BAD), build_record("a", "y")), CrashAt(number)
        flush(world.open_session(build_tolerant_pipeline("append")))
        correct_letters(world, 1)
        try:
            replay_dead_letters(world.open_session(build_tolerant_pipeline("append"), hook))
            is_finished = True
        except Crash:
            is_finished = False
        for _ in range(2):
            replay_dead_letters(world.open_session(build_tolerant_pipeline("append")))
        assert sorted(row["name"] for row in world.read_rows(TABLE)) == ["fixed", "x", "y"], hook.at
        assert list_waiting_offsets(world) == [], hook.at
        assert not [name for name in world.destination.tables if "replay" in name], hook.at
        if is_finished:
            return


def test_replay_that_wakes_up_after_others_marks_none_of_their_dead_letters() -> None:
    world, calls = build_world(build_record("a", "x"), ("b", BAD)), []
    flush(world.open_session(build_tolerant_pipeline("append")))
    correct_letters(world, 1)

    def meanwhile(call: str, moment: str) -> None:
        if (call, moment) != ("commits.publish", "after"):
            return
        calls.append(call)
        if len(calls) == 2:  # the first one said that it begins
            replay_dead_letters(world.open_session(build_tolerant_pipeline("append")))  # finishes this one
            world.broker.produce("orders", {"id": "c"}, BAD)
            flush(world.open_session(build_tolerant_pipeline("append")))
            correct_letters(world, 2)
            with suppress(Crash):
                replay_dead_letters(world.open_session(build_tolerant_pipeline("append"), crash_before_publish()))

    with pytest.raises(RetryLater, match="taken away, as another replay of the pipeline does"):
        replay_dead_letters(world.open_session(build_tolerant_pipeline("append"), meanwhile))
    assert (calls, list_waiting_offsets(world)) == (["commits.publish"] * 2, [2])
    replay_dead_letters(world.open_session(build_tolerant_pipeline("append")))
    assert (read_table(world), list_waiting_offsets(world)) == ({"a": "x", "b": "fixed", "c": "fixed"}, [])
    assert set(world.destination.tables[TABLE].refs) == {"main", "tidegate_shop"}


def crash_before_publish() -> Callable[[str, str], None]:
    """Ends a replay of an append table before it publishes its rows: its first commit says that it begins."""
    calls = []

    def die(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before"):
            calls.append(call)
            if len(calls) == 2:
                raise Crash(call)

    return die


def test_of_two_replays_at_once_the_one_whose_staged_letters_are_gone_publishes_nothing() -> None:
    world, calls = build_world(build_record("a", "x"), ("b", BAD)), []
    flush(world.open_session(build_tolerant_pipeline("append")))
    correct_letters(world, 1)

    def begin_another(call: str, moment: str) -> None:
        if (call, moment) == ("engine.run", "after"):
            calls.append(call)
            if len(calls) == 2:  # the letters are staged, and merged into the branch
                with suppress(Crash):
                    replay_dead_letters(world.open_session(build_tolerant_pipeline("append"), crash_before_publish()))

    with pytest.raises(RetryLater, match="another replay has begun meanwhile"):
        replay_dead_letters(world.open_session(build_tolerant_pipeline("append"), begin_another))
    assert (read_table(world), list_waiting_offsets(world)) == ({"a": "x"}, [1])
    replay_dead_letters(world.open_session(build_tolerant_pipeline("append")))
    assert [row["name"] for row in world.read_rows(TABLE)].count("fixed") == 1
    assert list_waiting_offsets(world) == []


@pytest.mark.parametrize("mode", ["append", "upsert_delete"])
def test_dead_letters_of_a_replay_that_was_killed_and_rolled_back_are_brought_in_again(mode: str) -> None:
    world = build_world(build_record("a", "x"), ("b", BAD), build_record("c", "y"), ("d", BAD))
    flush(world.open_session(build_tolerant_pipeline(mode)))
    before = world.destination.read_state(TABLE, "shop").snapshot_id
    correct_letters(world, 1, 3)
    with pytest.raises(Crash):
        replay_dead_letters(world.open_session(build_tolerant_pipeline(mode), crash_after_publish(world)))
    assert sorted(read_table(world)) == ["a", "b", "c", "d"]
    world.destination.rollback(TABLE, before)
    (result,) = replay_dead_letters(world.open_session(build_tolerant_pipeline(mode)))
    assert (result.tried, result.replayed) == (2, 2)
    assert sorted(row["name"] for row in world.read_rows(TABLE)) == ["fixed", "fixed", "x", "y"]
    assert list_waiting_offsets(world) == []


@pytest.mark.parametrize("mode", ["append", "upsert_delete"])
def test_killed_replay_whose_table_was_rolled_back_behind_its_batch_waits_for_the_answer(mode: str) -> None:
    world = build_world(build_record("a", "x"))
    flush(world.open_session(build_tolerant_pipeline(mode)))
    before = world.destination.read_state(TABLE, "shop").snapshot_id
    world.broker.produce("orders", {"id": "b"}, BAD)
    flush(world.open_session(build_tolerant_pipeline(mode)))
    correct_letters(world, 1)
    with pytest.raises(Crash):
        replay_dead_letters(world.open_session(build_tolerant_pipeline(mode), crash_after_publish(world)))
    world.destination.rollback(TABLE, before)
    with pytest.raises(GiveUp, match=r"was rolled back: .* answer-rollback shop"):
        replay_dead_letters(world.open_session(build_tolerant_pipeline(mode)))
    assert list_waiting_offsets(world) == [1]


@pytest.mark.parametrize("mode", ["append", "upsert_delete"])
def test_replay_behind_a_killed_one_brings_in_what_that_could_not_read(mode: str) -> None:
    world = build_world(build_record("a", "x"), ("b", BAD), ("c", BAD))
    flush(world.open_session(build_tolerant_pipeline(mode)))
    correct_letters(world, 1)
    with pytest.raises(Crash):
        replay_dead_letters(world.open_session(build_tolerant_pipeline(mode), crash_after_publish(world)))
    correct_letters(world, 2)
    (result,) = replay_dead_letters(world.open_session(build_tolerant_pipeline(mode)))
    assert (result.tried, result.replayed, result.still_bad, result.inserted) == (2, 2, 0, 1)
    assert sorted(row["name"] for row in world.read_rows(TABLE)) == ["fixed", "fixed", "x"]
    assert list_waiting_offsets(world) == []
    assert not [name for name in world.destination.tables if "replay" in name]


def crash_after_publish(world: World) -> Callable[[str, str], None]:
    """Ends a replay once its rows are in the table, and before it marks its letters."""

    def die(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "after") and "fixed" in read_table(world).values():
            raise Crash(call)

    return die


def test_flush_that_publishes_during_a_replay_wins() -> None:
    world = build_world(("a", BAD), build_record("b", "x"))
    flush(world.open_session(build_tolerant_pipeline()))
    correct_letters(world, 0)
    calls = []

    def meanwhile(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before") and not calls:
            calls.append(call)
            world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "newest"})
            flush(world.open_session(build_tolerant_pipeline()))

    replay_dead_letters(world.open_session(build_tolerant_pipeline(), meanwhile))
    assert read_table(world) == {"a": "newest", "b": "x"}
    assert list_waiting_offsets(world) == []


def test_nothing_to_replay_changes_nothing() -> None:
    world = build_world(build_record("a", "x"))
    assert replay_dead_letters(world.open_session(build_tolerant_pipeline())) == []
    flush(world.open_session(build_tolerant_pipeline()))
    assert replay_dead_letters(world.open_session(build_tolerant_pipeline())) == []


def test_replay_of_a_table_with_deletes_alone_is_refused() -> None:
    world = build_world(("a", BAD), build_record("b", "x"))
    flush(world.open_session(build_tolerant_pipeline("delete")))
    with pytest.raises(ConfigurationError, match="insert its dead letters by hand"):
        replay_dead_letters(world.open_session(build_tolerant_pipeline("delete")))


def test_replayed_twice_changes_nothing() -> None:
    world = build_world(("a", BAD), build_record("b", "x"))
    flush(world.open_session(build_tolerant_pipeline()))
    correct_letters(world, 0)
    replay_dead_letters(world.open_session(build_tolerant_pipeline()))
    with suppress(NothingToDo):
        flush(world.open_session(build_tolerant_pipeline()))
    assert replay_dead_letters(world.open_session(build_tolerant_pipeline())) == []
    assert read_table(world) == {"a": "fixed", "b": "x"}


def test_dead_letter_with_the_highest_sequence_wins_over_later_records_with_lower_ones() -> None:
    sequenced_table = replace(
        build_table(columns=(Column("id", "STRING"), Column("name", "STRING"), Column("lsn", "BIGINT"))),
        errors=ALL,
        sequence_by=("lsn",),
    )
    pipeline = build_pipeline(sequenced_table, source={"errors": ALL})
    world = build_world(("a", BAD), ("a", {"id": "a", "name": "lower", "lsn": 3}), ("b", BAD))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "higher", "lsn": 9})
    flush(world.open_session(pipeline))
    for offset, key in ((0, "a"), (2, "b")):
        world.engine.fixed_values[offset] = {"id": key, "name": "fixed", "lsn": 5}
    replay_dead_letters(world.open_session(pipeline))
    assert read_table(world) == {"a": "fixed", "b": "higher"}
    assert list_waiting_offsets(world) == []


# records of one key: the sequence, None for a tombstone; and those that were bad
HISTORIES = {
    "a tombstone behind an older letter": ([5, 9, None], (0, 2)),
    "a tombstone behind an older letter, and a newer record": ([5, None, 6], (0, 1)),
    "a tombstone, and a newer letter": ([9, None, 5], (1, 2)),
    "a record of the same sequence between two letters": ([4, 4, 1], (0, 2)),
    "a higher record between a tombstone and a letter": ([None, 9, 5], (0, 2)),
    "a tombstone between two letters": ([5, None, 3], (0, 2)),
    "a lower record behind a letter": ([5, 4], (0,)),
}


@pytest.mark.parametrize("case", HISTORIES)
def test_dead_letters_of_a_key_come_in_as_they_would_have_come_among_the_others(case: str) -> None:
    """In memory; merge_sequenced-by_offset.sql is the same for Spark."""
    sequences, bad_offsets = HISTORIES[case]
    columns = (Column("id", "STRING"), Column("name", "STRING"), Column("lsn", "BIGINT"))
    table = replace(build_table(columns=columns), errors=ALL, sequence_by=("lsn",))
    pipeline = build_pipeline(table, source={"errors": ALL})
    values = [
        None if lsn is None else {"id": "a", "name": f"at {offset}", "lsn": lsn} for offset, lsn in enumerate(sequences)
    ]
    expected_world = build_world(*(("a", value) for value in values))
    flush(expected_world.open_session(pipeline))
    world = build_world(*(("a", BAD if offset in bad_offsets else value) for offset, value in enumerate(values)))
    flush(world.open_session(pipeline))
    records = world.broker.partitions["orders"][0].records
    for offset in bad_offsets:
        records[offset] = replace(records[offset], value=values[offset])
        world.engine.fixed_values[offset] = values[offset]
    for _ in range(2):
        replay_dead_letters(world.open_session(pipeline))
        assert read_table(world) == read_table(expected_world)
    assert list_waiting_offsets(world) == []


def test_dead_letter_of_a_batch_that_is_not_published_waits_for_its_publish() -> None:
    world = World()
    world.broker.create("orders", 2)
    for partition in (0, 1):
        world.broker.produce("orders", {"id": f"bad{partition}"}, BAD, partition)
    flush(world.open_session(build_tolerant_pipeline()))
    for partition in (0, 1):
        world.broker.produce("orders", {"id": f"late{partition}"}, BAD, partition)

    def dies(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before"):
            raise Crash(call)

    with pytest.raises(Crash):
        flush(world.open_session(build_tolerant_pipeline(), dies))
    assert list_waiting_offsets(world) == [0, 0, 1, 1]
    pipeline = build_tolerant_pipeline()
    work = Replay(TableSession(world.open_session(pipeline), pipeline.tables[0]))
    for end in (1, 2):
        position = Position({"orders": {0: end, 1: 1}}, topic_ids={"orders": "topic-1"})
        (group,) = group_letters(work, position)
        assert group.ranges == Ranges({"orders": {0: (0, end), 1: (0, 1)}})
    (result,) = replay_dead_letters(world.open_session(build_tolerant_pipeline()))
    assert result.tried == 2


def test_replay_under_another_key_is_refused_before_it_finds_rows_by_it() -> None:
    columns = tuple(Column(name, "STRING") for name in ("id", "line", "name"))
    before, after = (
        build_pipeline(
            replace(build_table(keys=keys, columns=columns), errors=ALL),
            build_table("lake.shop.other"),
            source={"errors": ALL},
        )
        for keys in (("id", "line"), ("id",))
    )
    world = World()
    world.broker.create("orders")
    for line in ("1", "2"):
        world.broker.produce("orders", {"id": "a", "line": line}, {"id": "a", "line": line, "name": "x"})
    world.broker.produce("orders", {"id": "a", "line": "3"}, BAD)
    with suppress(GiveUp):  # the other table takes no bad record
        flush(world.open_session(before))
    rows = world.read_rows(TABLE)
    assert (len(rows), list_waiting_offsets(world)) == (2, [2])
    world.engine.fixed_values[2] = {"id": "a", "line": "3", "name": "fixed"}
    with pytest.raises(IncompatibleSchema, match="column=line is no longer part"):
        replay_dead_letters(world.open_session(after))
    assert (world.read_rows(TABLE), list_waiting_offsets(world)) == (rows, [2])


@pytest.mark.parametrize("damage", ["created again", "was cut"])
def test_records_of_another_log_do_not_decide_about_a_dead_letter(damage: str) -> None:
    """The newer row of `a` came from a record that the log has no more: nothing there tells of it."""
    world = build_world(("a", BAD), build_record("b", "x"), build_record("a", "newer"))
    flush(world.open_session(build_tolerant_pipeline()))
    if damage == "was cut":
        world.broker.elect("orders", has=2)
    else:
        world.broker.create("orders")
    for key in ("c", "d", "e", "f"):
        world.broker.produce("orders", *({"id": key}, {"id": key, "name": "other"}))
    world.engine.fixed_values[0] = {"id": "a", "name": "fixed"}
    with pytest.raises(PositionLost, match=damage):
        replay_dead_letters(world.open_session(build_tolerant_pipeline()))
    assert (read_table(world), list_waiting_offsets(world)) == ({"a": "newer", "b": "x"}, [0])


def test_dead_letter_of_an_appended_table_comes_in_whatever_became_of_the_log() -> None:
    world = build_world(("a", BAD), build_record("b", "x"))
    pipeline = build_tolerant_pipeline("append")
    flush(world.open_session(pipeline))
    world.broker.create("orders")
    world.engine.fixed_values[0] = {"id": "a", "name": "fixed"}
    replay_dead_letters(world.open_session(pipeline))
    assert (read_table(world), list_waiting_offsets(world)) == ({"a": "fixed", "b": "x"}, [])


def test_dead_letter_of_a_partial_update_leaves_the_columns_that_it_lacks() -> None:
    columns = tuple(Column(name, "STRING") for name in ("id", "name", "city"))
    partial = build_pipeline(
        replace(build_table(columns=columns, partial_updates=True), errors=ALL), source={"errors": ALL}
    )
    first, last = {"id": "a", "name": "x", "city": "Rome"}, {"id": "b", "city": "Oslo"}
    world = build_world(("a", first), ("a", BAD), ("b", BAD), ("b", last))
    flush(world.open_session(partial))
    correct_letters(world, 1, 2)
    replay_dead_letters(world.open_session(partial))
    assert world.read_rows(TABLE) == [
        {"id": "b", "name": None, "city": "Oslo"},  # of a key that has a later record nothing is taken
        {"id": "a", "name": "fixed", "city": "Rome"},
    ]


COLUMNS = tuple(Column(name, "STRING") for name in ("id", "name", "city"))


@pytest.mark.parametrize("kind", ["partial", "unchanged", "soft"])
def test_each_dead_letter_of_a_key_is_older_than_the_records_behind_it(kind: str) -> None:
    """Also where another one of the key comes last: of several, each alone must be newer than what the table has."""
    options = {
        "partial": {"partial_updates": True}, "unchanged": {"unavailable": "same"}, "soft": {"deletes": "soft"},
    }[kind]  # fmt: skip
    pipeline = build_pipeline(replace(build_table(columns=COLUMNS, **options), errors=ALL), source={"errors": ALL})
    world = World()
    world.broker.create("orders", 2)
    rest = {"partial": {}, "unchanged": {"name": "same"}}.get(kind)
    letters = {
        0: {"id": "a", "name": "old", "city": "old"},
        2: None if rest is None else {"id": "a", **rest, "city": "last"},
    }
    newer = {"id": "a", "name": "newer", "city": "newer"}
    for number in range(2):
        for value in (BAD, newer, BAD):
            world.broker.produce("orders", {"id": f"{number}"}, value, number)
    flush(world.open_session(pipeline))
    for number in range(2):
        records = world.broker.partitions["orders"][number].records
        for offset, value in letters.items():
            records[offset] = replace(records[offset], value=value)
    world.engine.fixed_values |= letters
    for _ in range(2):
        replay_dead_letters(world.open_session(pipeline))
        for row in world.read_rows(TABLE):
            assert row["name"] == "newer"
            assert (row.get("_deleted"), row["city"]) == ((True, "newer") if kind == "soft" else (None, "last"))
        assert len(world.read_rows(TABLE)) == 2


def backfill(world: World, pipeline: Pipeline, ranges: str) -> None:
    session = world.open_session(pipeline)
    apply_backfill(session, propose_backfill(session, parse_request(ranges, None, None)).backfill, lambda _: None)


def test_dead_letter_of_a_table_that_is_appended_to_is_not_brought_in_by_a_backfill_and_a_replay() -> None:
    """The backfill adds the row of a key that has none; the replay cannot know that, and would add it once more."""
    world = build_world(build_record("a", "x"), ("b", BAD), ("a", BAD), build_record("d", "y"))
    pipeline = build_tolerant_pipeline("append", max_records=2)
    for _ in range(2):
        flush(world.open_session(pipeline))
    correct_letters(world, 1, 2)
    with pytest.raises(GiveUp, match=r"dead letters=1 wait in the range, e\.g\. topic=orders partition=0 offset=1: "):
        backfill(world, pipeline, '{"orders": {"0": [0, 2]}}')
    backfill(world, pipeline, '{"orders": {"0": [3, 4]}}')
    replay_dead_letters(world.open_session(pipeline))
    for _ in range(2):
        backfill(world, pipeline, '{"orders": {"0": [0, 4]}}')
        names = sorted((row["id"], row["name"]) for row in world.read_rows(TABLE))
        assert names == [("a", "fixed"), ("a", "x"), ("b", "fixed"), ("d", "y")]


def test_backfill_of_an_append_stops_at_a_dead_letter_that_waits_since_its_plan() -> None:
    world = build_world(build_record("a", "x"), build_record("b", "y"))
    pipeline = build_tolerant_pipeline("append")
    flush(world.open_session(pipeline))
    session = world.open_session(pipeline)
    planned = propose_backfill(session, parse_request('{"orders": {"0": [0, 2]}}', None, None)).backfill
    lose_row_into_a_letter(world)
    with pytest.raises(GiveUp, match="dead letters=1 wait in the range"):
        apply_backfill(session, planned, lambda _: None)
    assert sorted(row["id"] for row in world.read_rows(TABLE)) == ["a"]


def lose_row_into_a_letter(world: World) -> None:
    """As a rewind and a narrower file would: the row of the second record is gone, and a letter waits for it."""
    world.destination.add_snapshot(TABLE, "main", ({"id": "a", "name": "x"},), {})
    letter = {"table": TABLE, "topic": "orders", "partition": 0, "offset": 1, "batch": 1, "replayed_at": None}
    letter |= {"topic_id": None, "message": "", "written_at": world.destination.clock(), "replayed_by": None}
    world.destination.create(LETTERS, ())
    world.destination.add_snapshot(LETTERS, "main", (letter,), {})
