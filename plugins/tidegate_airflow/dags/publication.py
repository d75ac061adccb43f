"""The DAG of one publication: a single task, when its table was published, on an interval, or by hand."""

from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, AssetAny
from tidegate.spec.publication import Publication

from tidegate_airflow.assets import build_table_asset
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import build_plain_settings, build_switch, build_text_field, choose_operator
from tidegate_airflow.operators.job import PublishOperator

# Airflow looks at a pattern in programs' runs, too: a snapshot's id, or a time.
SNAPSHOT_OR_TIME_PATTERN = r"^\d+$|^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
FORM_PARAMS = {
    "resynchronise": build_switch("Resynchronise", "Compare the whole table with what the topic holds."),
    "again": build_switch(
        "Produce again", "Produce what is published once more: never an older row, and the position stays."
    ),
    "from": build_text_field(
        "From",
        "With Produce again: only keys that changed after this snapshot or time; all when empty.",
        "2026-01-01T00:00:00Z",
        pattern=SNAPSHOT_OR_TIME_PATTERN,
    ),
    "to": build_text_field(
        "To",
        "With Produce again: only keys that changed up to this snapshot or time.",
        "2026-01-02T00:00:00Z",
        pattern=SNAPSHOT_OR_TIME_PATTERN,
    ),
}


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
        submit, arguments = choose_operator(publication, None, "publish", **settings)
        if submit is not None:
            words = {name: f"{{{{ params['{name}'] or '' }}}}" for name in ("from", "to")}
            switches = {name: f"{{{{ params['{name}'] }}}}" for name in ("resynchronise", "again")}
            submit(given=switches | words, **arguments)
        else:
            PublishOperator(multiple_outputs=True, **arguments)
    return dag
