"""Producers of a publication that are killed or stopped between any two calls: no change twice, none lost.

A covering part of the calls; all of them: ``make test-crash``.
"""

import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import wait_until
from crash.publishing import build_events, build_table, judge, open_session, read_records, walk_in_process
from tidegate.adapters.kafka import publication_topics
from tidegate.errors import BadRecord, NothingToDo, PublishedElsewhere, RetryLater
from tidegate.publications.plan import plan_run
from tidegate.publications.publish import build_publish_job, publish
from tidegate_spark.publish import producer


@pytest.mark.guard(
    "publication: a new attempt fences the earlier one",
    file="jobs/tidegate_spark/publish/producer.py",
    text='settings["transactional.id"] = f"{plan[\'state_topic\']}-{number}"',
    off='settings["transactional.id"] = f"{plan[\'state_topic\']}-{number}-{time.time_ns()}"',
    case="SIGSTOP-37",
)
@pytest.mark.repeats(
    "unit/scenarios/test_publication_walks.py::test_run_that_sleeps_at_any_call_while_others_go_on_changes_nothing_when_it_wakes"
)
@pytest.mark.parametrize(("fault", "step"), [("SIGKILL", 17), ("SIGSTOP", 37), ("OVERTAKEN", 17)])
def test_exactly_once_reader_sees_each_change_once_whatever_is_killed_or_wakes_up_late(
    workbench, fault: str, step: int, record_property
) -> None:
    walk, records = walk_in_process(workbench, "exactly-once", fault, step)
    judge(records, walk["snapshots"])
    record_property("counted", {"crash cases on real components": walk["cases"]})


@pytest.mark.repeats(
    "unit/scenarios/test_publication_walks.py::test_killed_run_is_recovered_by_a_run_towards_another_snapshot"
)
def test_at_least_once_reader_misses_no_change_and_ends_with_the_last(workbench, record_property) -> None:
    """The walk itself compares topic and table behind each case."""
    walk, records = walk_in_process(workbench, "at-least-once", "SIGKILL", 17)
    last = {key: value for key, value in dict(records).items() if value is not None}
    assert last == build_table(walk["snapshots"]).read_latest()
    record_property("counted", {"crash cases on real components": walk["cases"]})


@pytest.mark.repeats(
    "unit/scenarios/test_publication_walks.py::test_inserted_rows_are_each_produced_once_whichever_call_kills_the_run"
)
@pytest.mark.parametrize(("fault", "step"), [("SIGKILL", 5), ("SIGSTOP", 11), ("OVERTAKEN", 5)])
def test_inserted_rows_are_each_produced_once_whatever_is_killed_or_wakes_up_late(
    workbench, fault: str, step: int, record_property
) -> None:
    """The walk itself compares topic and table behind each case."""
    walk, records = walk_in_process(workbench, "exactly-once", fault, step, is_append=True)
    assert walk["cases"] > 2
    assert Counter(records) == Counter(("", text) for text in build_events(walk["snapshots"]).read_latest().values())
    record_property("counted", {"crash cases on real components": walk["cases"]})


@pytest.fixture
def broker(tmp_path) -> Iterator[Any]:
    """A broker of this test's own, which its supervisor brings back when it is killed."""
    from local.stack import start_stack

    running = start_stack(tmp_path / "run", parts={"kafka"}, tied_to=os.getpid())
    try:
        yield running
    finally:
        running.stop()


@pytest.mark.repeats(
    "test_broker_that_is_killed_inside_a_transaction_costs_no_change_and_doubles_none[before a commit]",
    "before a record",
)
@pytest.mark.parametrize(
    "calls", [["produce"] * 3, ["commit_transaction"] * 2], ids=["before a record", "before a commit"]
)
def test_broker_that_is_killed_inside_a_transaction_costs_no_change_and_doubles_none(
    broker, monkeypatch, calls: list[str]
) -> None:
    from confluent_kafka import Producer

    target = {"bootstrap": broker.kafka_bootstrap, "delivery": "exactly-once", "state": "state", "topic": "out"}
    publish(open_session(target, 0))
    fatal = [*calls]

    class Breaking:
        """A producer whose broker is killed just before the last of the fatal calls, over all producers."""

        def __init__(self, settings: dict[str, Any]) -> None:
            self._real = Producer(settings)

        def __getattr__(self, name: str) -> Any:
            if name in fatal:
                fatal.remove(name)
                if name not in fatal:
                    os.kill(int(broker.variables["KAFKA_PID"]), signal.SIGKILL)
            return getattr(self._real, name)

    monkeypatch.setattr(producer.kafka, "Producer", Breaking)
    wait_until(lambda: is_published(target, 1), "a run finds nothing left to do")
    assert not fatal, "the broker was killed"
    judge(read_records(broker.kafka_bootstrap, "out"), 2)


def is_published(target: dict[str, Any], snapshot: int) -> bool:
    """Publish once; return whether there was nothing to do."""
    from confluent_kafka import KafkaException

    try:
        publish(open_session(target, snapshot))
    except NothingToDo:
        return True
    except (RetryLater, PublishedElsewhere, KafkaException, TimeoutError):
        return False
    return False


@pytest.mark.repeats(
    "unit/scenarios/test_publications.py::test_run_that_was_planned_before_another_one_published_changes_nothing"
)
def test_attempt_that_was_planned_on_older_progress_produces_nothing(workbench) -> None:
    """Another run was faster between the plan and the producers' start."""
    topic = f"late-{workbench.topic(1)}"
    for delivery in ("exactly-once", "at-least-once"):
        name = f"{topic}-{delivery}"
        target = {
            "bootstrap": workbench.stack.kafka_bootstrap,
            "delivery": delivery,
            "state": f"{name}-s",
            "topic": name,
        }
        publish(open_session(target, 0))
        late = open_session(target, 1)
        job = build_publish_job(late, plan_run(late))
        publish(open_session(target, 1))
        publish(open_session(target, 2))
        late.engine.run(job)
        judge(read_records(workbench.stack.kafka_bootstrap, name), 3)


def test_topic_is_compared_once_no_transaction_hides_what_it_holds(workbench, monkeypatch) -> None:
    topic = workbench.topic(2, **{"cleanup.policy": "compact"})
    target = {"bootstrap": workbench.stack.kafka_bootstrap, "delivery": "exactly-once", "state": f"{topic}-s"}
    publish(open_session({**target, "topic": topic}, 0))
    killed = workbench.open_transactional_producer()
    killed.begin_transaction()
    killed.produce(topic, b"x", b"open", partition=1)
    killed.flush(60)
    monkeypatch.setattr(publication_topics, "TIMEOUT_SECONDS", 2.0)
    place = rf"topic={topic} partition=1: a transaction is open at offset=\d+, .*within ten minutes"
    with pytest.raises(RetryLater, match=place):
        publish(open_session({**target, "topic": topic}, 1), resynchronise=True)
    workbench.end_transaction(killed, topic, commit=False)
    publish(open_session({**target, "topic": topic}, 1), resynchronise=True)
    last = {key: value for key, value in read_records(target["bootstrap"], topic) if value is not None}
    assert build_table(2).read_latest().items() <= last.items()


@pytest.mark.repeats(
    "unit/scenarios/test_publications.py::test_record_that_is_too_large_is_named_and_no_reason_to_try_again"
)
@pytest.mark.parametrize("limit", [{"max.message.bytes": "900"}, {}], ids=["of the topic", "of the client"])
def test_record_that_is_too_large_is_named_and_gives_up(workbench, limit: dict[str, str]) -> None:
    topic = workbench.topic(**{"cleanup.policy": "compact", **limit})
    target = {"bootstrap": workbench.stack.kafka_bootstrap, "delivery": "exactly-once", "state": f"{topic}-s"}
    outside: Any = open_session({**target, "topic": topic}, 0)
    outside.snapshots.commit(big="x" * (2000 if limit else 2_000_000), small="x")
    refusal = rf"topic={topic} snapshot=\d+ key=big bytes=\d+: MSG_SIZE_TOO_LARGE; raise the topic's"
    with pytest.raises(BadRecord, match=refusal):
        publish(outside)
    outside.snapshots.commit(small="x")
    publish(outside, resynchronise=True)
    assert dict(read_records(workbench.stack.kafka_bootstrap, topic)) == {"small": "x"}
