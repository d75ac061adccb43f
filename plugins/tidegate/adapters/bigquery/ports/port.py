"""What the ports over BigQuery share."""

from collections.abc import Mapping

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.ports.sql import Sql


class BigQueryPort:
    """Every BigQuery catalog of ``catalogs.yaml``."""

    def __init__(self, warehouses: Mapping[str, Warehouse], sql: Sql) -> None:
        self._warehouses = warehouses
        self._sql = sql

    def _get_warehouse(self, name: str) -> Warehouse:
        return self._warehouses[name.split(".", 1)[0]]
