"""Namespaces in namespaces: made one in another, and listed with those in them."""

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchNamespaceError
from tidegate.adapters.iceberg.catalog import Catalogs, create_namespace


@pytest.fixture
def catalogs(tmp_path: Path) -> Catalogs:
    return Catalogs({"lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}"}})


def test_namespaces_above_are_made_first_where_the_catalog_wants_them(
    catalogs: Catalogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = catalogs.catalog("lake")
    create = SqlCatalog.create_namespace

    def create_inside(catalog: SqlCatalog, namespace: str) -> None:
        above = namespace.rpartition(".")[0]
        if namespace == "Shop.refused" or (above and not catalog.namespace_exists(above)):
            raise NoSuchNamespaceError(f"not made: {namespace}")
        create(catalog, namespace)

    monkeypatch.setattr(SqlCatalog, "create_namespace", create_inside)
    assert create_namespace(lake, "Shop.EU.west") == ["Shop", "Shop.EU", "Shop.EU.west"]
    assert create_namespace(lake, "Shop.EU.west") == []
    assert create_namespace(lake, "Shop.us") == ["Shop.us"]
    with pytest.raises(NoSuchNamespaceError, match=r"not made: Shop\.refused"):
        create_namespace(lake, "Shop.refused")
