"""The flush DAG of one pipeline: plan → stage → merge → commit_offsets → clean_up → heartbeat."""

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import DAG, Context, TriggerRule, get_current_context, task
from airflow.sdk.exceptions import AirflowFailException
from tidegate.pipeline import Pipeline

from tidegate_airflow import documents, tasks
from tidegate_airflow.assets import alias, announce

# A passing fault (a restarted broker or Spark server) is over within a minute or two; later tries are further apart.
RETRIES: dict[str, Any] = {
    "retries": 4,
    "retry_delay": timedelta(seconds=10),
    "retry_exponential_backoff": True,
    "max_retry_delay": timedelta(minutes=5),
}
QUICK, LONG = timedelta(minutes=10), timedelta(hours=2)
UNFINISHED = {"failed", "upstream_failed"}


def flush_dag(pipeline: Pipeline) -> DAG:
    """The DAG ``tidegate_<pipeline>``. No connection is opened and nothing heavy is imported here."""
    seconds = pipeline.merge.interval_seconds
    with DAG(
        dag_id=f"tidegate_{pipeline.name}",
        description=pipeline.description or f"Kafka into {', '.join(table.name for table in pipeline.tables)}",
        doc_md=_document(pipeline),
        schedule=timedelta(seconds=seconds) if seconds > 0 else None,
        start_date=datetime(2024, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        default_args={"owner": "tidegate", **RETRIES},
        tags=["tidegate", "flush", *sorted({table.catalog for table in pipeline.tables})],
    ) as dag:
        _tasks(pipeline)
    return dag


def pool(pipeline: Pipeline) -> str:
    """The pool of the destination's catalog: it saves wasted work, and correctness never depends on it."""
    return f"tidegate_{pipeline.tables[0].catalog}"


def _tasks(pipeline: Pipeline) -> None:
    name = pipeline.name

    @task(task_id="plan", doc_md=documents.PLAN, execution_timeout=QUICK)
    def plan() -> dict[str, Any]:
        return tasks.run_plan(name)

    @task(
        task_id="commit_offsets",
        doc_md=documents.COMMIT_OFFSETS,
        execution_timeout=QUICK,
        trigger_rule=TriggerRule.ALL_DONE_MIN_ONE_SUCCESS,
    )
    def commit_offsets(published: Any) -> dict[str, Any]:
        return tasks.run_commit_offsets(name, _listed(published))

    @task(task_id="clean_up", doc_md=documents.CLEAN_UP, execution_timeout=LONG, pool=pool(pipeline))
    def clean_up() -> list[dict[str, Any]]:
        return tasks.run_clean_up(name)

    @task(
        task_id="heartbeat",
        doc_md=documents.HEARTBEAT,
        execution_timeout=QUICK,
        trigger_rule=TriggerRule.ALL_DONE,
    )
    def heartbeat() -> dict[str, Any]:
        context = get_current_context()
        states = _states(context)
        merged = [s for t, s in states.items() if t.partition("_")[0] == "merge" and s == "success"]
        # asked for only when it is there: a missing result would be an error line in the log of every skipped run
        published = context["ti"].xcom_pull(task_ids="merge") if merged else None
        done = tasks.run_heartbeat(name, _listed(published))
        _fail_with_the_run(states)
        return done

    staged = _stage(pipeline, plan())
    published = _merge(pipeline, staged)
    commit_offsets(published) >> clean_up() >> heartbeat()


def _stage(pipeline: Pipeline, planned: Any) -> Any:
    settings: dict[str, Any] = {
        "task_id": "stage",
        "doc_md": documents.STAGE,
        "execution_timeout": LONG,
        "pool": pool(pipeline),
    }
    if _is_submitted(pipeline):
        from tidegate_airflow.submit import SubmitOperator

        connection = pipeline.spark.connection
        return SubmitOperator(
            verb="stage", pipeline=pipeline.name, given=planned, conn_id=connection, **settings
        ).output

    @task(**settings)
    def stage(plan: dict[str, Any]) -> list[dict[str, Any]]:
        return tasks.run_stage(pipeline.name, plan)

    return stage(planned)


def _merge(pipeline: Pipeline, staged: Any) -> Any:
    settings: dict[str, Any] = {
        "task_id": "merge",
        "doc_md": documents.MERGE,
        "execution_timeout": LONG,
        "pool": pool(pipeline),
        "outlets": [alias(pipeline.name)],
    }
    several = len(pipeline.tables) > 1
    if several:
        settings["map_index_template"] = "{{ table }}"
    if _is_submitted(pipeline):
        from tidegate_airflow.submit import SubmitOperator

        fixed: dict[str, Any] = {
            "verb": "merge",
            "pipeline": pipeline.name,
            "conn_id": pipeline.spark.connection,
            **settings,
        }
        if several:
            return SubmitOperator.partial(**fixed).expand(given=staged).output
        return SubmitOperator(given=staged, **fixed).output

    @task(**settings)
    def merge(staged: Any) -> dict[str, Any]:
        context, batch = get_current_context(), tasks.one_batch(staged)
        context["table"] = batch["table"]
        published = tasks.run_merge(pipeline.name, batch)
        announce(context, published, pipeline.name)
        return published

    return merge.expand(staged=staged) if several else merge(staged)


def _is_submitted(pipeline: Pipeline) -> bool:
    """Whether a Spark connection is submitted to; a pipeline's own `spark.master` is run as a plain process."""
    return pipeline.spark.mode == "submit" and pipeline.spark.master is None


def _listed(published: Any) -> list[Any]:
    """The results of merge, mapped or not, without those that are missing."""
    if published is None:
        return []
    return [published] if isinstance(published, dict) else [one for one in published if one]


def _states(context: Context) -> dict[str, str]:
    """The states of this run's other tasks by task id; a mapped task's id ends in its index."""
    run = context["dag_run"]
    states = context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])[run.run_id]
    return {name: str(state) for name, state in states.items() if name != "heartbeat"}


def _fail_with_the_run(states: dict[str, str]) -> None:
    """Turn red when a task of this run failed: the last task's state is the run's."""
    failed = sorted(name for name, state in states.items() if state in UNFINISHED)
    if failed:
        raise AirflowFailException(
            f"offsets are kept, but tasks={', '.join(failed)} failed in this run; see the log of the first one"
        )


def _document(pipeline: Pipeline) -> str:
    rows = "\n".join(f"| `{t.name}` | {', '.join(t.topics) or 'all'} | {t.mode} |" for t in pipeline.tables)
    return f"{pipeline.description}\n\n| table | topics | mode |\n| --- | --- | --- |\n{rows}\n"
