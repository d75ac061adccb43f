"""PyIceberg's catalogs and tables, opened once per process by the names of ``catalogs.yaml``."""

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.table import Table

from tidegate.adapters.iceberg.table.sqlite_catalog import prepare_database
from tidegate.adapters.open_clients import OpenClients
from tidegate.errors import ConfigurationError

SQLITE_PREFIX = "sqlite:///"
POSTGRES_PREFIX = "postgresql://"
LOCK_SECONDS = 60  # how long a writer waits for another one's commit in a SQLite catalog


class Catalogs:
    """Catalogs by name; `properties` are PyIceberg's, secrets included, and never leave this object.

    `connections` names the connection that a catalog's login comes from, for those that have one. `opened` are
    the clients that other users of the same catalogs in this process share.
    """

    def __init__(
        self,
        properties: Mapping[str, Mapping[str, Any]],
        connections: Mapping[str, str | None] | None = None,
        opened: OpenClients | None = None,
    ) -> None:
        self._properties, self._connections = properties, connections or {}
        self._opened = opened or OpenClients()

    def catalog(self, name: str) -> IcebergCatalog:
        """The open catalog of that name."""
        if name not in self._properties:
            raise ConfigurationError(f"catalog={name} is not an Iceberg catalog of catalogs.yaml; declare it there")
        properties = dict(self._properties[name])
        catalog: IcebergCatalog = self._opened.client(name, properties, lambda: _open_catalog(name, dict(properties)))
        return catalog

    def login(self, name: str) -> str:
        """Where the login of a catalog stands, as ``name=value`` for a message."""
        connection = self._connections.get(name)
        return f"catalog={name} connection={connection}" if connection else f"catalog={name} of catalogs.yaml"

    def table(self, name: str) -> Table | None:
        """A fresh load of ``catalog.namespace.table``; None where there is none."""
        catalog, identifier = name.split(".", 1)
        try:
            return self.catalog(catalog).load_table(identifier)
        except NoSuchTableError:
            return None

    def names_in(self, namespace: str) -> list[str]:
        """Names of the tables in ``catalog.namespace``."""
        catalog, identifier = namespace.split(".", 1)
        try:
            return sorted(identifier[-1] for identifier in self.catalog(catalog).list_tables(identifier))
        except NoSuchNamespaceError:
            return []

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The catalogs that can be opened."""
        return tuple(self._properties)


def _open_catalog(name: str, properties: dict[str, Any]) -> IcebergCatalog:
    uri = str(properties.get("uri", ""))
    if properties.get("type") == "sql" and uri.startswith(SQLITE_PREFIX):
        prepare_database(Path(uri.removeprefix(SQLITE_PREFIX).partition("?")[0]))
        properties["uri"] = uri + ("&" if "?" in uri else "?") + f"timeout={LOCK_SECONDS}"
    if uri.startswith(POSTGRES_PREFIX):  # without a driver SQLAlchemy takes the newest, which is not the one installed
        properties["uri"] = uri.replace(POSTGRES_PREFIX, "postgresql+psycopg2://", 1)
    opened = load_catalog(name, **{key: str(value) for key, value in properties.items()})
    if isinstance(opened, RestCatalog):  # its server deletes old metadata; PyIceberg would warn that it is gone
        opened._delete_old_metadata = lambda *_: None  # type: ignore[method-assign]
    return opened
