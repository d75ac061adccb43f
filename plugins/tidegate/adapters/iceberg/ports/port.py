"""What the ports over Iceberg share."""

from collections.abc import Mapping

from pyiceberg.table import Table

from tidegate.adapters.iceberg.table import commit
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.errors import GiveUp


class IcebergPort:
    """Every Iceberg catalog of ``catalogs.yaml``.

    `branches` names for a table the branch that is written in place of main. While it is not there, main is read.
    """

    def __init__(self, catalogs: Catalogs, branches: Mapping[str, str] | None = None) -> None:
        self.catalogs = catalogs
        self._branches = branches or {}

    def _branch(self, table: str) -> str:
        return self._branches.get(table, commit.MAIN)

    def _load_table(self, name: str) -> Table:
        loaded_table = self.catalogs.table(name)
        if loaded_table is None:
            raise GiveUp(f"table={name} does not exist any more; nothing was changed; the next flush plans anew")
        return loaded_table
