"""The port `TableStore` over Iceberg."""

from collections.abc import Mapping

from pyiceberg.table import Table

from tidegate.adapters.iceberg import branch_writers
from tidegate.adapters.iceberg.ports.port import IcebergPort
from tidegate.adapters.iceberg.pruning import file_overlap, key_ranges, key_values
from tidegate.adapters.iceberg.stores import ownership, remembered_deletes
from tidegate.adapters.iceberg.table import file_statistics, folder_limits, row_count, schema_evolution
from tidegate.adapters.iceberg.table import state as iceberg_state
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.adapters.iceberg.table.errors import translate_iceberg_errors
from tidegate.adapters.iceberg.table.type_mapping import refuse_unreadable
from tidegate.model.merge_input import MergeInput
from tidegate.model.ownership import Ownership
from tidegate.model.table_state import FolderLimit, TableFiles, TableState
from tidegate.schema.data_types import Column
from tidegate.schema.evolution import EvolutionRules
from tidegate.sql.pruning import Bounds

# tables whose metadata is kept as it was read, for the merge that follows: it may be megabytes each
MAX_CACHED_TABLES = 8


class IcebergTables(IcebergPort):
    """Implements the port `TableStore`."""

    def __init__(self, catalogs: Catalogs, branches: Mapping[str, str] | None = None) -> None:
        super().__init__(catalogs, branches)
        self._states: dict[str, Table] = {}

    @translate_iceberg_errors
    def list_tables(self, namespace: str) -> list[str]:
        """See the port."""
        return self.catalogs.list_table_names(namespace)

    @translate_iceberg_errors
    def read_state(self, table: str, pipeline: str) -> TableState | None:
        """See the port."""
        loaded_table = self.catalogs.table(table)
        if loaded_table is None:
            self.catalogs.refuse_view(table)
            return None
        refuse_unreadable(table, loaded_table)
        self._states.pop(table, None)
        self._states[table] = loaded_table
        for oldest in list(self._states)[:-MAX_CACHED_TABLES]:
            self._states.pop(oldest, None)
        return iceberg_state.build_state(loaded_table, pipeline, self._branch(table))

    @translate_iceberg_errors
    def evolve(self, table: str, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
        """See the port."""
        return schema_evolution.evolve(self._load_table(table), table, columns, EvolutionRules(add, widen, relax))

    @translate_iceberg_errors
    def find_bounds(self, table: str, values: MergeInput) -> Bounds:
        """See the port."""
        staging_table = self.catalogs.table(values["source"])
        all_ranges = () if staging_table is None else key_ranges.find_key_ranges(staging_table, values)
        at = values.get("at")
        destination = (
            (self._load_table(table) if at is None else self._load_table_at(table, at)) if all_ranges else None
        )
        ranges = tuple(
            key_range
            for key_range in all_ranges
            if destination and file_overlap.find_table_field(destination, key_range) is not None
        )
        overlap = (
            file_overlap.find_overlap(destination, at, ranges) if destination and ranges and at is not None else None
        )
        if staging_table is not None and key_values.are_keys_worth_naming(values.get("rows", 0), overlap):
            return Bounds(key_values.name_keys(staging_table, values, ranges), overlap=overlap)
        return Bounds(tuple(key_range.bound for key_range in ranges), overlap=overlap)

    @translate_iceberg_errors
    def claim(self, table: str, owner: Ownership) -> dict[str, str] | None:
        """See the port."""
        loaded_table = self.catalogs.table(table)
        return None if loaded_table is None else ownership.claim(loaded_table, table, owner)

    @translate_iceberg_errors
    def list_pipelines(self, table: str) -> tuple[str, ...]:
        """See the port."""
        loaded_table = self.catalogs.table(table)
        return () if loaded_table is None else branch_writers.list_branch_pipelines(loaded_table, self._branch(table))

    @translate_iceberg_errors
    def has_files(self, table: str) -> bool:
        """See the port."""
        return self.catalogs.table(table) is not None

    @translate_iceberg_errors
    def read_files(self, table: str, exact: bool = False) -> TableFiles | None:
        """See the port."""
        loaded_table = self.catalogs.table(table)
        return None if loaded_table is None else file_statistics.measure_files(loaded_table, exact)

    @translate_iceberg_errors
    def read_property(self, table: str, name: str) -> str | None:
        """See the port."""
        loaded_table = self.catalogs.table(table)
        return None if loaded_table is None else loaded_table.metadata.properties.get(name)

    @translate_iceberg_errors
    def list_folder_limits(self, table: str, partition_by: tuple[str, ...]) -> tuple[FolderLimit, ...]:
        """See the port."""
        loaded_table = self._states.get(table) or self.catalogs.table(table)
        if loaded_table is not None:
            return folder_limits.list_limits(loaded_table)
        catalog, identifier = table.split(".", 1)
        warehouse = self.catalogs.catalog(catalog).properties.get("warehouse", "")
        return folder_limits.list_limits_of_new(f"{warehouse}/{identifier}", partition_by) if warehouse else ()

    @translate_iceberg_errors
    def count_rows(self, table: str) -> int | None:
        """See the port."""
        loaded_table = self.catalogs.table(table)
        return None if loaded_table is None else row_count.count_rows(loaded_table, self._branch(table))

    @translate_iceberg_errors
    def forget_deletes(self, deletes: str, before_ms: int, every_ms: int = 0) -> int:
        """See the port: it goes file by file, so that it need not wait."""
        loaded_table = self.catalogs.table(deletes)
        return 0 if loaded_table is None else remembered_deletes.forget_deletes(loaded_table, before_ms)

    def _load_table_at(self, name: str, snapshot_id: int) -> Table:
        """The table as its state was read, if that has the snapshot: a snapshot is never another."""
        read = self._states.get(name)
        return read if read is not None and read.metadata.snapshot_by_id(snapshot_id) else self._load_table(name)
