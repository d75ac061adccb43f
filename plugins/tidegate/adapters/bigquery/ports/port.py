"""What the ports over BigQuery share."""

from collections.abc import Mapping
from typing import Any

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.stores import staging
from tidegate.ports.sql import Sql


class BigQueryPort:
    """Every BigQuery catalog of ``catalogs.yaml``."""

    def __init__(self, warehouses: Mapping[str, Warehouse], sql: Sql) -> None:
        self._warehouses = warehouses
        self._sql = sql

    def _get_warehouse(self, name: str) -> Warehouse:
        return self._warehouses[name.split(".", 1)[0]]

    def _require_table(self, name: str) -> Any:
        return staging.require_table(self._get_warehouse(name).find_table(name), name)
