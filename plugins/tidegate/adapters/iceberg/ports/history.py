"""The port `BatchHistory` over Iceberg."""

from tidegate.adapters.iceberg.ports.port import IcebergPort
from tidegate.adapters.iceberg.stores import batch_history
from tidegate.adapters.iceberg.stores import staging as iceberg_staging
from tidegate.adapters.iceberg.table import commit
from tidegate.adapters.iceberg.table import state as iceberg_state
from tidegate.adapters.iceberg.table.errors import translate_iceberg_errors
from tidegate.model import resource_names
from tidegate.model.ownership import Ownership, TableKind
from tidegate.ports.destination import HistoryRow


class IcebergHistory(IcebergPort):
    """Implements the port `BatchHistory`."""

    @translate_iceberg_errors
    def append_history(self, control: str, row: HistoryRow) -> None:
        """See the port."""
        catalog, identifier = control.split(".", 1)
        batch_history.append_row(self.catalogs.catalog(catalog), identifier, row)

    @translate_iceberg_errors
    def read_history(self, control: str, limit: int) -> list[HistoryRow]:
        """See the port."""
        loaded_table = self.catalogs.table(control)
        return [] if loaded_table is None else batch_history.read_newest_batches(loaded_table, limit)

    @translate_iceberg_errors
    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        """See the port."""
        catalog, identifier = table.split(".", 1)
        prefix = resource_names.get_backfill_prefix(pipeline, identifier)
        owner = Ownership(TableKind.INTERMEDIATE, pipeline, identifier)
        return iceberg_staging.read_backfill_notes(self.catalogs.catalog(catalog), prefix, owner)

    @translate_iceberg_errors
    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        """See the port."""
        loaded_table = self.catalogs.table(intermediate)
        return frozenset() if loaded_table is None else iceberg_staging.list_applied_slices(loaded_table, shape)

    @translate_iceberg_errors
    def mark_applied(self, intermediate: str, number: int) -> None:
        """See the port."""
        iceberg_staging.mark_applied(self._load_table(intermediate), number)

    @translate_iceberg_errors
    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        """See the port."""
        loaded_table = self.catalogs.table(table)
        if loaded_table is not None:
            branches = iceberg_state.list_backfill_branches(loaded_table, pipeline, backfill)
            commit.drop_branches(loaded_table, branches, resource_names.name_backfill_property(pipeline, backfill))
