"""One flush as `bin/tidegate flush` does it, in a process of its own, with a clock at every step.

The steps are the product's own functions: each is replaced, in the module that calls it, by itself between two clocks.
"""

import importlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tidegate.adapters.assembly import assemble
from tidegate.adapters.connections import connection_from_env
from tidegate.flush import flush
from tidegate.settings import include_folder

from benchmarks.measure import cpu_seconds

# the module that calls a step: the step
STEPS = {
    "tidegate.flush": ("plan", "stage", "commit_offsets", "clean_up", "heartbeat"),
    "tidegate.drain": ("merge", "record"),
}


class Clocks:
    """What each step took: seconds, CPU seconds of this process, CPU seconds of the Spark server."""

    def __init__(self, server: int) -> None:
        self.steps: dict[str, dict[str, float]] = {}
        self._server = server

    def around(self, name: str, step: Callable[..., Any]) -> Callable[..., Any]:
        """The step, measured."""

        def measured(*arguments: Any) -> Any:
            before = self._now()
            try:
                return step(*arguments)
            finally:
                spent = [after - start for after, start in zip(self._now(), before, strict=True)]
                words = ("wall", "worker_cpu", "server_cpu")
                self.steps[name] = {word: round(value, 3) for word, value in zip(words, spent, strict=True)}

        return measured

    def _now(self) -> tuple[float, float, float]:
        return time.monotonic(), time.process_time(), cpu_seconds(self._server)


def main(request: dict[str, Any]) -> None:
    """Flush the pipeline once and answer with the steps and the counts of the batch."""
    begun = {"wall": round(time.monotonic() - request["started"], 3), "worker_cpu": round(time.process_time(), 3)}
    clocks = Clocks(request["server"])
    for module, names in STEPS.items():
        caller = importlib.import_module(module)
        for name in names:
            setattr(caller, name, clocks.around(name, getattr(caller, name)))
    put_together = clocks.around("assemble", assemble)
    flushed = flush(put_together(include_folder(), request["pipeline"], connection_from_env))
    answer = {
        "steps": {"start": {**begun, "server_cpu": 0.0}, **clocks.steps},
        "batches": [batch.to_dict() for batch in flushed.published],
    }
    Path(request["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
