"""Producers of a publication that are killed or stopped between any two calls: no change twice, none lost.

A covering part of the calls; all of them: ``make test-crash``.
"""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import wait_until
from crash.publishing import build_ports, build_table, judge, read_records, walk_in_process
from tidegate.errors import BadRecord, NothingToDo, PublishedElsewhere, RetryLater
from tidegate.publications.plan import plan_run
from tidegate.publications.publish import build_publish_job, publish
from tidegate_spark.publish import producer


@pytest.mark.parametrize(("fault", "step"), [("SIGKILL", 17), ("SIGSTOP", 37), ("OVERTAKEN", 17)])
def test_exactly_once_reader_sees_each_change_once_whatever_is_killed_or_wakes_up_late(
    workbench, fault: str, step: int, record_property
) -> None:
    told, records = walk_in_process(workbench, "exactly-once", fault, step)
    judge(records, told["snapshots"])
    record_property("counted", {"crash cases on real components": told["cases"]})


def test_at_least_once_reader_misses_no_change_and_ends_with_the_last(workbench, record_property) -> None:
    """The walk itself compares topic and table behind each case."""
    told, records = walk_in_process(workbench, "at-least-once", "SIGKILL", 17)
    last = {key: value for key, value in dict(records).items() if value is not None}
    assert last == build_table(told["snapshots"]).latest()
    record_property("counted", {"crash cases on real components": told["cases"]})


@pytest.fixture
def broker(tmp_path) -> Iterator[Any]:
    """A broker of this test's own, which its supervisor brings back when it is killed."""
    from local.stack import start_stack

    running = start_stack(tmp_path / "run", parts={"kafka"}, tied_to=os.getpid())
    try:
        yield running
    finally:
        running.stop()


def test_broker_that_is_killed_inside_a_transaction_costs_no_change_and_doubles_none(
    broker, tmp_path, monkeypatch
) -> None:
    from confluent_kafka import Producer

    asked = {"bootstrap": broker.kafka_bootstrap, "delivery": "exactly-once", "state": "state", "topic": "out"}
    publish(build_ports(asked, 0))
    fatal: list[str] = []

    class Breaking:
        """A producer whose broker is gone just before a call of a certain name and number, over all producers."""

        def __init__(self, settings: dict[str, Any]) -> None:
            self._real = Producer(settings)

        def __getattr__(self, name: str) -> Any:
            if name in fatal:
                fatal.remove(name)
                if name not in fatal:
                    os.kill(int(broker.variables["KAFKA_PID"]), signal.SIGKILL)
            return getattr(self._real, name)

    monkeypatch.setattr(producer.kafka, "Producer", Breaking)
    for snapshot, calls in enumerate((["produce"] * 3, ["commit_transaction"] * 2), 1):
        fatal += calls
        wait_until(lambda now=snapshot: is_published(asked, now), "a run finds nothing left to do")
        assert not fatal, "the broker was killed"
    judge(read_records(broker.kafka_bootstrap, "out"), 3)


def is_published(asked: dict[str, Any], snapshot: int) -> bool:
    """One run; whether nothing was left for it."""
    from confluent_kafka import KafkaException

    try:
        publish(build_ports(asked, snapshot))
    except NothingToDo:
        return True
    except (RetryLater, PublishedElsewhere, KafkaException, TimeoutError):
        return False
    return False


def test_attempt_that_was_planned_on_older_progress_produces_nothing(workbench) -> None:
    """Another run was faster between the plan and the producers' start."""
    topic = f"late-{workbench.topic(1)}"
    for delivery in ("exactly-once", "at-least-once"):
        name = f"{topic}-{delivery}"
        asked = {
            "bootstrap": workbench.stack.kafka_bootstrap,
            "delivery": delivery,
            "state": f"{name}-s",
            "topic": name,
        }
        publish(build_ports(asked, 0))
        late = build_ports(asked, 1)
        job = build_publish_job(late, plan_run(late))
        publish(build_ports(asked, 1))
        publish(build_ports(asked, 2))
        late.engine.run(job)
        judge(read_records(workbench.stack.kafka_bootstrap, name), 3)


@pytest.mark.parametrize("limit", [{"max.message.bytes": "900"}, {}], ids=["of the topic", "of the client"])
def test_record_that_is_too_large_is_named_and_gives_up(workbench, limit: dict[str, str]) -> None:
    topic = workbench.topic(**{"cleanup.policy": "compact", **limit})
    asked = {"bootstrap": workbench.stack.kafka_bootstrap, "delivery": "exactly-once", "state": f"{topic}-s"}
    outside = build_ports({**asked, "topic": topic}, 0)
    outside.snapshots.commit(big="x" * (2000 if limit else 2_000_000), small="x")
    with pytest.raises(BadRecord, match=rf"topic={topic} key=big: .*: MSG_SIZE_TOO_LARGE; raise the topic's"):
        publish(outside)
    outside.snapshots.commit(small="x")
    publish(outside, resynchronise=True)
    assert dict(read_records(workbench.stack.kafka_bootstrap, topic)) == {"small": "x"}
