"""commit_offsets: report to Kafka how far the pipeline has published."""

import logging

from tidegate.model.offsets import Offsets, format_offsets
from tidegate.ports.context import Ports
from tidegate.progress.low_watermark import commit_to_group, compute_low_watermark, explain_empty_watermark
from tidegate.progress.table_progress import observe_tables
from tidegate.tables.templated_tables import expand_template

log = logging.getLogger(__name__)


def commit_offsets(ports: Ports) -> Offsets:
    """Commit the low watermark over all tables to the consumer group, read it back and return it.

    Idempotent. The group's offsets are progress for people: nothing reads them once a table has a position, so what a
    late zombie commits is fixed by the next run. NothingToDo while no table has a position of this cluster.
    """
    ports = expand_template(ports)
    tables = observe_tables(ports)
    offsets = compute_low_watermark(ports, tables)
    if not any(offsets.values()):
        raise explain_empty_watermark(ports, tables)
    log.info(
        "committing: pipeline=%s group=%s %s", ports.pipeline.name, ports.pipeline.source.group, format_offsets(offsets)
    )
    return commit_to_group(ports, offsets).offsets
