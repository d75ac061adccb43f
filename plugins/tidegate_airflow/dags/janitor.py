"""The janitor's DAG: once a day it tells what pipelines have left behind whose file is gone, and removes nothing."""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, get_current_context, task
from airflow.sdk.bases.xcom import BaseXCom

from tidegate_airflow import tasks
from tidegate_airflow.dag_ids import JANITOR_DAG_ID
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import RETRY_ARGS


def build_janitor_dag() -> DAG:
    """One DAG for all catalogs, once a day; a run that finds nothing ends as skipped. It changes nothing."""
    with DAG(
        dag_id=JANITOR_DAG_ID,
        description="Tells what pipelines whose file is gone have left behind",
        doc_md=task_docs.JANITOR,
        schedule=timedelta(days=1),
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"owner": "tidegate", **RETRY_ARGS},
        tags=["tidegate", "maintenance"],
    ) as dag:
        task(task_id="leftovers", doc_md=task_docs.JANITOR, execution_timeout=timedelta(minutes=10))(tell_leftovers)()
    return dag


def tell_leftovers() -> list[dict[str, Any]]:
    """What is left behind, as the task's result also where a catalog cannot be read and the task fails."""
    return tasks.run_leftovers(
        lambda leftovers: get_current_context()["ti"].xcom_push(BaseXCom.XCOM_RETURN_KEY, leftovers)
    )
