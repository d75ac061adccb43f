"""Who is told of a failed run, and of one that succeeds again: Airflow's notifiers, as the pipeline file names them."""

import importlib
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow.sdk import Context
from airflow.sdk.bases.notifier import BaseNotifier
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Notifier, Pipeline

from tidegate_airflow.dag_ids import name_fleet
from tidegate_airflow.failures.missed_calls import MissedCalls

log = logging.getLogger(__name__)
FAILURE_KEY = "failure"  # a result of the tasks that colour a run, and what templates call it
MEMBER_FAILURES_KEY = "member_failures"  # the same of a fleet: a list, each with its `pipeline`
COLOURING_TASKS = ("heartbeat", "freshness")
OWN = ""  # where a pipeline stands: the DAG's own failure


def build_failure_callbacks(pipeline: Pipeline) -> list[Callable[[Context], None]]:
    """A callback of the DAG for each notifier. Its class is imported when it is called, not when the DAG is read.

    A run that failed for the reason of the one before it is not notified again, unless that call failed.
    """
    return [_build_callback(pipeline, notifier) for notifier in pipeline.on_failure]


def _build_callback(pipeline: Pipeline, notifier: Notifier) -> Callable[[Context], None]:
    def notify(context: Context) -> None:
        failures = _read_failures(context)
        if not failures:
            _call_notifier("on_failure", notifier, context, None)
            return
        missed = MissedCalls.read(pipeline.name)
        found = next((failure for failure in failures if failure["is_new"]), failures[0])
        if not (found["is_new"] or missed.includes(OWN, notifier)):
            log.info("not notified again: %s", found["reason"])
            return
        with missed.note_call(OWN, notifier, pipeline.on_failure):
            _call_notifier("on_failure", notifier, context, found)

    return notify


def build_fleet_callbacks(members: Sequence[Pipeline]) -> list[Callable[[Context], None]]:
    """One callback for the DAG of a fleet: it tells the notifiers of each pipeline that failed for a new reason.

    A failure of the fleet itself, and a run that noted nothing, as its last task was killed, is notified once to all.
    A call that failed is made again with the next failed run.
    """
    own = {pipeline.name: pipeline.on_failure for pipeline in members if pipeline.on_failure}
    notifiers = {**own, OWN: _list_distinct(own.values())}

    def notify(context: Context) -> None:
        noted = _read_member_failures(context)
        missed = MissedCalls.read(name_fleet(members[0].fleet or ""))
        missed.keep(notifiers)
        for failure in noted:
            called = notifiers.get(failure["pipeline"], ())
            for notifier in called:
                if failure["is_new"] or missed.includes(failure["pipeline"], notifier):
                    with _log_failed_call(notifier), missed.note_call(failure["pipeline"], notifier, called):
                        _call_notifier("on_failure", notifier, context, failure)
        for notifier in [] if noted else notifiers[OWN]:
            with _log_failed_call(notifier):
                _call_notifier("on_failure", notifier, context, None)

    return [notify] if own else []


@contextmanager
def _log_failed_call(notifier: Notifier) -> Iterator[None]:
    try:
        yield
    except Exception:  # the next one belongs to somebody else
        log.exception("on_failure.notifier=%s was not called; see the reason below", notifier.path)


def _list_distinct(notifiers: Iterable[Sequence[Notifier]]) -> list[Notifier]:
    distinct_notifiers = list[Notifier]()
    for notifier in (notifier for entries in notifiers for notifier in entries):
        if notifier not in distinct_notifiers:
            distinct_notifiers.append(notifier)
    return distinct_notifiers


def _read_member_failures(context: Context) -> list[dict[str, Any]]:
    """What the run noted of its members' failures; `pipeline` is empty where it is the fleet's own."""
    try:
        noted = context["ti"].xcom_pull(task_ids=COLOURING_TASKS[0], key=MEMBER_FAILURES_KEY, map_indexes=-1)
    except Exception as fault:  # better told twice than never
        log.info("the failures of the run cannot be read: %s", type(fault).__name__)
        return []
    return list(noted or [])


def notify_of_recovery(notifiers: tuple[Notifier, ...], context: Context, failure: dict[str, Any]) -> None:
    """Tell everybody of `on_recovery`. One that cannot be told is logged: the run has succeeded."""
    for notifier in notifiers:
        try:
            _call_notifier("on_recovery", notifier, context, failure)
        except Exception:
            log.exception("on_recovery.notifier=%s was not called", notifier.path)


def _call_notifier(key: str, notifier: Notifier, context: Context, failure: dict[str, Any] | None) -> None:
    seen: Any = {**context, FAILURE_KEY: failure}
    _load_notifier(key, notifier.path)(**notifier.kwargs)(seen)


def _read_failures(context: Context) -> list[dict[str, Any]]:
    """What the run's tasks noted of its failure; none where they could not, or for a DAG that notes nothing."""
    try:
        task_instance = context["ti"]
        found = [task_instance.xcom_pull(task_ids=task, key=FAILURE_KEY) for task in COLOURING_TASKS]
    except Exception as fault:  # better told twice than never
        log.info("the failure of the run cannot be read: %s", type(fault).__name__)
        return []
    return [failure for failure in found if isinstance(failure, dict)]


def _load_notifier(key: str, path: str) -> Any:
    module, _, name = path.rpartition(".")
    try:
        notifier_class = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as fault:
        raise ConfigurationError(f"{key}.notifier={path}: {fault}; install its provider, or correct it") from fault
    if not (isinstance(notifier_class, type) and issubclass(notifier_class, BaseNotifier)):
        raise ConfigurationError(f"{key}.notifier={path}: not a notifier of Airflow's; name a class of one")
    return notifier_class
