"""Counts what a flush asks of the world, step by step."""

import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

STEPS = {  # of each module: the function, and the step that it is
    "tidegate.flush.flush": {
        "expand_template": "expand_template",
        "plan": "plan",
        "stage_tables": "stage",
        "commit_offsets": "commit_offsets",
        "clean_up": "clean_up",
        "heartbeat": "heartbeat",
    },
    "tidegate.flush.merge_queue": {"merge": "merge", "record_history": "record_history"},
}


class Calls:
    """Calls by step. What is called between the steps stands under ``flush``."""

    def __init__(self) -> None:
        self.by_step: dict[str, Counter[str]] = {}
        self._step = "flush"

    def note(self, call: str) -> None:
        self.by_step.setdefault(self._step, Counter())[call] += 1

    def count_call(self, call: str, when: str) -> None:
        """For `World.open_session`."""
        if when == "before":
            self.note(call)

    @contextmanager
    def watch_calls(self) -> Iterator["Calls"]:
        """Steps know that they are under way; one that a step calls counts as that step's."""
        with pytest.MonkeyPatch.context() as patch:
            for module, functions in STEPS.items():
                for function, step in functions.items():
                    place = f"{module}.{function}"
                    patch.setattr(place, self._wrap_step(step, pkgutil.resolve_name(place)))
            yield self

    def _wrap_step(self, step: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            outer_step, self._step = self._step, step
            try:
                return function(*arguments, **keywords)
            finally:
                self._step = outer_step

        return run

    @property
    def totals(self) -> dict[str, int]:
        """How many calls each step made."""
        return {step: sum(calls.values()) for step, calls in self.by_step.items()}
