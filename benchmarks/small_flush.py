"""Part c: a flush of few changed keys into tables of different sizes, of recent keys and of any, and what it opens."""

import statistics
from dataclasses import dataclass

from benchmarks import product
from benchmarks.events import count_scans
from benchmarks.filled import fill
from benchmarks.product import Flush, Lake, is_right, name_table
from benchmarks.result import Bench, Goal, Result, Table, format_number, format_ratio, format_verdict
from benchmarks.spark_server import SparkServer, start_spark_server
from benchmarks.work import choose_keys, generate_changes, send_all

GOALS = {"recent": 1.1, "random": 1.3}
MEBIBYTE = 1 << 20
HEADER = (
    "keys", "rows before", "wall s", "CPU s", "merge, CPU s", "files opened", "left out", "MB opened", "right?",
    "CPU, row/first",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One size of table and one kind of keys: the flush of the median cost, and what its merge opened of the table."""

    kind: str
    rows: int
    flush: Flush
    opened: dict[str, int]
    right: bool

    @property
    def merge_cpu(self) -> float:
        """CPU seconds of the merge, worker and server."""
        return self.flush.steps["merge"]["server_cpu"] + self.flush.steps["merge"]["worker_cpu"]


def measure(bench: Bench) -> Result:
    """Every size with both kinds of keys, each in a table of its own, on one server."""
    lake, cases = Lake(bench.folder), list[Case]()
    with start_spark_server(bench.stack, bench.folder / "spark", logs_events=True) as server:
        for kind in GOALS:
            for rows in bench.sizes.tables:
                bench.say(f"{bench.sizes.changed:,} {kind} keys into {rows:,} rows ...")
                cases.append(_measure_case(bench, server, lake, kind, rows))
    first = {kind: next(c for c in cases if c.kind == kind) for kind in GOALS}
    last = {kind: next(c for c in reversed(cases) if c.kind == kind) for kind in GOALS}
    return Result(
        tables=[
            Table(f"c. {bench.sizes.changed:,} changed keys", HEADER, [_format_line(c, first[c.kind]) for c in cases])
        ],
        figures={f"{c.kind} {c.rows}": round(c.flush.cpu, 2) for c in cases},
        goals=[
            Goal(
                f"{kind} keys, {last[kind].rows:,} rows against {first[kind].rows:,}",
                round(last[kind].flush.cpu / first[kind].flush.cpu, 2),
                limit,
            )
            for kind, limit in GOALS.items()
        ],
        right=all(case.right for case in cases),
        details={f"{c.kind} {c.rows}": {"opened": c.opened, "steps": c.flush.steps} for c in cases},
    )


def _measure_case(bench: Bench, server: SparkServer, lake: Lake, kind: str, rows: int) -> Case:
    """The first flush of such keys only warms up; of the others the one with the median cost is reported."""
    name, count = f"{kind}_{rows}", bench.sizes.changed
    records = fill(server, lake, name, rows, count)
    flushes = []
    for number_ in range(bench.sizes.repeats + 1):
        changes = generate_changes(choose_keys(rows, count, kind, number_), number_, rows + (number_ + 1) * count)
        send_all(bench.stack.kafka_bootstrap, name, map(records.change, changes))
        flushes.append(product.flush(server, lake, name))
    measured_flushes = flushes[1:]
    median = statistics.median_low(flush.cpu for flush in measured_flushes)
    median_flush = next(flush for flush in measured_flushes if flush.cpu == median)
    file_counts = count_scans(server.events, name_table(name), median_flush.begun, median_flush.ended)
    figures = product.read(server, lake, [name_table(name)], name_table(name))[name_table(name)]
    return Case(kind, rows, median_flush, file_counts, is_right(records.truth, figures))


def _format_line(case: Case, first: Case) -> tuple[str, ...]:
    return (
        case.kind,
        f"{case.rows:,}",
        format_number(case.flush.wall),
        format_number(case.flush.cpu, 2),
        format_number(case.merge_cpu, 2),
        str(case.opened["files"]),
        str(case.opened["skipped"]),
        format_number(case.opened["bytes"] / MEBIBYTE),
        format_verdict(case.right),
        "" if case is first else format_ratio(case.flush.cpu, first.flush.cpu),
    )
