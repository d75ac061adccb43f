"""The DAG of one publication: a single task, when its table was published, on an interval, or by hand."""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, AssetAny
from tidegate.spec.publication import Publication

from tidegate_airflow.assets import build_table_asset
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import build_plain_settings, build_switch, choose_operator
from tidegate_airflow.operators.step import VerbOperator

FORM_PARAMS = {"resynchronise": build_switch("Resynchronise", "Compare the whole table with what the topic holds.")}


def build_publication_dag(publication: Publication) -> DAG:
    """Build the DAG ``tidegate_publish_<publication>``. Opens no connection and imports nothing heavy."""
    schedule: Any = None
    if publication.interval_seconds > 0:
        schedule = timedelta(seconds=publication.interval_seconds)
    elif publication.on_table_change:
        assets = [build_table_asset(name) for name in (publication.table, *publication.joined_tables)]
        schedule = AssetAny(*assets) if publication.joined_tables else assets
    with DAG(
        dag_id=f"tidegate_publish_{publication.name}",
        description=publication.description or f"{publication.table} to {', '.join(publication.topics)}",
        doc_md=task_docs.PUBLISH,
        schedule=schedule,
        params=FORM_PARAMS,
        **build_plain_settings("publish", publication.catalog),
    ) as dag:
        pool = f"tidegate_{publication.catalog}"
        settings = {"task_id": "publish", "doc_md": task_docs.PUBLISH, "pool": pool}
        operator, arguments = choose_operator(publication, VerbOperator, "publish", multiple_outputs=True, **settings)
        operator(**arguments)
    return dag
