"""Owns the Spark Connect servers of the bench: like the stack's, on any master, with an event log where it is read."""

import os
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.measure import count_cpu_seconds, measure_resident_mb
from local import ports, processes, spark
from local.layout import RunDir
from local.processes import Identity
from local.stack import Stack

END_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True)
class SparkServer:
    """A server that answers. `started` is what its start took: seconds, CPU seconds, and memory afterwards."""

    stack: Stack
    pid: int
    remote: str
    events: Path
    started: dict[str, float]

    def build_environment(self) -> dict[str, str]:
        """For processes that work with the stack's broker and this server."""
        return {**self.stack.build_environment(), "SPARK_REMOTE": self.remote}


@contextmanager
def start_spark_server(
    stack: Stack,
    folder: Path,
    master: str = "local[*]",
    conf: Mapping[str, str] | None = None,
    *,
    logs_events: bool = False,
) -> Iterator[SparkServer]:
    """A server with the very settings of the stack's own; it ends with the block, with all that it started.

    `events` is filled where it `logs_events`, which costs a hundredth of its CPU time.
    """
    events = folder / "events"
    events.mkdir(parents=True)
    port = ports.choose_ports(["bench_spark"])["bench_spark"]
    server = spark.build_server(RunDir(folder), port)
    server.prepare()
    server = replace(
        server,
        command=_build_command(
            server.command, master, {**(_build_event_conf(events) if logs_events else {}), **(conf or {})}
        ),
    )
    mark, start_seconds = uuid.uuid4().hex, time.monotonic()
    process = server.start(mark)
    leader = Identity.from_pid(process.pid, mark)
    try:
        server.wait_until_it_answers(process, lambda: False)
        start_costs = {
            "wall": round(time.monotonic() - start_seconds, 1),
            "cpu": round(count_cpu_seconds(process.pid), 1),
        }
        start_costs["mb"] = measure_resident_mb(process.pid)
        yield SparkServer(stack, process.pid, f"sc://{ports.HOST}:{port}", events, start_costs)
    finally:
        processes.end_all_processes(mark, [leader], END_TIMEOUT_SECONDS)
        process.wait()


def _build_command(command: tuple[str, ...], master: str, conf: Mapping[str, str]) -> tuple[str, ...]:
    words = list(command)
    place = words.index("--master") + 1
    words[place] = master
    # before the program; of two values of one setting the later counts
    words[-1:-1] = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    return tuple(words)


def _build_event_conf(events: Path) -> dict[str, str]:
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file://{os.fspath(events)}",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
