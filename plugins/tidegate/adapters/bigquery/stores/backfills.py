"""What the intermediate tables of backfills tell in BigQuery: what they were made for, and what of it is applied."""

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.stores.ownership import kind_of
from tidegate.adapters.bigquery.stores.staging import folder_of, needed, shape_of, uuid_of
from tidegate.model.ownership import Ownership


def notes(warehouse: Warehouse, prefix: str, own: Ownership) -> list[str]:
    """What is noted in the backfills' tables whose names begin with `prefix`, which is ``catalog.dataset.begin``.

    Of tables that carry this mark, or none.
    """
    namespace, _, begin = prefix.rpartition(".")
    tables = [f"{namespace}.{name}" for name in warehouse.tables_in(namespace) if name.startswith(begin)]
    found = [warehouse.table(name) for name in tables]
    ours = (t for t in found if t is not None and (not kind_of(t) or own.labels.items() <= t.labels.items()))
    return [table.description for table in ours if table.description]


def applied(warehouse: Warehouse, intermediate: str, shape: str) -> frozenset[int]:
    """The slices of a backfill that are applied, by files beside its table: a label takes few characters."""
    table = warehouse.table(intermediate)
    if table is None or shape_of(table) != shape:
        return frozenset()
    found = warehouse.folder.names(f"{folder_of(intermediate)}/applied/{uuid_of(table)}")
    return frozenset(int(name.rpartition("/")[2]) for name in found)


def mark_applied(warehouse: Warehouse, intermediate: str, number: int) -> None:
    """Say that a slice is applied, for the very table that is there."""
    table = needed(warehouse.table(intermediate), intermediate)
    warehouse.folder.write(f"{folder_of(intermediate)}/applied/{uuid_of(table)}/{number}", b"applied")
