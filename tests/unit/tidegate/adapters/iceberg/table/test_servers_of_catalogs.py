"""A catalog whose server or folder is not there is told at once, with its name, connection and address."""

import socket
from pathlib import Path
from typing import Any

import pytest
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.errors import ConfigurationError, RetryLater


@pytest.fixture
def address() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return "127.0.0.1:" + str(one.getsockname()[1])


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"type": "sql", "uri": "postgresql://me:s3cret@{address}/lake"}, "catalog=lake connection=login"),
        ({"type": "rest", "uri": "http://{address}/catalog", "token": "s3cret"}, "catalog=lake connection=login"),
        (
            {"type": "sql", "uri": "sqlite:///{folder}/c.db", "s3.endpoint": "http://{address}"},
            "object store of catalog=lake connection=login",
        ),
    ],
)
def test_server_that_is_down(properties: dict[str, Any], told: str, address: str, tmp_path: Path) -> None:
    given = {name: value.format(address=address, folder=tmp_path) for name, value in properties.items()}
    catalogs = Catalogs({"lake": {**given, "warehouse": f"file://{tmp_path}"}}, {"lake": "login"})
    with pytest.raises(RetryLater) as caught:
        catalogs.catalog("lake")
    assert str(caught.value).startswith(f"{told} address={address} took no connection: Connection refused")
    assert "s3cret" not in str(caught.value)


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
