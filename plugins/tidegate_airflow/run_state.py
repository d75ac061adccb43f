"""The end of a run: the heartbeat, and the colour that the whole run takes from it."""

from typing import Any

from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowFailException

from tidegate_airflow import tasks

UNFINISHED = {"failed", "upstream_failed"}


def last_of_the_run(name: str) -> dict[str, Any]:
    """The heartbeat, whatever happened before; then red if a task failed or the plan refused a table.

    The last task colours the run.
    """
    context = get_current_context()
    states = _states(context)
    done = tasks.run_heartbeat(name)
    failed = sorted(task for task, state in states.items() if state in UNFINISHED)
    told = [f"tasks={', '.join(failed)} failed in this run; see the log of the first one"] if failed else []
    told += [f"table={one['table']} is refused, the others go on: {one['message']}" for one in _refused(context)]
    if told:
        raise AirflowFailException("offsets are kept, but " + "\n".join(told))
    return done


def _refused(context: Context) -> list[dict[str, Any]]:
    """The tables that this run's plan left as they are; none where the plan has no result."""
    planned = context["ti"].xcom_pull(task_ids="plan")
    return planned["refused"] if planned else []


def _states(context: Context) -> dict[str, str]:
    """The states of this run's other tasks by task id; a mapped task's id ends in its index."""
    run = context["dag_run"]
    states = context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])[run.run_id]
    return {name: str(state) for name, state in states.items() if name != "heartbeat"}
