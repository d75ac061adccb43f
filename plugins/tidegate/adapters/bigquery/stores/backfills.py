"""The notes of backfills in BigQuery: what their intermediate tables were made for, and which slices are applied."""

from tidegate.adapters.bigquery.client.client import Warehouse, get_uuid
from tidegate.adapters.bigquery.stores.ownership import get_kind
from tidegate.adapters.bigquery.stores.staging import get_folder, get_shape
from tidegate.model.ownership import Ownership


def read_backfill_notes(warehouse: Warehouse, prefix: str, owner: Ownership) -> list[str]:
    """The descriptions of the backfills' tables whose names begin with `prefix`, which is ``catalog.dataset.begin``.

    Tables of another owner's mark are left out.
    """
    namespace, _, begin = prefix.rpartition(".")
    tables = [f"{namespace}.{name}" for name in warehouse.list_tables(namespace) if name.startswith(begin)]
    loaded_tables = [warehouse.find_table(name) for name in tables]
    owned_tables = (
        t for t in loaded_tables if t is not None and (not get_kind(t) or owner.labels.items() <= t.labels.items())
    )
    return [table.description for table in owned_tables if table.description]


def list_applied_slices(warehouse: Warehouse, intermediate: str, shape: str) -> frozenset[int]:
    """The slices of a backfill that are applied, by files beside its table: a label takes few characters."""
    table = warehouse.find_table(intermediate)
    if table is None or get_shape(table) != shape:
        return frozenset()
    paths = warehouse.folder.list_paths(f"{get_folder(intermediate)}/applied/{get_uuid(table)}")
    return frozenset(int(name.rpartition("/")[2]) for name in paths)


def mark_applied(warehouse: Warehouse, intermediate: str, number: int) -> None:
    """Say that a slice is applied, for the very table that is there."""
    table = warehouse.require_table(intermediate)
    warehouse.folder.write(f"{get_folder(intermediate)}/applied/{get_uuid(table)}/{number}", b"applied")
