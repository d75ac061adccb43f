"""What Tidegate notes of a table in BigQuery: whose it is, which pipelines write it, and up to where.

Each destination has its own table of positions, because two transactions that change one table cancel each other. A
pipeline's row in it has a version, which the transaction of its rows asserts and moves.
"""

import hashlib
import json
import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tidegate.adapters.bigquery.catalog import Warehouse, get_uuid, to_labels
from tidegate.errors import GiveUp
from tidegate.model import resource_names
from tidegate.model.ownership import FORMAT, FORMAT_LABEL, KIND_LABEL, check_kind, check_mark, describe_positions
from tidegate.model.table_state import Head

log = logging.getLogger(__name__)
# labels of tables: those of our own say what they are for, destinations name the pipelines that write them
SHAPE_LABEL = "tidegate_shape"
LABEL_PREFIX = "tidegate_position_"
SHARED_LABEL = "tidegate_positions"  # for all pipelines that the table has no room for a label of
MAX_LABELS = 64  # of a table, its owner's among them
MAX_LABEL_LETTERS = 63
DIGEST_LETTERS = 12
# Keys of a row's properties beside the pipeline's own: the table that the position is of, the job that wrote the row,
# the bytes that its dry runs estimated, and how many of its last statements write the destination.
TABLE_KEY = "table"
JOB_KEY = "job"
SCANNED_BYTES_KEY = "bytes"
WRITES_KEY = "writes"


def check_removable(table: Any, name: str, kinds: Collection[str]) -> None:
    """`GiveUp` before anything is removed from another product's table."""
    check_kind(name, get_kind(table), kinds)


def get_kind(table: Any) -> str | None:
    """The kind in the mark, None without a mark."""
    label = table.labels.get(KIND_LABEL)
    return None if label is None else str(label)


def is_written_by(table: Any, pipeline: str) -> bool:
    """Whether this pipeline has published into this table, and not into a former one of its name or a copy."""
    return bool((table.labels or {}).get(build_position_label(pipeline)) == get_uuid(table))


def is_written_by_many(table: Any) -> bool:
    """Whether pipelines have published into this table whose labels had no room."""
    return bool((table.labels or {}).get(SHARED_LABEL) == get_uuid(table))


def mark_table(warehouse: Warehouse, name: str, table: Any, pipeline: str) -> None:
    """Mark the table before the pipeline's first rows are written: the pipeline has a position for it.

    A table has few labels. If they are used up, labels of a former table of this name go. Then the last pipelines
    share one label, which stands for their positions until the table of positions has one.
    """
    if is_written_by(table, pipeline):
        return
    uuid = get_uuid(table)
    labels = dict(table.labels or {})
    own_label = build_position_label(pipeline)
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
        remove_expiration(warehouse, resource_names.name_positions_table(name))  # somebody may have given it one
        table.labels = labels
        warehouse.update_table(table, "labels")


def remove_expiration(warehouse: Warehouse, name: str) -> None:
    """A dataset gives its default expiration to each table created in it."""
    table = warehouse.find_table(name)
    if table is not None and table.expires is not None:
        log.info("table=%s would expire at %s: that is taken away", name, table.expires)
        table.expires = None
        warehouse.update_table(table, "expires")


def build_position_label(pipeline: str) -> str:
    """Return the label of destinations in which the pipeline has a position."""
    label_text = LABEL_PREFIX + pipeline
    (label,) = to_labels({"name": label_text}).values()
    if label == label_text:
        return label
    # a name that no label can hold ends in a digest
    digest = hashlib.sha256(pipeline.encode()).hexdigest()[:DIGEST_LETTERS]
    return f"{label[: MAX_LABEL_LETTERS - DIGEST_LETTERS - 1]}_{digest}"


@dataclass(frozen=True)
class PositionRow:
    """One pipeline's row. `properties` are empty if they were written for a former table of the same name."""

    version: int
    attempt: str
    properties: dict[str, str]
    changed_ms: int
    is_current: bool
    job: str
    scanned: int | None = None
    writes: int = 0

    @property
    def head(self) -> Head:
        """What was published last, as a snapshot of the table."""
        return Head(self.version, self.version - 1, {**self.properties, "tidegate.attempt": self.attempt})


def read_position_row(warehouse: Warehouse, table: str, uuid: str, pipeline: str) -> PositionRow | None:
    """None without a row. A listing is free and waits for no slot."""
    for row in _list_rows(warehouse, table):
        if row["pipeline"] == pipeline:
            data = json.loads(row["properties"])
            is_current = data.pop(TABLE_KEY, "") == uuid
            return PositionRow(
                version=row["version"],
                attempt=row["attempt"] or "",
                job=data.pop(JOB_KEY, ""),
                scanned=data.pop(SCANNED_BYTES_KEY, None),
                writes=data.pop(WRITES_KEY, 0),
                properties=data if is_current else {},  # the rest is the pipeline's own
                changed_ms=round(row["changed"].timestamp() * 1000),
                is_current=is_current,
            )
    return None


def _list_rows(warehouse: Warehouse, table: str) -> list[dict[str, Any]]:
    positions = resource_names.name_positions_table(table)
    owner = describe_positions(table)
    labels = {KIND_LABEL: owner.kind, FORMAT_LABEL: FORMAT}  # a copy may be read, another kind or format not
    return warehouse.list_rows(
        positions, lambda loaded_table: check_mark(positions, owner, labels, loaded_table.labels)
    )


def list_pipelines(warehouse: Warehouse, table: str, uuid: str) -> tuple[str, ...]:
    """By name, the pipelines that have a position in the current table."""
    rows = _list_rows(warehouse, table)
    return tuple(sorted(row["pipeline"] for row in rows if json.loads(row["properties"]).get(TABLE_KEY) == uuid))
