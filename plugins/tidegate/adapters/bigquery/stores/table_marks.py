"""Protects a destination and its position: marks the table, and removes its expiration."""

import hashlib
import logging
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse, get_uuid, to_labels
from tidegate.errors import GiveUp
from tidegate.model import resource_names

log = logging.getLogger(__name__)
LABEL_PREFIX = "tidegate_position_"
SHARED_LABEL = "tidegate_positions"  # for all pipelines that the table has no room for a label of
MAX_LABELS = 64  # of a table, its owner's among them
MAX_LABEL_LETTERS = 63
DIGEST_LETTERS = 12


def is_written_by(table: Any, pipeline: str) -> bool:
    """Whether this pipeline has published into this very table, and not into a former one of its name or a copy."""
    return bool((table.labels or {}).get(_build_label(pipeline)) == get_uuid(table))


def is_written_by_many(table: Any) -> bool:
    """Whether pipelines have published into this very table whose labels had no room."""
    return bool((table.labels or {}).get(SHARED_LABEL) == get_uuid(table))


def mark_table(warehouse: Warehouse, name: str, table: Any, pipeline: str) -> None:
    """Mark the table as one that the pipeline has a position for, before its first rows are written.

    A table has few labels. If they are used up, those go that are of a former table of this name. Then the pipelines
    that come last share one, which tells of their positions as long as there is not one in the table of positions.
    """
    if is_written_by(table, pipeline):
        return
    uuid = get_uuid(table)
    labels = dict(table.labels or {})
    own_label = _build_label(pipeline)
    is_ours = (LABEL_PREFIX, SHARED_LABEL)
    if own_label not in labels and len(labels) >= MAX_LABELS - 1:
        labels = {label: text for label, text in labels.items() if not label.startswith(is_ours) or text == uuid}
    is_full = own_label not in labels and len(labels) >= MAX_LABELS - (SHARED_LABEL not in labels)
    if is_full and len(labels) >= MAX_LABELS and SHARED_LABEL not in labels:
        raise GiveUp(
            f"table={name}: it has labels={len(labels)}, and BigQuery takes no more: there is no room for the label by "
            f"which pipeline={pipeline} marks it; nothing was changed; remove one of the table's labels"
        )
    labels[SHARED_LABEL if is_full else own_label] = uuid
    if labels != table.labels:
        remove_expiration(warehouse, resource_names.name_positions_table(name))  # an earlier version may have left it
        table.labels = labels
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
