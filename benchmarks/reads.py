"""Part d: how long a question to the table takes after many small flushes, beside a copy that was just written."""

from typing import Any

from benchmarks import product
from benchmarks.filled import fill
from benchmarks.product import Lake, is_right, name_table
from benchmarks.result import Bench, Goal, Result, Table, format_number, format_ratio, format_verdict
from benchmarks.spark_server import SparkServer, start_spark_server
from benchmarks.work import choose_keys, generate_changes, send_all

NAME = "reads"
GOAL, GOAL_AFTER = 1.2, 100
HEADER = ("flushes", "read s", "copy s", "table/copy", "data files", "delete files", "MB", "right?")
MEBIBYTE = 1 << 20


def measure(bench: Bench) -> Result:
    """Small flushes of random keys, compacted behind every tenth as the DAG does it; a look after some of them."""
    lake, sizes, lines, ratios, right = Lake(bench.folder), bench.sizes, [], {}, True
    with start_spark_server(bench.stack, bench.folder / "spark") as server:
        filled = fill(server, lake, NAME, sizes.read_rows, sizes.read_changed)
        done, spent, flushes = 0, 0.0, 0.0
        for number_ in sizes.reads_after:
            bench.say(f"{number_ - done} flushes of {sizes.read_changed:,} random keys, then reads ...")
            for index in range(done, number_):
                keys = choose_keys(sizes.read_rows, sizes.read_changed, "random", index)
                sent = generate_changes(keys, index, sizes.read_rows + index * sizes.read_changed)
                send_all(bench.stack.kafka_bootstrap, NAME, map(filled.change, sent))
            flush = product.flush(server, lake, NAME, number_ - done, compacts=True)
            compaction = flush.steps.get("compact", {"server_cpu": 0.0, "worker_cpu": 0.0})
            compacted = compaction["server_cpu"] + compaction["worker_cpu"]
            spent, flushes, done = spent + compacted, flushes + flush.cpu - compacted, number_
            table, copy = _reads(server, lake, number_)
            is_same = is_right(filled.truth, table) and is_right(filled.truth, copy)
            right, ratios[number_] = right and is_same, round(_choose_seconds(table) / _choose_seconds(copy), 2)
            lines.append(_format_line(number_, table, copy, is_same))
    return Result(
        tables=[
            Table(f"d. Reads of {sizes.read_rows:,} rows, compacted behind every tenth batch", HEADER, lines),
            Table("CPU seconds in all", ("flushes", "compaction"), [(format_number(flushes), format_number(spent))]),
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
    table, copy = name_table(NAME), f"{name_table(NAME)}_copy_{number_}"
    written = f"CREATE TABLE {copy} USING iceberg TBLPROPERTIES ('format-version' = '2') AS SELECT * FROM {table}"
    product.run_statements(server, lake, f"{written} ORDER BY id")
    read = product.read(server, lake, [table, copy], copy)
    return read[table], read[copy]


def _choose_seconds(read: dict[str, Any]) -> float:
    """The best of the reads: what the files ask for, and not the machine's other work."""
    return max(float(min(read["reads"])), 0.01)


def _format_line(flushes: int, table: dict[str, Any], copy: dict[str, Any], right: bool) -> tuple[str, ...]:
    files = table["files"]
    return (
        str(flushes),
        format_number(_choose_seconds(table), 3),
        format_number(_choose_seconds(copy), 3),
        format_ratio(_choose_seconds(table), _choose_seconds(copy)),
        str(files["data"]),
        str(files["deletes"]),
        format_number(files["bytes"] / MEBIBYTE),
        format_verdict(right),
    )
