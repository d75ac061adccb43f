"""BigQuery as a destination: its ports, and the engine that runs each statement of a merge as one named job."""

from collections.abc import Mapping

from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.commit import BigQueryCommits, list_created_tables
from tidegate.adapters.bigquery.history import BigQueryHistory
from tidegate.adapters.bigquery.letters import BigQueryDeadLetters
from tidegate.adapters.bigquery.position import remove_expiration
from tidegate.adapters.bigquery.staging import BigQueryStaging
from tidegate.adapters.bigquery.table import BigQueryTables
from tidegate.adapters.catalog_routing import OpenedDestination
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import GiveUp
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.statements_job import StatementsJob
from tidegate.model import resource_names
from tidegate.ports.destination import Destination
from tidegate.ports.session import Job, Sql


class BigQueryEngine:
    """Implements the port `Engine`: runs statements of BigQuery tables in order, without Spark, one job each."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def run(self, job: Job) -> None:
        """Each statement may run twice."""
        if not isinstance(job, StatementsJob):
            raise GiveUp(f"pipeline={job.pipeline}: BigQuery runs statements, and this is another job")
        for statement in self._warehouse.drop_existing_namespaces(job.statements):
            self._warehouse.run_statement(statement)
            hit_failpoint("job.statement")
        for created_table in list_created_tables(job.table, job.statements):
            # a destination keeps its dataset's default expiration
            if resource_names.is_ours(created_table.rpartition(".")[2]):
                remove_expiration(self._warehouse, created_table)


def build_bigquery_destination(warehouses: Mapping[str, Warehouse], sql: Sql) -> Destination:
    """`warehouses` by the catalog's name."""
    return Destination(
        tables=BigQueryTables(warehouses, sql),
        commits=BigQueryCommits(warehouses, sql),
        staging=BigQueryStaging(warehouses, sql),
        dead_letters=BigQueryDeadLetters(warehouses, sql),
        history=BigQueryHistory(warehouses, sql),
    )


def open_bigquery(warehouses: Mapping[str, Warehouse]) -> OpenedDestination:
    """The destination with the dialect of its statements, and the engines that run them."""
    googlesql = SqlFiles("bigquery", {name: warehouse.project for name, warehouse in warehouses.items()})
    return OpenedDestination(
        build_bigquery_destination(warehouses, googlesql),
        engines={name: BigQueryEngine(warehouse) for name, warehouse in warehouses.items()},
        dialects=dict.fromkeys(warehouses, googlesql),
    )
