"""Protects a destination and its position: marks the table, and removes its expiration."""

import hashlib
import logging
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse, to_labels
from tidegate.adapters.bigquery.stores.staging import get_uuid
from tidegate.model import resource_names

log = logging.getLogger(__name__)
LABEL_PREFIX = "tidegate_position_"
MAX_LABEL_LETTERS = 63
DIGEST_LETTERS = 12


def is_written_by(table: Any, pipeline: str) -> bool:
    """Whether this pipeline has published into this very table, and not into a former one of its name or a copy."""
    return bool((table.labels or {}).get(_build_label(pipeline)) == get_uuid(table))


def mark_table(warehouse: Warehouse, name: str, table: Any, pipeline: str) -> None:
    """Mark the table as one that the pipeline has a position for, before its first rows are written."""
    if not is_written_by(table, pipeline):
        remove_expiration(warehouse, resource_names.name_positions_table(name))  # an earlier version may have left it
        table.labels = {**(table.labels or {}), _build_label(pipeline): get_uuid(table)}
        warehouse.update_table(table, "labels")


def remove_expiration(warehouse: Warehouse, name: str) -> None:
    """Remove a table's expiration. A dataset gives its default to each table that is created in it."""
    table = warehouse.find_table(name)
    if table is not None and table.expires is not None:
        log.info("table=%s would expire at %s: that is taken away", name, table.expires)
        table.expires = None
        warehouse.update_table(table, "expires")


def _build_label(pipeline: str) -> str:
    """The pipeline's label. A name that no label can hold as it is ends in a digest."""
    label_text = LABEL_PREFIX + pipeline
    (label,) = to_labels({"name": label_text}).values()
    if label == label_text:
        return label
    digest = hashlib.sha256(pipeline.encode()).hexdigest()[:DIGEST_LETTERS]
    return f"{label[: MAX_LABEL_LETTERS - DIGEST_LETTERS - 1]}_{digest}"
