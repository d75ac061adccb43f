"""Part d: how long a question to a table takes after many small flushes, beside a copy that was just written.

Two tables, of format 2 and 3, in turn on one server.
"""

from dataclasses import dataclass
from typing import Any

from benchmarks import product
from benchmarks.filled import fill
from benchmarks.measure import measure_resident_mb
from benchmarks.product import Lake, is_right, name_table
from benchmarks.result import Bench, Goal, Result, Table, format_number, format_ratio, format_verdict
from benchmarks.spark_server import SparkServer, start_spark_server
from benchmarks.work import Filled, choose_keys, generate_changes, send_all

FORMATS = (2, 3)
GOAL, GOAL_AFTER = 1.2, 10
HEADER = (
    "format",
    "flushes",
    "read s",
    "copy s",
    "table/copy",
    "data files",
    "delete files",
    "MB",
    "server MB",
    "right?",
)
MEBIBYTE = 1 << 20


@dataclass
class _Subject:
    """A table of one format: what it must hold, and what its flushes have cost."""

    format_version: int
    records: Filled
    flush_count: int = 0
    flush_cpu: float = 0.0
    compaction_cpu: float = 0.0

    @property
    def name(self) -> str:
        return _name_pipeline(self.format_version)


def measure(bench: Bench) -> Result:
    """Small flushes of random keys, compacted behind every tenth as the DAG does it; a look after some of them."""
    lake, sizes = Lake(bench.folder), bench.sizes
    lines, ratios, is_correct = [], dict[str, float](), True
    with start_spark_server(bench.stack, bench.folder / "spark") as server:
        subjects = [
            _Subject(number, fill(server, lake, _name_pipeline(number), sizes.read_rows, sizes.read_changed,
                                  create={"format_version": number}))
            for number in FORMATS
        ]  # fmt: skip
        for flushes in sizes.reads_after:
            bench.say(f"until {flushes} flushes of {sizes.read_changed:,} random keys, then reads ...")
            for subject in subjects:
                _flush_until(bench, server, lake, subject, flushes)
                table, copy = _read(server, lake, subject)
                is_same = is_right(subject.records.truth, table) and is_right(subject.records.truth, copy)
                is_correct = is_correct and is_same
                ratios[f"format {subject.format_version}, after {flushes} flushes"] = round(
                    _choose_seconds(table) / _choose_seconds(copy), 2
                )
                lines.append(_format_line(subject, table, copy, measure_resident_mb(server.pid), is_same))
    costs = [
        (str(subject.format_version), format_number(subject.flush_cpu), format_number(subject.compaction_cpu))
        for subject in subjects
    ]
    return Result(
        tables=[
            Table(f"d. Reads of {sizes.read_rows:,} rows, compacted behind every tenth batch", HEADER, lines),
            Table("CPU seconds in all", ("format", "flushes", "compaction"), costs),
        ],
        figures=ratios
        | {f"format {subject.format_version}, flushes, CPU s": round(subject.flush_cpu, 1) for subject in subjects}
        | {
            f"format {subject.format_version}, compaction, CPU s": round(subject.compaction_cpu, 1)
            for subject in subjects
        },
        goals=[
            Goal(f"read against a fresh copy, format {number}, after {flushes} flushes", ratio, GOAL)
            for number in FORMATS
            for flushes in sizes.reads_after
            if flushes >= GOAL_AFTER and (ratio := ratios[f"format {number}, after {flushes} flushes"])
        ],
        right=is_correct,
    )


def _name_pipeline(format_version: int) -> str:
    return f"reads_{format_version}"


def _flush_until(bench: Bench, server: SparkServer, lake: Lake, subject: _Subject, flushes: int) -> None:
    sizes = bench.sizes
    for index in range(subject.flush_count, flushes):
        keys = choose_keys(sizes.read_rows, sizes.read_changed, "random", index)
        changes = generate_changes(keys, index, sizes.read_rows + index * sizes.read_changed)
        send_all(bench.stack.kafka_bootstrap, subject.name, map(subject.records.change, changes))
    flush = product.flush(server, lake, subject.name, flushes - subject.flush_count, compacts=True)
    compaction = flush.steps.get("compact", {"server_cpu": 0.0, "worker_cpu": 0.0})
    compaction_cpu = compaction["server_cpu"] + compaction["worker_cpu"]
    subject.flush_count = flushes
    subject.compaction_cpu += compaction_cpu
    subject.flush_cpu += flush.cpu - compaction_cpu


def _read(server: SparkServer, lake: Lake, subject: _Subject) -> tuple[dict[str, Any], dict[str, Any]]:
    table = name_table(subject.name)
    copy = f"{table}_copy_{subject.flush_count}"
    properties = f"TBLPROPERTIES ('format-version' = '{subject.format_version}')"
    statement = f"CREATE TABLE {copy} USING iceberg {properties} AS SELECT * FROM {table} ORDER BY id"
    product.run_statements(server, lake, statement)
    figures = product.read(server, lake, [table, copy], copy)
    return figures[table], figures[copy]


def _choose_seconds(figures: dict[str, Any]) -> float:
    """The best of the reads: what the files ask for, and not the machine's other work."""
    return max(float(min(figures["reads"])), 0.01)


def _format_line(
    subject: _Subject, table: dict[str, Any], copy: dict[str, Any], server_mb: int, is_correct: bool
) -> tuple[str, ...]:
    files = table["files"]
    return (
        str(subject.format_version),
        str(subject.flush_count),
        format_number(_choose_seconds(table), 3),
        format_number(_choose_seconds(copy), 3),
        format_ratio(_choose_seconds(table), _choose_seconds(copy)),
        str(files["data"]),
        str(files["deletes"]),
        format_number(files["bytes"] / MEBIBYTE),
        str(server_mb),
        format_verdict(is_correct),
    )
