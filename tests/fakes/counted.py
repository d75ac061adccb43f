"""Counts what a flush asks of the world, step by step."""

import importlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

STEPS = {
    "tidegate.steps.flush": ("expand_template", "plan", "stage", "commit_offsets", "clean_up", "heartbeat"),
    "tidegate.steps.merge_queue": ("merge", "record_batch"),
}


class Calls:
    """Calls by step. What is called between the steps stands under ``flush``."""

    def __init__(self) -> None:
        self.by_step: dict[str, Counter[str]] = {}
        self._step = "flush"

    def note(self, call: str) -> None:
        self.by_step.setdefault(self._step, Counter())[call] += 1

    def hook(self, call: str, when: str) -> None:
        """For `World.ports`."""
        if when == "before":
            self.note(call)

    @contextmanager
    def watching(self) -> Iterator["Calls"]:
        """Steps know that they are under way; one that a step calls counts as that step's."""
        originals = [(importlib.import_module(module), name) for module, names in STEPS.items() for name in names]
        kept = [(module, name, getattr(module, name)) for module, name in originals]
        for module, name, step in kept:
            setattr(module, name, self._within(name, step))
        try:
            yield self
        finally:
            for module, name, step in kept:
                setattr(module, name, step)

    def _within(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **named: Any) -> Any:
            before, self._step = self._step, name
            try:
                return step(*arguments, **named)
            finally:
                self._step = before

        return run

    @property
    def totals(self) -> dict[str, int]:
        """How many calls each step made."""
        return {step: sum(calls.values()) for step, calls in self.by_step.items()}
