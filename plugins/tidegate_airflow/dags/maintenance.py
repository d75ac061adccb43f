"""The maintenance DAG of one pipeline: one mapped task for each of its tables, beside the flushes."""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, task
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import SHORT_TIMEOUT, build_dag_settings, build_job_task_settings, is_submitted
from tidegate_airflow.operators.maintain import list_table_groups, maintain_tables


def build_maintenance_dag(pipeline: Pipeline) -> DAG:
    """The DAG ``tidegate_<pipeline>_maintenance``; without an interval it is there to be started by hand."""
    seconds = pipeline.maintenance.interval_seconds
    with DAG(
        dag_id=f"tidegate_{pipeline.name}_maintenance",
        description=f"Keeps small: {', '.join(table.name for table in pipeline.entries)}",
        doc_md=task_docs.MAINTAIN,
        schedule=timedelta(seconds=seconds) if seconds > 0 else None,
        **build_dag_settings(pipeline.name, [pipeline], "maintenance"),
    ) as dag:
        tables = task(task_id="tables", execution_timeout=SHORT_TIMEOUT)(list_table_groups)
        _build_maintain_task(pipeline, tables(pipeline.name))
    return dag


def _build_maintain_task(pipeline: Pipeline, tables: Any) -> None:
    settings = {
        **build_job_task_settings(pipeline, "maintain", task_docs.MAINTAIN),
        "max_active_tis_per_dagrun": 1,  # one rewrite at a time leaves room for the flushes
        "map_index_template": "{{ table }}",
    }
    if is_submitted(pipeline):
        from tidegate_airflow.operators.spark_submit import SubmitOperator

        fixed: dict[str, Any] = {"pipeline": pipeline.name, "conn_id": pipeline.spark.connection, **settings}
        SubmitOperator.partial(verb="maintain", **fixed).expand(given=tables)
        return

    @task(**settings)
    def maintain(name: Any) -> Any:
        return maintain_tables(pipeline.name, name)

    maintain.expand(name=tables)
