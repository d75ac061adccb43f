"""The Iceberg catalogs of ``catalogs.yaml``, opened once per process, and what every port over them shares."""

import re
import sqlite3
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard, TypeVar, cast

import pydantic
from pyiceberg.catalog import Catalog as IcebergCatalog
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import BadRequestError, NoSuchNamespaceError, NoSuchTableError, ValidationError
from pyiceberg.table import Table

from tidegate.adapters.iceberg import pyiceberg_private
from tidegate.adapters.iceberg.catalog_conf import find_sqlite_file
from tidegate.adapters.iceberg.format_version import find_unknown_metadata, refuse_cut_path
from tidegate.adapters.open_clients import OpenClients
from tidegate.adapters.port_errors import format_one_line
from tidegate.adapters.server_probe import NO_HOST, Patience, Server, explain_address, require_server
from tidegate.errors import ConfigurationError, GiveUp

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog

MAIN = "main"
POSTGRES_PREFIX = "postgresql://"
# How long a writer waits for another one's commit in a SQLite catalog. It takes milliseconds, or seconds on a machine
# with too much to do; a lock that a program keeps is told before, by `adapters.spark.entry_points`.
LOCK_SECONDS = 30
# as SQLAlchemy reads it: its password may hold what ends the host of other addresses
DATABASE_LOGIN = re.compile(r"^(postgresql[^:]*://)[^:/]*(?::[^@]*)?@")
# Spark's and PyIceberg's catalogs both create these tables when they are missing; two first users at once collide.
CREATE_TABLES_SQL = """
CREATE TABLE IF NOT EXISTS iceberg_tables (
    catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
    metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
    PRIMARY KEY (catalog_name, table_namespace, table_name)
);
CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
    catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL,
    property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL,
    PRIMARY KEY (catalog_name, namespace, property_key)
);
"""


class Catalogs:
    """Catalogs by name; `properties` are PyIceberg's, secrets included, and never leave this object.

    `connections`: the connection with a catalog's login, if it has one. `opened`: clients that other users of the
    catalogs in this process share.
    """

    def __init__(
        self,
        properties: Mapping[str, Mapping[str, Any]],
        connections: Mapping[str, str | None] | None = None,
        opened: OpenClients | None = None,
    ) -> None:
        self._properties = properties
        self._connections = connections or {}
        self._opened = opened or OpenClients()

    def catalog(self, name: str) -> IcebergCatalog:
        if name not in self._properties:
            raise ConfigurationError(f"catalog={name} is not an Iceberg catalog of catalogs.yaml; declare it there")
        properties = dict(self._properties[name])
        catalog: IcebergCatalog = self._opened.get_client(name, properties, lambda: self._open(name, dict(properties)))
        return catalog

    def _open(self, name: str, properties: dict[str, Any]) -> IcebergCatalog:
        # ask the servers first: drivers wait for minutes, and do not say whom they wait for
        servers = self.list_servers(name)
        for server, uri in servers:
            problem = explain_address(uri) if uri.startswith(("http://", "https://", "postgresql")) else None
            # PostgreSQL without a host is at a socket of this machine
            if problem is not None and not (problem == NO_HOST and uri.startswith("postgresql")):
                raise ConfigurationError(f"{server.name} {server.place}: {problem}")
        for server, _ in servers:
            require_server(server)
        return _open_catalog(name, properties)

    def list_servers(self, name: str) -> list[tuple[Server, str]]:
        """Each server with its declared address, which may hold a login; a database's does not."""
        connection = self._connections.get(name)
        place = f"connection={connection}" if connection else "of catalogs.yaml"
        servers = []
        for role, key in (("catalog", "uri"), ("object store of catalog", "s3.endpoint")):
            uri = DATABASE_LOGIN.sub(r"\1", str(self._properties[name].get(key, "")))
            servers.append((Server.from_uri(f"{role}={name}", place, uri), uri))
        return servers

    def describe_login(self, name: str) -> str:
        """Where the login of a catalog stands, as ``name=value`` for a message."""
        connection = self._connections.get(name)
        return f"catalog={name} connection={connection}" if connection else f"catalog={name} of catalogs.yaml"

    def table(self, name: str) -> Table | None:
        """Always loads the table anew; None where there is none."""
        try:
            loaded_table = self._load_table(name)
        except NoSuchTableError:
            return None
        except (ValidationError, pydantic.ValidationError) as error:
            raise find_unknown_metadata(error) or error from error
        refuse_cut_path(name, loaded_table.location())
        return loaded_table

    def _load_table(self, name: str) -> Table:
        catalog, identifier = name.split(".", 1)
        opened = self.catalog(catalog)
        try:
            return opened.load_table(identifier)
        except FileNotFoundError as first:
            try:
                # in between a commit may have removed an old file: then the catalog names another one
                return opened.load_table(identifier)
            except FileNotFoundError as second:
                if str(second) != str(first):
                    raise
                raise GiveUp(
                    f"table={name}: the catalog names a metadata file that is not there: {format_one_line(second)}: "
                    "somebody has deleted the table's files, or their store is not the one they were written to; "
                    "nothing was changed; bring the files back, or register an older metadata file of the table; if "
                    "its rows may go, take its name out of the catalog, and it is created again"
                ) from second

    def refuse_view(self, name: str) -> None:
        """`GiveUp` where a view has the name of a missing table: Spark would report that it made the table."""
        catalog, identifier = name.split(".", 1)
        opened = self.catalog(catalog)
        is_view = is_sql(opened) and pyiceberg_private.has_view(opened, identifier)
        if not is_sql(opened):
            with suppress(Exception):  # some servers do not tell of their views
                is_view = opened.view_exists(identifier)
        if is_view:
            raise GiveUp(
                f"table={name} is a view: it has no rows of its own, and no snapshots; nothing was changed; rename the "
                "view, or name a table in the file"
            )

    def list_table_names(self, namespace: str) -> list[str]:
        """Without the namespace."""
        catalog, identifier = namespace.split(".", 1)
        try:
            return sorted(identifier[-1] for identifier in self.catalog(catalog).list_tables(identifier))
        except NoSuchNamespaceError:
            return []

    def list_namespaces(self, catalog: str, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """The namespaces right below the one `above`, or the outermost ones."""
        opened = self.catalog(catalog)
        listed = list[tuple[str, ...]]()
        if not above:
            return sorted(opened.list_namespaces())
        # catalogs without nested namespaces refuse the question, or answer with the outermost ones
        with suppress(NoSuchNamespaceError, BadRequestError, NotImplementedError):
            listed += opened.list_namespaces(above)
        return sorted(namespace for namespace in listed if namespace[:-1] == above)


Found = TypeVar("Found")


class IcebergPort:
    """Every Iceberg catalog of ``catalogs.yaml``.

    `branches` names, by table, the branch that is written in place of main. Until it is there, main is read.
    """

    def __init__(self, catalogs: Catalogs, branches: Mapping[str, str] | None = None) -> None:
        self.catalogs = catalogs
        self._branches = branches or {}

    def _branch(self, table: str) -> str:
        return self._branches.get(table, MAIN)

    def _read(self, name: str, read: Callable[[Table], Found], missing: Found) -> Found:
        """What `read` finds in the table; `missing` without one."""
        loaded_table = self.catalogs.table(name)
        return missing if loaded_table is None else read(loaded_table)

    def _load_table(self, name: str) -> Table:
        loaded_table = self.catalogs.table(name)
        if loaded_table is None:
            raise GiveUp(f"table={name} does not exist any more; nothing was changed; the next flush plans again")
        return loaded_table


def create_namespace(catalog: IcebergCatalog, namespace: str) -> list[str]:
    """Create it, and those that it lies in, if missing; returns the new ones, the outermost first."""
    try:
        catalog.create_namespace(namespace)
    except Exception:  # whoever loses a race for a new one is told so by each catalog in another way
        if catalog.namespace_exists(namespace):
            return []
        above = namespace.rpartition(".")[0]
        if not above or catalog.namespace_exists(above):
            raise
        made = create_namespace(catalog, above)
        return made + create_namespace(catalog, namespace)
    return [namespace]


def format_name(table: Table) -> str:
    return ".".join((table.catalog.name, *table.name()))


def is_sql(catalog: IcebergCatalog) -> TypeGuard["SqlCatalog"]:
    module = sys.modules.get("pyiceberg.catalog.sql")
    return module is not None and isinstance(catalog, module.SqlCatalog)


def is_rest(catalog: IcebergCatalog) -> bool:
    module = sys.modules.get("pyiceberg.catalog.rest")
    # its module is a tenth of a process's start, and is loaded only for such a catalog
    return module is not None and isinstance(catalog, module.RestCatalog)


def _open_catalog(name: str, properties: dict[str, Any]) -> IcebergCatalog:
    uri = str(properties.get("uri", ""))
    if properties.get("type") == "sql" and uri.startswith("sqlite"):
        path = Path(find_sqlite_file(uri))
        folder = path.parent
        if not folder.is_dir() and not folder.parent.is_dir():  # a volume is away: its tables would look gone
            raise ConfigurationError(
                f"catalog={name}: folder={folder} of its SQLite file does not exist, nor does the one above it; create "
                "it, mount it, or correct uri in catalogs.yaml"
            )
        prepare_database(path)
        properties["uri"] = uri + ("&" if "?" in uri else "?") + f"timeout={max(LOCK_SECONDS, Patience.seconds):.0f}"
    if uri.startswith(POSTGRES_PREFIX):  # without a driver SQLAlchemy takes the newest, which is not the one installed
        properties["uri"] = uri.replace(POSTGRES_PREFIX, "postgresql+psycopg2://", 1)
    if properties.get("type") == "sql":  # a process that stays outlives the connections of its database
        properties.setdefault("pool_pre_ping", "true")
    opened: IcebergCatalog
    if properties.get("type") == "rest":
        opened = pyiceberg_private.open_rest_catalog(name, properties)
    else:
        opened = load_catalog(name, **{key: str(value) for key, value in properties.items()})
    pyiceberg_private.share_file_systems(opened)
    pyiceberg_private.share_metadata_of_tables(opened)
    if properties.get("type") == "sql":
        pyiceberg_private.keep_metadata(cast("SqlCatalog", opened))
        pyiceberg_private.write_documents(cast("SqlCatalog", opened))
        pyiceberg_private.keep_order_of_time(cast("SqlCatalog", opened))
    return opened


def prepare_database(path: Path) -> None:
    """Create the file with its tables if missing, in WAL mode: readers do not block a commit. Idempotent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(path, timeout=60)
    try:
        if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
            connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(CREATE_TABLES_SQL)
    finally:
        connection.close()
