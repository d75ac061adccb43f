"""heartbeat: keep every partition's committed offset alive and where it belongs, also when nothing was flushed."""

from tidegate.offsets import Offsets, merged
from tidegate.ports import Ports
from tidegate.steps.plan import first_start
from tidegate.topics import ignored_topics, known_log
from tidegate.watermark import low_watermark, report


def heartbeat(ports: Ports) -> Offsets:
    """Commit again what is published, and the ends of ignored topics; return what was committed.

    Brokers forget a committed offset some days after its own last commit (`offsets.retention.minutes`), so quiet
    partitions need this too. Never commits beyond what is published: a partition's offset is the low watermark or,
    for topics that carry no rows, the end of the log. While no table has a position, `start: latest` is held here.
    """
    ignored = ignored_topics(ports)
    quiet = ports.broker.log(ignored, ports.pipeline.source.isolation).end if ignored else {}
    offsets = merged(low_watermark(ports) or _held_start(ports), quiet)
    return report(ports, offsets)


def _held_start(ports: Ports) -> Offsets:
    return first_start(ports, known_log(ports)[0]) if ports.pipeline.source.start.kind == "latest" else {}
