"""What becomes of each kind of failure in Airflow: a retry, a skip, or a red task that waits for a person."""

import logging
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from airflow.sdk import Context, get_current_context
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException
from tidegate.errors import ConfigurationError, GiveUp, NothingToDo, PublishedElsewhere, TidegateError

log = logging.getLogger(__name__)
ERROR_KEY = "error"
COMMITTED_KEY = "committed"  # a result of a heartbeat, which may be red for what failed before it
MAX_MESSAGE_CHARACTERS = 2000


@contextmanager
def raise_airflow_errors() -> Iterator[None]:
    """Translate the core's errors, with their text.

    `NothingToDo` and `PublishedElsewhere` skip the task, `GiveUp` fails it without a retry, others are retried.
    """
    try:
        yield
    except (NothingToDo, PublishedElsewhere) as reason:
        raise AirflowSkipException(str(reason)) from reason
    except Exception as problem:
        if isinstance(problem, AirflowException) and isinstance(problem.__cause__, TidegateError):
            raise  # translated within, and its reason is stored
        push_failure_reason(describe_failure(problem))
        if not isinstance(problem, TidegateError):
            raise
        raise (AirflowFailException if isinstance(problem, GiveUp) else AirflowException)(str(problem)) from problem


def describe_failure(problem: Exception) -> dict[str, Any]:
    """Describe why a task fails. The text of a foreign error may quote anything, and stays in the log."""
    text = str(problem) if isinstance(problem, TidegateError) else "see the log of this task"
    return {"error": type(problem).__name__, "message": text[:MAX_MESSAGE_CHARACTERS]}


def raise_joined(kind: str, messages: Iterable[str], *, is_passing: bool = False, **more: Any) -> NoReturn:
    """Fail the task for several reasons, with these lines as its text and its result `error`.

    `AirflowException` if another try may help (`is_passing`), else `AirflowFailException`.
    """
    message = "\n".join(messages)
    push_failure_reason({"error": kind, "message": message[:MAX_MESSAGE_CHARACTERS], **more})
    raise (AirflowException if is_passing else AirflowFailException)(message)


def push_failure_reason(reason: dict[str, Any]) -> None:
    """Store the error's class and text as the task's result `error`, for people and the page.

    A run that does not try adds as `tasks` those that failed before it.
    """
    try:
        get_current_context()["ti"].xcom_push(key=ERROR_KEY, value=reason)
    except Exception as failure:  # the reason itself must not be hidden by a failure to note it
        log.warning("the reason was not stored as a result of the task: %s", type(failure).__name__)


def read_form_params(context: Context, known_names: Collection[str]) -> dict[str, Any]:
    """Return what a run was asked for.

    `AirflowFailException` for a parameter that is not in the form, and for one that Airflow did not pass on.
    """
    from tidegate.reprocess.request import refuse_unknown_params

    params = dict(context["params"])
    run_conf = getattr(context.get("dag_run"), "conf", None) or {}
    lost_names = sorted(name for name, value in run_conf.items() if name not in params or params[name] != value)
    with raise_airflow_errors():
        # the form's own values would be used instead: all dead letters for those that were chosen
        if lost_names:
            raise ConfigurationError(
                f"{', '.join(f'{name}={run_conf[name]}' for name in lost_names)}: Airflow does not pass "
                "these parameters on; nothing was done; set [core] dag_run_conf_overrides_params = True, "
                "which is Airflow's default, for schedulers and workers, and start the run again"
            )
        refuse_unknown_params(params, known_names)
    return params


def require_result(result: Any, task: str) -> None:
    """Raise `AirflowFailException` if the result of the task before is gone: marked as success, or cleaned."""
    with raise_airflow_errors():
        if result is None:
            raise GiveUp(
                f"task={task} has left no result: it was marked as success by hand, or Airflow's database was cleaned; "
                f"nothing was done here; clear task={task} with what follows it, or leave the work to the next run"
            )
