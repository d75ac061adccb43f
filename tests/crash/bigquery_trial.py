"""A pipeline into BigQuery that meets faults, and what its tables must hold after the next runs.

Two tables are fed by the same records: one keeps the last record of each key, the other keeps them all.
"""

import itertools
from collections.abc import Callable, Iterable
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
# in a half of a pipeline with two clocks, whose rows live views show once they are staged
HALVES = {
    "rows are loaded and no mark is there": ("stage", "stage/bigquery.loaded:inside:1", "killed"),
    "the mark is there and nothing says that the rows are": ("stage", "stage/bigquery.marked:inside:1", "killed"),
    "the mark of one table is there, and of the other not": ("stage", "stage/bigquery.landed:inside:1", "killed"),
    "a merge of several batches was sent": ("merge", "merge/bigquery.sent:inside:1", "killed"),
    "several batches are published in one table alone": ("merge", "merge/bigquery.answered:inside:1", "killed"),
    "rows of one batch of several are gone": ("merge", "clean_up/bigquery.partition_dropped:inside:1", "killed"),
}
# in the first batch, which makes the tables
FIRST = {
    "the dataset is there and no table": ("stage/job.statement:inside:1", "killed"),
    "the table of positions is there without a row": ("merge/bigquery.positions_created:inside:1", "killed"),
    "the first position was sent": ("merge/bigquery.sent:inside:1", "killed"),
}


def walk(dwh: Any, runners: Any, situations: Iterable[str] = (*FIRST, *LATER, *HALVES)) -> None:
    """One pipeline meets the later faults one after the other; each of the first batch has a pipeline of its own.

    Another one meets those of its two clocks.
    """
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
    halves = [HALVES[name] for name in chosen_names if name in HALVES]
    if halves:
        dwh.sql("DROP TABLE `last`")
        dwh.sql("DROP TABLE `every`")
        clocks = Trial(dwh, runners, "clocks", stage={"interval": "1m"})
        clocks.flush_batch(next(numbers))
        for command, point, kind in halves:
            clocks.run_half_with_fault((next(numbers), next(numbers)), command, point, kind)


class Trial:
    """A pipeline whose table keeps the last record of each key, and another that keeps them all."""

    def __init__(self, dwh: Any, runners: Any, name: str, **sections: Any) -> None:
        self.dwh, self.runners, self.name, self.topic = dwh, runners, name, dwh.bench.topic(2)
        self.last: dict[int, str] = {}
        self.all: list[tuple[int, str]] = []
        modes = {"last": {}, "every": {"upsert": False, "delete": False}}
        tables = [{"name": dwh.table(table), **mode} for table, mode in modes.items()]
        dwh.bench.pipeline(name, [self.topic], key=KEY, value=VALUE, tables=tables, **sections)

    def flush_batch(self, number: int) -> None:
        """Flush a batch that meets no fault."""
        self._produce(number)
        self._check()

    def flush_with_fault(self, number: int, point: str, kind: str) -> None:
        """Flush a batch that meets a fault; the next runs recover it."""
        self._produce(number)
        self._run("flush", point, kind)
        self._check()

    def run_half_with_fault(self, numbers: tuple[int, int], command: str, point: str, kind: str) -> None:
        """Stage two batches, or merge them; the half that meets a fault is run again, and then the other."""
        self._produce(numbers[0])
        self._run("stage")
        self._produce(numbers[1])
        if command == "merge":
            self._run("stage")
        self._run(command, point, kind)
        if command == "stage":
            self._run("stage")
        self._check_rows(self._read_view)
        self._run("merge")
        self._check_rows(self._read_view)
        self._check()

    def _run(self, command: str, point: str = "", kind: str = "none") -> None:
        environment = self.dwh.bench.build_environment()
        at = Point.parse(point) if point else None
        outcome = self.runners.run(environment, command, self.name, at=at, kind=kind)
        assert outcome.fault_happened == bool(point), f"{command} at {point}: {outcome.output}"
        assert outcome.code == 0 or point, outcome.output
        print(f"{command}: {kind} at {point}", flush=True)

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
        self._check_rows(self.dwh.read_rows)
        for table in ("last", "every"):
            assert self.dwh.read_rows(f"{table}_{self.name}_tmp") == []
        assert self.dwh.list_staging_files() == []
        assert bench.committed(self.name) == bench.read_ends(self.topic)

    def _check_rows(self, read: Callable[[str], list[dict[str, Any]]]) -> None:
        for table, rows in (("last", self.last.items()), ("every", self.all)):
            found, expected = sorted((row["id"], row["name"]) for row in read(table)), sorted(rows)
            assert found == expected, f"table={table}: found={found} expected={expected}"

    def _read_view(self, table: str) -> list[dict[str, Any]]:
        told = self.dwh.bench.run_cli("live-view", self.name, "--table", self.dwh.table(table))
        assert told.returncode == 0, told.stderr
        return list(self.dwh.sql(told.stdout))
