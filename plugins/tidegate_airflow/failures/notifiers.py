"""Who is told of a failed run, and of one that succeeds again: Airflow's notifiers, as the pipeline file names them."""

import hashlib
import importlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import Context, Variable
from airflow.sdk.bases.notifier import BaseNotifier
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Notifier, Pipeline
from tidegate.spec.time_text import format_utc, to_utc_datetime

from tidegate_airflow.dag_ids import DAG_ID_PREFIX

if TYPE_CHECKING:
    from tidegate.table.approval import Hold

log = logging.getLogger(__name__)
FAILURE_KEY = "failure"  # a result of the tasks that colour a pipeline's run, and what templates call it
MEMBER_FAILURES_KEY = "member_failures"  # the same of a fleet: a list, each with its `pipeline`
COLOURING_TASKS = ("heartbeat", "freshness", "finish")
NO_PIPELINE = ""  # where a pipeline stands: the failure of a whole fleet
DESCRIPTION = "Notifiers of failed runs: true for one that was called, false for one that is called by the next run"
VARIABLE_SUFFIX = "_missed_calls"  # behind the id of the DAG
Calls = dict[str, dict[str, bool]]


@dataclass
class MissedCalls:
    """The calls of one DAG's notifiers, by failure and notifier: whether it was called since the pipeline failed so.

    None: unknown. A failure that is not in `calls` misses no call.
    """

    variable: str
    calls: Calls | None = field(default_factory=dict)

    @classmethod
    def read(cls, name: str) -> "MissedCalls":
        variable = f"{DAG_ID_PREFIX}{name}{VARIABLE_SUFFIX}"
        try:
            text = Variable.get(variable, default="{}")
        except Exception as fault:  # the first failed run is told all the same
            log.warning(
                "variable=%s cannot be read; a call that fails is not made again: %s", variable, type(fault).__name__
            )
            return cls(variable, None)
        try:
            return cls(variable, {name: {**made} for name, made in json.loads(text).items()})
        except (AttributeError, TypeError, ValueError):  # somebody has changed it into something else
            return cls(variable)

    def includes(self, failure: Mapping[str, Any], notifier: Notifier) -> bool:
        """Whether the notifier was not called for the failure. Corrected arguments make it another notifier."""
        made = (self.calls or {}).get(_name_failure(failure))
        return made is not None and not made.get(_identify(notifier))

    @contextmanager
    def note_call(self, failure: Mapping[str, Any], notifier: Notifier, others: Sequence[Notifier]) -> Iterator[None]:
        """Wrap the call: it is missed until it has succeeded. `others` are all notifiers of the pipeline."""
        self._note(_name_failure(failure), notifier, others, is_made=False)
        yield
        self._note(_name_failure(failure), notifier, others, is_made=True)

    def keep(self, pipelines: Collection[str]) -> None:
        """Forget the other pipelines: their files are gone. Written with the next call."""
        if self.calls is not None:
            self.calls = {name: made for name, made in self.calls.items() if name.partition(" ")[0] in pipelines}

    def _note(self, name: str, notifier: Notifier, others: Sequence[Notifier], *, is_made: bool) -> None:
        if self.calls is None:
            return
        made = self.calls.setdefault(name, {})
        made[_identify(notifier)] = is_made
        if all(made.get(_identify(other)) for other in others):
            del self.calls[name]
        try:
            if self.calls:
                Variable.set(self.variable, json.dumps(self.calls), DESCRIPTION)
            else:
                Variable.delete(self.variable)
        except Exception as fault:
            log.warning(
                "variable=%s cannot be written; a call of a notifier may be missing, or come twice: %s",
                self.variable,
                type(fault).__name__,
            )


def _name_failure(failure: Mapping[str, Any]) -> str:
    return f"{failure['pipeline']} {failure['kind']}"  # no pipeline has a space in its name


def _identify(notifier: Notifier) -> str:
    digest = hashlib.sha256(json.dumps(notifier.kwargs, sort_keys=True, default=str).encode()).hexdigest()
    return f"{notifier.path} {digest[:8]}"


def build_failure_callbacks(name: str, members: Sequence[Pipeline]) -> list[Callable[[Context], None]]:
    """Return the DAG's callback, if it has notifiers: it tells those of each pipeline that failed for a new reason.

    A call that failed is made again with the next failed run. A failure of no pipeline, or of one whose file became
    wrong, and a run that noted nothing, is told to all. Classes of notifiers are imported at the call.
    """
    own = {pipeline.name: pipeline.on_failure for pipeline in members}
    notifiers = {**own, NO_PIPELINE: join_notifiers(own.values())}

    def notify(context: Context) -> None:
        failures = _read_failures(context)
        if not failures:
            for notifier in notifiers[NO_PIPELINE]:
                with _log_failed_call(notifier):
                    _call_notifier("on_failure", notifier, context, None)
            return
        missed = MissedCalls.read(name)
        missed.keep(notifiers)
        for failure in failures:
            called = notifiers.get(failure["pipeline"], notifiers[NO_PIPELINE])
            for notifier in called:
                if failure["is_new"] or missed.includes(failure, notifier):
                    with _log_failed_call(notifier), missed.note_call(failure, notifier, called):
                        _call_notifier("on_failure", notifier, context, failure)

    return [notify] if any(own.values()) else []


def join_notifiers(notifiers: Iterable[Sequence[Notifier]]) -> list[Notifier]:
    """Return those of several pipelines, each once: what is told to all is told to nobody twice."""
    every = [notifier for entries in notifiers for notifier in entries]
    return [notifier for number, notifier in enumerate(every) if notifier not in every[:number]]


@contextmanager
def _log_failed_call(notifier: Notifier) -> Iterator[None]:
    try:
        yield
    except Exception:  # the next one belongs to somebody else
        log.exception("on_failure.notifier=%s was not called; see the reason below", notifier.path)


def _read_failures(context: Context) -> list[dict[str, Any]]:
    try:
        pull = context["ti"].xcom_pull
        noted = [pull(task_ids=task, key=FAILURE_KEY, map_indexes=-1) for task in COLOURING_TASKS]
        noted += pull(task_ids=COLOURING_TASKS[0], key=MEMBER_FAILURES_KEY, map_indexes=-1) or []
    except Exception as fault:  # better told twice than never
        log.info("the failures of the run cannot be read: %s", type(fault).__name__)
        return []
    return [failure for failure in noted if isinstance(failure, dict)]


def notify_of_recovery(notifiers: Sequence[Notifier], context: Context, failure: dict[str, Any]) -> None:
    """Tell everybody of `on_recovery`. A failed call is only logged: the run has succeeded."""
    for notifier in notifiers:
        try:
            _call_notifier("on_recovery", notifier, context, failure)
        except Exception:
            log.exception("on_recovery.notifier=%s was not called", notifier.path)


@dataclass(frozen=True)
class HoldNotifications:
    """Tells of batches that wait for an approval. A failed call is only logged."""

    context: Context

    def tell_begin(self, pipeline: Pipeline, reason: str) -> None:
        """Tell everybody of `on_failure` that a batch begins to wait."""
        since = format_utc(datetime.now(UTC), "seconds")
        failure = {"pipeline": pipeline.name, "reason": reason, "since": since, "runs": 1, "is_new": True}
        for notifier in pipeline.on_failure:
            with _log_failed_call(notifier):
                _call_notifier("on_failure", notifier, self.context, failure)

    def tell_end(self, pipeline: Pipeline, table: str, hold: "Hold") -> None:
        """Tell everybody of `on_recovery` that the table waits no more."""
        reason = hold.describe(f"pipeline={pipeline.name} table={table}")
        since = format_utc(to_utc_datetime(hold.at_ms), "seconds")
        failure = {"pipeline": pipeline.name, "reason": reason, "since": since, "runs": 1, "is_new": False}
        notify_of_recovery(pipeline.on_recovery, self.context, failure)


def _call_notifier(key: str, notifier: Notifier, context: Context, failure: dict[str, Any] | None) -> None:
    path = notifier.path
    module, _, name = path.rpartition(".")
    try:
        notifier_class = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as fault:
        raise ConfigurationError(f"{key}.notifier={path}: {fault}; install its provider, or correct it") from fault
    if not (isinstance(notifier_class, type) and issubclass(notifier_class, BaseNotifier)):
        raise ConfigurationError(f"{key}.notifier={path}: not a notifier of Airflow's; name a class of one")
    seen: Any = {**context, FAILURE_KEY: failure}
    notifier_class(**notifier.kwargs)(seen)
