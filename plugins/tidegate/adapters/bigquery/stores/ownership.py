"""The mark on the product's own BigQuery tables, in labels: looked at before they are written, set on old ones."""

import logging
from collections.abc import Collection
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.model.ownership import (
    KIND_LABEL,
    Mark,
    Ownership,
    check_kind,
    check_recognised,
    compare_mark,
    refuse_other_mark,
)

log = logging.getLogger(__name__)
SHAPE_LABEL = "tidegate_shape"


def claim(warehouse: Warehouse, table: Any, name: str, owner: Ownership) -> None:
    """See that the table is ours; one of version 0.1 is marked. `GiveUp` for a table of somebody else."""
    refuse_other_mark(name, owner, owner.labels, table.labels)
    if compare_mark(owner.labels, table.labels) is Mark.OURS:
        return
    check_recognised(name, owner, [field.name for field in table.schema], table.labels.get(SHAPE_LABEL))
    table.labels = {**table.labels, **owner.labels}
    warehouse.update_table(table, "labels")
    log.info("marked a table of version 0.1: table=%s %s", name, owner.words)


def check_readable(table: Any, name: str, owner: Ownership) -> None:
    """`GiveUp` before a table of somebody else is read as one of ours; one of version 0.1 is told by its columns."""
    if get_kind(table) != owner.kind:
        check_recognised(name, owner, [field.name for field in table.schema], None)


def check_removable(table: Any, name: str, kinds: Collection[str]) -> None:
    """`GiveUp` before anything is removed from a table that is not ours."""
    check_kind(name, get_kind(table), table.labels.get(SHAPE_LABEL), kinds)


def get_kind(table: Any) -> str | None:
    """The kind in the mark, None for a table without one."""
    label = table.labels.get(KIND_LABEL)
    return None if label is None else str(label)
