"""Part l: many pipelines in one fleet, few with work: CPU seconds of a run on Airflow's side, and of one look."""

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.latency import measure as measure_latency
from benchmarks.measure import count_cpu_seconds, follow, run
from benchmarks.result import Bench, Goal, Result, Table, format_number
from benchmarks.work import ADMIN_SECONDS
from demo.airflow_api import AirflowApi
from local.layout import ROOT, RunDir
from local.stack import Stack, start_stack, stop_stack
from local.state import State

FLEET, DAG, CATALOG = "bench", "tidegate_fleet_bench", "lake"
WITH_WORK, INTERVAL, RECORDS = 10, 60, 100
MEASURED_RUNS, IDLE_MINUTES = 3, 3
RUN_SECONDS = 900.0
RUN_GOAL, LOOK_GOAL = 60.0, 0.02
LATENCY_GOALS = {"median": 4.0, "p95": 8.0}


def measure(bench: Bench) -> Result:
    """Measure some runs of a fleet under the scheduler, then one look alone, then one record at a time at 5 s."""
    names = [f"p{number:03}" for number in range(bench.sizes.pipelines)]
    include, catalog = _write_files(bench.folder, names)
    bench.say(f"starting Kafka, Spark and Airflow with {len(names)} pipelines in a fleet ...")
    stack = start_stack(bench.folder / "stack", {"kafka", "spark", "airflow"}, include=include, tied_to=os.getpid())
    try:
        _fill(bench, stack, names, catalog, include)
        minutes = _watch(bench, stack, names[:WITH_WORK])
        look_answer = _ask(bench, stack, include, {"action": "look", "fleet": FLEET})
    finally:
        stop_stack(bench.folder / "stack")
    return _tell(minutes, look_answer, _measure_delays(bench))


def _measure_delays(bench: Bench) -> dict[str, Any]:
    """Measure the seconds from record to row through a fleet, and the share of each task."""
    bench.say("one record at a time through a fleet, interval 5 s ...")
    folder = bench.folder / "latency"
    try:
        return measure_latency(folder, bench.sizes.latency, FLEET)
    finally:
        stop_stack(folder / "stack")


@dataclass(frozen=True)
class Minutes:
    """CPU seconds by process: of a run with work, which took so many minutes, and of a minute without any."""

    busy: dict[str, float]
    idle: dict[str, float]
    merges: int
    minutes_per_run: float


def _tell(minutes: Minutes, look_answer: dict[str, Any], delays: dict[str, Any]) -> Result:
    busy, idle, count = minutes.busy, minutes.idle, look_answer["looked"]
    usage = look_answer["spent"]
    seconds_per_pipeline = usage["all"] / look_answer["looked"]
    lines = [
        (name, format_number(busy[name]), format_number(idle[name]))
        for name in sorted(busy, key=lambda part: (part in ("all", "spark"), part))
    ]
    figures = {
        f"{count} pipelines, {WITH_WORK} with work, CPU s a run": round(busy["all"], 1),
        f"{count} pipelines, none with work, CPU s a minute": round(idle["all"], 1),
        "look at an idle pipeline, CPU s": round(seconds_per_pipeline, 4),
        **{f"record to row, {name} s": delays[name] for name in LATENCY_GOALS},
    }
    return Result(
        tables=[
            Table(
                f"l. {count} pipelines in a fleet, interval {INTERVAL} s, CPU s",
                ("process", f"a run, {WITH_WORK} with work", "a minute, none with work"),
                lines,
            ),
            Table(
                "l. One look",
                ("pipelines", "idle", "CPU s", "of it files", "each", "wall s"),
                [
                    (
                        str(look_answer["looked"]),
                        str(look_answer["idle"]),
                        format_number(usage["all"], 2),
                        format_number(usage["files"], 2),
                        format_number(seconds_per_pipeline, 4),
                        format_number(usage["wall"], 2),
                    )
                ],
            ),
            Table(
                "l. Record to row through a fleet, interval 5 s",
                ("median s", "p95 s", "most s"),
                [tuple(format_number(delays[name], 2) for name in ("median", "p95", "most"))],
            ),
        ],
        figures=figures,
        goals=[
            Goal(f"{count} pipelines in a fleet, {WITH_WORK} with work, CPU s a run", busy["all"], RUN_GOAL),
            Goal("look at an idle pipeline, CPU s", round(seconds_per_pipeline, 4), LOOK_GOAL),
            *(
                Goal(f"record to row in a fleet, {name}, seconds", delays[name], goal)
                for name, goal in LATENCY_GOALS.items()
            ),
        ],
        right=not look_answer["failed"] and minutes.merges > 0,
        details={"latency": delays, "look": look_answer, "minutes": vars(minutes)},
    )


def _write_files(folder: Path, names: Sequence[str]) -> tuple[Path, dict[str, str]]:
    include, lake = folder / "include", folder / "lakes" / CATALOG
    (include / "pipelines").mkdir(parents=True)
    lake.mkdir(parents=True)
    properties = {"type": "sql", "uri": f"sqlite:///{lake}/catalog.db", "warehouse": f"file://{lake}/warehouse"}
    (include / "catalogs.yaml").write_text(yaml.safe_dump({CATALOG: {"type": "iceberg", "properties": properties}}))
    (include / "defaults.yaml").write_text(yaml.safe_dump({"fleet": FLEET, "maintenance": {"interval": -1}}))
    key = {"format": "json", "fields": ["id"], "schema": "id BIGINT"}
    value = {"format": "json", "schema": "id BIGINT, name STRING"}
    for name in names:
        content = {
            "source": {"topics": [name], "key": key, "value": value},
            "tables": [{"name": f"{CATALOG}.fleet.{name}"}],
            "merge": {"interval": f"{INTERVAL}s"},
        }
        (include / "pipelines" / f"{name}.yaml").write_text(yaml.safe_dump(content))
    return include, {**properties, "uri": f"{properties['uri']}?timeout=60"}


def _fill(bench: Bench, stack: Stack, names: Sequence[str], catalog: dict[str, str], include: Path) -> None:
    """Records in each topic, and what a flush of each has left: the first is flushed, the others get its copy."""
    admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
    for future in admin.create_topics([NewTopic(name, 2, 1) for name in names]).values():
        future.result(ADMIN_SECONDS)
    _send(stack, names, 0)
    model, *copies = names
    environment = {**stack.build_environment(), "TIDEGATE_INCLUDE": str(include)}
    flushed = follow([str(ROOT / "bin" / "tidegate"), "flush", model], environment, bench.folder / "flush.log")
    if flushed.code:
        raise RuntimeError(f"the first flush failed: see {bench.folder / 'flush.log'}")
    futures = admin.describe_topics(TopicCollection(list(names)))
    ids = {name: str(future.result(ADMIN_SECONDS).topic_id) for name, future in futures.items()}
    bench.say(f"copying what a flush leaves to {len(copies)} pipelines ...")
    request = {"action": "copy", "model": model, "pipelines": copies, "catalog": catalog, "topic_ids": ids}
    _ask(bench, stack, include, request)


def _send(stack: Stack, names: Sequence[str], round_: int) -> None:
    """As many records to each partition of each topic, so that all positions are equal."""
    producer = Producer({"bootstrap.servers": stack.kafka_bootstrap})
    for name in names:
        for at in range(RECORDS):
            key = f'{{"id": {at}}}'
            producer.produce(name, f'{{"id": {at}, "name": "{round_}"}}', key, partition=at % 2)
    if producer.flush(ADMIN_SECONDS):
        raise RuntimeError("the broker did not take all records")


def _ask(bench: Bench, stack: Stack, include: Path, request: dict[str, Any]) -> dict[str, Any]:
    environment = {**stack.build_environment(), "TIDEGATE_INCLUDE": str(include)}
    return run("benchmarks.fleet_worker", request, environment, bench.folder / f"{request['action']}.log").said


def _watch(bench: Bench, stack: Stack, active: Sequence[str]) -> Minutes:
    """CPU seconds, by process: of a run in which some pipelines have work, and of a minute in which none has.

    The first run, which cleans up and beats for everybody, is over before.
    """
    airflow = AirflowApi(stack.airflow_url, RunDir(stack.run_dir).airflow_home)
    airflow.switch_on(DAG)
    _run_once(airflow, stack, active, 0)
    bench.say(f"{MEASURED_RUNS} runs with {len(active)} pipelines with work ...")
    before, start_seconds = _read_spent(stack), time.monotonic()
    for number_of_run in range(MEASURED_RUNS):
        _run_once(airflow, stack, active, number_of_run + 1)
    minutes = (time.monotonic() - start_seconds) / 60
    busy = _compare(before, _read_spent(stack), MEASURED_RUNS)
    bench.say(f"they took {minutes:.1f} minutes; {IDLE_MINUTES} minutes without work ...")
    before, start_seconds = _read_spent(stack), time.monotonic()
    time.sleep(IDLE_MINUTES * 60)
    idle = _compare(before, _read_spent(stack), (time.monotonic() - start_seconds) / 60)
    return Minutes(busy, idle, _count_done(airflow, "merge"), round(minutes / MEASURED_RUNS, 2))


def _run_once(airflow: AirflowApi, stack: Stack, active: Sequence[str], round_: int) -> None:
    """Let the active pipelines have work, and wait until a run has brought it in, and has ended."""
    merge_count = _count_done(airflow, "merge")
    _send(stack, active, round_ + 1)
    _wait_for(airflow, "merge", merge_count + len(active))
    _wait_for(airflow, "heartbeat", _count_done(airflow, "merge") // len(active))


def _compare(before: dict[str, float], after: dict[str, float], count: float) -> dict[str, float]:
    return {name: round((after[name] - before[name]) / count, 2) for name in after}


def _read_spent(stack: Stack) -> dict[str, float]:
    """CPU seconds so far, of each of Airflow's services with the tasks that it ran, of all of them, and of Spark."""
    state = State.read(RunDir(stack.run_dir).state_file)
    assert state is not None
    usage = {
        name: count_cpu_seconds(identity.pid) for name, identity in state.servers.items() if name.startswith("airflow")
    }
    spark = sum(count_cpu_seconds(identity.pid) for name, identity in state.servers.items() if name.startswith("spark"))
    return {**usage, "all": sum(usage.values()), "spark": spark}


def _count_done(airflow: AirflowApi, task_id: str) -> int:
    """How many of these tasks have succeeded in all runs."""
    return sum(1 for task in airflow.list_tasks(DAG) if (task["task_id"], task["state"]) == (task_id, "success"))


def _wait_for(airflow: AirflowApi, task_id: str, count: int) -> None:
    deadline = time.monotonic() + RUN_SECONDS
    while _count_done(airflow, task_id) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{count} times {task_id} was not there in time: {airflow.describe_runs(DAG)}")
        time.sleep(2)
