"""Catalogs and stores beyond one machine: each test gets an empty catalog, on servers that all tests share."""

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from background_server import hold_server
from conftest import Workbench, wait_until

from local.lake import catalog as lake_catalog
from local.lake import postgres, rest, s3
from local.lake.catalog import Secrets, build_connection, describe_catalog
from local.layout import RunDir
from local.ports import HOST, choose_ports

TABLES, FILES = ("sqlite", "postgres", "rest"), ("file", "s3")
OTHER_STORE = "s3mock"  # no REST catalog is on it: that would be one more server
PARTS = ("postgres", "s3", "rest")
ANSWER_SECONDS = 60.0
_numbers = itertools.count(1)


@dataclass(frozen=True)
class LakeCatalog:
    """A catalog as users declare it: its `entry` of catalogs.yaml, and its connection in the `environment`."""

    entry: dict[str, Any]
    environment: dict[str, str]

    @property
    def properties(self) -> dict[str, str]:
        """PyIceberg's, with the connection's secrets, as the product puts them together."""
        from tidegate.adapters.iceberg.catalog_conf import resolve_catalog_properties
        from tidegate.connections import read_connection_from_env
        from tidegate.spec.pipeline import Catalog

        resolve = partial(read_connection_from_env, environ=self.environment)
        entry = self.entry
        return resolve_catalog_properties(
            Catalog("lake", entry["type"], entry["properties"], entry.get("connection")), resolve
        )

    def through(self, rest: str = "", store: str = "") -> "LakeCatalog":
        """The same catalog by other addresses of its servers."""
        addresses = {"uri": rest, "s3.endpoint": store}
        properties = {**self.entry["properties"], **{name: value for name, value in addresses.items() if value}}
        return LakeCatalog({**self.entry, "properties": properties}, self.environment)


class LakeServers:
    """The servers of a stack with all three parts.

    `on_files` gives the address of a REST catalog without a store, `other_store` that of a store of another make.
    """

    def __init__(
        self, variables: Mapping[str, str], on_files: Callable[[], str], other_store: Callable[[], str]
    ) -> None:
        self.variables, self._on_files, self._other_store = variables, on_files, other_store
        keys = json.loads(variables[lake_catalog.VARIABLE])["extra"]
        password = variables["POSTGRES_PASSWORD"]
        self.secrets = Secrets(password, keys["s3.access-key-id"], keys["s3.secret-access-key"])

    def make_catalog(self, tables: str, files: str, folder: Path) -> LakeCatalog:
        """An empty catalog whose table of tables is in `tables`, and whose files are in `files`."""
        variables = dict[str, str]()
        if files != "file":
            variables["S3_ENDPOINT"] = self._other_store() if files == OTHER_STORE else self.variables["S3_ENDPOINT"]
        if tables == "postgres":
            variables["POSTGRES_URI"] = self._create_database()
        if tables == "rest":
            variables["REST_CATALOG_URI"] = self.variables["REST_CATALOG_URI"] if files == "s3" else self._on_files()
        connection = build_connection([tables, "s3" if files == OTHER_STORE else files], self.secrets)
        catalog = LakeCatalog(describe_catalog({**variables, **connection}, folder), connection)
        if tables == "rest":
            forget_tables(catalog.properties)
        return catalog

    @contextmanager
    def vending_catalog(self, folder: Path, secrets: Secrets) -> Iterator[str]:
        """The address of a REST catalog that hands these keys to the store to everybody who loads a table."""
        port = choose_ports(["vending"])["vending"]
        store = rest.build_store_properties(self.variables["S3_ENDPOINT"], secrets.access_key, secrets.secret_key)
        rest_properties = {"warehouse": f"s3://{s3.BUCKET}/{folder.name}-vended", "include-credentials": "true"}
        server = rest.build_server(RunDir(folder), port, {**store, **rest_properties})
        server.folder.mkdir(parents=True)
        with hold_server(server):
            yield f"http://{HOST}:{port}"

    def run_sql(self, address: str, *statements: str) -> None:
        """Run statements as the database's owner, each in its own transaction."""
        import psycopg2

        uri = urlsplit(address)
        connection = psycopg2.connect(
            host=uri.hostname, port=uri.port, user=postgres.USER, password=self.secrets.password, dbname=uri.path[1:]
        )
        connection.autocommit = True
        with connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
        connection.close()

    def _create_database(self) -> str:
        """The address of a new database: one catalog would see the other's tables."""
        address, name = self.variables["POSTGRES_URI"], f"t{os.getpid()}_{next(_numbers)}"
        self.run_sql(address, f"CREATE DATABASE {name}")
        return urlsplit(address)._replace(path=f"/{name}").geturl()


class LakeBench(Workbench):
    """A workbench whose catalog `lake` is one of these."""

    def __init__(self, shared: Workbench, catalog: LakeCatalog) -> None:
        super().__init__(shared.stack, shared.admin, shared._producer, shared.folder / "lake")
        self.catalog, self.properties = catalog, catalog.properties
        (self.include / "catalogs.yaml").write_text(yaml.safe_dump({"lake": catalog.entry}))

    def build_environment(self) -> dict[str, str]:
        return {**super().build_environment(), **self.catalog.environment}

    def list_data_files(self, table: str) -> list[Path]:
        return list_files(self.properties, f"{self.load_iceberg(table).location()}/data")


def list_files(properties: Mapping[str, str], location: str) -> list[Path]:
    """The files below a location on disk or in an object store, with or without a reference to them."""
    from pyarrow.fs import FileType

    if not location.startswith("s3://"):
        files = Path(location.removeprefix("file://")).rglob("*")
        return sorted(path for path in files if path.is_file() and path.suffix != ".crc")
    objects = list_objects(properties, location.removeprefix("s3://"))
    return sorted(Path(info.path) for info in objects if info.type == FileType.File)


def list_objects(properties: Mapping[str, str], path: str) -> list[Any]:
    """What lies below a bucket or a path in it. A listing fails in moto where an object comes or goes meanwhile."""
    from pyarrow.fs import FileSelector

    store, selector = open_store(properties), FileSelector(path, recursive=True, allow_not_found=True)
    file_infos: list[list[Any]] = []

    def is_listed() -> bool:
        with suppress(OSError):
            file_infos.append(store.get_file_info(selector))
        return bool(file_infos)

    wait_until(is_listed, f"a listing of {path}")
    return file_infos[0]


def write_file(properties: Mapping[str, str], location: str, content: bytes) -> None:
    """One object of the store."""
    with open_store(properties).open_output_stream(location.removeprefix("s3://")) as stream:
        stream.write(content)


def forget_tables(properties: Mapping[str, str]) -> None:
    """Empty a REST catalog and the place of its files: one server has one catalog."""
    from tidegate.adapters.iceberg.catalog import Catalogs

    catalog = Catalogs({"lake": properties}).catalog("lake")
    for namespace in catalog.list_namespaces():
        for table in catalog.list_tables(namespace):
            _forget_files(properties, catalog.load_table(table).location())
            catalog.drop_table(table)
        catalog.drop_namespace(namespace)


def _forget_files(properties: Mapping[str, str], location: str) -> None:
    if location.startswith("s3://"):
        open_store(properties).delete_dir_contents(location.removeprefix("s3://"), missing_dir_ok=True)
    else:
        shutil.rmtree(location.removeprefix("file://"), ignore_errors=True)


def open_store(properties: Mapping[str, str]) -> Any:
    """The object store, by PyArrow, which would give a store up that says nothing for three seconds."""
    from pyarrow.fs import S3FileSystem

    endpoint = urlsplit(properties["s3.endpoint"])
    return S3FileSystem(
        access_key=properties["s3.access-key-id"],
        secret_key=properties["s3.secret-access-key"],
        endpoint_override=endpoint.netloc,
        scheme=endpoint.scheme,
        region=s3.REGION,
        request_timeout=ANSWER_SECONDS,
    )
