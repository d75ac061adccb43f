"""One broker, one lake and one clock for as many runners as a test starts, and hooks between any two port calls."""

import json
from collections.abc import Callable
from typing import Any

from tidegate.model.table_state import TableState
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.table.session import TableSession

from fakes.broker import MemoryBroker
from fakes.clock import Clock, Crash
from fakes.lake import MemoryDestination, build_destination
from fakes.numbering import Numbering
from fakes.spark import MemoryEngine, StructuredSql
from fakes.tables import Row

Hook = Callable[[str, str], None]  # (port.method, "before" or "after")


class Watched:
    """A port whose every call passes through a hook, before and after it took effect."""

    def __init__(self, name: str, port: Any, hook: Hook) -> None:
        self._name, self._port, self._hook = name, port, hook

    def __getattr__(self, method: str) -> Any:
        attribute = getattr(self._port, method)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            self._hook(f"{self._name}.{method}", "before")
            result = attribute(*args, **kwargs)
            self._hook(f"{self._name}.{method}", "after")
            return result

        return call


class World:
    """One broker, one lake, one clock, shared by as many runners as a test starts."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.broker = MemoryBroker(self.clock)
        self.destination = MemoryDestination(self.clock)
        self.engine = MemoryEngine(self.broker, self.destination)
        self._attempts = Numbering()

    def name_attempt(self) -> str:
        return f"attempt{next(self._attempts)}"

    def open_session(self, pipeline: Pipeline, hook: Hook | None = None, **doubles: Any) -> Session:
        """The ports of one runner; `doubles` replaces some by doubles with a fault, `destination` its five at once."""
        destination = doubles.pop("destination", self.destination)
        port_map = {"broker": self.broker, "engine": self.engine, **vars(build_destination(destination)), **doubles}
        if hook is not None:
            port_map = {name: Watched(name, port, hook) for name, port in port_map.items()}
        return Session(
            pipeline=pipeline,
            sql=StructuredSql(),
            now_ms=self.clock,
            new_attempt=self.name_attempt,
            pause=self.clock.pause,
            **port_map,
        )

    def read_rows(self, table: str) -> list[Row]:
        """The table's rows in an order of their own."""
        memory_table = self.destination.tables.get(table)
        return sorted(memory_table.read_rows(), key=lambda r: json.dumps(r, sort_keys=True)) if memory_table else []


def build_session(pipeline: Pipeline, table: Table, state: TableState | None = None) -> TableSession:
    """A table as a step has read it, for checks that look at nothing else."""
    return TableSession(World().open_session(pipeline), table, state)


class CrashAt:
    """A hook that kills the runner at one of its port calls; `calls` counts them."""

    def __init__(self, number: int) -> None:
        self.number, self.calls, self.at = number, 0, ""

    def __call__(self, call: str, moment: str) -> None:
        self.calls += 1
        if self.calls == self.number:
            self.at = f"{moment} {call}"
            raise Crash(self.at)


class PauseAt:
    """A hook that lets others run, once, while its own runner stands between two calls."""

    def __init__(self, number: int, action: Callable[[], object]) -> None:
        self.number, self.calls, self.meanwhile = number, 0, action

    def __call__(self, call: str, moment: str) -> None:
        self.calls += 1
        if self.calls == self.number:
            self.meanwhile()
