"""The DAGs of one pipeline that a form starts: what helps one that stands still, and the replay of its dead letters.

An action is shown first, then done. Replay decodes the records that were set aside, or skipped, again after a
correction.
"""

from typing import Any

from airflow.sdk import DAG, Param
from tidegate.reprocess.request import ActionKind
from tidegate.spec.pipeline import Pipeline

from tidegate_airflow.assets import build_own_alias
from tidegate_airflow.dags import task_docs
from tidegate_airflow.dags.dag_settings import (
    build_dag_settings,
    build_job_task_settings,
    build_switch,
    build_text_field,
    choose_operator,
)
from tidegate_airflow.dags.flush import DEFAULT_POOL, to_params_dict
from tidegate_airflow.operators.step import VerbOperator

RETRIES = 0  # a person waits for the answer; what a failed try has changed, a preview of the next run shows
PLACE_PATTERN = r"^.+:\d+:\d+$"
KIND_TITLES = {
    ActionKind.SKIP: "Skip one record: it becomes a dead letter",
    ActionKind.UNDO_ROLLBACK: "Undo the rollback of a table",
    ActionKind.REWIND: "After a rollback: read its records again",
    ActionKind.KEEP: "After a rollback: go on after its records",
    ActionKind.REBASE: "Move the position",
    ActionKind.DISCARD: "Discard dead letters",
    ActionKind.APPROVE: "Approve a held batch: the next flush publishes it",
    ActionKind.REJECT: "Reject a held batch: it stays staged",
    ActionKind.LOOK: "Look at records: what becomes of each; changes nothing",
    ActionKind.EXPLAIN: "Explain a row: which record made it, or why there is none; changes nothing",
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
        # not behind the flushes of the catalog's pool: those that hang may be what a person wants to help
        build_form_task(pipeline, "act", task_docs.ACT, pool=DEFAULT_POOL, multiple_outputs=True)
    dag.params = to_params_dict(_build_form(pipeline))
    return dag


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
        build_form_task(pipeline, "replay", task_docs.REPLAY_TASK)
    dag.params = to_params_dict(build_letter_params(next(iter(pipeline.source.topics), "topic")))
    return dag


def build_form_task(pipeline: Pipeline, verb: str, doc: str, **others: Any) -> None:
    settings = {**build_job_task_settings(pipeline, verb, doc), "outlets": [build_own_alias(pipeline)], **others}
    operator, arguments = choose_operator(pipeline, VerbOperator, verb, **settings)
    operator(**arguments)


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
        "preview": build_switch(
            "Preview",
            "Only show what would be done to rows, offsets and dead letters, as the result `preview` of the task act; "
            "change nothing. Begin with one; then start the same without.",
            default=True,
        ),
        "at": build_text_field(
            "At",
            "Skip: the record's place, topic:partition:offset, as the message of the failed task has it.",
            f"{topic}:0:42",
            pattern=PLACE_PATTERN,
        ),
        "around": build_text_field(
            "Around",
            "Look: topic:partition for its last 20 records, or topic:partition:offset for those around it.",
            f"{topic}:0",
        ),
        "key": build_text_field(
            "Key", "Explain: the row's key, a JSON object with its columns; of one column the value will do.", "4711"
        ),
        "to": build_text_field(
            "To",
            "Move the position: earliest, latest, group, remaining (partitions that lost records go to what is left, "
            'and others stay), a time, or offsets like {"topic": {"0": 42}}.',
            "earliest",
        ),
        "discard_foreign": build_switch(
            "Discard foreign", "Undo the rollback: also lose what others wrote to the table since."
        ),
        "skip": build_switch(
            "Skip", "Reject: leave the records of the batch out of the table, by moving the position behind them."
        ),
        **build_letter_params(topic),
        "because": build_text_field("Because", "Discard: why these dead letters will never be needed.", "a load test"),
        "previewed": build_text_field(
            "Previewed", "Every action: the digest of a preview. Nothing is done unless it would be the same.", ""
        ),
    }


def build_letter_params(topic: str) -> dict[str, Param]:
    return {
        "table": build_text_field("Table", "Only this one; empty for each that it concerns.", "lake.shop.orders"),
        "topic": build_text_field("Topic", "Dead letters: only those of this topic.", topic),
        "reason": build_text_field("Reason", "Dead letters: only those whose reason holds this text.", "score"),
        "since": build_text_field(
            "Since", "Dead letters: only those set aside since this time.", "2026-01-01T00:00:00Z"
        ),
        "offsets": Param(
            [],
            type="array",
            items={"type": "string", "pattern": PLACE_PATTERN},
            title="Offsets",
            description="Dead letters: only those at topic:partition:offset, one a line.",
            examples=[f"{topic}:0:42"],
        ),
    }
