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
    lake, sizes, lines, ratios, is_correct = Lake(bench.folder), bench.sizes, [], {}, True
    with start_spark_server(bench.stack, bench.folder / "spark") as server:
        records = fill(server, lake, NAME, sizes.read_rows, sizes.read_changed)
        flush_count, compact_cpu, flushes = 0, 0.0, 0.0
        for number_ in sizes.reads_after:
            bench.say(f"{number_ - flush_count} flushes of {sizes.read_changed:,} random keys, then reads ...")
            for index in range(flush_count, number_):
                keys = choose_keys(sizes.read_rows, sizes.read_changed, "random", index)
                changes = generate_changes(keys, index, sizes.read_rows + index * sizes.read_changed)
                send_all(bench.stack.kafka_bootstrap, NAME, map(records.change, changes))
            flush = product.flush(server, lake, NAME, number_ - flush_count, compacts=True)
            compaction = flush.steps.get("compact", {"server_cpu": 0.0, "worker_cpu": 0.0})
            compacted = compaction["server_cpu"] + compaction["worker_cpu"]
            compact_cpu, flushes, flush_count = compact_cpu + compacted, flushes + flush.cpu - compacted, number_
            table, copy = _reads(server, lake, number_)
            is_same = is_right(records.truth, table) and is_right(records.truth, copy)
            is_correct, ratios[number_] = (
                is_correct and is_same,
                round(_choose_seconds(table) / _choose_seconds(copy), 2),
            )
            lines.append(_format_line(number_, table, copy, is_same))
    return Result(
        tables=[
            Table(f"d. Reads of {sizes.read_rows:,} rows, compacted behind every tenth batch", HEADER, lines),
            Table(
                "CPU seconds in all", ("flushes", "compaction"), [(format_number(flushes), format_number(compact_cpu))]
            ),
        ],
        figures={f"after {flushes} flushes": value for flushes, value in ratios.items()},
        goals=[
            Goal(f"read after {number_} flushes against a fresh copy", value, GOAL)
            for number_, value in ratios.items()
            if number_ >= GOAL_AFTER
        ],
        right=is_correct,
    )


def _reads(server: SparkServer, lake: Lake, number_: int) -> tuple[dict[str, Any], dict[str, Any]]:
    table, copy = name_table(NAME), f"{name_table(NAME)}_copy_{number_}"
    statement = f"CREATE TABLE {copy} USING iceberg TBLPROPERTIES ('format-version' = '2') AS SELECT * FROM {table}"
    product.run_statements(server, lake, f"{statement} ORDER BY id")
    figures = product.read(server, lake, [table, copy], copy)
    return figures[table], figures[copy]


def _choose_seconds(figures: dict[str, Any]) -> float:
    """The best of the reads: what the files ask for, and not the machine's other work."""
    return max(float(min(figures["reads"])), 0.01)


def _format_line(flushes: int, table: dict[str, Any], copy: dict[str, Any], is_correct: bool) -> tuple[str, ...]:
    files = table["files"]
    return (
        str(flushes),
        format_number(_choose_seconds(table), 3),
        format_number(_choose_seconds(copy), 3),
        format_ratio(_choose_seconds(table), _choose_seconds(copy)),
        str(files["data"]),
        str(files["deletes"]),
        format_number(files["bytes"] / MEBIBYTE),
        format_verdict(is_correct),
    )
