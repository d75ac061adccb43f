"""Apache Iceberg as a destination, through PyIceberg."""

from collections.abc import Mapping

from tidegate.adapters.iceberg.ports.commits import IcebergCommits
from tidegate.adapters.iceberg.ports.dead_letters import IcebergDeadLetters
from tidegate.adapters.iceberg.ports.history import IcebergHistory
from tidegate.adapters.iceberg.ports.staging import IcebergStaging
from tidegate.adapters.iceberg.ports.tables import IcebergTables
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.ports.destination import Destination


def build_iceberg_destination(catalogs: Catalogs, branches: Mapping[str, str] | None = None) -> Destination:
    """The ports over Iceberg catalogs; `branches` names for a table the branch that is written in place of main."""
    return Destination(
        tables=IcebergTables(catalogs, branches),
        commits=IcebergCommits(catalogs, branches),
        staging=IcebergStaging(catalogs, branches),
        dead_letters=IcebergDeadLetters(catalogs, branches),
        history=IcebergHistory(catalogs, branches),
    )
