"""Reads Spark's event log: the CPU time and core of each task, and the files that each scan of a table opened."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NANOSECONDS, MILLISECONDS = 1e9, 1e3
SQL = "org.apache.spark.sql.execution.ui.SparkListener"
# Iceberg's metrics of a scan: what we call them
SCANNED = {
    "number of result data files": "files",
    "number of scanned data files": "files",
    "number of skipped data files": "skipped",
    "total data file size (bytes)": "bytes",
    "number of result delete files": "delete_files",
}


@dataclass(frozen=True)
class Task:
    """One task on an executor; times in seconds since 1970."""

    stage: int
    executor: str
    begun: float
    ended: float
    cpu: float


def list_tasks(events: Path, start_seconds: float, end_seconds: float) -> list[Task]:
    """The tasks that ran within these moments."""
    ended_tasks = []
    for event in _read_events(events):
        if event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            info, metrics = event["Task Info"], event["Task Metrics"]
            times = info["Launch Time"] / MILLISECONDS, info["Finish Time"] / MILLISECONDS
            cpu = (metrics["Executor CPU Time"] + metrics["Executor Deserialize CPU Time"]) / NANOSECONDS
            if start_seconds <= times[0] and times[1] <= end_seconds + 1:
                ended_tasks.append(Task(event["Stage ID"], info["Executor ID"], *times, cpu))
    return ended_tasks


def count_busy_seconds(ended_tasks: list[Task]) -> float:
    """Seconds in which at least one task ran."""
    total, last_end = 0.0, 0.0
    for task in sorted(ended_tasks, key=lambda t: t.begun):
        total += max(0.0, task.ended - max(task.begun, last_end))
        last_end = max(last_end, task.ended)
    return total


def count_core_seconds(ended_tasks: list[Task], cores: int) -> float:
    """CPU seconds of the busiest core, stage after stage: what the work would take if nobody else had the machine.

    Tasks go to the core that is free first, in the order in which they were started.
    """
    total = 0.0
    for stage in {task.stage for task in ended_tasks}:
        load = [0.0] * cores
        for task in sorted((t for t in ended_tasks if t.stage == stage), key=lambda t: t.begun):
            load[load.index(min(load))] += task.cpu
        total += max(load)
    return total


def count_scans(events: Path, table: str, start_seconds: float, end_seconds: float) -> dict[str, int]:
    """What scans of a table opened, in all queries begun within these moments: files, files left out, bytes."""
    counters: dict[int, str] = {}
    queries: set[int] = set()
    totals = dict.fromkeys(SCANNED.values(), 0)
    for event in _read_events(events):
        name = event["Event"].removeprefix(SQL)
        if name in ("SQLExecutionStart", "SQLAdaptiveExecutionUpdate"):
            if start_seconds <= event.get("time", 0) / MILLISECONDS <= end_seconds:
                queries.add(event["executionId"])
            counters |= dict(_list_counters(event["sparkPlanInfo"], table))
        elif name == "DriverAccumUpdates" and event["executionId"] in queries:
            for counter, value in event["accumUpdates"]:
                if counter in counters:
                    totals[counters[counter]] += value
    return totals


def _list_counters(plan: dict[str, Any], table: str) -> Iterator[tuple[int, str]]:
    if "Scan" in plan["nodeName"] and table in plan["nodeName"]:
        for metric in plan["metrics"]:
            if metric["name"] in SCANNED:
                yield metric["accumulatorId"], SCANNED[metric["name"]]
    for child in plan["children"]:
        yield from _list_counters(child, table)


def _read_events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.iterdir()):
        if path.name.startswith("."):
            continue
        with path.open() as lines:
            for line in lines:
                if line.endswith("\n"):  # the last one may be half written
                    yield json.loads(line)
