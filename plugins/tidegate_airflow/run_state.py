"""The end of a run: the heartbeat, and the colour that the whole run takes from it."""

from typing import Any

from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowFailException

from tidegate_airflow import tasks

UNFINISHED = {"failed", "upstream_failed"}


def last_of_the_run(name: str) -> dict[str, Any]:
    """The heartbeat, whatever happened before; then red if a task failed, as the last task colours the run."""
    context = get_current_context()
    states = _states(context)
    done = tasks.run_heartbeat(name)
    failed = sorted(task for task, state in states.items() if state in UNFINISHED)
    if failed:
        raise AirflowFailException(
            f"offsets are kept, but tasks={', '.join(failed)} failed in this run; see the log of the first one"
        )
    return done


def _states(context: Context) -> dict[str, str]:
    """The states of this run's other tasks by task id; a mapped task's id ends in its index."""
    run = context["dag_run"]
    states = context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])[run.run_id]
    return {name: str(state) for name, state in states.items() if name != "heartbeat"}
