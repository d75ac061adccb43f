"""BigQuery as a destination."""

from collections.abc import Mapping

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.engine import BigQueryEngine
from tidegate.adapters.bigquery.ports.commits import BigQueryCommits
from tidegate.adapters.bigquery.ports.dead_letters import BigQueryDeadLetters
from tidegate.adapters.bigquery.ports.history import BigQueryHistory
from tidegate.adapters.bigquery.ports.staging import BigQueryStaging
from tidegate.adapters.bigquery.ports.tables import BigQueryTables
from tidegate.adapters.opened_destination import OpenedDestination
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.ports.destination import Destination
from tidegate.ports.sql import Sql


def build_bigquery_destination(warehouses: Mapping[str, Warehouse], sql: Sql) -> Destination:
    """The ports over BigQuery catalogs, one warehouse for each by its catalog's name."""
    return Destination(
        tables=BigQueryTables(warehouses, sql),
        commits=BigQueryCommits(warehouses, sql),
        staging=BigQueryStaging(warehouses, sql),
        dead_letters=BigQueryDeadLetters(warehouses, sql),
        history=BigQueryHistory(warehouses, sql),
    )


def open_bigquery(warehouses: Mapping[str, Warehouse]) -> OpenedDestination:
    """The same with the statements' dialect, and the engines that run them."""
    googlesql = SqlFiles("bigquery", {name: warehouse.project for name, warehouse in warehouses.items()})
    return OpenedDestination(
        build_bigquery_destination(warehouses, googlesql),
        engines={name: BigQueryEngine(warehouse) for name, warehouse in warehouses.items()},
        dialects=dict.fromkeys(warehouses, googlesql),
    )
