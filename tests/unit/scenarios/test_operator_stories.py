"""What an operator does to one pipeline over time: each way out that a message names works in the state it is told in,
and what one action leaves is taken up by the next.
"""

import json
import re
from contextlib import suppress
from functools import partial
from itertools import count

import pytest
from fakes import BAD, FailsToMerge, PauseAt, World, build_pipeline, build_table
from fakes.draining import drain
from tidegate.errors import GiveUp, PositionLost, RetryLater, TidegateError
from tidegate.flush.flush import flush, stage_new_batches
from tidegate.reprocess.rebase import propose_moves, propose_rebase, rebase_position
from tidegate.reprocess.record import parse_address
from tidegate.reprocess.rollback import propose_answers
from tidegate.reprocess.skip import propose_skip
from tidegate.spec.pipeline import Pipeline, Stage

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
ONE, TWO = build_pipeline(build_table(ORDERS)), build_pipeline(build_table(ORDERS), build_table(COPY))
BAD_PLACE = "orders:1:1"


@pytest.fixture
def world() -> World:
    return build_world()


def build_world() -> World:
    """A topic of two partitions."""
    world = World()
    world.broker.create("orders", 2)
    produce(world, "a", 0)
    produce(world, "b", 1)
    return world


def produce(world: World, key: str, partition: int, topic: str = "orders") -> None:
    world.broker.produce(topic, {"id": key}, {"id": key, "name": key}, partition)


def produce_bad(world: World) -> None:
    world.broker.produce("orders", {"id": "x"}, BAD, 1)


def flush_failing(world: World, pipeline: Pipeline, table: str) -> None:
    with suppress(TidegateError):
        flush(world.open_session(pipeline, engine=FailsToMerge(world.engine, table)))


def skip(world: World, pipeline: Pipeline, place: str = BAD_PLACE, table: str | None = None) -> list[str]:
    """The tables for which the record is set aside."""
    session = world.open_session(pipeline)
    action = propose_skip(session, parse_address(place), table)
    action.perform("ann")
    return [part.table for part in action.parts]


def read_ids(world: World, table: str = ORDERS) -> list[str]:
    return [row["id"] for row in world.read_rows(table)]


def read_offsets(world: World, table: str = ORDERS) -> dict[str, dict[int, int]]:
    state = world.destination.read_state(table, "shop")
    assert state is not None
    assert state.position is not None
    return state.position.offsets


def follow_rebase(world: World, pipeline: Pipeline, message: str) -> None:
    """Give the command that a message names."""
    match = re.search(r"tidegate rebase shop(?: --table (\S+))? --to (?:'([^']+)'|(\w+))", message)
    assert match, message
    session = world.open_session(pipeline)
    propose_rebase(session, match[2] or match[3], match[1]).perform("ann")


def test_record_that_one_table_has_passed_is_skipped_for_the_one_that_came_later(world: World) -> None:
    """The message names no table: the record is ahead of one, and was set aside of the other long ago."""
    produce_bad(world)
    skip(world, ONE)
    drain(world, ONE)
    with pytest.raises(TidegateError, match=f"set exactly this record aside with: tidegate skip shop --at {BAD_PLACE}"):
        flush(world.open_session(TWO))
    with pytest.raises(GiveUp, match="the table has passed it"):
        skip(world, TWO, table=ORDERS)
    assert skip(world, TWO) == [COPY]
    drain(world, TWO)
    assert read_ids(world, COPY) == read_ids(world) == ["a", "b"]
    with pytest.raises(GiveUp, match="the table has passed it"):
        skip(world, TWO)


def test_skip_leaves_what_waits_for_a_table_whose_merge_fails(world: World) -> None:
    """Kafka has those records no more: what is staged is all that there is."""
    drain(world, TWO)
    produce(world, "c", 0)
    flush_failing(world, TWO, COPY)
    produce_bad(world)
    flush_failing(world, TWO, COPY)
    assert skip(world, TWO) == [ORDERS, COPY]
    produce(world, "d", 0)
    world.broker.retain_from("orders", 2)
    flush_failing(world, TWO, COPY)
    assert (read_ids(world), read_ids(world, COPY)) == (["a", "b", "c", "d"], ["a", "b"])
    drain(world, TWO)
    assert read_ids(world, COPY) == ["a", "b", "c", "d"]
    assert read_offsets(world, COPY) == read_offsets(world) == {"orders": {0: 3, 1: 2}}


def test_skip_leaves_what_waits_where_the_catalog_does_not_say_what_waits(world: World) -> None:
    """Kafka has that record no more, either."""
    clocks = build_pipeline(build_table(ORDERS), stage=Stage(10))
    drain(world, clocks)
    produce(world, "c", 0)
    stage_new_batches(world.open_session(clocks))
    produce_bad(world)
    skip(world, clocks)
    produce(world, "d", 0)
    world.broker.retain_from("orders", 2, 0)
    looks = []

    def fail_second_look(call: str, moment: str) -> None:
        if (call, moment) == ("staging.list_staged", "before"):
            looks.append(call)
            if len(looks) == 2:
                raise RetryLater("the catalog did not answer")

    with pytest.raises(RetryLater, match="the catalog did not answer"):
        stage_new_batches(world.open_session(clocks, fail_second_look))
    drain(world, clocks)
    assert read_ids(world) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("has_files", [False, True], ids=["Spark makes the table", "the worker makes it"])
def test_record_that_is_skipped_at_any_call_of_a_staging_takes_no_staged_row_away(has_files: bool) -> None:
    """Kafka has that record no more, either."""
    clocks = build_pipeline(build_table(ORDERS), stage=Stage(10))
    for number in count(1):
        world = build_world()
        if has_files:  # as in BigQuery
            world.destination.find_landing_folder = lambda _, __, attempt: f"folder/{attempt}"
            world.destination.sign_attempt = lambda _, __: None
        drain(world, clocks)
        produce(world, "c", 0)
        stage_new_batches(world.open_session(clocks))
        produce_bad(world)
        world.broker.retain_from("orders", 2, 0)
        pause = PauseAt(number, partial(skip, world, clocks))
        with suppress(TidegateError):
            stage_new_batches(world.open_session(clocks, pause))
        if pause.calls < number:
            break
        drain(world, clocks)
        assert read_ids(world) == ["a", "b", "c"], number


def test_new_partition_is_told_behind_what_is_staged(world: World) -> None:
    drain(world, TWO)
    produce(world, "c", 0)
    flush_failing(world, TWO, COPY)
    world.broker.grow("orders", 3)
    produce(world, "d", 2)
    with pytest.raises(TidegateError, match=f"table={ORDERS}: topic=orders has a new partition=2: keys"):
        flush(world.open_session(TWO))
    assert (read_ids(world), read_ids(world, COPY)) == (["a", "b", "c"], ["a", "b", "c"])
    world.broker.grow("orders", 4)
    with pytest.raises(PositionLost, match=r"topic=orders has a new partition=2 \(2 new partitions in all\): keys"):
        flush(world.open_session(TWO))
    drain(world, build_pipeline(*TWO.tables, on_partition_growth="accept"))
    assert read_ids(world) == read_ids(world, COPY) == ["a", "b", "c", "d"]


@pytest.mark.parametrize("risk", ["fail", "accept"])
def test_new_partition_that_has_lost_its_first_records_is_told(world: World, risk: str) -> None:
    """Nobody has looked for as long as the retention."""
    accepting = build_pipeline(build_table(ORDERS), on_partition_growth="accept", on_incomplete_start=risk)
    drain(world, accepting)
    world.broker.grow("orders", 4)
    for key, partition in (("c", 2), ("d", 2), ("e", 3), ("f", 3), ("g", 3)):
        produce(world, key, partition)
    world.broker.retain_from("orders", 1, 2)
    world.broker.retain_from("orders", 2, 3)
    if risk == "fail":
        words = "partition=2 is new, .* 1 offset is gone before being read, 3 offsets of 2 partitions in all;"
        with pytest.raises(PositionLost, match=words) as error_info:
            flush(world.open_session(accepting))
        follow_rebase(world, accepting, str(error_info.value))
    drain(world, accepting)
    assert (read_ids(world), read_offsets(world)) == (["a", "b", "d", "g"], {"orders": {0: 1, 1: 1, 2: 2, 3: 3}})


@pytest.mark.parametrize("to", ["earliest", '{"orders": {"0": 0}}'])
def test_move_is_made_as_it_was_shown_where_a_topic_came_back_with_fewer_partitions(world: World, to: str) -> None:
    """A form asks with the offsets that were shown, in place of the word."""
    drain(world, ONE)
    world.broker.create("orders", 1)
    produce(world, "c", 0)
    with pytest.raises(PositionLost, match="was deleted and created again"):
        flush(world.open_session(ONE))
    rebase = propose_rebase(world.open_session(ONE), to)
    assert json.loads(rebase.pinned_params["to"]) == {"orders": {"0": 0}}
    second_rebase = propose_rebase(world.open_session(ONE), rebase.pinned_params["to"])
    assert second_rebase.preview == rebase.preview
    second_rebase.perform("ann")
    drain(world, ONE)
    assert (read_ids(world), read_offsets(world)) == (["a", "b", "c"], {"orders": {0: 1}})


def test_partition_of_a_topic_that_was_created_again_does_not_stay_at_an_offset_of_the_old_one(world: World) -> None:
    drain(world, ONE)
    world.broker.create("orders", 2)
    for key, partition in (("c", 0), ("d", 1), ("e", 1)):
        produce(world, key, partition)
    session = world.open_session(ONE)
    propose_rebase(session, '{"orders": {"0": 1}}').perform("ann")
    drain(world, ONE)
    assert (read_ids(world), read_offsets(world)) == (["a", "b", "d", "e"], {"orders": {0: 1, 1: 2}})


def test_offsets_stay_that_are_not_named_where_a_topic_was_copied_to_another_cluster(world: World) -> None:
    """Such a copy has an id of its own, and the offsets of the first."""
    drain(world, ONE)
    produce(world, "c", 1)
    world.broker.cluster_id, world.broker.ids["orders"] = "cluster-2", "topic-of-2"
    session = world.open_session(ONE)
    (move,) = propose_moves(session, '{"orders": {"0": 1}}')
    assert [(part.before, part.after) for part in move.moves] == [(1, 1), (1, 1)]
    rebase_position(session, move, "ann")
    drain(world, ONE)
    assert (read_ids(world), read_offsets(world)) == (["a", "b", "c"], {"orders": {0: 1, 1: 2}})


def test_topic_that_was_created_again_is_read_from_its_begin_and_no_other_topic_with_it(world: World) -> None:
    """Rows that are appended would be doubled."""
    world.broker.create("more", 1)
    produce(world, "c", 0, "more")
    pipeline = build_pipeline(build_table(ORDERS, "append", topics=("more", "orders")))
    drain(world, pipeline)
    world.broker.create("more", 1)
    produce(world, "d", 0, "more")
    produce(world, "e", 1)
    with pytest.raises(PositionLost, match="topic=more was deleted and created again") as error_info:
        flush(world.open_session(pipeline))
    follow_rebase(world, pipeline, str(error_info.value))
    drain(world, pipeline)
    assert read_ids(world) == ["a", "b", "c", "d", "e"]


def test_partition_that_lost_offsets_moves_to_its_begin_and_the_others_stay(world: World) -> None:
    """Rows that are appended would be doubled."""
    appended = build_pipeline(build_table(ORDERS, "append"))
    drain(world, appended)
    for key in ("c", "d"):
        produce(world, key, 1)
    produce(world, "e", 0)
    world.broker.retain_from("orders", 2, 1)
    with pytest.raises(PositionLost, match="1 offset is gone before being read") as error_info:
        flush(world.open_session(appended))
    follow_rebase(world, appended, str(error_info.value))
    drain(world, appended)
    assert read_ids(world) == ["a", "b", "d", "e"]


@pytest.mark.parametrize("damage", ["lost", "recreated", "unread"])
@pytest.mark.parametrize("policy", ["rewind", "fail"])
def test_rows_that_were_rolled_back_are_read_again_by_the_way_out_of_what_keeps_them_from_it(
    world: World, damage: str, policy: str
) -> None:
    """A move begins where the table stood before the rollback: what it leaves there would stay out of the table."""
    world.broker.create("more", 1)
    produce(world, "m", 0, "more")
    pipeline = build_pipeline(build_table(ORDERS, topics=("more", "orders")), on_rollback=policy)
    drain(world, pipeline)
    head = world.destination.tables[ORDERS].refs["main"]
    for key, partition in (("c", 0), ("d", 1), ("e", 1)):
        produce(world, key, partition)
    drain(world, pipeline)
    world.destination.rollback(ORDERS, head)
    produce(world, "f", 1)
    if damage == "lost":
        world.broker.retain_from("orders", 2, 1)
    elif damage == "recreated":
        world.broker.create("more", 1)
    else:
        pipeline = build_pipeline(build_table(ORDERS), on_rollback=policy)
    session = world.open_session(pipeline)
    with pytest.raises(PositionLost) as error_info:
        flush(session) if policy == "rewind" else propose_answers(session, "rewind", None)
    follow_rebase(world, pipeline, str(error_info.value))
    drain(world, pipeline)
    assert read_ids(world) == ["a", "b", "c", *([] if damage == "lost" else ["d"]), "e", "f", "m"]


@pytest.mark.parametrize("topics", [("orders",), ("other", "orders")])
def test_topic_that_is_taken_out_of_the_file_is_left_without_reading_the_others_again(
    world: World, topics: tuple[str, ...]
) -> None:
    """Rows that are appended would be doubled."""
    for topic in ("more", "other"):
        world.broker.create(topic, 1)
        produce(world, topic, 0, topic)
    drain(world, build_pipeline(build_table(ORDERS, "append", topics=("more", "orders"))))
    produce(world, "c", 0)
    later = build_pipeline(build_table(ORDERS, "append", topics=topics))
    with pytest.raises(PositionLost, match="topic=more is not read any more") as error_info:
        flush(world.open_session(later))
    assert "topic=more is not read any more: position={" in propose_rebase(world.open_session(later), "latest").preview
    follow_rebase(world, later, str(error_info.value))
    drain(world, later)
    assert read_ids(world) == sorted(["a", "b", "c", "more", *(["other"] if "other" in topics else [])])
    assert sorted(read_offsets(world)) == sorted(topics)


def test_only_topic_of_a_table_that_is_replaced_by_another_is_left_by_the_command_of_the_message(world: World) -> None:
    world.broker.create("more", 1)
    drain(world, ONE)
    produce(world, "c", 0, "more")
    later = build_pipeline(build_table(ORDERS, topics=("more",)))
    with pytest.raises(PositionLost, match="topic=orders is not read any more") as error_info:
        flush(world.open_session(later))
    follow_rebase(world, later, str(error_info.value))
    drain(world, later)
    assert (read_ids(world), read_offsets(world)) == (["a", "b", "c"], {"more": {0: 1}})
