"""Part n: how soon a record is in the live view, through `tidegate run`, with rare merges beside."""

import statistics
import subprocess
from typing import Any

import yaml
from pyiceberg.catalog import load_catalog

from benchmarks.fixed import build_environment
from benchmarks.product import OWN, Lake, flush
from benchmarks.result import Bench, Goal, Result, Table, format_number
from benchmarks.spark_server import SparkServer, start_spark_server
from benchmarks.work import create_topic, generate_changes, send_all
from local import processes
from local.layout import PYTHON, ROOT

NAME = "live"
GOALS = {"median": 2.0, "p95": 4.0}  # seconds
RECORDS = 1000
ROWS = 30
CLOCKS = {"stage": {"interval": "2s"}, "merge": {"interval": "1m"}}


def measure(bench: Bench) -> Result:
    """One record at a time, while batches are staged, merged and removed; each look has to show every row once."""
    lake = Lake(bench.folder)
    table = lake.write_pipeline(NAME, NAME, RECORDS)
    file = lake.include / "pipelines" / f"{NAME}.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **CLOCKS}))
    create_topic(bench.stack.kafka_bootstrap, NAME)
    with start_spark_server(bench.stack, bench.folder / "spark") as server:
        send_all(bench.stack.kafka_bootstrap, NAME, generate_changes(range(RECORDS), 0, RECORDS))
        flush(server, lake, NAME)
        bench.say(f"{ROWS} records, one at a time, through tidegate run ...")
        answer = _measure_delays(bench, server, lake, table)
    merges = _count_merges(lake, table)
    delays = answer["delays"]
    median = statistics.median(delays)
    p95 = statistics.quantiles(delays, n=20)[-1]
    numbers = (format_number(value, 2) for value in (median, p95, statistics.median(answer["queries"])))
    figures = {"median": round(median, 2), "p95": round(p95, 2)}
    return Result(
        tables=[
            Table(
                "n. Record to row in the live view, `stage.interval: 2s`, `merge.interval: 1m`",
                ("records", "median s", "p95 s", "a query, median s", "merges"),
                [(str(len(delays)), *numbers, str(merges))],
            )
        ],
        figures={f"record to live view, {name} s": figure for name, figure in figures.items()},
        goals=[Goal(f"record to live view, {name} s", figures[name], limit) for name, limit in GOALS.items()],
        right=merges > 1,
        details=answer,
    )


def _measure_delays(bench: Bench, server: SparkServer, lake: Lake, table: str) -> dict[str, Any]:
    environment = build_environment(server, lake)
    command = [str(PYTHON), "-m", "tidegate"]
    view = subprocess.run(
        [*command, "live-view", NAME], env=environment, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    child = processes.start_process([*command, "run", NAME], environment, ROOT, lake.logs / "run.log")
    request = {
        "view": view,
        "pipeline": NAME,
        "catalog": _describe_catalog(lake),
        "intermediate": f"{table.partition('.')[2]}_{NAME}_tmp",
        "records": ROWS,
        "bootstrap": bench.stack.kafka_bootstrap,
        "deadline_seconds": bench.sizes.peer_seconds,
    }
    try:
        answer: dict[str, Any] = lake.ask(server, "live_worker", request, "live").said
    finally:
        child.terminate()
        child.wait()
    return answer


def _count_merges(lake: Lake, table: str) -> int:
    """How many merges published while the view was read; the first one made the table."""
    catalog = load_catalog(**_describe_catalog(lake))
    snapshots = catalog.load_table(table.partition(".")[2]).metadata.snapshots
    batches = {s.summary.additional_properties.get(f"tidegate.{NAME}.batch") for s in snapshots if s.summary}
    return len(batches - {None}) - 1


def _describe_catalog(lake: Lake) -> dict[str, str]:
    place = lake.declare_catalog(OWN)
    uri = f"sqlite:///{place}/catalog.db?timeout=60"
    return {"name": OWN, "type": "sql", "uri": uri, "warehouse": f"file://{place}/warehouse"}
