"""Runs of a publication in memory: where they begin, what they resume, and what they refuse."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from fakes.producing import Entry, Killed
from fakes.publications import Outside, Table
from tidegate.errors import BadRecord, GiveUp, NothingToDo, PublishedElsewhere, RetryLater
from tidegate.monitoring.health import ScheduleState
from tidegate.publications.plan import plan_run
from tidegate.publications.publish import publish, send_heartbeat
from tidegate.publications.status import (
    PublicationReading,
    compute_patience,
    describe_publication_state,
    read_publication_status,
    to_metrics,
)
from tidegate.spec.publication import Begin, KeyOut


@pytest.fixture
def outside() -> Outside:
    outside = Outside(delivery="exactly-once", transaction_records=1)
    outside.table.commit(a="1", b="1", c="1", d="1", e="1")
    return outside


def test_first_run_produces_the_whole_table_and_the_next_only_what_differs(outside: Outside) -> None:
    assert publish(outside.open_session()).compared_with == "everything"
    assert outside.topic.read_latest() == outside.table.snapshots[10]
    outside.table.commit(a="2", b="1", d="1", e="1")
    result = publish(outside.open_session())
    assert (result.from_snapshot_id, result.to_snapshot_id, result.compared_with) == (10, 11, "changes")
    assert sorted(outside.topic.records[5:]) == [("a", "2"), ("c", None)]
    with pytest.raises(NothingToDo, match="nothing came since"):
        publish(outside.open_session())


def test_snapshot_that_touched_no_file_is_no_run(outside: Outside) -> None:
    publish(outside.open_session())
    outside.table.snapshots[11] = outside.table.snapshots[10]
    outside.table.current = 11
    with pytest.raises(NothingToDo, match="no row has changed"):
        publish(outside.open_session())


def test_table_that_is_not_there_yet_is_nothing_to_do(outside: Outside) -> None:
    outside.table.exists = False
    with pytest.raises(NothingToDo, match="does not exist yet"):
        publish(outside.open_session())


@pytest.mark.parametrize("start", [Begin("snapshot", snapshot_id=10), Begin("timestamp", timestamp_ms=10)])
def test_first_run_may_begin_at_a_snapshot_or_a_time(start: Begin) -> None:
    outside = Outside(start=start)
    outside.table.commit(a="1", b="1")
    outside.table.commit(a="2", b="1")
    publish(outside.open_session())
    assert outside.topic.records == [("a", "2")]


def test_start_at_a_snapshot_that_is_not_there_is_refused() -> None:
    outside = Outside(start=Begin("snapshot", snapshot_id=99))
    outside.table.commit(a="1")
    with pytest.raises(GiveUp, match="no snapshot for its start"):
        publish(outside.open_session())


@pytest.mark.parametrize("after", range(1, 34, 4))
def test_killed_run_is_finished_towards_the_same_snapshot_and_repeats_nothing(outside: Outside, after: int) -> None:
    outside.die_at(after)
    outside.table.commit(**outside.table.snapshots[10])
    with pytest.raises(Killed):
        publish(outside.open_session())
    outside.table.commit(a="2", b="1", c="1", d="1")
    first = plan_run(outside.open_session())
    assert first.is_resumed == (after >= 5), "from the first record of progress on"
    assert first.position.to == (11 if first.is_resumed else 12)
    assert publish(outside.open_session()).to_snapshot_id == 12
    outside.table.commit(a="3", b="1", c="1", d="1")
    publish(outside.open_session())
    assert outside.topic.read_latest() == outside.table.snapshots[13]
    assert len(outside.topic.records) == len(set(outside.topic.records)), "no change twice"


@pytest.mark.guard(
    "publication: both ends of a run are pinned",
    file="plugins/tidegate/publications/publish.py",
    text="        session.snapshots.pin(table, snapshot, format_pin_name(publication.name, snapshot))\n",
    off="        pass\n",
    case="2",
)
@pytest.mark.parametrize("after", range(0, 18, 2))
def test_killed_run_of_changes_is_resumed(outside: Outside, after: int) -> None:
    publish(outside.open_session())
    outside.table.commit(a="2", b="2", c="2")
    outside.die_at(after)
    with pytest.raises(Killed):
        publish(outside.open_session())
    pinned = set(outside.table.tags.values())
    assert pinned == {10, 11}, "both ends stay"
    outside.table.commit(a="3", b="2", c="2")
    assert publish(outside.open_session()).to_snapshot_id == 12
    assert outside.topic.read_latest() == {"a": "3", "b": "2", "c": "2"}
    records = outside.topic.records[5:]
    assert len(records) == len(set(records))
    assert set(outside.table.tags.values()) == {12}


def test_run_that_finishes_the_one_before_it_produces_also_what_came_since(outside: Outside) -> None:
    """Nothing starts another run until the table changes again: readers would have the older rows until then."""
    publish(outside.open_session())
    outside.table.commit(a="2", b="2", c="1", d="1")
    outside.die_at(12)
    with pytest.raises(Killed):
        publish(outside.open_session())
    outside.table.commit(a="3", b="2", c="1")
    assert plan_run(outside.open_session()).position.to == 11
    before = len(outside.topic.records)
    result = publish(outside.open_session())
    assert (result.from_snapshot_id, result.to_snapshot_id) == (10, 12)
    assert outside.topic.read_latest() == {"a": "3", "b": "2", "c": "1"}
    assert result.inserted + result.updated + result.deleted >= len(outside.topic.records) - before
    assert set(outside.table.tags.values()) == {12}
    with pytest.raises(NothingToDo):
        publish(outside.open_session())


def test_run_that_was_planned_before_another_one_published_changes_nothing(outside: Outside) -> None:
    publish(outside.open_session())
    outside.table.commit(a="2")
    late = outside.open_session()

    class Overtaken:
        def run(self, job) -> None:
            publish(outside.open_session())
            outside.table.commit(a="3")
            publish(outside.open_session())
            outside.spark.run(job)

    with pytest.raises(PublishedElsewhere):
        publish(replace(late, engine=Overtaken()))
    assert outside.topic.read_latest() == {"a": "3"}


def test_expired_snapshot_is_refused_or_answered_with_a_comparison(outside: Outside) -> None:
    publish(outside.open_session())
    outside.table.commit(a="2", b="1")
    del outside.table.snapshots[10]
    with pytest.raises(GiveUp, match=r"snapshot=10 .* has expired; run `tidegate publish out --resynchronise`"):
        publish(outside.open_session())
    outside.publication = replace(outside.publication, on_expired="resynchronise")
    assert publish(outside.open_session()).compared_with == "topic"
    assert outside.topic.read_latest() == {"a": "2", "b": "1"}
    assert sorted(outside.topic.records[5:], key=str) == [("a", "2"), ("c", None), ("d", None), ("e", None)]


def test_unfinished_run_to_a_snapshot_that_has_expired_is_answered_with_a_comparison(outside: Outside) -> None:
    outside.publication = replace(outside.publication, on_expired="resynchronise")
    publish(outside.open_session())
    outside.table.commit(a="2", b="2")
    outside.die_at(7)
    with pytest.raises(Killed):
        publish(outside.open_session())
    assert plan_run(outside.open_session()).is_resumed
    killed_status = read_publication_status(outside.open_session())
    assert (killed_status.unfinished, killed_status.snapshots_behind, killed_status.rows_behind) == (True, 1, 5)
    outside.table.commit(a="3", b="1")
    del outside.table.snapshots[11]
    assert publish(outside.open_session()).compared_with == "topic"
    assert outside.topic.read_latest() == {"a": "3", "b": "1"}


@pytest.mark.parametrize("after", range(0, 24, 3))
def test_killed_resynchronisation_compares_again(outside: Outside, after: int) -> None:
    publish(outside.open_session())
    outside.table.commit(a="2", b="2", e="2")
    outside.die_at(after)
    with pytest.raises(Killed):
        publish(outside.open_session(), resynchronise=True)
    outside.topic.broker.let_transactions_expire()
    publish(outside.open_session())
    assert outside.topic.read_latest() == {"a": "2", "b": "2", "e": "2"}
    assert len(outside.topic.records) == len(set(outside.topic.records))


def test_topic_is_not_compared_while_a_transaction_hides_what_it_holds(outside: Outside) -> None:
    """A run was killed within a part, and other parts have committed behind it; then the table goes back."""
    publish(outside.open_session())
    before = outside.topic.read_latest()
    outside.table.commit(a="2", b="2", c="2", d="2", e="2")
    broker = outside.topic.broker
    hidden = Entry(b"open", None, is_open=True)
    broker.logs["out", 0].append(hidden)
    publish(outside.open_session())
    assert outside.topic.read_latest() == before, "nothing of it is seen yet"
    outside.table.commit(**before)
    with pytest.raises(RetryLater, match="topic=out partition=0: a transaction is open"):
        publish(outside.open_session(), resynchronise=True)
    hidden.is_open, hidden.is_aborted = False, True
    assert outside.topic.read_latest() == {"a": "2", "b": "2", "c": "2", "d": "2", "e": "2"}
    publish(outside.open_session(), resynchronise=True)
    assert outside.topic.read_latest() == before


def test_run_whose_producers_are_fenced_and_that_nobody_overtook_is_to_be_run_again(outside: Outside) -> None:
    """As by the brokers, when a transaction is open for too long: nobody else has published anything."""
    publish(outside.open_session())
    outside.table.commit(a="2", b="2", c="2", d="2", e="2")
    broker = outside.topic.broker

    def fence(number: int, name: str) -> None:
        if name == "commit_transaction":
            broker.let_transactions_expire()
            broker.epochs = {name: epoch + 1 for name, epoch in broker.epochs.items()}

    broker.before_call = fence
    with pytest.raises(RetryLater, match=r"0 of 2 parts arrived there; .* a transaction of theirs took longer than"):
        publish(outside.open_session())
    broker.before_call = lambda number, name: None
    publish(outside.open_session())
    assert outside.topic.read_latest() == {"a": "2", "b": "2", "c": "2", "d": "2", "e": "2"}


def test_changed_file_replaced_table_and_new_topic_are_refused_until_resynchronised(outside: Outside) -> None:
    publish(outside.open_session())
    outside.table.commit(a="2")
    before = outside.publication
    outside.publication = replace(before, key=KeyOut(("id",), prefix="k_"))
    with pytest.raises(GiveUp, match="its file has changed"):
        publish(outside.open_session())
    outside.publication = before
    outside.topic.id = "t2"
    with pytest.raises(GiveUp, match="deleted or created again"):
        publish(outside.open_session())
    outside.topic.id, outside.table.uuid = "t1", "u2"
    with pytest.raises(GiveUp, match="was replaced by another"):
        publish(outside.open_session())
    publish(outside.open_session(), resynchronise=True)
    assert outside.topic.read_latest() == {"a": "2"}
    with pytest.raises(NothingToDo):
        publish(outside.open_session())


@pytest.mark.guard(
    "publication: a topic that grew is refused",
    file="plugins/tidegate/publications/plan.py",
    text="if is_same and now not in (None, partitions):",
    off="if False:",
)
def test_topic_that_grew_is_refused_even_with_a_comparison(outside: Outside) -> None:
    publish(outside.open_session())
    outside.table.commit(a="2")
    outside.topic.partitions = 4
    for resynchronise in (False, True):
        with pytest.raises(GiveUp, match="had 3 partitions and has 4"):
            publish(outside.open_session(), resynchronise)


def test_topic_with_records_and_no_progress_is_refused_until_compared(outside: Outside) -> None:
    outside.topic.id = "t1"
    outside.topic.receive(("a", "1"), ("x", "1"))
    with pytest.raises(
        GiveUp, match=r"topics=out hold records \(if not by the partitioner of .*\); run `tidegate publish"
    ):
        publish(outside.open_session())
    publish(outside.open_session(), resynchronise=True)
    assert outside.topic.read_latest() == outside.table.snapshots[10]
    assert ("a", "1") not in outside.topic.records[2:], "what is right already is not produced again"


def test_dry_run_and_status_change_nothing_and_tell_what_waits(outside: Outside) -> None:
    assert plan_run(outside.open_session()).to_dict()["to_snapshot_id"] == 10
    assert read_publication_status(outside.open_session()).waiting.position.mode == "everything"
    assert (outside.topic.id, outside.topic.newest, outside.table.tags) == (None, {}, {})
    publish(outside.open_session())
    publication_status = read_publication_status(outside.open_session())
    assert (publication_status.published_snapshot_id, publication_status.waiting, publication_status.problem) == (
        10,
        None,
        None,
    )
    outside.table.commit(a="2")
    outside.table.uuid = "u2"
    assert "was replaced" in read_publication_status(outside.open_session()).problem


def test_status_counts_what_waits_and_tells_the_last_run(outside: Outside) -> None:
    publish(outside.open_session())
    assert read_publication_status(outside.open_session()).snapshots_behind == 0
    outside.table.commit(a="2", b="1", c="1", d="1", e="1")
    outside.table.commit(a="2", b="1", c="1", d="1")
    publication_status = read_publication_status(outside.open_session())
    assert (publication_status.snapshots_behind, publication_status.rows_behind) == (2, 2)
    assert (publication_status.last_run.to_snapshot_id, publication_status.last_run.compared_with) == (10, "everything")
    assert to_metrics(publication_status) == {
        "snapshots_behind": 2.0,
        "rows_behind": 2.0,
        "behind": 0.0,
        "problems": 0.0,
    }


def test_state_of_a_publication_is_one_word_with_its_reason(outside: Outside) -> None:
    publish(outside.open_session())
    assert describe_publication_state(_read(outside), ScheduleState()) == ("current", "nothing waits")
    outside.table.commit(a="2")
    now = _read(outside)
    assert now.status is not None
    waits = replace(now, status=replace(now.status, behind_seconds=500.0))
    assert describe_publication_state(waits, ScheduleState())[0] == "catching up"
    assert describe_publication_state(waits, ScheduleState(paused=True))[0] == "paused"
    failed = ScheduleState(failed="publish failed: x")
    assert describe_publication_state(waits, failed) == ("failing", "publish failed: x")
    silent = replace(waits, error="no answer")
    assert describe_publication_state(silent, ScheduleState()) == ("unknown", "no answer")
    assert describe_publication_state(replace(silent, needs_person=True), ScheduleState()) == ("stuck", "no answer")
    outside.table.uuid = "u2"
    state, reason = describe_publication_state(_read(outside), ScheduleState(paused=True))
    assert (state, "--resynchronise" in reason) == ("stuck", True)


@pytest.mark.parametrize(
    ("words", "behind_seconds", "running", "expected_state"),
    [
        ({}, 800.0, False, "catching up"),
        ({}, 1000.0, False, "stuck"),
        ({}, 1000.0, True, "catching up"),
        ({"interval_seconds": 60}, 1000.0, False, "stuck"),
        ({"interval_seconds": 600}, 5000.0, False, "catching up"),
        ({"interval_seconds": 600}, 7000.0, False, "stuck"),
        ({"on_table_change": False}, 7000.0, False, "catching up"),  # somebody runs it by hand
    ],
)
def test_changes_for_which_no_run_begins_are_a_publication_that_is_stuck(
    outside: Outside, words: dict[str, Any], behind_seconds: float, running: bool, expected_state: str
) -> None:
    """As behind a pause of its DAG, or where another writer changed the table: nothing tells the DAG of that."""
    outside.publication = replace(outside.publication, **words)
    publish(outside.open_session())
    outside.table.commit(a="2")
    waits = _read(outside)
    assert waits.status is not None
    published_at, patience = (waits.status.published_at_ms or 0) / 1000, compute_patience(outside.publication)
    status = replace(waits.status, behind_seconds=behind_seconds)
    waits = replace(waits, status=status, patience_seconds=patience, read_at=published_at + 8000)
    just_published = replace(waits, read_at=published_at + 5)
    assert describe_publication_state(just_published, ScheduleState(running=running))[0] == "catching up"
    state, reason = describe_publication_state(waits, ScheduleState(running=running))
    assert state == expected_state
    assert ("no run is under way" in reason) == (expected_state == "stuck")


def _read(outside: Outside) -> PublicationReading:
    return PublicationReading(publication="out", status=read_publication_status(outside.open_session()), read_at=1.0)


DIM = "lake.shop.dim"


@pytest.fixture
def joining() -> Outside:
    outside = Outside(joined_tables=(DIM,), delivery="exactly-once", transaction_records=1)
    outside.table.other_tables[DIM] = Table()
    outside.table.commit(a="1", b="1", c="1")
    return outside


def test_change_of_a_joined_table_counts_like_one_of_the_table(joining: Outside) -> None:
    dim = joining.table.other_tables[DIM]
    with pytest.raises(NothingToDo, match=f"joined table={DIM} does not exist yet"):
        publish(joining.open_session())
    dim.commit(a="x")
    publish(joining.open_session())
    assert joining.topic.read_latest() == {"a": "1x", "b": "1", "c": "1"}
    with pytest.raises(NothingToDo, match="nothing came since"):
        publish(joining.open_session())
    dim.commit(a="y", c="y")
    assert plan_run(joining.open_session()).touched_files is None, "any row may look different"
    assert read_publication_status(joining.open_session()).snapshots_behind == 1
    publish(joining.open_session())
    assert joining.topic.records[3:] in ([("a", "1y"), ("c", "1y")], [("c", "1y"), ("a", "1y")])
    assert (set(joining.table.tags.values()), set(dim.tags.values())) == ({10}, {11}), "both are pinned"
    joining.table.commit(a="2", b="1", c="1")
    assert plan_run(joining.open_session()).touched_files is not None, "the joined table stands still"


def test_table_that_is_joined_no_more_is_not_kept_from_expiring(joining: Outside) -> None:
    dim = joining.table.other_tables[DIM]
    dim.commit(a="x")
    publish(joining.open_session())
    assert set(dim.tags.values()) == {10}
    joining.publication = replace(joining.publication, joined_tables=())
    publish(joining.open_session(), resynchronise=True)
    assert joining.topic.read_latest() == {"a": "1", "b": "1", "c": "1"}
    assert (dim.tags, set(joining.table.tags.values())) == ({}, {10})


def test_joined_table_that_only_compacted_costs_no_comparison_of_all_rows(joining: Outside) -> None:
    dim = joining.table.other_tables[DIM]
    dim.commit(a="x")
    publish(joining.open_session())
    dim.snapshots[11] = dim.snapshots[10]
    dim.current = 11
    with pytest.raises(NothingToDo):
        publish(joining.open_session())
    joining.table.commit(a="2", b="1", c="1")
    run = plan_run(joining.open_session())
    assert (run.touched_files is not None, run.position.joined, run.position.joined_origin) == (
        True,
        {DIM: 11},
        {DIM: 11},
    )


@pytest.mark.parametrize("after", range(0, 21, 2))
def test_killed_run_of_a_joined_tables_change_is_finished_with_the_same_snapshots(joining: Outside, after: int) -> None:
    dim = joining.table.other_tables[DIM]
    dim.commit(a="x", b="x", c="x")
    publish(joining.open_session())
    dim.commit(a="y", b="y", c="y")
    joining.die_at(after)
    with pytest.raises(Killed):
        publish(joining.open_session())
    dim.commit(a="z", b="z", c="z")
    publish(joining.open_session())
    assert joining.topic.read_latest() == {"a": "1z", "b": "1z", "c": "1z"}
    assert len(joining.topic.records) == len(set(joining.topic.records))


def test_snapshot_of_a_joined_table_that_has_expired_is_refused_or_compared(joining: Outside) -> None:
    dim = joining.table.other_tables[DIM]
    dim.commit(a="x")
    publish(joining.open_session())
    dim.commit(a="y")
    del dim.snapshots[10]
    with pytest.raises(GiveUp, match=r"snapshot=10 .* has expired"):
        publish(joining.open_session())
    assert publish(joining.open_session(), resynchronise=True).compared_with == "topic"
    assert joining.topic.read_latest() == {"a": "1y", "b": "1", "c": "1"}


def test_heartbeat_tells_up_to_which_time_the_topic_holds_the_table_also_without_work() -> None:
    outside = Outside(heartbeat_topic="beats")
    outside.table.commit(a="1")
    publish(outside.open_session())
    with pytest.raises(NothingToDo):
        publish(outside.open_session())
    assert [topic for topic, _ in outside.topic.sent_messages] == ["beats", "beats"]
    heartbeat = outside.topic.sent_messages[-1][1]
    assert (heartbeat["publication"], heartbeat["published_snapshot_id"], heartbeat["valid_through_ms"]) == (
        "out",
        10,
        0,
    )


def test_heartbeat_does_not_answer_for_a_topic_that_was_created_again() -> None:
    outside = Outside(heartbeat_topic="beats")
    outside.table.commit(a="1")
    publish(outside.open_session())
    outside.topic.id = "t2"
    heartbeat = send_heartbeat(outside.open_session())
    assert (heartbeat.published_snapshot_id, heartbeat.snapshots_behind, heartbeat.valid_through_ms) == (10, 0, None)


@pytest.mark.parametrize("name", ["lake.shop.t", DIM])
def test_heartbeat_does_not_answer_for_a_table_that_is_gone(name: str) -> None:
    """Nobody knows what was written since the last run."""
    outside = Outside(heartbeat_topic="beats", joined_tables=(DIM,), on_expired="resynchronise")
    dim = outside.table.other_tables[DIM] = Table()
    dim.commit(a="x")
    outside.table.commit(a="1")
    publish(outside.open_session())
    assert outside.topic.sent_messages[-1][1]["valid_through_ms"] == 0
    outside.table.commit(a="2")
    (dim if name == DIM else outside.table).exists = False
    with pytest.raises(NothingToDo, match="does not exist yet"):
        publish(outside.open_session())
    heartbeat = outside.topic.sent_messages[-1][1]
    assert (heartbeat["published_snapshot_id"], heartbeat["valid_through_ms"]) == (10, None)


def test_heartbeat_that_cannot_be_sent_is_a_warning(caplog: pytest.LogCaptureFixture, monkeypatch) -> None:
    def refuse_to_send(topic: str, records: object) -> None:
        raise RetryLater("brokers=b gave no answer")

    outside = Outside(heartbeat_topic="beats")
    outside.table.commit(a="1")
    monkeypatch.setattr(outside.topic, "send", refuse_to_send)
    assert publish(outside.open_session()).to_snapshot_id == 10
    assert "the heartbeat was not sent: brokers=b gave no answer" in caplog.text


@pytest.mark.guard(
    "publication: a record that the brokers refuse is not retried",
    file="jobs/tidegate_spark/publish/producer.py",
    text="        if reason.code() not in REFUSAL_CODES:\n",
    off="        if True:\n",
    case="broker-exactly-once",
)
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
@pytest.mark.parametrize("place", ["client", "broker"])
def test_record_that_is_too_large_is_named_and_no_reason_to_try_again(delivery: str, place: str) -> None:
    outside = Outside(delivery=delivery, parallelism=1)
    outside.table.commit(a="1", b="x" * 50, c="1")
    if place == "client":
        outside.topic.broker.too_large.add(b"b")
    else:
        outside.topic.broker.refuses[b"b"] = KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)
    with pytest.raises(
        BadRecord, match=r"a record as too large: topic=out .*key=b bytes=51: MSG_SIZE_TOO_LARGE; raise the topic's"
    ):
        publish(outside.open_session())
    outside.topic.broker.too_large.clear()
    outside.topic.broker.refuses.clear()
    publish(outside.open_session())
    assert outside.topic.read_latest() == outside.table.read_latest()
    assert delivery == "at-least-once" or len(outside.topic.records) == 3, "what was not committed is gone"


def test_time_that_the_brokers_refuse_is_told_as_such_and_no_reason_to_try_again(outside: Outside) -> None:
    outside.topic.broker.refuses[b"a"] = KafkaError(KafkaError.INVALID_TIMESTAMP)
    with pytest.raises(BadRecord, match=r"refuse the time of a record: topic=out .*key=a: INVALID_TIMESTAMP; widen"):
        publish(outside.open_session())


def test_record_that_the_brokers_find_invalid_is_not_told_as_too_large(outside: Outside) -> None:
    outside.topic.broker.refuses[b"a"] = KafkaError(KafkaError.INVALID_RECORD)
    with pytest.raises(BadRecord, match=r"refuse a record: topic=out snapshot=10: INVALID_RECORD; .*without a key"):
        publish(outside.open_session())


def test_right_that_is_missing_is_named_and_no_reason_to_try_again(outside: Outside) -> None:
    outside.topic.broker.refuses[b"a"] = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(GiveUp, match=r"refuse its records: topic=out .*: TOPIC_AUTHORIZATION_FAILED; .*security\.md"):
        publish(outside.open_session())


def test_failure_that_may_pass_is_raised_as_it_is(outside: Outside) -> None:
    outside.topic.broker.refuses[b"a"] = KafkaError(KafkaError._MSG_TIMED_OUT)
    with pytest.raises(KafkaException):
        publish(outside.open_session())


@pytest.mark.parametrize("after", range(0, 40, 3))
def test_inserted_rows_have_no_key_and_come_once_whatever_is_killed(after: int) -> None:
    outside = Outside(key=KeyOut(()), delivery="exactly-once", transaction_records=1)
    outside.table.commit(a="1", b="2", c="3")
    outside.die_at(after)
    for rows in ({"a": "1", "b": "2", "c": "3"}, {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}):
        outside.table.commit(**rows)
        for _ in range(2):
            with suppress(Killed, NothingToDo):
                publish(outside.open_session())
    assert sorted(outside.topic.records) == [("", "1"), ("", "2"), ("", "3"), ("", "4"), ("", "5")]
    assert {key for key, _ in outside.topic.broker.read("out", 0)} == {None}


def test_run_that_finds_records_by_keys_is_refused_for_inserted_rows() -> None:
    outside = Outside(key=KeyOut(()))
    outside.table.commit(a="1")
    publish(outside.open_session())
    with pytest.raises(GiveUp, match=r"--resynchronise finds records by their keys, and key\.fields is \[\]"):
        publish(outside.open_session(), resynchronise=True)
    outside.table.uuid = "u2"
    outside.table.commit(a="1", b="2")
    with pytest.raises(GiveUp, match="replaced by another of that name since the last run; publish to a new topic"):
        publish(outside.open_session())
    assert outside.topic.records == [("", "1")]
