"""Part k: what a flush costs before the first record, as a command and in `tidegate run`; how soon rows are there."""

import statistics
import time
from dataclasses import dataclass

import yaml
from pyiceberg.catalog import load_catalog

from benchmarks.measure import count_cpu_seconds, follow
from benchmarks.product import CHILD_SECONDS, OWN, Lake, name_table
from benchmarks.result import Bench, Goal, Result, Table, format_number, format_verdict
from benchmarks.spark_server import SparkServer, start_spark_server
from benchmarks.work import create_topic, generate_changes, send_all
from local import processes
from local.layout import PYTHON, ROOT

EMPTY_GOAL = 0.15  # CPU seconds
LATENCY_GOALS = {"median": 2.0, "p95": 4.0}  # seconds
FLUSHES, RECORDS, ROWS = 5, 1000, 30
INTERVAL_SECONDS = 2
HEADER = ("flush", "wall s", "worker, CPU s", "Spark, CPU s", "right?")


@dataclass(frozen=True)
class Cost:
    """The median of some flushes."""

    name: str
    wall: float
    worker_cpu: float
    server_cpu: float
    right: bool = True

    def format_line(self) -> tuple[str, ...]:
        """Its cells."""
        return (
            self.name,
            format_number(self.wall, 2),
            format_number(self.worker_cpu, 2),
            format_number(self.server_cpu, 2),
            format_verdict(self.right),
        )


def measure(bench: Bench) -> Result:
    """Each way on the same server and table, one after the other."""
    lake, name = Lake(bench.folder), "fixed"
    lake.write_pipeline(name, name, RECORDS)
    create_topic(bench.stack.kafka_bootstrap, name)
    with start_spark_server(bench.stack, bench.folder / "spark") as server:
        _send(bench, name, 0)
        _flush_by_command(server, lake, name)  # makes the table, warms the server up
        bench.say("flushes as commands ...")
        costs = [_measure_commands(bench, server, lake, name, records) for records in (0, RECORDS)]
        bench.say("flushes in one process ...")
        costs += [_measure_warm(bench, server, lake, name, records) for records in (0, RECORDS)]
        bench.say(f"{ROWS} records, one at a time, through tidegate run ...")
        delays = _measure_delays(bench, server, lake, name)
    median, p95 = statistics.median(delays), statistics.quantiles(delays, n=20)[-1]
    empty = next(cost for cost in costs if cost.name == "warm, nothing waits")
    return Result(
        tables=[
            Table("k. The fixed cost of a flush", HEADER, [cost.format_line() for cost in costs]),
            Table(
                f"k. Record to row, `tidegate run`, interval {INTERVAL_SECONDS} s",
                ("records", "median s", "p95 s"),
                [(str(len(delays)), format_number(median), format_number(p95))],
            ),
        ],
        figures={f"{cost.name}, CPU s": round(cost.worker_cpu + cost.server_cpu, 3) for cost in costs}
        | {"record to row, median s": round(median, 2), "record to row, p95 s": round(p95, 2)},
        goals=[
            Goal("an empty flush of a warm runner, CPU s of the worker", round(empty.worker_cpu, 3), EMPTY_GOAL),
            Goal("record to row, median s", round(median, 2), LATENCY_GOALS["median"]),
            Goal("record to row, p95 s", round(p95, 2), LATENCY_GOALS["p95"]),
        ],
        right=all(cost.right for cost in costs),
    )


def _send(bench: Bench, name: str, seed: int) -> None:
    send_all(bench.stack.kafka_bootstrap, name, generate_changes(range(RECORDS), seed, (seed + 1) * RECORDS))


def _compute_median(name: str, costs: list[tuple[float, float, float]], *, is_correct: bool = True) -> Cost:
    wall, worker, server = (statistics.median(column) for column in zip(*costs, strict=True))
    return Cost(name, wall, worker, server, is_correct)


def _measure_commands(bench: Bench, server: SparkServer, lake: Lake, name: str, records: int) -> Cost:
    costs = []
    for seed in range(FLUSHES):
        if records:
            _send(bench, name, 10 + seed)
        costs.append(_flush_by_command(server, lake, name))
    return _compute_median(f"a command, {f'{records:,} records' if records else 'nothing waits'}", costs)


def _flush_by_command(server: SparkServer, lake: Lake, name: str) -> tuple[float, float, float]:
    before = count_cpu_seconds(server.pid)
    usage = follow(
        [str(PYTHON), "-m", "tidegate", "flush", name],
        build_environment(server, lake),
        lake.logs / f"command-{next(lake.numbers)}.log",
        CHILD_SECONDS,
    )
    if usage.code:
        raise RuntimeError(f"the flush failed, see {lake.logs}")
    return usage.wall, usage.cpu, count_cpu_seconds(server.pid) - before


def build_environment(server: SparkServer, lake: Lake) -> dict[str, str]:
    """For a command of the product."""
    path = f"{ROOT / 'plugins'}:{ROOT / 'jobs'}"
    return {**server.build_environment(), "TIDEGATE_INCLUDE": str(lake.include), "PYTHONPATH": path}


def _measure_warm(bench: Bench, server: SparkServer, lake: Lake, name: str, records: int) -> Cost:
    """Measure a worker that flushes once to be warm, and then FLUSHES times."""
    if not records:
        answer = lake.ask(server, "warm_worker", {"pipeline": name, "times": FLUSHES}, "warm").said
        return _compute_median("warm, nothing waits", [tuple(cost) for cost in answer["costs"]])
    for seed in range(FLUSHES + 1):
        _send(bench, name, 20 + seed)
    answer = lake.ask(server, "warm_worker", {"pipeline": name, "times": FLUSHES}, "warm").said
    is_correct = answer["staged"] == [RECORDS] * FLUSHES
    return _compute_median(
        f"warm, {records:,} records", [tuple(cost) for cost in answer["costs"]], is_correct=is_correct
    )


def _measure_delays(bench: Bench, server: SparkServer, lake: Lake, name: str) -> list[float]:
    """Seconds from each record to its row, read from outside; the next record is sent when the last one is there."""
    file = lake.include / "pipelines" / f"{name}.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), "merge": {"interval": f"{INTERVAL_SECONDS}s"}}))
    place = lake.declare_catalog(OWN)
    catalog = load_catalog(OWN, type="sql", uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}/warehouse")
    log = lake.logs / "run.log"
    child = processes.start_process(
        [str(PYTHON), "-m", "tidegate", "run", name], build_environment(server, lake), ROOT, log
    )
    delays = []
    try:
        for number_ in range(ROWS + 1):
            at = 1_000_000 * (number_ + 2)
            send_seconds = time.monotonic()
            send_all(bench.stack.kafka_bootstrap, name, generate_changes([at], 1, at))
            while not len(_find(catalog, at)):
                if child.poll() is not None or time.monotonic() - send_seconds > bench.sizes.peer_seconds:
                    raise RuntimeError(f"no row came: {log}")
                time.sleep(0.05)
            delays.append(time.monotonic() - send_seconds)
    finally:
        child.terminate()
        child.wait()
    return delays[1:]  # the first finds a runner that starts


def _find(catalog: object, at: int) -> list[dict[str, object]]:
    table = catalog.load_table(name_table("fixed").partition(".")[2])  # type: ignore[attr-defined]
    rows: list[dict[str, object]] = table.scan(f"id = {at}", selected_fields=("id",)).to_arrow().to_pylist()
    return rows
