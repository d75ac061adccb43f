"""How far the log has run ahead of what is published, and which pipelines flush for it: told by offsets alone."""

import logging
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from tidegate.errors import TidegateError
from tidegate.model.offsets import Offsets, get_offset, iterate_offsets, merge_offsets
from tidegate.model.plain_data import read_plain
from tidegate.monitoring.failure_streak import is_worth_telling
from tidegate.ports.broker import Broker
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.source import StartKind

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0  # seconds between two looks: one small request to the brokers, whatever the number of pipelines
RETRY_SECONDS = 15.0  # behind one that failed
METADATA_TTL_SECONDS = 60.0  # seconds for which the topics of a pattern are believed
PROGRESS_TTL_SECONDS = (
    600.0  # seconds for which a pipeline's progress is believed while little waits: it may have been moved back
)
BUSY_PROGRESS_TTL_SECONDS = 2.0  # the same while much waits, so that a flush under way is not asked for in every look
# seconds for which a pipeline whose progress cannot be read is left alone, or ten times what the try took: longer each
# time, as a broker that does not answer holds up the look at all others
FIRST_PAUSE_SECONDS = 10.0
MAX_PAUSE_SECONDS = 300.0
PAUSE_FACTOR = 10.0
# the same of a topic of which the brokers tell no end: to look for a new one they are asked for all that they have
MAX_ABSENCE_SECONDS = 60.0
REPEAT_CALL_SECONDS = 60.0  # seconds until a pipeline that has not come on is called again: it is paused, or it fails


@dataclass(frozen=True)
class MonitoredPipeline:
    """One pipeline whose backlog is watched: `threshold` records that wait make it flush."""

    pipeline: str
    group: str
    threshold: int
    isolation: str = "read_committed"
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    ignored: tuple[str, ...] = ()
    from_end: bool = False  # while the group has committed nothing, only records from now on count

    @classmethod
    def from_pipeline(cls, pipeline: Pipeline) -> "MonitoredPipeline":
        source = pipeline.source
        return cls(
            pipeline=pipeline.name,
            group=source.group,
            threshold=pipeline.merge.records_threshold,
            isolation=source.isolation,
            topics=source.topics,
            pattern=source.topic_pattern,
            ignored=pipeline.ignored_topics,
            from_end=source.start.kind == StartKind.LATEST,
        )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "topics": list(self.topics), "ignored": list(self.ignored)}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "MonitoredPipeline":
        return read_plain(cls, data)


@dataclass
class _PipelineProgress:
    """What is remembered of one pipeline between two looks."""

    published: Offsets = field(default_factory=dict)
    asked_at: float | None = None
    called_at: float | None = None
    called_from: Offsets = field(default_factory=dict)
    # when a pipeline that could not be read, `failed` times in a row, is asked for again
    rested_until: float = float("-inf")
    failed: int = 0


@dataclass
class _MissingTopic:
    retry_at_seconds: float = float("-inf")
    missed_looks: int = 0


class BacklogMonitor:
    """Looks at the backlog of any number of pipelines of one Kafka cluster; one look costs one request for all.

    `now` counts seconds. Committed offsets are asked for only if the backlog seems large enough, or now and then.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._progress_by_watch: dict[MonitoredPipeline, _PipelineProgress] = {}
        self._matching: dict[str, tuple[float, tuple[str, ...]]] = {}
        self._missing_topics: dict[str, _MissingTopic] = {}
        self.failures: dict[str, str] = {}

    def poll(self, broker: Broker, watches: Iterable[MonitoredPipeline]) -> dict[str, int]:
        """Return the pipelines that are to flush now, with the offsets that wait.

        Each is called once: again when its progress has moved and enough waits still, or a minute later. What cannot be
        read rests for a while; `failures` says why.
        """
        watched_pipelines = tuple(watches)
        self._progress_by_watch = {
            watch: self._progress_by_watch.get(watch, _PipelineProgress()) for watch in watched_pipelines
        }
        self.failures = {}
        topics_by_watch = {watch: self._list_topics(broker, watch) for watch in watched_pipelines}
        known_topics = set[str]().union(*topics_by_watch.values())
        self._missing_topics = {topic: gone for topic, gone in self._missing_topics.items() if topic in known_topics}
        patterns = {watch.pattern for watch in watched_pipelines}
        self._matching = {pattern: known for pattern, known in self._matching.items() if pattern in patterns}
        now = self._now()
        resting = {topic for topic, gone in self._missing_topics.items() if gone.retry_at_seconds > now}
        topics = {watch: tuple(t for t in names if t not in resting) for watch, names in topics_by_watch.items()}
        levels: dict[str, set[str]] = {}
        for watch, names in topics.items():
            levels.setdefault(watch.isolation, set()).update(names)
        ends = {level: broker.read_end_offsets(tuple(sorted(names)), level) for level, names in levels.items()}
        self._note_absent(topics, ends)
        calls: dict[str, int] = {}
        for watch in watched_pipelines:
            level_ends = ends[watch.isolation]
            own_ends = {topic: level_ends[topic] for topic in topics[watch] if topic in level_ends}
            waiting_records = self._count_waiting(broker, watch, own_ends)
            if waiting_records >= watch.threshold and self._claim_call(watch):
                calls[watch.pipeline] = waiting_records
        return calls

    def _note_absent(self, topics: dict[MonitoredPipeline, tuple[str, ...]], ends: dict[str, Offsets]) -> None:
        # longer each time; those that a pipeline file names are logged
        noted_topics = set[str]()
        for watch, names in topics.items():
            for topic in names:
                if topic in ends[watch.isolation]:
                    self._missing_topics.pop(topic, None)
                    continue
                missing_topic = self._missing_topics.setdefault(topic, _MissingTopic())
                if topic not in noted_topics:
                    noted_topics.add(topic)
                    pause = min(MAX_ABSENCE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(missing_topic.missed_looks, 10))
                    missing_topic.retry_at_seconds = self._now() + pause
                    missing_topic.missed_looks = missing_topic.missed_looks + 1
                if watch.pattern is None and is_worth_telling(missing_topic.missed_looks):
                    self.failures[watch.pipeline] = (
                        f"topic={topic}: the brokers have no such topic, or none of its partitions has a leader; "
                        "create it, or correct source.topics; it is looked for again"
                    )

    def _list_topics(self, broker: Broker, watch: MonitoredPipeline) -> tuple[str, ...]:
        topics = watch.topics
        if watch.pattern is not None:
            entry = self._matching.get(watch.pattern)
            if entry is None or self._now() - entry[0] > METADATA_TTL_SECONDS:
                entry = self._matching[watch.pattern] = (self._now(), broker.list_topics(watch.pattern))
            topics = entry[1]
        return tuple(t for t in topics if not any(re.fullmatch(pattern, t) for pattern in watch.ignored))

    def _count_waiting(self, broker: Broker, watch: MonitoredPipeline, ends: Offsets) -> int:
        progress = self._progress_by_watch[watch]
        age = None if progress.asked_at is None else self._now() - progress.asked_at
        is_large = _count_beyond(progress.published, ends) >= watch.threshold
        if age is None or age >= PROGRESS_TTL_SECONDS or (is_large and age >= BUSY_PROGRESS_TTL_SECONDS):
            begin_seconds = self._now()
            if begin_seconds < progress.rested_until:
                return 0
            try:
                self._refresh_progress(broker, watch, ends)
            except TidegateError as reason:
                self.failures[watch.pipeline] = str(reason)
                now = self._now()
                took = PAUSE_FACTOR * (now - begin_seconds) if progress.failed else 0.0
                pause = max(FIRST_PAUSE_SECONDS * 2 ** min(progress.failed, 10), took)
                progress.rested_until = now + min(MAX_PAUSE_SECONDS, pause)
                progress.failed = progress.failed + 1
                return 0
            progress.failed = 0
        return _count_beyond(progress.published, ends)

    def _refresh_progress(self, broker: Broker, watch: MonitoredPipeline, ends: Offsets) -> None:
        progress = self._progress_by_watch[watch]
        topics = tuple(ends)
        committed = broker.read_committed(watch.group, topics)
        at_end = watch.from_end and not committed  # what was added behind the group's first look is read from its begin
        first = ends if at_end and progress.asked_at is None else progress.published
        if not at_end and any(get_offset(committed, t, p) is None for t, p, _ in iterate_offsets(ends)):
            first = broker.read_log(topics, watch.isolation).begin
        progress.published = merge_offsets(first, committed)
        progress.asked_at = self._now()

    def _claim_call(self, watch: MonitoredPipeline) -> bool:
        progress = self._progress_by_watch[watch]
        now = self._now()
        if (
            progress.called_at is not None
            and progress.called_from == progress.published
            and now - progress.called_at < REPEAT_CALL_SECONDS
        ):
            return False
        progress.called_at = now
        progress.called_from = progress.published
        return True


def _count_beyond(published_offsets: Offsets, ends: Offsets) -> int:
    return sum(max(0, end - (get_offset(published_offsets, topic, p) or 0)) for topic, p, end in iterate_offsets(ends))


class BacklogPoller:
    """Looks at the backlog of one cluster again and again, and outlives whatever happens to brokers and connections.

    `open_broker` connects to `place`, and is asked again behind a look that failed.
    """

    def __init__(self, place: str, open_broker: Callable[[], Broker]) -> None:
        self._place = place
        self._open_broker = open_broker
        self._monitor = BacklogMonitor(time.monotonic)
        self._broker: Broker | None = None
        self._failure_count = 0

    def look(self, watches: Iterable[MonitoredPipeline]) -> tuple[dict[str, int], float]:
        """Return what `BacklogMonitor.poll` does, and the seconds until the next look; a fault is logged."""
        try:
            if self._broker is None:
                self._broker = self._open_broker()
            calls = self._monitor.poll(self._broker, watches)
        except Exception as fault:
            self._broker = None
            self._failure_count += 1
            if is_worth_telling(self._failure_count):
                words = "the backlog cannot be read, next try in %.0f s: %s: %s"
                log.warning(words, RETRY_SECONDS, self._place, fault)
            return {}, RETRY_SECONDS
        self._failure_count = 0
        for pipeline, reason in self._monitor.failures.items():
            log.warning("backlog unknown: pipeline=%s: %s", pipeline, reason)
        return calls, POLL_SECONDS
