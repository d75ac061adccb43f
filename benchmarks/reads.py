"""Part d: how long a question to the table takes after many small flushes, beside a copy that was just written."""

from typing import Any

from benchmarks import product
from benchmarks.filled import fill
from benchmarks.product import Lake, is_right, table_of
from benchmarks.result import Bench, Goal, Result, Table, number, ratio, yes
from benchmarks.spark_server import SparkServer, spark_server
from benchmarks.work import changes, chosen, send_all

NAME = "reads"
GOAL, GOAL_AFTER = 1.2, 100
HEADER = ("flushes", "read s", "copy s", "table/copy", "data files", "delete files", "MB", "right?")
MEBIBYTE = 1 << 20


def measure(bench: Bench) -> Result:
    """Small flushes of random keys, compacted behind every tenth as the DAG does it; a look after some of them."""
    lake, sizes, lines, ratios, right = Lake(bench.folder), bench.sizes, [], {}, True
    with spark_server(bench.stack, bench.folder / "spark") as server:
        filled = fill(server, lake, NAME, sizes.read_rows, sizes.read_changed)
        done, spent, flushes = 0, 0.0, 0.0
        for number_ in sizes.reads_after:
            bench.say(f"{number_ - done} flushes of {sizes.read_changed:,} random keys, then reads ...")
            for index in range(done, number_):
                keys = chosen(sizes.read_rows, sizes.read_changed, "random", index)
                sent = changes(keys, index, sizes.read_rows + index * sizes.read_changed)
                send_all(bench.stack.kafka_bootstrap, NAME, map(filled.change, sent))
            flush = product.flush(server, lake, NAME, number_ - done, compacts=True)
            compaction = flush.steps.get("compact", {"server_cpu": 0.0, "worker_cpu": 0.0})
            compacted = compaction["server_cpu"] + compaction["worker_cpu"]
            spent, flushes, done = spent + compacted, flushes + flush.cpu - compacted, number_
            table, copy = _reads(server, lake, number_)
            is_same = is_right(filled.truth, table) and is_right(filled.truth, copy)
            right, ratios[number_] = right and is_same, round(_seconds(table) / _seconds(copy), 2)
            lines.append(_line(number_, table, copy, is_same))
    return Result(
        tables=[
            Table(f"d. Reads of {sizes.read_rows:,} rows, compacted behind every tenth batch", HEADER, lines),
            Table("CPU seconds in all", ("flushes", "compaction"), [(number(flushes), number(spent))]),
        ],
        figures={f"after {flushes} flushes": value for flushes, value in ratios.items()},
        goals=[
            Goal(f"read after {number_} flushes against a fresh copy", value, GOAL)
            for number_, value in ratios.items()
            if number_ >= GOAL_AFTER
        ],
        right=right,
    )


def _reads(server: SparkServer, lake: Lake, number_: int) -> tuple[dict[str, Any], dict[str, Any]]:
    table, copy = table_of(NAME), f"{table_of(NAME)}_copy_{number_}"
    written = f"CREATE TABLE {copy} USING iceberg TBLPROPERTIES ('format-version' = '2') AS SELECT * FROM {table}"
    product.statements(server, lake, f"{written} ORDER BY id")
    read = product.read(server, lake, [table, copy], copy)
    return read[table], read[copy]


def _seconds(read: dict[str, Any]) -> float:
    """The best of the reads: what the files ask for, and not the machine's other work."""
    return max(float(min(read["reads"])), 0.01)


def _line(flushes: int, table: dict[str, Any], copy: dict[str, Any], right: bool) -> tuple[str, ...]:
    files = table["files"]
    return (
        str(flushes), number(_seconds(table), 3), number(_seconds(copy), 3), ratio(_seconds(table), _seconds(copy)),
        str(files["data"]), str(files["deletes"]), number(files["bytes"] / MEBIBYTE), yes(right),
    )  # fmt: skip
