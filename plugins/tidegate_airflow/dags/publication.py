"""The DAG of one publication: a single task, when its table was published, on an interval, or by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, AssetAny, Param
from tidegate.spec.publication import Publication
from tidegate.spec.runtime import SparkMode

from tidegate_airflow.assets import build_table_asset
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import RETRY_ARGS
from tidegate_airflow.operators.job import PublishOperator

# Airflow looks at a pattern in programs' runs, too: a snapshot's id, or a time.
SNAPSHOT_OR_TIME_SCHEMA = {"type": ["null", "string"], "pattern": r"^\d+$|^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"}
FORM_PARAMS = {
    "resynchronise": Param(
        False, type="boolean", title="Resynchronise", description="Compare the whole table with what the topic holds."
    ),
    "again": Param(
        False,
        type="boolean",
        title="Produce again",
        description="Produce what is published once more: never an older row, and the position stays.",
    ),
    "from": Param(
        None,
        title="From",
        description="With Produce again: only keys that changed after this snapshot or time; all when empty.",
        examples=["2026-01-01T00:00:00Z"],
        **SNAPSHOT_OR_TIME_SCHEMA,
    ),
    "to": Param(
        None,
        title="To",
        description="With Produce again: only keys that changed up to this snapshot or time.",
        examples=["2026-01-02T00:00:00Z"],
        **SNAPSHOT_OR_TIME_SCHEMA,
    ),
}


def build_publication_dag(publication: Publication) -> DAG:
    """Build the DAG ``tidegate_publish_<publication>``. Opens no connection and imports nothing heavy."""
    with DAG(
        dag_id=f"tidegate_publish_{publication.name}",
        description=publication.description or f"{publication.table} to {', '.join(publication.topics)}",
        doc_md=task_docs.PUBLISH,
        schedule=_build_schedule(publication),
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        params=FORM_PARAMS,
        default_args={"owner": "tidegate", **RETRY_ARGS},
        tags=["tidegate", "publish", publication.catalog],
    ) as dag:
        _build_publish_task(publication)
    return dag


def _build_schedule(publication: Publication) -> Any:
    if publication.interval_seconds > 0:
        return timedelta(seconds=publication.interval_seconds)
    if not publication.on_table_change:
        return None
    assets = [build_table_asset(name) for name in (publication.table, *publication.joined_tables)]
    return AssetAny(*assets) if publication.joined_tables else assets


def _build_publish_task(publication: Publication) -> None:
    settings: dict[str, Any] = {
        "task_id": "publish",
        "doc_md": task_docs.PUBLISH,
        "pool": f"tidegate_{publication.catalog}",
    }
    if publication.spark.mode == SparkMode.SUBMIT and publication.spark.master is None:
        from tidegate_airflow.operators.spark_submit import SubmitOperator

        words = {name: f"{{{{ params['{name}'] or '' }}}}" for name in ("from", "to")}
        run_params = {name: f"{{{{ params['{name}'] }}}}" for name in ("resynchronise", "again")} | words
        connection = publication.spark.connection
        SubmitOperator(verb="publish", pipeline=publication.name, given=run_params, conn_id=connection, **settings)
        return

    PublishOperator(publication=publication.name, multiple_outputs=True, **settings)
