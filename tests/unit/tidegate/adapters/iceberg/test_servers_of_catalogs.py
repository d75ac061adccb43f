"""A catalog whose server or folder is not there is told at once, with its name, connection and address."""

import socket
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.catalog_conf import build_spark_catalog_conf
from tidegate.adapters.iceberg.table import IcebergTables
from tidegate.errors import ConfigurationError, RetryLater
from tidegate.spec.pipeline import Catalog


@pytest.fixture
def address() -> str:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return "127.0.0.1:" + str(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"type": "sql", "uri": "postgresql://me:s3cret@{address}/lake"}, "catalog=lake connection=login"),
        ({"type": "rest", "uri": "http://{address}/catalog", "token": "s3cret"}, "catalog=lake connection=login"),
        (
            {"type": "sql", "uri": "sqlite:///{folder}/c.db", "s3.endpoint": "http://{address}"},
            "object store of catalog=lake connection=login",
        ),
    ],
)
def test_server_that_is_down(properties: dict[str, Any], message: str, address: str, tmp_path: Path) -> None:
    catalog_properties = {name: value.format(address=address, folder=tmp_path) for name, value in properties.items()}
    catalogs = Catalogs({"lake": {**catalog_properties, "warehouse": f"file://{tmp_path}"}}, {"lake": "login"})
    with pytest.raises(RetryLater) as error_info:
        catalogs.catalog("lake")
    assert str(error_info.value).startswith(f"{message} address={address} took no connection: Connection refused")
    assert "s3cret" not in str(error_info.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg2"])
@pytest.mark.parametrize("port", ["5432x", "0", "65536"])
def test_database_at_an_impossible_port_is_told_without_its_login(scheme: str, port: str) -> None:
    uri = f"{scheme}://me:s3cret@db:{port}/lake"
    store = IcebergTables(Catalogs({"lake": {"type": "sql", "uri": uri, "warehouse": "file:///w"}}, {"lake": "login"}))
    for _ in range(2):
        with pytest.raises(ConfigurationError) as error_info:
            store.read_state("lake.shop.orders", "shop")
        place = "catalog=lake connection=login: host=db: its port must be a number, 1 to 65535"
        assert str(error_info.value).startswith(place)
        assert "s3cret" not in str(error_info.value)


@pytest.mark.parametrize("password", ["s3#cret", "s3/cret", "s3?cret", "s3[cret", "12/s3cret"])
def test_password_of_a_database_may_hold_what_ends_the_host_of_other_addresses(password: str, address: str) -> None:
    """SQLAlchemy takes it as it stands."""
    for place, error, message in (
        (address, RetryLater, f"address={address} took no connection"),
        ("db:5432x", ConfigurationError, "host=db: its port must be a number"),
    ):
        uri = f"postgresql+psycopg2://me:{password}@{place}/lake"
        with pytest.raises(error, match=message) as error_info:
            Catalogs({"lake": {"type": "sql", "uri": uri, "warehouse": "file:///w"}}).catalog("lake")
        assert password not in str(error_info.value)


def test_sqlite_file_in_a_folder_that_is_not_there_is_refused_and_nothing_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "not mounted" / "lake"
    catalogs = Catalogs({"lake": {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": "file:///w"}})
    with pytest.raises(ConfigurationError, match=f"catalog=lake: folder={folder} of its SQLite file does not exist"):
        catalogs.catalog("lake")
    assert list(tmp_path.iterdir()) == []


def test_folder_of_a_first_sqlite_file_is_made(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    uri = f"sqlite:///{folder}/catalog.db"
    assert (
        Catalogs({"lake": {"type": "sql", "uri": uri, "warehouse": "file:///w"}}).catalog("lake").list_namespaces()
        == []
    )
    assert (folder / "catalog.db").is_file()


@pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite"])
@pytest.mark.parametrize(("written", "named"), [("a%20b%2525", "a b%25"), ("a b", "a b"), ("a#b", "a#b")])
def test_sqlite_file_is_the_same_one_to_all_that_open_it(tmp_path: Path, scheme: str, written: str, named: str) -> None:
    """The address is one of the web: SQLAlchemy reads it so."""
    uri = f"{scheme}:///{tmp_path}/{written}/catalog.db"
    properties = {"type": "sql", "uri": uri, "warehouse": "file:///w"}
    Catalogs({"lake": properties}).catalog("lake").create_namespace("shop")
    assert [path.name for path in tmp_path.iterdir()] == [named]
    with closing(sqlite3.connect(tmp_path / named / "catalog.db")) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert connection.execute("SELECT DISTINCT namespace FROM iceberg_namespace_properties").fetchall() == [
            ("shop",)
        ]
    conf = build_spark_catalog_conf(Catalog("lake", "iceberg", properties), properties)
    address = conf["spark.sql.catalog.lake.uri"].partition("?")[0]
    assert address == f"jdbc:sqlite:{tmp_path}/{named}/catalog.db"


@pytest.fixture
def silent_server() -> Iterator[str]:
    """It takes connections and never answers; whoever still waits after a while is cut off."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        end = threading.Timer(30, server.close)
        end.start()
        yield "127.0.0.1:" + str(server.getsockname()[1])
        end.cancel()


def test_rest_catalog_that_never_answers_is_not_waited_for_for_ever(silent_server: str) -> None:
    properties = {"type": "rest", "uri": f"http://{silent_server}/catalog", "rest.client.socket-timeout-ms": "100"}
    store = IcebergTables(Catalogs({"lake": properties}))
    with pytest.raises(RetryLater, match=r"table=lake\.shop\.orders: catalog or files did not answer.*Read timed out"):
        store.read_state("lake.shop.orders", "shop")


def test_token_is_not_waited_for_for_ever_either(silent_server: str) -> None:
    place = f"http://{silent_server}"
    properties = {"type": "rest", "uri": place, "credential": "me:s3cret", "oauth2-server-uri": f"{place}/tokens"}
    store = IcebergTables(Catalogs({"lake": {**properties, "rest.client.socket-timeout-ms": "100"}}))
    with pytest.raises(RetryLater, match=r"did not answer.*Read timed out"):
        store.read_state("lake.shop.orders", "shop")
