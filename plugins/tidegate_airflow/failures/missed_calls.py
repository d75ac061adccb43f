"""Which notifiers were not called for a failure, as their call failed or was killed: the next failed run calls them.

A DAG's callback runs in the DAG processor, which keeps nothing for it but a variable. There is one from the first call
for a failure until each notifier was called, or for as long as one of them fails.
"""

import hashlib
import json
import logging
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from airflow.sdk import Variable
from tidegate.spec.pipeline import Notifier

from tidegate_airflow.dag_ids import DAG_ID_PREFIX

log = logging.getLogger(__name__)
DESCRIPTION = "Notifiers of failed runs: true for one that was called, false for one that is called by the next run"
VARIABLE_SUFFIX = "_missed_calls"  # behind the id of the DAG
Calls = dict[str, dict[str, bool]]


@dataclass
class MissedCalls:
    """The calls of one DAG's notifiers. `calls` is by pipeline and notifier: whether the notifier was called since the
    pipeline failed; None where nobody can tell. A pipeline that is not among them misses no call.
    """

    variable: str
    calls: Calls | None = field(default_factory=dict)

    @classmethod
    def read(cls, name: str) -> "MissedCalls":
        """Those of the DAG whose backlog has this name."""
        variable = f"{DAG_ID_PREFIX}{name}{VARIABLE_SUFFIX}"
        try:
            return cls(variable, _parse_calls(Variable.get(variable, default="{}")))
        except Exception as fault:  # the first failed run is told all the same
            log.warning(
                "variable=%s cannot be read; a call that fails is not made again: %s", variable, type(fault).__name__
            )
            return cls(variable, None)

    def includes(self, pipeline: str, notifier: Notifier) -> bool:
        """Whether the notifier was not called for the pipeline's failure. One whose arguments were corrected since is
        another one, and was not.
        """
        made = (self.calls or {}).get(pipeline)
        return made is not None and not made.get(_identify(notifier))

    @contextmanager
    def note_call(self, pipeline: str, notifier: Notifier, others: Sequence[Notifier]) -> Iterator[None]:
        """Around the call: it is missed until it has succeeded. `others` are all notifiers of the pipeline."""
        self._note(pipeline, notifier, others, is_made=False)
        yield
        self._note(pipeline, notifier, others, is_made=True)

    def keep(self, pipelines: Collection[str]) -> None:
        """Forget the others: their files are gone. It is written with the next call."""
        if self.calls is not None:
            self.calls = {name: made for name, made in self.calls.items() if name in pipelines}

    def _note(self, pipeline: str, notifier: Notifier, others: Sequence[Notifier], *, is_made: bool) -> None:
        if self.calls is None:
            return
        made = self.calls.setdefault(pipeline, {})
        made[_identify(notifier)] = is_made
        if all(made.get(_identify(other)) for other in others):
            del self.calls[pipeline]
        try:
            if self.calls:
                Variable.set(self.variable, json.dumps(self.calls), DESCRIPTION)
            else:
                Variable.delete(self.variable)
        except Exception as fault:
            log.warning(
                "variable=%s cannot be written; a call may be missing, or come twice: %s",
                self.variable,
                type(fault).__name__,
            )


def _parse_calls(text: str) -> Calls:
    """What was written; nothing of what somebody has changed into something else."""
    try:
        return {name: {**made} for name, made in json.loads(text).items()}
    except (AttributeError, TypeError, ValueError):
        return {}


def _identify(notifier: Notifier) -> str:
    """Its class and a digest of its arguments, which may be secrets."""
    digest = hashlib.sha256(json.dumps(notifier.kwargs, sort_keys=True, default=str).encode()).hexdigest()
    return f"{notifier.path} {digest[:8]}"
