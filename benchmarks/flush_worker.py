"""Flushes as `bin/tidegate flush` does them, in a process of their own, with a clock at every step.

The steps are the product's own functions: each is replaced, in the module that calls it, by itself between two clocks.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate.connections import read_connection_from_env
from tidegate.errors import NothingToDo
from tidegate.flush.clean_up import compact, is_due
from tidegate.flush.flush import flush
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_pipeline

from benchmarks.measure import count_cpu_seconds

# the module that calls a step: the function, and the step's name
STEPS = {
    "tidegate.flush.flush": {
        "plan": "plan",
        "stage_tables": "stage",
        "commit_offsets": "commit_offsets",
        "clean_up": "clean_up",
        "heartbeat": "heartbeat",
    },
    "tidegate.flush.merge_queue": {"merge": "merge", "record_history": "record_batch"},
}


class Clocks:
    """What each step took in all: seconds, CPU seconds of this process, CPU seconds of the Spark server."""

    def __init__(self, server: int) -> None:
        self.steps: dict[str, dict[str, float]] = {}
        self._server = server

    def wrap_step(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step between two clocks: each call adds to what `name` took."""

        def call(*arguments: Any, **keywords: Any) -> Any:
            before = self._read_clocks()
            try:
                return step(*arguments, **keywords)
            finally:
                totals = self.steps.setdefault(name, dict.fromkeys(("wall", "worker_cpu", "server_cpu"), 0.0))
                for word, after, start in zip(totals, self._read_clocks(), before, strict=True):
                    totals[word] = round(totals[word] + after - start, 3)

        return call

    def _read_clocks(self) -> tuple[float, float, float]:
        return time.monotonic(), time.process_time(), count_cpu_seconds(self._server)


def main(request: dict[str, Any]) -> None:
    """Flush the pipeline and answer with the steps and the counts of the batches."""
    start_costs = {"wall": round(time.monotonic() - request["started"], 3), "worker_cpu": round(time.process_time(), 3)}
    clocks, since = Clocks(request["server"]), time.time()
    for module, names in STEPS.items():
        caller = importlib.import_module(module)
        for function, name in names.items():
            setattr(caller, function, clocks.wrap_step(name, getattr(caller, function)))
    session = clocks.wrap_step("assemble", assemble_pipeline)(
        find_include_folder(), request["pipeline"], read_connection_from_env
    )
    steps = importlib.import_module("tidegate.flush.flush")
    for _ in range(request["stages"]):
        steps.stage_tables(session, steps.plan(session))
    batches = []
    for _ in range(request["times"]):
        try:
            batches += [batch.to_dict() for batch in flush(session).published]
        except NothingToDo:
            break
        if request["compacts"] and is_due(session.pipeline.maintenance, batches[-1]["batch"], 1):
            clocks.wrap_step("compact", compact)(session, [table.name for table in session.pipeline.tables])
    answer = {
        "steps": {"start": {**start_costs, "server_cpu": 0.0}, **clocks.steps},
        "batches": batches,
        "begun": since,
        "ended": time.time(),
    }
    Path(request["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
