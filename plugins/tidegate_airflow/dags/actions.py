"""The DAGs of one pipeline that a form starts: what helps one that stands still, and the replay of its dead letters.

An action is shown first, then done. Replay is for a pipeline that sets bad records aside: it decodes them again after a
correction.
"""

from collections.abc import Callable
from typing import Any

from airflow.sdk import DAG, Param, get_current_context, task
from tidegate.actions.request import ActionKind
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.assets import build_own_alias
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import build_dag_settings, build_job_task_settings, is_submitted
from tidegate_airflow.dags.flush import to_params_dict
from tidegate_airflow.operators.action import run_action, run_replay_form

TASK_ID = "act"
RETRIES = 1  # a person waits for the answer, and can ask again
PLACE_PATTERN = r"^.+:\d+:\d+$"
KIND_TITLES = {
    ActionKind.SKIP: "Skip one record: it becomes a dead letter",
    ActionKind.UNDO_ROLLBACK: "Undo the rollback of a table",
    ActionKind.REWIND: "After a rollback: read its records again",
    ActionKind.KEEP: "After a rollback: go on after its records",
    ActionKind.REBASE: "Move the position",
    ActionKind.DISCARD: "Discard dead letters",
}


def build_actions_dag(pipeline: Pipeline) -> DAG:
    """Build the DAG ``tidegate_<pipeline>_actions``. It has no schedule, so it need not be unpaused first."""
    settings = build_dag_settings(pipeline.name, [pipeline], "actions")
    settings["default_args"] = {**settings["default_args"], "retries": RETRIES}
    settings["on_failure_callback"] = None  # who asked for it looks at the answer, and nobody is woken
    with DAG(
        dag_id=f"tidegate_{pipeline.name}_actions",
        description=f"What helps {pipeline.name} when it stands still: shown first, then done",
        doc_md=task_docs.ACTIONS.format(pipeline=pipeline.name),
        schedule=None,
        is_paused_upon_creation=False,
        **settings,
    ) as dag:

        def run_chosen_action() -> dict[str, Any]:
            return run_action(get_current_context(), pipeline.name)

        build_form_task(pipeline, TASK_ID, task_docs.ACT, run_chosen_action)
    dag.params = to_params_dict(_build_form(pipeline))
    return dag


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


def build_form_task(pipeline: Pipeline, verb: str, doc: str, step: Callable[[], Any]) -> None:
    settings = {**build_job_task_settings(pipeline, verb, doc), "outlets": [build_own_alias(pipeline)]}
    if not is_submitted(pipeline):
        task(**settings)(step)()
        return
    from tidegate_airflow.operators.spark_submit import SubmitOperator

    fixed: dict[str, Any] = {"pipeline": pipeline.name, "conn_id": pipeline.spark.connection, **settings}
    SubmitOperator(verb=verb, given=None, **fixed)


def _build_form(pipeline: Pipeline) -> dict[str, Param]:
    topic = next(iter(pipeline.source.topics), "topic")
    return {
        "action": Param(
            ActionKind.SKIP.value,
            type="string",
            enum=[kind.value for kind in ActionKind],
            values_display={kind.value: title for kind, title in KIND_TITLES.items()},
            title="Action",
            description="What shall be done. Each action has the parameters below that name it, and no others.",
        ),
        "preview": Param(
            True,
            type="boolean",
            title="Preview",
            description="Only show what would be done to rows, offsets and dead letters, as the result `preview` of "
            "the task act; change nothing. Begin with one; then start the same without.",
        ),
        **_build_action_words(topic),
        **build_letter_words(topic),
        "because": _build_text("Because", "Discard: why these dead letters will never be needed.", "a load test"),
        "previewed": _build_text(
            "Previewed", "Every action: the digest of a preview. Nothing is done unless it would be the same.", ""
        ),
    }


def _build_action_words(topic: str) -> dict[str, Param]:
    return {
        "at": Param(
            None,
            type=["null", "string"],
            pattern=PLACE_PATTERN,
            title="At",
            description="Skip: the record's place, topic:partition:offset, as the message of the failed task has it.",
            examples=[f"{topic}:0:42"],
        ),
        "to": _build_text(
            "To",
            "Move the position: earliest, latest, group, remaining (partitions that lost records go to what is left, "
            'and others stay), a time, or offsets like {"topic": {"0": 42}}.',
            "earliest",
        ),
        "discard_foreign": Param(
            False,
            type="boolean",
            title="Discard foreign",
            description="Undo the rollback: also lose what others wrote to the table since.",
        ),
    }


def build_letter_words(topic: str) -> dict[str, Param]:
    return {
        "table": _build_text("Table", "Only this one; empty for each that it concerns.", "lake.shop.orders"),
        "topic": _build_text("Topic", "Dead letters: only those of this topic.", topic),
        "reason": _build_text("Reason", "Dead letters: only those whose reason holds this text.", "score"),
        "since": _build_text("Since", "Dead letters: only those set aside since this time.", "2026-01-01T00:00:00Z"),
        "offsets": Param(
            [],
            type="array",
            items={"type": "string", "pattern": PLACE_PATTERN},
            title="Offsets",
            description="Dead letters: only those at topic:partition:offset, one a line.",
            examples=[f"{topic}:0:42"],
        ),
    }


def _build_text(title: str, description: str, example: str) -> Param:
    shape = {"examples": [example]} if example else {}
    return Param(None, type=["null", "string"], title=title, description=description, **shape)
