"""A pipeline into BigQuery that meets faults, and what its tables must hold after the next runs.

Two tables are fed by the same records: one keeps the last record of each key, the other keeps them all.
"""

import itertools
from collections.abc import Iterable
from typing import Any

from crash.points import Point

KEY = {"format": "json", "fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
# (point, fault) in a batch on tables that are there
LATER = {
    "rows are files and their counts are not": ("stage/job.rows_left:inside:1", "killed"),
    "counts are there and nothing is loaded": ("stage/job.counts_left:inside:1", "killed"),
    "the load job was sent": ("stage/bigquery.load_sent:inside:1", "killed"),
    "the load job was sent and no answer came": ("stage/bigquery.load_sent:inside:1", "raised"),
    "rows are loaded and nothing says so": ("stage/bigquery.loaded:inside:1", "killed"),
    "the transaction was sent": ("merge/bigquery.sent:inside:1", "killed"),
    "the transaction was sent and no answer came": ("merge/bigquery.sent:inside:1", "raised"),
    "the transaction ended and nobody knows": ("merge/bigquery.answered:inside:1", "killed"),
    "the publish took place and no answer came": ("merge/commits.publish:after:1", "lost"),
    "staged rows are gone and their files are not": ("clean_up/bigquery.partition_dropped:inside:1", "killed"),
}
# in the first batch, which makes the tables
FIRST = {
    "the dataset is there and no table": ("stage/job.statement:inside:1", "killed"),
    "the table of positions is there without a row": ("merge/bigquery.positions_created:inside:1", "killed"),
    "the first position was sent": ("merge/bigquery.sent:inside:1", "killed"),
}


def walk(dwh: Any, runners: Any, situations: Iterable[str] = (*FIRST, *LATER)) -> None:
    """One pipeline meets the later faults one after the other; each of the first batch has a pipeline of its own."""
    numbers, chosen_names = itertools.count(1), tuple(situations)
    for point, kind in (FIRST[name] for name in chosen_names if name in FIRST):
        number = next(numbers)
        Trial(dwh, runners, f"faults{number}").flush_with_fault(number, point, kind)
        dwh.sql("DROP TABLE `last`")
        dwh.sql("DROP TABLE `every`")
    trial = Trial(dwh, runners, "faults")
    trial.flush_batch(next(numbers))
    for point, kind in (LATER[name] for name in chosen_names if name in LATER):
        trial.flush_with_fault(next(numbers), point, kind)


class Trial:
    """A pipeline whose table keeps the last record of each key, and another that keeps them all."""

    def __init__(self, dwh: Any, runners: Any, name: str) -> None:
        self.dwh, self.runners, self.name, self.topic = dwh, runners, name, dwh.bench.topic(2)
        self.last: dict[int, str] = {}
        self.all: list[tuple[int, str]] = []
        modes = {"last": {}, "every": {"upsert": False, "delete": False}}
        tables = [{"name": dwh.table(table), **mode} for table, mode in modes.items()]
        dwh.bench.pipeline(name, [self.topic], key=KEY, value=VALUE, tables=tables)

    def flush_batch(self, number: int) -> None:
        """Flush a batch that meets no fault."""
        self._produce(number)
        self._check()

    def flush_with_fault(self, number: int, point: str, kind: str) -> None:
        """Flush a batch that meets a fault; the next runs recover it."""
        self._produce(number)
        environment = self.dwh.bench.build_environment()
        outcome = self.runners.run(environment, "flush", self.name, at=Point.parse(point), kind=kind)
        assert outcome.fault_happened, f"{point} was not reached: {outcome.output}"
        print(f"{number}: {kind} at {point}", flush=True)
        self._check()

    def _produce(self, number: int) -> None:
        changes = [(0, f"{number}"), (number, "new"), (0, f"{number}!"), (number - 1, None)]
        for id, name in changes:
            self.all += [(id, name)] if name is not None else []
            self.last = {**self.last, id: name} if name is not None else {k: v for k, v in self.last.items() if k != id}
        records = (({"id": id}, name and {"id": id, "name": name}, {"partition": id % 2}) for id, name in changes)
        self.dwh.bench.produce(self.topic, *records)

    def _check(self) -> None:
        bench = self.dwh.bench
        bench.drain(self.name)
        for table, rows in (("last", self.last.items()), ("every", self.all)):
            found, expected = self._read_pairs(table), sorted(rows)
            assert found == expected, f"table={table}: found={found} expected={expected}"
        for table in ("last", "every"):
            assert self.dwh.read_rows(f"{table}_{self.name}_tmp") == []
        assert self.dwh.list_staging_files() == []
        assert bench.committed(self.name) == bench.read_ends(self.topic)

    def _read_pairs(self, table: str) -> list[tuple[int, str]]:
        return sorted((row["id"], row["name"]) for row in self.dwh.read_rows(table))
