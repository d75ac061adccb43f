"""The control table: what each batch did, for people and as a shortcut for programs; never needed to be right."""

import json
import logging
from dataclasses import asdict
from typing import Any

from tidegate import names
from tidegate.batch import PublishedBatch, StagedBatch
from tidegate.ports import Ports

log = logging.getLogger(__name__)


def record(ports: Ports, staged: StagedBatch, published: PublishedBatch) -> None:
    """Append one batch to the pipeline's control table; a failure is logged, the rows are published all the same."""
    if published.outcome != "published":
        return
    is_last = staged.batch == published.batch  # batches without rows that went along changed none
    row: dict[str, Any] = {
        "batch": staged.batch,
        "table": published.table,
        "attempt": staged.attempt,
        "ranges": json.dumps(staged.ranges.to_dict()),
        **asdict(staged.counts),
        **{name: getattr(published, name) if is_last else 0 for name in ("inserted", "updated", "deleted")},
        "seconds": published.seconds,
        "staged_snapshot_id": staged.snapshot_id,
        "snapshot_id": published.snapshot_id,
        "valid_through_ms": published.valid_through_ms,
        "published_at_ms": ports.now_ms(),
    }
    try:
        ports.destination.record(names.control_table(ports.pipeline), row)
    except Exception as error:  # history must not fail a flush whose rows are published
        log.warning("no history: pipeline=%s batch=%s", ports.pipeline.name, published.batch, exc_info=error)
