"""What change-data connectors vouch for: the time of the heartbeats that they send to topics of their own."""

from tidegate.model.offsets import Offsets
from tidegate.ports.context import Ports
from tidegate.progress.topic_log import list_ignored_topics


def read_connector_heartbeat_ms(ports: Ports) -> int | None:
    """The time of the newest heartbeat of each change-data connector, the oldest of them; None while one has sent none.

    A connector sends its heartbeat after all changes that it has seen, so what is at the end of the log that is read
    afterwards has everything up to that time.
    """
    topics = tuple(t for t in list_ignored_topics(ports) if t != ports.pipeline.heartbeat.topic)
    isolation = ports.pipeline.source.isolation
    newest: Offsets = (
        ports.broker.read_newest_timestamps(ports.broker.read_end_offsets(topics, isolation)) if topics else {}
    )
    times = [max(newest[topic].values(), default=None) if topic in newest else None for topic in topics]
    known_times = [time for time in times if time is not None]
    return min(known_times) if known_times and len(known_times) == len(times) else None
