"""Part j: changes published per CPU second, beside a plain producer loop.

A table is published as a whole, then a tenth of its rows is updated and published as changes. The plain side reads the
same rows with PyIceberg and produces them in a loop: no comparison, no progress, no transaction. Then tables of
format 3 and of several sizes get as many changes: any rows, and the newest ones. All rows of the smallest, beside its
tenth, say what a further change costs, and what a run costs before its first one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pyiceberg.catalog import load_catalog

from benchmarks.measure import count_cpu_seconds
from benchmarks.product import NAMESPACE, OWN, Lake, name_table, run_statements
from benchmarks.result import Bench, Result, Table, format_number, format_ratio, format_verdict
from benchmarks.spark_server import SparkServer, start_spark_server

TABLE, WARM = name_table("published"), name_table("published_warm")
DELIVERIES = ("at-least-once", "exactly-once")
ALL_ROWS = "all rows"
SHARE = 10  # one in so many rows is updated
PROPERTIES = "'write.merge.mode'='merge-on-read', 'write.update.mode'='merge-on-read', 'format-version'='{}'"
COLUMNS = """id, concat('c', id % 1000) AS customer, CAST(id % 100000 AS DOUBLE) / 100 AS amount,
    element_at(array('new', 'paid', 'shipped'), CAST(id % 3 + 1 AS INT)) AS status,
    1700000000000 + id AS updated_at, repeat('x', 80) AS note"""
HEADER = ("", "changes", "wall s", "CPU s", "changes per CPU s", "of the loop", "right?")


@dataclass(frozen=True)
class Run:
    """What `changes` cost: CPU seconds of the process and, for the product, of the Spark server."""

    what: str
    changes: int
    expected: int
    wall: float
    cpu: float

    @property
    def rate(self) -> float:
        """Changes per CPU second."""
        return self.changes / self.cpu

    @property
    def is_right(self) -> bool:
        """Whether every change was produced, and none twice."""
        return self.changes == self.expected


def measure(bench: Bench) -> Result:
    """The plain loop, then the product with each guarantee: the whole table, and a tenth of it as changes."""
    rows, lake = bench.sizes.published, Lake(bench.folder)
    _write_publications(lake.include / "publications")
    with start_spark_server(bench.stack, bench.folder / "spark") as server:
        bench.say(f"publishing a table of {rows:,} rows, and a tenth of it as changes ...")
        run_statements(server, lake, *_render_filling({TABLE: rows, WARM: bench.sizes.warm_up}))
        for _ in range(2):
            _run_publication(server, lake, "warm", "", bench.sizes.warm_up)
            run_statements(server, lake, f"UPDATE {WARM} SET amount = amount + 1")
        runs = [_run_plainly(server, lake, rows)]
        runs += [_run_publication(server, lake, delivery, "whole table", rows) for delivery in DELIVERIES]
        run_statements(server, lake, f"UPDATE {TABLE} SET amount = amount + 1 WHERE id % {SHARE} = 0")
        runs += [_run_publication(server, lake, delivery, "changes", -(-rows // SHARE)) for delivery in DELIVERIES]
        followed = [run for count in bench.sizes.followed for run in _follow_table(bench, server, lake, count)]
    split = _split_costs(followed)
    return Result(
        tables=[
            Table(f"j. Publishing, a table of {rows:,} rows", HEADER, [_format_line(run, runs[0]) for run in runs]),
            Table("j. Changes of tables of format 3", HEADER, [_format_line(run, runs[0]) for run in followed]),
            Table("j. Of these", tuple(split), [tuple(map(format_number, split.values()))]),
        ],
        figures={run.what: round(run.rate) for run in (*runs, *followed)} | split,
        goals=[],
        right=all(run.is_right for run in (*runs, *followed)),
    )


def _follow_table(bench: Bench, server: SparkServer, lake: Lake, rows: int) -> list[Run]:
    """Publish as many changes of a table of so many rows, whatever its size, from a start behind its first rows."""
    changes = min(bench.sizes.followed) // SHARE
    name = f"followed_{rows}"
    table = name_table(name)
    bench.say(f"publishing {changes:,} changes of {rows:,} rows in format 3 ...")
    run_statements(server, lake, *_render_filling({table: rows}, 3))
    iceberg_table = load_catalog(OWN, **lake.catalogs[OWN]["properties"]).load_table(table.partition(".")[2])
    start = {"snapshot": iceberg_table.metadata.current_snapshot_id}
    _write_publication(lake.include / "publications", name, table, delivery=DELIVERIES[1], start=start)
    cases = {"any rows": f"id % {rows // changes} = 0", "the newest rows": f"id >= {rows - changes}"}
    if rows == min(bench.sizes.followed):
        cases[ALL_ROWS] = "true"
    runs = []
    for case, condition in cases.items():
        run_statements(server, lake, f"UPDATE {table} SET amount = amount + 1 WHERE {condition}")
        expected = rows if case == ALL_ROWS else changes
        runs.append(_run_publication(server, lake, name, f"{rows:,} rows, {case}", expected))
    return runs


def _split_costs(followed: list[Run]) -> dict[str, float]:
    """What two runs of one table, a tenth of its rows and all, say of the first change and of further ones."""
    all_rows = next(run for run in followed if run.what.endswith(ALL_ROWS))
    tenth = followed[0]
    cpu_of_one = (all_rows.cpu - tenth.cpu) / (all_rows.changes - tenth.changes)
    fixed = tenth.cpu - tenth.changes * cpu_of_one
    return {"CPU s before the first change": round(fixed, 1), "CPU µs of a further change": round(cpu_of_one * 1e6, 1)}


def _format_line(other_shape: Run, loop: Run) -> tuple[str, ...]:
    costs = (
        format_number(other_shape.wall),
        format_number(other_shape.cpu),
        format_number(other_shape.rate, 0),
        format_ratio(other_shape.rate, loop.rate),
    )
    return (other_shape.what, f"{other_shape.changes:,}", *costs, format_verdict(other_shape.is_right))


def _render_filling(tables: Mapping[str, int], version: int = 2) -> Iterator[str]:
    """Statements that make tables of so many rows."""
    yield f"CREATE NAMESPACE IF NOT EXISTS {OWN}.{NAMESPACE}"
    properties = PROPERTIES.format(version)
    for table, count in tables.items():
        yield f"CREATE TABLE {table} USING iceberg TBLPROPERTIES ({properties}) AS SELECT {COLUMNS} FROM range({count})"


def _write_publications(folder: Path) -> None:
    """One for each guarantee, and one to warm the server up."""
    folder.mkdir()
    tables = {**dict.fromkeys(DELIVERIES, TABLE), "warm": WARM}
    for name, table in tables.items():
        _write_publication(folder, name, table, delivery=DELIVERIES[0] if name == "warm" else name)


def _write_publication(folder: Path, name: str, table: str, **options: Any) -> None:
    publication = {
        "table": table,
        "topic": f"out-{name}",
        "key": {"fields": ["id"]},
        "create": {"partitions": 4, "replication_factor": 1},
        **options,
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(publication))


def _run_plainly(server: SparkServer, lake: Lake, rows: int) -> Run:
    request = {"table": TABLE, "topic": "out-plain", "bootstrap": server.stack.kafka_bootstrap}
    properties = lake.catalogs[OWN]["properties"]
    loop = lake.ask(server, "publishing_worker", {**request, "properties": properties}, "plain")
    return Run("plain producer loop, whole table", loop.said["changes"], rows, loop.wall, loop.cpu)


def _run_publication(server: SparkServer, lake: Lake, name: str, case: str, expected: int) -> Run:
    before = count_cpu_seconds(server.pid)
    worker = lake.ask(server, "publishing_worker", {"publication": name}, f"publish-{name}")
    cpu = worker.cpu + count_cpu_seconds(server.pid) - before
    return Run(f"product, {name}, {case}", worker.said["changes"], expected, worker.wall, cpu)
