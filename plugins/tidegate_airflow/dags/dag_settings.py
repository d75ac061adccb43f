"""What the DAGs of a pipeline and their tasks have in common: retries, owner, who is told of a failure, tags, pools."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.publication import Publication
from tidegate.spec.runtime import SparkMode

from tidegate_airflow.failures.notifiers import build_failure_callbacks

# Of tasks that only read, commit offsets or drop tables. Tasks that run a job or write rows have none: where the work
# takes longer, they would be ended on every try, and each request that they wait for has a limit of its own.
SHORT_TIMEOUT = timedelta(minutes=10)
# A passing fault (a restarted broker or Spark server) is over within a minute or two; later tries are further apart.
# Airflow spreads them: the first comes after 5 to 10 s, so that what was short is over on the page soon, the last of
# them after 80 to 160.
RETRY_ARGS: dict[str, Any] = {
    "retries": 5,
    "retry_delay": timedelta(seconds=5),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=5),
}


def build_dag_settings(name: str, members: Sequence[Pipeline], kind: str) -> dict[str, Any]:
    """Return arguments of `DAG` for ``flush``, ``maintenance`` and so on. `name` is the pipeline's or the fleet's."""
    catalogs = sorted({table.catalog for member in members for table in member.entries})
    tags = [tag for member in members for tag in member.tags]
    callbacks = build_failure_callbacks(name, members)
    return {**build_plain_settings(kind, *catalogs, *tags), "on_failure_callback": callbacks}


def build_plain_settings(*tags: str) -> dict[str, Any]:
    """Return arguments of every `DAG`: those of no pipeline have no others."""
    return {
        "start_date": datetime(2024, 1, 1, tzinfo=UTC),
        "catchup": False,
        "max_active_runs": 1,
        "default_args": {"owner": "tidegate", **RETRY_ARGS},
        "tags": list(dict.fromkeys(["tidegate", *tags])),
    }


def build_job_task_settings(pipeline: Pipeline, task_id: str, doc: str) -> dict[str, Any]:
    """Return arguments of a task that runs a job on Spark, or waits for one, however long: in its catalog's pool."""
    return {"task_id": task_id, "doc_md": doc, "pool": format_pool_name(pipeline)}


def format_pool_name(pipeline: Pipeline) -> str:
    """Name the pool of the destination's catalog. It saves wasted work; correctness never depends on it."""
    return f"tidegate_{pipeline.entries[0].catalog}"


def format_stage_pool_name(pipeline: Pipeline) -> str:
    """Name the pool of staging on a clock of its own: it does not wait for the slots of long merges."""
    return f"{format_pool_name(pipeline)}_stage"


def format_verify_pool_name(pipeline: Pipeline) -> str:
    """Name the pool of verifications, one at a time: they read whole logs, and no flush shall wait for them."""
    return f"{format_pool_name(pipeline)}_verify"


def choose_operator(
    subject: Pipeline | Publication, operator: Any, verb: str, **settings: Any
) -> tuple[Any, dict[str, Any]]:
    """Return the operator of a step, and its arguments: spark-submit's if a connection is submitted to, else this one.

    A file's own `spark.master` runs as a plain process.
    """
    arguments = {"verb": verb, "pipeline": subject.name, **settings}
    if subject.spark.mode != SparkMode.SUBMIT or subject.spark.master is not None:
        return operator, arguments
    from tidegate_airflow.operators.spark_submit import SubmitOperator

    return SubmitOperator, {**arguments, "conn_id": subject.spark.connection}


def build_switch(title: str, description: str, *, default: bool = False) -> Param:
    return Param(default, type="boolean", title=title, description=description)


def build_text_field(title: str, description: str, example: str, **shape: Any) -> Param:
    """Return a text of a form, empty at first; `shape` is JSON Schema beside its type."""
    examples = {"examples": [example]} if example else {}
    return Param(None, type=["null", "string"], title=title, description=description, **shape, **examples)
