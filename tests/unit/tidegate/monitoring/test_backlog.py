"""The backlog as the triggerer watches it: who is called to flush, when, and how seldom the brokers are asked."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

from fakes import World, build_pipeline, build_table
from tidegate.errors import RetryLater
from tidegate.flush.flush import flush
from tidegate.monitoring.backlog import (
    METADATA_TTL_SECONDS,
    PROGRESS_TTL_SECONDS,
    REPEAT_CALL_SECONDS,
    BacklogMonitor,
    MonitoredPipeline,
)
from tidegate.spec.pipeline import Heartbeat, Merge, Pipeline
from tidegate.spec.source import Start


class Seconds:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def build_watched_pipeline(name: str = "shop", threshold: int = 3, topic: str = "orders", **source) -> Pipeline:
    table = build_table(f"lake.shop.{name}", topics=(topic,))
    pipeline = build_pipeline(table, name=name, source=source)
    return Pipeline(pipeline.name, pipeline.source, pipeline.tables, merge=Merge(-1, threshold))


def build_world(*topics: str) -> World:
    world = World()
    for topic in topics or ("orders",):
        world.broker.create(topic, 2)
    return world


def produce(world: World, number: int, topic: str = "orders") -> None:
    for n in range(number):
        world.broker.produce(topic, {"id": f"k{n}"}, {"id": f"k{n}", "name": "x"}, partition=n % 2)


class Counting:
    """The broker of a world, and how often each of its verbs was used."""

    def __init__(self, world: World) -> None:
        self.broker, self.calls = world.broker, Counter()

    def __getattr__(self, verb: str):
        self.calls[verb] += 1
        return getattr(self.broker, verb)


def test_a_pipeline_is_called_as_soon_as_enough_records_wait_beyond_what_is_published() -> None:
    world, seconds, pipeline = build_world(), Seconds(), build_watched_pipeline()
    lookout, watch = BacklogMonitor(seconds), MonitoredPipeline.from_pipeline(pipeline)
    produce(world, 2)
    assert lookout.poll(world.broker, [watch]) == {}
    produce(world, 1)
    seconds.now += 3
    assert lookout.poll(world.broker, [watch]) == {"shop": 3}
    flush(world.open_session(pipeline))
    seconds.now += 3
    assert lookout.poll(world.broker, [watch]) == {}
    produce(world, 4)
    seconds.now += 3
    assert lookout.poll(world.broker, [watch]) == {"shop": 4}


def test_a_call_is_not_repeated_while_the_flush_runs_but_is_when_nothing_has_moved_for_a_minute() -> None:
    world, seconds = build_world(), Seconds()
    lookout, watch = BacklogMonitor(seconds), MonitoredPipeline.from_pipeline(build_watched_pipeline())
    produce(world, 5)
    assert lookout.poll(world.broker, [watch]) == {"shop": 5}
    for _ in range(int(REPEAT_CALL_SECONDS) - 1):
        seconds.now += 1
        assert lookout.poll(world.broker, [watch]) == {}
    seconds.now += 1
    assert lookout.poll(world.broker, [watch]) == {"shop": 5}


def test_a_pipeline_far_behind_is_called_again_as_soon_as_its_progress_has_moved() -> None:
    world, seconds = build_world(), Seconds()
    pipeline = build_watched_pipeline()
    small = Pipeline("shop", pipeline.source, pipeline.tables, merge=Merge(-1, 3, max_records=2))
    lookout, watch = BacklogMonitor(seconds), MonitoredPipeline.from_pipeline(small)
    produce(world, 8)
    assert lookout.poll(world.broker, [watch]) == {"shop": 8}
    flush(world.open_session(small))
    seconds.now += 3
    assert lookout.poll(world.broker, [watch]) == {"shop": 6}


def test_two_hundred_idle_pipelines_cost_one_request_a_look() -> None:
    topics = [f"t{n}" for n in range(200)]
    world, seconds = build_world(*topics), Seconds()
    watches = [
        MonitoredPipeline.from_pipeline(build_watched_pipeline(f"p{n}", topic=topic)) for n, topic in enumerate(topics)
    ]
    lookout, counting = BacklogMonitor(seconds), Counting(world)
    lookout.poll(counting, watches)  # the first look asks for the progress of each
    counting.calls.clear()
    for _ in range(60):
        seconds.now += 1
        assert lookout.poll(counting, watches) == {}
    assert counting.calls == {"read_end_offsets": 60}


def test_a_position_that_was_moved_back_is_noticed_after_a_while() -> None:
    world, seconds, pipeline = build_world(), Seconds(), build_watched_pipeline()
    lookout, watch = BacklogMonitor(seconds), MonitoredPipeline.from_pipeline(pipeline)
    produce(world, 3)
    flush(world.open_session(pipeline))
    assert lookout.poll(world.broker, [watch]) == {}
    world.broker.commit("tidegate-shop", {"orders": {0: 0, 1: 0}})
    seconds.now += PROGRESS_TTL_SECONDS
    assert lookout.poll(world.broker, [watch]) == {"shop": 3}


def test_a_group_that_cannot_be_read_is_told_and_hides_no_other_pipeline() -> None:
    class Refuses(Counting):
        def read_committed(self, group: str, topics: tuple[str, ...]):
            if group == "tidegate-closed":
                raise RetryLater("group=tidegate-closed: refused")
            return self.broker.read_committed(group, topics)

    world = build_world()
    produce(world, 3)
    lookout, watches = (
        BacklogMonitor(Seconds()),
        [
            MonitoredPipeline.from_pipeline(build_watched_pipeline("closed")),
            MonitoredPipeline.from_pipeline(build_watched_pipeline("open")),
        ],
    )
    assert lookout.poll(Refuses(world), watches) == {"open": 3}
    assert lookout.failures == {"closed": "group=tidegate-closed: refused"}


def test_a_group_that_cannot_be_read_is_asked_for_less_often_each_time_and_holds_up_nobody() -> None:
    seconds, slow = Seconds(), 30.0

    class Refuses(Counting):
        refuses = True

        def read_committed(self, group: str, topics: tuple[str, ...]):
            if group == "tidegate-closed":
                self.calls[group] += 1
                if self.refuses:
                    seconds.now += slow
                    raise RetryLater("group=tidegate-closed: no answer")
            return self.broker.read_committed(group, topics)

    world = build_world("orders", "others")
    closed, open_pipeline = build_watched_pipeline("closed"), build_watched_pipeline("open", topic="others")
    watches = [MonitoredPipeline.from_pipeline(closed), MonitoredPipeline.from_pipeline(open_pipeline)]
    lookout, broker, refusal_times = BacklogMonitor(seconds), Refuses(world), list[float]()
    while seconds.now < 12 * 3600:
        lookout.poll(broker, watches)
        refusal_times += [seconds.now] * len(lookout.failures)
        seconds.now += 1
    assert len(refusal_times) == broker.calls["tidegate-closed"]
    assert len(refusal_times) * slow < 0.1 * seconds.now, "others are looked at nine tenths of the time at least"
    assert max(later - earlier for earlier, later in pairwise(refusal_times)) < 400
    broker.refuses = False
    produce(world, 3)
    begun = seconds.now
    while "closed" not in lookout.poll(broker, watches):
        seconds.now += 1
    assert seconds.now - begun < 400
    broker.refuses = True
    world.broker.commit("tidegate-closed", {"orders": {0: 2, 1: 1}})
    seconds.now += PROGRESS_TTL_SECONDS
    lookout.poll(broker, watches)
    assert lookout.failures.keys() == {"closed"}
    seconds.now += 30
    broker.refuses = False
    produce(world, 3)
    assert lookout.poll(broker, watches).keys() == {"closed"}, "a first failure costs a moment"


def test_heartbeats_of_the_pipeline_itself_start_no_flush() -> None:
    world, seconds = build_world("a.orders", "a.heartbeats"), Seconds()
    beating = replace(
        build_watched_pipeline(topics=(), topic_pattern=r"a\..*"),
        heartbeat=Heartbeat(produce=True, topic="a.heartbeats"),
    )
    produce(world, 9, "a.heartbeats")
    assert BacklogMonitor(seconds).poll(world.broker, [MonitoredPipeline.from_pipeline(beating)]) == {}
    produce(world, 3, "a.orders")
    assert BacklogMonitor(seconds).poll(world.broker, [MonitoredPipeline.from_pipeline(beating)]) == {"shop": 3}


def test_ignored_topics_missing_topics_and_other_patterns_do_not_count() -> None:
    world = build_world("a.orders", "a.lines", "__debezium-heartbeat.a", "b")
    for topic in ("a.orders", "a.lines", "__debezium-heartbeat.a", "b"):
        produce(world, 2, topic)
    pattern = MonitoredPipeline.from_pipeline(build_watched_pipeline(topics=(), topic_pattern=r"a\..*|__debezium.*"))
    missing = MonitoredPipeline("gone", "g", 1, topics=("nowhere",))
    assert BacklogMonitor(Seconds()).poll(world.broker, [pattern, missing]) == {"shop": 4}


def test_topic_that_is_not_there_is_told_seldom_and_not_asked_for_in_each_look() -> None:
    """The brokers are asked for all topics where one is missing; the others are looked at each second."""
    world, seconds = build_world(), Seconds()
    requests: list[tuple[str, ...]] = []
    broker = AskedForEnds(world.broker, requests)
    watches = [
        MonitoredPipeline.from_pipeline(build_watched_pipeline()),
        MonitoredPipeline("gone", "g", 1, topics=("nowhere", "orders"), isolation="read_uncommitted"),
        MonitoredPipeline("gone too", "h", 1, topics=("nowhere",), isolation="read_uncommitted"),
    ]
    lookout, failures = BacklogMonitor(seconds), list[dict[str, str]]()
    for _ in range(3600):
        lookout.poll(broker, watches)
        failures.append(lookout.failures)
        seconds.now += 1
    assert sum("nowhere" in topics for topics in requests) < 70
    assert sum("orders" in topics for topics in requests) == 7200
    lines = [failures for failures in failures if failures]
    assert 1 < len(lines) < 15
    assert all(line.keys() == {"gone", "gone too"} for line in lines)
    assert lines[0]["gone"].startswith("topic=nowhere: the brokers have no such topic, or none")
    world.broker.create("nowhere", 2)
    world.broker.produce("nowhere", {"id": "a"}, {"id": "a", "name": "x"})
    seconds.now += 60
    assert lookout.poll(broker, watches).keys() == {"gone", "gone too"}


def test_nothing_is_kept_of_topics_and_patterns_that_nobody_watches_any_more() -> None:
    world, seconds = build_world("tenant-0"), Seconds()
    lookout = BacklogMonitor(seconds)
    for number in range(1, 6):
        pattern = f"tenant-[0-9]|{number}"
        pipeline = build_watched_pipeline(topic="", topics=(), topic_pattern=pattern)
        missing_pipeline = MonitoredPipeline.from_pipeline(
            build_watched_pipeline(f"other_{number}", topic=f"gone-{number}")
        )
        lookout.poll(world.broker, [MonitoredPipeline.from_pipeline(pipeline), missing_pipeline])
        seconds.now += 3600
    assert set(lookout._matching) == {"tenant-[0-9]|5"}
    assert set(lookout._missing_topics) == {"gone-5"}


class AskedForEnds:
    """The broker of a world, with the topics whose ends were asked for."""

    def __init__(self, broker: Any, requests: list[tuple[str, ...]]) -> None:
        self._broker, self._asked = broker, requests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._broker, name)

    def read_end_offsets(self, topics: tuple[str, ...], isolation: str) -> Any:
        self._asked.append(topics)
        return self._broker.read_end_offsets(topics, isolation)


def test_a_pipeline_that_starts_at_the_latest_record_counts_from_the_first_look_on() -> None:
    world, seconds = build_world(), Seconds()
    lookout, watch = (
        BacklogMonitor(seconds),
        MonitoredPipeline.from_pipeline(build_watched_pipeline(start=Start("latest"))),
    )
    produce(world, 5)
    assert lookout.poll(world.broker, [watch]) == {}
    produce(world, 3)
    seconds.now += 3
    assert lookout.poll(world.broker, [watch]) == {"shop": 3}


def test_partition_that_was_added_behind_the_groups_first_look_counts_from_its_begin_also_after_a_restart() -> None:
    world, seconds = build_world(), Seconds()
    watch = MonitoredPipeline.from_pipeline(build_watched_pipeline(threshold=1, start=Start("latest")))
    produce(world, 5)
    world.broker.commit(watch.group, world.broker.read_log(("orders",), watch.isolation).end)
    world.broker.grow("orders", 3)
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"}, 2)
    assert BacklogMonitor(seconds).poll(world.broker, [watch]) == {"shop": 1}


def test_records_that_retention_took_do_not_wait() -> None:
    world = build_world()
    produce(world, 6)
    world.broker.retain_from("orders", 2, partition=0)
    assert BacklogMonitor(Seconds()).poll(
        world.broker, [MonitoredPipeline.from_pipeline(build_watched_pipeline())]
    ) == {"shop": 4}


def test_a_watch_survives_as_plain_data() -> None:
    watch = MonitoredPipeline.from_pipeline(build_watched_pipeline(topic_pattern="a.*"))
    assert MonitoredPipeline.from_dict(watch.to_dict()) == watch


def test_topic_that_is_made_after_the_first_look_is_found_after_a_while_and_again_after_that() -> None:
    world, seconds = build_world("a.orders"), Seconds()
    pipeline = build_watched_pipeline(topic="", topics=(), topic_pattern="a[.].*")
    lookout, watch = BacklogMonitor(seconds), MonitoredPipeline.from_pipeline(pipeline)
    assert lookout.poll(world.broker, [watch]) == {}
    for topic in ("a.Lines", "a.users"):
        world.broker.create(topic, 2)
        produce(world, 3, topic)
        seconds.now += 1
        assert lookout.poll(world.broker, [watch]) == {}, "names are asked for once a minute"
        seconds.now += METADATA_TTL_SECONDS
        assert lookout.poll(world.broker, [watch])
    assert lookout._matching["a[.].*"][1] == ("a.Lines", "a.orders", "a.users")
