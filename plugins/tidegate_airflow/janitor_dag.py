"""The janitor's DAG: once a day it tells what pipelines have left behind whose file is gone, and removes nothing."""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, task

from tidegate_airflow import documents, tasks

# No pipeline's DAG can have this id: theirs begin with tidegate_.
ID = "tidegate-janitor"


def janitor_dag() -> DAG:
    """One DAG for all catalogs; a run that finds nothing ends as skipped."""
    with DAG(
        dag_id=ID,
        description="Tells what pipelines whose file is gone have left behind",
        doc_md=documents.JANITOR,
        schedule=timedelta(days=1),
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"owner": "tidegate"},
        tags=["tidegate", "maintenance"],
    ) as dag:
        task(task_id="leftovers", doc_md=documents.JANITOR, execution_timeout=timedelta(minutes=10))(
            tasks.run_leftovers
        )()
    return dag
