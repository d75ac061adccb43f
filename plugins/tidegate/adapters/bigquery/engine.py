"""BigQuery as an engine: it runs each statement of a merge as one named job."""

from tidegate.adapters.bigquery.client.client import Warehouse
from tidegate.adapters.bigquery.publish_script import list_created_tables
from tidegate.adapters.bigquery.stores import table_marks
from tidegate.adapters.bigquery.stores.namespaces import drop_existing_namespaces
from tidegate.errors import GiveUp
from tidegate.failpoints import hit_failpoint
from tidegate.jobs.job import Job
from tidegate.jobs.merge_job import MergeJob
from tidegate.model import resource_names


class BigQueryEngine:
    """Implements the port `Engine`: runs statements of BigQuery tables in order, without Spark, one job each."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse

    def run(self, job: Job) -> None:
        """Run the statements of a merge job; each of them may be run twice."""
        if not isinstance(job, MergeJob):
            raise GiveUp(f"pipeline={job.pipeline}: BigQuery runs statements, and this is another job")
        for statement in drop_existing_namespaces(self._warehouse, job.statements):
            self._warehouse.run_statement(statement)
            hit_failpoint("job.statement")
        for created_table in list_created_tables(job.statements):
            if resource_names.is_ours(
                created_table.rpartition(".")[2]
            ):  # a destination keeps its dataset's default expiration
                table_marks.remove_expiration(self._warehouse, f"{job.table.split('.', 1)[0]}.{created_table}")
