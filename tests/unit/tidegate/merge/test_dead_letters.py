"""Dead letters: set aside in the pass that stages the batch, written once, before their batch is published."""

import json
from contextlib import suppress
from dataclasses import replace

import pytest
from fakes import BAD, Crash, CrashAt, World, build_pipeline, build_table
from tidegate.errors import BadRecord, GiveUp, HeldForApproval, NothingToDo, RecordRefused, RetryLater
from tidegate.flush.clean_up import clean_up
from tidegate.flush.flush import flush
from tidegate.flush.maintain import list_maintained_tables
from tidegate.jobs.statements_job import StatementsJob
from tidegate.merge.owed import LetterFilter, _render_others
from tidegate.model import resource_names
from tidegate.model.batch import Counts, StagedBatch, exceeds_tolerance
from tidegate.model.offsets import Ranges
from tidegate.monitoring.status import read_status
from tidegate.reprocess.rebase import propose_rebase
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import Errors
from tidegate.spec.table import Approve

ALL = Errors("all", 3)
LETTERS = "lake.shop.tidegate_shop_dead_letters"


def build_tolerant_pipeline(*tables, errors: Errors = ALL, **options) -> Pipeline:
    tolerant_tables = tuple(replace(table, errors=errors) for table in tables or (build_table(),))
    return build_pipeline(*tolerant_tables, source={"errors": errors}, **options)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    world.broker.produce("orders", {"id": "b"}, BAD)
    world.broker.produce("orders", {"id": "c"}, {"id": "c", "name": "z"})
    world.broker.produce("orders", BAD, {"id": "d", "name": "z"})
    return world


def read_letters(world: World) -> list[tuple]:
    rows = world.read_rows(LETTERS) if LETTERS in world.destination.tables else []
    return sorted((row["table"], row["offset"], row["stage"], row["batch"]) for row in rows)


def test_good_records_land_and_bad_ones_are_set_aside_with_their_place(world: World) -> None:
    flush(world.open_session(build_tolerant_pipeline()))
    assert [row["id"] for row in world.read_rows("lake.shop.orders")] == ["a", "c"]
    assert read_letters(world) == [("lake.shop.orders", 1, "value", 1), ("lake.shop.orders", 3, "key", 1)]


def test_every_record_is_accounted_for(world: World) -> None:
    session = world.open_session(build_tolerant_pipeline())
    flush(session)
    (row,) = world.destination.read_history(resource_names.name_control_table(session.pipeline), 5)
    assert {k: row[k] for k in ("span", "read", "staged", "dead_lettered")} == {
        "span": 4, "read": 4, "staged": 2, "dead_lettered": 2,
    }  # fmt: skip


def test_more_than_max_per_batch_fail_the_batch_and_nothing_is_merged_nor_resumed(world: World) -> None:
    session = world.open_session(build_tolerant_pipeline(errors=Errors("all", 1)))
    for _ in range(2):
        with pytest.raises(BadRecord, match="2 records cannot be decoded, more than errors") as error_info:
            flush(session)
        assert "offset=1" in str(error_info.value)
    assert (world.destination.read_state("lake.shop.orders", "shop"), read_letters(world)) == (None, [])


def test_without_tolerance_the_first_bad_record_fails_the_batch(world: World) -> None:
    with pytest.raises(BadRecord, match="offset=1") as error_info:
        flush(world.open_session(build_pipeline()))
    assert "max_per_batch" not in str(error_info.value)


def test_batch_of_bad_records_alone_is_published_with_its_dead_letters() -> None:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", BAD, None)
    flushed = flush(world.open_session(build_tolerant_pipeline()))
    assert flushed.published[0].snapshot_id is not None
    assert read_letters(world) == [("lake.shop.orders", 0, "key", 1)]
    assert world.broker.read_committed("tidegate-shop", ("orders",)) == {"orders": {0: 1, 1: 0}}


def test_each_table_has_its_own_dead_letters(world: World) -> None:
    flush(world.open_session(build_tolerant_pipeline(build_table(), build_table("lake.shop.copy", mode="append"))))
    assert [(table, offset) for table, offset, *_ in read_letters(world)] == [
        ("lake.shop.copy", 1), ("lake.shop.copy", 3), ("lake.shop.orders", 1), ("lake.shop.orders", 3),
    ]  # fmt: skip


def test_killed_at_any_call_the_next_run_loses_and_doubles_no_dead_letter() -> None:
    def fresh() -> World:
        world = World()
        world.broker.create("orders")
        for key, value in (("a", {"id": "a", "name": "x"}), ("b", BAD), ("c", {"id": "c", "name": "z"})):
            world.broker.produce("orders", {"id": key}, value)
        return world

    number = 0
    while True:
        number += 1
        world, hook = fresh(), CrashAt(number)
        try:
            flush(world.open_session(build_tolerant_pipeline(), hook))
            is_finished = True
        except Crash:
            is_finished = False
        for _ in range(2):
            with suppress(NothingToDo):
                flush(world.open_session(build_tolerant_pipeline()))
        assert [(r["offset"], r["replayed_at"]) for r in world.read_rows(LETTERS)] == [(1, None)], hook.at
        assert [row["id"] for row in world.read_rows("lake.shop.orders")] == ["a", "c"], hook.at
        if is_finished:
            return


def test_dead_letter_of_an_attempt_that_was_never_published_goes_when_a_later_one_reads_the_record(
    world: World,
) -> None:
    class DiesBeforePublish(Exception):
        pass

    def at(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before"):
            raise DiesBeforePublish

    with pytest.raises(DiesBeforePublish):
        flush(world.open_session(build_tolerant_pipeline(), at))
    assert [offset for _, offset, *_ in read_letters(world)] == [1, 3]
    records = world.broker.partitions["orders"][0].records
    records[1] = replace(records[1], value={"id": "b", "name": "y"})  # as if the pipeline file had been corrected
    corrected = build_tolerant_pipeline(replace(build_table(), when="true"))
    world.engine.conditions["true"] = lambda _: True
    flush(world.open_session(corrected))
    assert [offset for _, offset, *_ in read_letters(world)] == [3]
    assert [row["id"] for row in world.read_rows("lake.shop.orders")] == ["a", "b", "c"]


@pytest.mark.guard(
    "a batch that is refused marks no dead letter as read",
    file="plugins/tidegate/merge/attempt.py",
    text="    is_later = bool(letters) and attempt.table.has_branches",
    off="    is_later = False",
)
@pytest.mark.parametrize("refused_by", ["audit", "approve", "merge"])
def test_batch_that_is_refused_and_left_out_leaves_dead_letters_as_they_are(refused_by: str) -> None:
    """One that it has read again would count as replayed, and its row would never come."""
    world, name = World(), "lake.shop.Orders"
    world.broker.create("orders", 2)
    for key, partition, value in (("a", 0, "x"), ("b", 1, None), ("c", 1, "x")):
        world.broker.produce("orders", {"id": key}, BAD if value is None else {"id": key, "name": value}, partition)
    world.engine.conditions["never"] = lambda _: False
    others = (build_table("lake.shop.copy"),)
    pipeline = build_tolerant_pipeline(build_table(name), *others)
    flush(world.open_session(pipeline))
    assert len(before := world.read_rows(LETTERS)) == 2
    records = world.broker.partitions["orders"][1].records
    records[0] = replace(records[0], value={"id": "b", "name": "late"})
    world.engine.fixed_values[0] = {"id": "b", "name": "late"}
    refuse = {"audit": {"audits": ("never",)}, "approve": {"approve": Approve(rows_over=0)}, "merge": {}}[refused_by]
    refused = build_tolerant_pipeline(build_table(name, **refuse), *others)

    def fail(call: str, moment: str) -> None:
        if refused_by == "merge" and (call, moment) == ("commits.read_head", "before"):
            raise GiveUp("what nobody repairs")

    session = world.open_session(pipeline)
    propose_rebase(session, "earliest", name).perform("ann")
    world.broker.produce("orders", {"id": "d"}, BAD, 0)
    for _ in range(2):
        with suppress(GiveUp, HeldForApproval):
            flush(world.open_session(refused, fail))
        own = [letter for letter in world.read_rows(LETTERS) if letter["table"] == name]
        assert own == [letter for letter in before if letter["table"] == name]
    propose_rebase(session, "latest", name).perform("ann")
    (result,) = replay_dead_letters(session, LetterFilter(table=name))
    assert (result.tried, result.replayed) == (1, 1)
    assert {row["id"]: row["name"] for row in world.read_rows(name)} == {"a": "x", "b": "late", "c": "x"}


def test_dead_letters_are_maintained_as_soon_as_there_are_some(world: World) -> None:
    session = world.open_session(build_tolerant_pipeline())
    assert LETTERS not in list_maintained_tables(session)
    flush(session)
    assert LETTERS in list_maintained_tables(session)


def test_status_counts_dead_letters_and_shows_the_newest(world: World) -> None:
    session = world.open_session(build_tolerant_pipeline())
    assert read_status(session)["dead_letters"] == 0
    flush(session)
    status = read_status(session)
    assert (status["dead_letters"], status["dead_letters_replayed"]) == (2, 0)
    assert status["newest_dead_letter"]["topic"] == "orders"


def build_announcing_pipeline(topic: str = "broken") -> Pipeline:
    return build_tolerant_pipeline(errors=replace(ALL, topic=topic))


def test_dead_letters_are_sent_with_the_headers_that_kafka_connect_gives_them(world: World) -> None:
    session = world.open_session(build_announcing_pipeline())
    flush(session)
    messages = world.broker.sent_messages
    assert [message.value for message in messages] == [BAD.encode(), b'{"id": "d", "name": "z"}']
    headers = {name.removeprefix("__connect.errors."): (value or b"").decode() for name, value in messages[0].headers}
    place = {"topic": "orders", "partition": "0", "offset": "1", "connector.name": "shop", "task.id": "1"}
    assert headers.items() >= place.items()
    assert (headers["stage"], headers["exception.class.name"]) == ("VALUE_CONVERTER", "UndecodableValue")
    assert headers["exception.message"]
    header_names = ("stage", "class.name", "exception.class.name", "exception.message", "exception.stacktrace")
    assert set(headers) == {*place, *header_names}
    world.broker.produce("orders", {"id": "e"}, {"id": "e", "name": "e"})
    flush(session)
    assert len(world.broker.sent_messages) == 2


def test_dead_letters_that_could_not_be_sent_are_sent_by_the_next_run(world: World, monkeypatch) -> None:
    def refuse(*_) -> None:
        raise RetryLater("the topic is not to be had")

    with monkeypatch.context() as patch:
        patch.setattr(world.broker, "send", refuse)
        flush(world.open_session(build_announcing_pipeline()))
    assert [row["id"] for row in world.read_rows("lake.shop.orders")] == ["a", "c"]
    world.broker.produce("orders", {"id": "e"}, {"id": "e", "name": "e"})
    flush(world.open_session(build_announcing_pipeline()))
    assert len(world.broker.sent_messages) == 2


def test_dead_letter_that_its_topic_does_not_take_is_named_by_its_place_and_sent_once_it_does(
    world: World, monkeypatch
) -> None:
    def refuse(topic: str, messages: list) -> None:
        raise RecordRefused(f"topic={topic} takes no record of bytes=9; raise its max.message.bytes", messages[1])

    with monkeypatch.context() as patch:
        patch.setattr(world.broker, "send", refuse)
        flush(world.open_session(build_announcing_pipeline()))
        (report,) = clean_up(world.open_session(build_announcing_pipeline()))
    assert report.failed == (
        "GiveUp: the dead letter of topic=orders partition=0 offset=3 was not sent: errors.topic=broken takes no "
        "record of bytes=9; raise its max.message.bytes"
    )
    clean_up(world.open_session(build_announcing_pipeline()))
    assert len(world.broker.sent_messages) == 2


def test_nothing_is_sent_for_a_batch_that_is_not_published(world: World) -> None:
    with pytest.raises(BadRecord):
        flush(world.open_session(build_tolerant_pipeline(errors=Errors("all", 1, "broken"))))
    assert not world.broker.sent_messages


def test_dead_letters_are_sent_when_their_own_batch_is_published_and_not_with_one_before_it(world: World) -> None:
    flush(world.open_session(build_announcing_pipeline()))
    world.broker.produce("orders", {"id": "e"}, BAD)

    def dies(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before"):
            raise Crash(call)

    with pytest.raises(Crash):
        flush(world.open_session(build_announcing_pipeline(), dies))
    assert [offset for _, offset, *_ in read_letters(world)] == [1, 3, 4]
    clean_up(world.open_session(build_announcing_pipeline()))
    assert len(world.broker.sent_messages) == 2
    flush(world.open_session(build_announcing_pipeline()))
    assert len(world.broker.sent_messages) == 3


@pytest.mark.parametrize(("bad", "limit", "is_refused"), [(2, 2, False), (3, 2, True), (0, 0, False), (1, 0, True)])
def test_as_many_bad_records_as_are_allowed_are_set_aside_and_one_more_is_too_many(
    bad: int, limit: int, is_refused: bool
) -> None:
    assert exceeds_tolerance(bad, limit) is is_refused


@pytest.mark.parametrize(
    ("partitions", "ranges"),
    [(2, [["many", 0, 0, 1], ["many", 1, 1, 3]]), (120, [["many", None, 0, 3]])],
    ids=["by partition", "by topic"],
)
def test_letters_are_written_under_the_offsets_of_their_batch(partitions: int, ranges: list) -> None:
    world, pipeline = World(), build_tolerant_pipeline(build_table(topics=("many",)))
    world.broker.create("many", partitions)
    world.broker.produce("many", {"id": "a"}, {"id": "a", "name": "x"}, partition=1)
    flush(world.open_session(pipeline))
    world.broker.produce("many", {"id": "c"}, {"id": "c", "name": "z"}, partition=1)
    for partition in range(partitions):
        world.broker.produce("many", {"id": "b"}, BAD, partition=partition)
    errors = replace(ALL, max_per_batch=200)
    flush(world.open_session(build_tolerant_pipeline(build_table(topics=("many",)), errors=errors)))
    statements = [
        json.loads(text) for job in world.engine.jobs if isinstance(job, StatementsJob) for text in job.statements
    ]
    assert [entry["ranges"] for entry in statements if entry["statement"] == "write_dead_letters"] == [ranges]
    assert len(world.read_rows(LETTERS)) == partitions


def test_statements_about_letters_of_others_name_only_partitions_that_have_some(world: World) -> None:
    """A batch of a topic of thousands of partitions has records of few, or of all."""
    partition_ranges = [["orders", 7, 3, 9], ["orders", 1500, 0, 1]]
    ranges = Ranges(
        {"orders": dict.fromkeys(range(2000), (5, 8)) | {p: (start, end) for _, p, start, end in partition_ranges}}
    )
    counts = Counts(span=6003, read=6003, dead_lettered=7)
    staged = StagedBatch("lake.shop.orders", 3, "mine", 1, ranges, counts, topic_ids={"orders": "topic-1"})
    places = [("orders", 7), ("orders", 1500)]
    statements = _render_others(world.open_session(build_tolerant_pipeline()), LETTERS, staged, 2, places)
    assert [json.loads(statement)["ranges"] for statement in statements] == [partition_ranges, partition_ranges]


def list_statements(world: World) -> list[dict]:
    return [json.loads(text) for job in world.engine.jobs if isinstance(job, StatementsJob) for text in job.statements]


def test_letters_of_many_partitions_are_forgotten_and_read_again_by_statements_of_bounded_length() -> None:
    world, partitions, table = World(), 250, build_table(topics=("many",))
    pipeline = build_tolerant_pipeline(table, errors=replace(ALL, max_per_batch=partitions))
    world.broker.create("many", partitions)
    for partition in range(partitions):
        world.broker.produce("many", {"id": f"b{partition}"}, BAD, partition=partition)
    flush(world.open_session(pipeline))
    propose_rebase(world.open_session(pipeline), "earliest").perform("ann")
    flush(world.open_session(pipeline))
    reread = [
        statement["ranges"] for statement in list_statements(world) if statement["statement"] == "reread_dead_letters"
    ]
    assert [len(ranges) for ranges in reread] == [100, 100, 50]
    assert [part[1] for ranges in reread for part in ranges] == list(range(partitions))
    assert {row["batch"] for row in world.read_rows(LETTERS) if row["replayed_at"] is None} == {2}


def test_replay_of_many_partitions_marks_each_letter_by_statements_of_bounded_length() -> None:
    world, partitions, table = World(), 120, build_table(topics=("many",))
    pipeline = build_tolerant_pipeline(table, errors=replace(ALL, max_per_batch=partitions))
    world.broker.create("many", partitions)
    for partition in range(partitions):
        world.broker.produce("many", {"id": f"b{partition}"}, BAD, partition=partition)
    flush(world.open_session(pipeline))
    world.engine.fixed_values |= {0: {"id": "b", "name": "fixed"}}
    (result,) = replay_dead_letters(world.open_session(pipeline))
    range_counts = [
        len(statement["ranges"])
        for statement in list_statements(world)
        if statement["statement"] == "replayed_dead_letters"
    ]
    assert (result.tried, result.replayed, range_counts) == (120, 120, [100, 20])
    assert [row for row in world.read_rows(LETTERS) if row["replayed_at"] is None] == []
