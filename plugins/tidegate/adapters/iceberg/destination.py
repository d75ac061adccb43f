"""Apache Iceberg as a destination, through PyIceberg."""

from collections.abc import Iterable, Mapping

from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.catalog_conf import resolve_catalog_properties
from tidegate.adapters.iceberg.commit import IcebergCommits
from tidegate.adapters.iceberg.history import IcebergHistory
from tidegate.adapters.iceberg.letters import IcebergDeadLetters
from tidegate.adapters.iceberg.staging import IcebergStaging
from tidegate.adapters.iceberg.table import IcebergTables
from tidegate.adapters.open_clients import OpenClients
from tidegate.connections import Resolve
from tidegate.ports.destination import Destination
from tidegate.spec.pipeline import Catalog


def build_iceberg_destination(catalogs: Catalogs, branches: Mapping[str, str] | None = None) -> Destination:
    """`branches` names, by table, the branch that is written in place of main."""
    return Destination(
        tables=IcebergTables(catalogs, branches),
        commits=IcebergCommits(catalogs, branches),
        staging=IcebergStaging(catalogs, branches),
        dead_letters=IcebergDeadLetters(catalogs, branches),
        history=IcebergHistory(catalogs, branches),
    )


def open_catalogs(catalogs: Iterable[Catalog], resolve: Resolve, clients: OpenClients | None = None) -> Catalogs:
    """With the logins of their connections; each connects at its first use."""
    catalog_specs = list(catalogs)
    connections = {catalog.name: catalog.connection for catalog in catalog_specs}
    properties = {catalog.name: resolve_catalog_properties(catalog, resolve) for catalog in catalog_specs}
    return Catalogs(properties, connections, clients)
