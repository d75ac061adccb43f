"""What the DAGs of a pipeline have in common: retries, owner, who is told of a failure, tags."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.failures.notifiers import build_failure_callbacks

# A passing fault (a restarted broker or Spark server) is over within a minute or two; later tries are further apart.
RETRY_ARGS: dict[str, Any] = {
    "retries": 4,
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=5),
}


def build_dag_settings(pipeline: Pipeline, kind: str) -> dict[str, Any]:
    """Arguments of `DAG` for a DAG that does `kind` for the pipeline: ``flush``, ``maintenance`` and so on."""
    return {
        "start_date": datetime(2024, 1, 1, tzinfo=UTC),
        "catchup": False,
        "max_active_runs": 1,
        "on_failure_callback": build_failure_callbacks(pipeline),
        "default_args": {"owner": "tidegate", **RETRY_ARGS},
        "tags": ["tidegate", kind, *sorted({table.catalog for table in pipeline.entries}), *pipeline.tags],
    }
