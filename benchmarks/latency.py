"""Part e: one record produced, its row seen, through the real scheduler, and where time goes.

A record arrives at a random moment, also while a run is under way. The tasks' times are Airflow's own.
"""

import json
import os
import random
import statistics
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from benchmarks import result
from benchmarks.result import Bench, Goal, Result, Table
from benchmarks.work import ADMIN_SECONDS
from demo.airflow_api import AirflowApi
from local.layout import RunDir
from local.stack import Stack, start_stack, stop_stack

NAME, CATALOG, INTERVAL = "latency", "lake", 5
FLUSHES, WARM_UP = 30, 3
VISIBLE_DEADLINE_SECONDS, POLL_SECONDS = 300.0, 0.05
ON_THE_WAY, AFTERWARDS = ("plan", "stage", "merge"), ("commit_offsets", "clean_up", "heartbeat")
GOALS = {"median": 8.0, "p95": 15.0}


@dataclass(frozen=True)
class Seen:
    """One record: when the broker had it and when its row was in the table, in seconds since 1970."""

    produced: float
    visible: float

    @property
    def seconds(self) -> float:
        """From one to the other."""
        return self.visible - self.produced


def measure(folder: Path, flushes: int = FLUSHES, fleet: str | None = None) -> dict[str, Any]:
    """Start a stack with Airflow, flush one record at a time, and tell what it took; RuntimeError if a row stays away.

    With `fleet` the pipeline is its member, and is flushed by its DAG.

    The stack belongs to this process, and is brought down by the caller: `local.stack.stop_stack(folder / "stack")`.
    """
    include, catalog = _write_include(folder, fleet)
    load = os.getloadavg()[0]
    stack = start_stack(folder / "stack", {"kafka", "spark", "airflow"}, include=include, tied_to=os.getpid())
    _create_topic(stack)
    airflow = AirflowApi(stack.airflow_url, RunDir(stack.run_dir).airflow_home)
    dag = f"tidegate_{NAME}" if fleet is None else f"tidegate_fleet_{fleet}"
    airflow.switch_on(dag)
    chance, producer = random.Random(1), Producer({"bootstrap.servers": stack.kafka_bootstrap, "linger.ms": 0})
    for number in range(WARM_UP):
        _measure_record(producer, catalog, -number - 1)
    timings = []
    for number in range(flushes):
        time.sleep(chance.uniform(0, 2 * INTERVAL))
        timings.append(_measure_record(producer, catalog, number))
    time.sleep(3 * INTERVAL)  # the last run ends
    runs = _list_runs(airflow.list_tasks(dag))
    loads = {"load_before": round(load, 1), "load_after": round(os.getloadavg()[0], 1)}
    return {
        "interval": INTERVAL,
        **loads,
        **summarize_timings(timings, runs),
        "seconds": [round(timing.seconds, 2) for timing in timings],
    }


def _write_include(folder: Path, fleet: str | None) -> tuple[Path, Catalog]:
    include, lake = folder / "include", folder / "lakes" / CATALOG
    (include / "pipelines").mkdir(parents=True)
    lake.mkdir(parents=True)
    properties = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    (include / "catalogs.yaml").write_text(yaml.safe_dump({CATALOG: {"type": "iceberg", "properties": properties}}))
    key = {"format": "json", "fields": ["id"], "schema": "id BIGINT"}
    value = {"format": "json", "schema": "id BIGINT, name STRING"}
    pipeline = {
        "source": {"topics": [NAME], "key": key, "value": value},
        "tables": [{"name": f"{CATALOG}.shop.{NAME}"}],
        "merge": {"interval": f"{INTERVAL}s"},
        "fleet": fleet,
    }
    (include / "pipelines" / f"{NAME}.yaml").write_text(yaml.safe_dump(pipeline))
    return include, load_catalog(CATALOG, **{**properties, "uri": f"{properties['uri']}?timeout=60"})


def _create_topic(stack: Stack) -> None:
    admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
    admin.create_topics([NewTopic(NAME, 2, 1)])[NAME].result(ADMIN_SECONDS)


def _measure_record(producer: Producer, catalog: Catalog, number: int) -> Seen:
    """Send one record and wait for its row."""
    producer.produce(NAME, json.dumps({"id": number, "name": "x"}), json.dumps({"id": number}))
    if producer.flush(ADMIN_SECONDS):
        raise RuntimeError(f"the broker did not take the record id={number}")
    produce_seconds, last_snapshot_id = time.time(), None
    while time.time() - produce_seconds < VISIBLE_DEADLINE_SECONDS:
        try:
            table = catalog.load_table(f"shop.{NAME}")
        except NoSuchTableError:
            time.sleep(POLL_SECONDS)
            continue
        snapshot_id = table.metadata.current_snapshot_id
        if snapshot_id != last_snapshot_id:
            visible, last_snapshot_id = time.time(), snapshot_id
            if table.scan(row_filter=f"id == {number}", selected_fields=("id",)).to_arrow().num_rows:
                return Seen(produce_seconds, visible)
        time.sleep(POLL_SECONDS)
    raise RuntimeError(
        f"the row id={number} was not seen within {VISIBLE_DEADLINE_SECONDS:.0f} s: look at the logs of Airflow"
    )


def _list_runs(tasks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The runs that published, by the start of their merge: for each task when it was queued, began and ended."""
    runs: dict[str, dict[str, Any]] = {}
    for task in tasks:
        if task["state"] == "success":
            words = ("queued_when", "start_date", "end_date")
            runs.setdefault(task["dag_run_id"], {})[task["task_id"]] = [_parse_seconds(task[word]) for word in words]
    complete_runs = [run for run in runs.values() if run.keys() >= {*ON_THE_WAY, *AFTERWARDS}]
    return sorted(complete_runs, key=lambda run: float(run["merge"][1]))


def _parse_seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def summarize_timings(timings: Sequence[Seen], runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Median and 95th percentile in seconds, and the medians of what they are made of, task by task."""
    seconds = sorted(record_timing.seconds for record_timing in timings)
    parts: dict[str, list[dict[str, float]]] = {}
    for timing in timings:
        began = [run for run in runs if run["merge"][1] <= timing.visible]
        if began:
            for name, durations in _divide_wait(timing, began[-1]).items():
                parts.setdefault(name, []).append(durations)
    table = {
        name: {word: round(statistics.median(values[word] for values in run_durations), 2) for word in run_durations[0]}
        for name, run_durations in parts.items()
    }
    percentile = seconds[max(0, -(-len(seconds) * 95 // 100) - 1)]
    return {
        "flushes": len(seconds),
        "median": round(statistics.median(seconds), 2),
        "p95": round(percentile, 2),
        "most": round(seconds[-1], 2),
        "tasks": table,
    }


def _divide_wait(timing: Seen, run: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Of one record's run: the wait for it, then each task from the end of the task before it."""
    before = run["plan"][0]
    parts = {"the run": {"queued": max(0.0, before - timing.produced), "start": 0.0, "work": 0.0}}
    for name in (*ON_THE_WAY, *AFTERWARDS):
        queued, start, end = run[name]
        parts[name] = {"queued": queued - before, "start": start - queued, "work": end - start}
        before = end
    return parts


def run_part(bench: Bench) -> Result:
    """The same as a part of the bench, on a stack of its own."""
    bench.say(f"starting Kafka, Spark and Airflow; then {bench.sizes.latency} records, one after the other ...")
    try:
        summary = measure(bench.folder, bench.sizes.latency)
    finally:
        stop_stack(bench.folder / "stack")
    words = ("queued", "start", "work")
    lines = []
    for name, durations in summary["tasks"].items():
        if name == AFTERWARDS[0]:
            lines.append(("the row is seen, at the end of merge", "", "", ""))
        lines.append((name, *(result.format_number(durations[word], 2) for word in words)))
    title = f"e. From a record to its row through the scheduler, interval {INTERVAL} s"
    return Result(
        tables=[
            Table(title, ("median seconds", *words), lines),
            Table(
                "In all", ("", "seconds"), [(name, result.format_number(summary[name], 2)) for name in (*GOALS, "most")]
            ),
        ],
        figures={name: summary[name] for name in GOALS},
        goals=[Goal(f"record to visible row, {name}, seconds", summary[name], goal) for name, goal in GOALS.items()],
        right=True,
        details=summary,
    )
