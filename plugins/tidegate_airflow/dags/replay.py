"""The replay DAG of one pipeline that sets bad records aside: decode them again after a correction, started by hand."""

from typing import Any

from airflow.sdk import DAG, get_current_context
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.actions import build_form_task, build_letter_words
from tidegate_airflow.dags.dag_settings import build_dag_settings
from tidegate_airflow.dags.flush import to_params_dict
from tidegate_airflow.operators.action import run_replay_form


def can_replay(pipeline: Pipeline) -> bool:
    """Whether the pipeline sets bad records aside, and each of its tables has a name of its own."""
    return pipeline.template is None and any(table.errors.max_dead_letters is not None for table in pipeline.tables)


def build_replay_dag(pipeline: Pipeline) -> DAG:
    """Build the DAG ``tidegate_<pipeline>_replay``. It has no schedule, so it need not be unpaused first."""
    with DAG(
        dag_id=f"tidegate_{pipeline.name}_replay",
        description=f"Decode the dead letters of {pipeline.name} again, and bring in what can be read now",
        doc_md=task_docs.REPLAY.format(pipeline=pipeline.name),
        schedule=None,
        is_paused_upon_creation=False,
        **build_dag_settings(pipeline.name, [pipeline], "replay"),
    ) as dag:

        def replay() -> list[dict[str, Any]]:
            return run_replay_form(get_current_context(), pipeline.name)

        build_form_task(pipeline, "replay", task_docs.REPLAY_TASK, replay)
    dag.params = to_params_dict(build_letter_words(next(iter(pipeline.source.topics), "topic")))
    return dag
