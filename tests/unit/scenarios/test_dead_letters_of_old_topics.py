"""A topic that is deleted and created again: what the old one left among the dead letters stays until a person acts."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import BAD, Crash, World, build_pipeline, build_table
from tidegate.errors import NotTried
from tidegate.flush.flush import flush
from tidegate.monitoring.details import format_dead_letter
from tidegate.reprocess.rebase import format_consequences, propose_moves, propose_rebase
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.reprocess.verify import verify_all, verify_table
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors

ALL, TABLE, LETTERS = Errors("all", 9), "lake.shop.orders", "lake.shop.tidegate_shop_dead_letters"


def build_tolerant_pipeline(mode: str = "upsert_delete") -> Pipeline:
    return build_pipeline(replace(build_table(mode=mode), errors=ALL), source={"errors": ALL})


def build_record(key: str, name: str) -> tuple[dict[str, str], dict[str, str]]:
    return {"id": key}, {"id": key, "name": name}


def build_world(mode: str = "upsert_delete") -> World:
    """Two partitions, each with a good record and a dead letter behind it, flushed."""
    world = World()
    world.broker.create("orders", 2)
    for partition in (0, 1):
        world.broker.produce("orders", *build_record(f"old{partition}", "x"), partition)
        world.broker.produce("orders", {"id": f"bad{partition}"}, BAD, partition)
    flush(world.open_session(build_tolerant_pipeline(mode)))
    return world


def recreate(world: World, mode: str = "upsert_delete") -> None:
    """The topic anew, with a dead letter where the old one had a row, and a row where it had a dead letter."""
    world.broker.create("orders", 2)
    for partition in (0, 1):
        world.broker.produce("orders", {"id": f"worse{partition}"}, BAD, partition)
        world.broker.produce("orders", *build_record(f"new{partition}", "y"), partition)
    rebase(world, mode)


def rebase(world: World, mode: str = "upsert_delete") -> None:
    session = world.open_session(build_tolerant_pipeline(mode))
    propose_rebase(session, "earliest").perform("ann")


def read_letters(world: World) -> list[tuple[Any, ...]]:
    """Topic id, partition, offset and whether it waits."""
    names = ("topic_id", "partition", "offset")
    letters = [(*(row.get(name) for name in names), row["replayed_at"] is None) for row in world.read_rows(LETTERS)]
    return sorted(letters, key=str)


OLD = [("topic-1", 0, 1, True), ("topic-1", 1, 1, True)]
NEW = [("topic-2", 0, 0, True), ("topic-2", 1, 0, True)]


def test_flush_after_the_topic_was_recreated_and_rebased_removes_no_dead_letter_of_the_old_one() -> None:
    world = build_world()
    recreate(world)
    flush(world.open_session(build_tolerant_pipeline()))
    assert read_letters(world) == OLD + NEW
    assert sorted(row["id"] for row in world.read_rows(TABLE)) == ["new0", "new1", "old0", "old1"]


def test_dead_letter_at_the_same_offset_of_both_topics_is_kept_twice_with_the_bytes_of_each() -> None:
    world = build_world()
    world.broker.create("orders", 2)
    for partition in (0, 1):
        world.broker.produce("orders", *build_record(f"new{partition}", "y"), partition)
        world.broker.produce("orders", {"id": f"again{partition}"}, BAD, partition)
    rebase(world)
    flush(world.open_session(build_tolerant_pipeline()))
    assert read_letters(world) == [*OLD, ("topic-2", 0, 1, True), ("topic-2", 1, 1, True)]
    keys = {(row["topic_id"], row["partition"]): row["key"]["id"] for row in world.read_rows(LETTERS)}
    assert keys == {("topic-1", 0): "bad0", ("topic-1", 1): "bad1", ("topic-2", 0): "again0", ("topic-2", 1): "again1"}


def test_letters_of_an_attempt_that_was_never_published_still_go_and_those_of_the_old_topic_stay() -> None:
    world = build_world()
    recreate(world)

    def dies(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before"):
            raise Crash(call)

    with pytest.raises(Crash):
        flush(world.open_session(build_tolerant_pipeline(), dies))
    assert read_letters(world) == OLD + NEW
    for partition in (0, 1):  # as if the pipeline file had been corrected
        records = world.broker.partitions["orders"][partition].records
        records[0] = replace(records[0], value={"id": f"worse{partition}", "name": "read"})
    world.engine.conditions["true"] = lambda _: True
    corrected = build_pipeline(replace(build_table(), errors=ALL, when="true"), source={"errors": ALL})
    flush(world.open_session(corrected))
    assert read_letters(world) == OLD


def test_published_dead_letters_that_are_read_again_are_marked_and_keep_their_bytes() -> None:
    world = build_world()
    for partition in (0, 1):
        records = world.broker.partitions["orders"][partition].records
        records[1] = replace(records[1], value={"id": f"bad{partition}", "name": "read"})
    rebase(world)
    flush(world.open_session(build_tolerant_pipeline()))
    assert read_letters(world) == [("topic-1", 0, 1, False), ("topic-1", 1, 1, False)]
    assert {row["value"] for row in world.read_rows(LETTERS)} == {BAD}
    assert sorted(row["id"] for row in world.read_rows(TABLE)) == ["bad0", "bad1", "old0", "old1"]


def test_published_dead_letters_that_are_bad_again_wait_once() -> None:
    world = build_world()
    rebase(world)
    flush(world.open_session(build_tolerant_pipeline()))
    assert read_letters(world) == OLD


def test_replay_leaves_dead_letters_of_the_old_topic_of_a_keyed_table_and_counts_them() -> None:
    world = build_world()
    recreate(world)
    flush(world.open_session(build_tolerant_pipeline()))
    world.engine.fixed_values |= {0: {"id": "fixed", "name": "new"}, 1: {"id": "fixed", "name": "old"}}
    (result,) = replay_dead_letters(world.open_session(build_tolerant_pipeline()))
    assert (result.tried, result.replayed, result.still_bad, result.of_old_topics) == (2, 2, 0, 2)
    assert read_letters(world) == OLD + [(*letter[:3], False) for letter in NEW]
    replayed = {row["id"]: row["name"] for row in world.read_rows(TABLE) if row["name"] in ("new", "old")}
    assert replayed == {"worse0": "new", "worse1": "new"}
    (dead_letter,) = replay_dead_letters(world.open_session(build_tolerant_pipeline()))
    assert (dead_letter.tried, dead_letter.of_old_topics) == (0, 2)


def test_replay_brings_dead_letters_of_the_old_topic_into_an_append_table_once() -> None:
    world = build_world("append")
    recreate(world, "append")
    flush(world.open_session(build_tolerant_pipeline("append")))
    world.engine.fixed_values |= {0: {"id": "m0", "name": "new"}, 1: {"id": "m1", "name": "old"}}
    (result,) = replay_dead_letters(world.open_session(build_tolerant_pipeline("append")))
    assert (result.tried, result.replayed, result.of_old_topics, result.inserted) == (4, 4, 0, 4)
    assert sorted(row["name"] for row in world.read_rows(TABLE)) == ["new", "new", "old", "old", "x", "x", "y", "y"]
    assert [waits for *_, waits in read_letters(world)] == [False] * 4
    assert replay_dead_letters(world.open_session(build_tolerant_pipeline("append"))) == []


def test_rebase_preview_names_the_rows_and_dead_letters_of_the_old_topic_that_stay() -> None:
    world = build_world()
    assert propose_moves(world.open_session(build_tolerant_pipeline()), "earliest")[0].old_topics == ()
    world.broker.create("orders", 2)
    proposals = propose_moves(world.open_session(build_tolerant_pipeline()), "earliest")
    (old,) = proposals[0].old_topics
    assert (old.topic, old.recorded, old.found, old.dead_letters, old.rows) == ("orders", "topic-1", "topic-2", 2, 2)
    text = "\n".join(format_consequences("shop", proposals))
    for part in ("topic=orders", "topic_id=topic-2", "recorded=topic-1", "rows=2", "dead_letters=2"):
        assert part in text
    assert "dead-letters shop" in text
    assert read_letters(world) == OLD


def test_dead_letter_is_shown_with_the_id_of_its_topic() -> None:
    world = build_world()
    newest = [format_dead_letter(letter) for letter in world.destination.read_dead_letters(LETTERS, 9).newest]
    assert {entry["topic_id"] for entry in newest} == {"topic-1"}


def start_over(*records: tuple[dict[str, str], Any]) -> World:
    """A topic, with a dead letter at offset 1, and its table are dropped; of the new ones these records are flushed."""
    world = World()
    world.broker.create("orders", 1)
    world.broker.produce("orders", *build_record("old", "x"))
    world.broker.produce("orders", {"id": "bad"}, BAD)
    flush(world.open_session(build_tolerant_pipeline()))
    del world.destination.tables[TABLE]
    world.broker.create("orders", 1)
    for record in records:
        world.broker.produce("orders", *record)
    flush(world.open_session(build_tolerant_pipeline()))
    return world


def test_letter_of_the_old_topic_explains_no_unreadable_record_of_the_new_one() -> None:
    world = start_over(build_record("a", "y"), build_record("b", "y"))
    records = world.broker.partitions["orders"][0].records
    records[1] = replace(records[1], value=BAD)  # its schema is gone
    with pytest.raises(NotTried, match="records=1 cannot be decoded any more, and no waiting dead letter names them"):
        verify_all(world.open_session(build_tolerant_pipeline()), TABLE)


def test_letter_of_the_old_topic_makes_no_row_of_the_new_one_unknowable() -> None:
    world = start_over(build_record("a", "y"), build_record("b", "y"))
    world.destination.add_snapshot(TABLE, "main", ({"id": "a", "name": "y"}, {"id": "b", "name": "wrong"}), {})
    found = verify_table(world.open_session(build_tolerant_pipeline()), TABLE)
    assert (found.equal, found.different, found.unknowable) == (1, 1, 0)


def test_letter_of_this_topic_explains_its_record_and_makes_its_key_unknowable() -> None:
    world = start_over(({"id": "a"}, BAD), build_record("a", "y"))
    found = verify_table(world.open_session(build_tolerant_pipeline()), TABLE)
    assert (found.equal, found.wrong) == (1, 0)
    records = world.broker.partitions["orders"][0].records
    records[0] = replace(records[0], value={"id": "a", "name": "read"})
    world.destination.add_snapshot(TABLE, "main", ({"id": "a", "name": "wrong"},), {})
    found = verify_table(world.open_session(build_tolerant_pipeline()), TABLE)
    assert (found.different, found.unknowable) == (0, 1)
