"""Part o: a verification, beside plain Spark that reads the topic and the table once and compares nothing."""

from dataclasses import dataclass
from typing import Any

from benchmarks import product
from benchmarks.contest import WARM
from benchmarks.measure import count_cpu_seconds
from benchmarks.product import Lake, name_table
from benchmarks.result import Bench, Goal, Result, Table, format_number, format_ratio, format_verdict
from benchmarks.spark_server import SparkServer, start_spark_server
from benchmarks.work import COLUMNS, ONCE, produce

GOAL = 1.5
TOPIC = "verified"
HEADER = ("", "wall s", "CPU s", "of one read", "right?")


@dataclass(frozen=True)
class Reading:
    """What it cost: CPU seconds of the worker and of the Spark server."""

    wall: float
    cpu: float
    said: dict[str, Any]


def measure(bench: Bench) -> Result:
    """A table of as many rows as its topic has records, but for tombstones: read once, then verified."""
    sizes, lake, bootstrap = bench.sizes, Lake(bench.folder), bench.stack.kafka_bootstrap
    count = sizes.verified
    produce(bootstrap, WARM, sizes.warm_up, sizes.keys)
    bench.say(f"producing {count:,} records, each of its own key, and one batch of them ...")
    truth = produce(bootstrap, TOPIC, count, ONCE).truth
    for name, number in ((WARM, sizes.warm_up), (TOPIC, count)):
        lake.write_pipeline(name, name, number)
    with start_spark_server(bench.stack, bench.folder / "spark") as server:
        for name in (WARM, TOPIC):
            product.flush(server, lake, name)
        for is_plain in (True, False):
            _read(server, lake, WARM, is_plain=is_plain)
        once = _read(server, lake, TOPIC, is_plain=True)
        verified = _read(server, lake, TOPIC, is_plain=False)
    is_read = once.said == {"records": count, "rows": truth.rows}
    counts = {kind: verified.said[kind] for kind in ("equal", "missing", "surplus", "different", "unknowable")}
    is_equal = counts == {**dict.fromkeys(counts, 0), "equal": truth.rows}
    lines = [
        (name, format_number(run.wall), format_number(run.cpu), format_ratio(run.cpu, once.cpu), format_verdict(is_ok))
        for name, run, is_ok in (("topic and table read once", once, is_read), ("verify", verified, is_equal))
    ]
    return Result(
        tables=[Table(f"o. Verify, {truth.rows:,} rows against {count:,} records", HEADER, lines)],
        figures={"verify, CPU s": round(verified.cpu, 1), "one read, CPU s": round(once.cpu, 1)},
        goals=[Goal("verify against one read, CPU", round(verified.cpu / once.cpu, 2), GOAL)],
        right=is_read and is_equal,
        details=counts,
    )


def _read(server: SparkServer, lake: Lake, name: str, *, is_plain: bool) -> Reading:
    request = {
        "plain": is_plain, "pipeline": name, "table": name_table(name), "topic": name, "format": "json",
        "columns": COLUMNS, "bootstrap": server.stack.kafka_bootstrap,
    }  # fmt: skip
    before = count_cpu_seconds(server.pid)
    worker = lake.ask(server, "verify_worker", request, "read-once" if is_plain else "verify")
    return Reading(worker.wall, worker.cpu + count_cpu_seconds(server.pid) - before, worker.said)
