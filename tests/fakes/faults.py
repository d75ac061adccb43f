"""Doubles of single ports, each named for the fault that it has."""

import json
from dataclasses import replace
from typing import Any

from tidegate.errors import CommitRefused, GiveUp, OutcomeUnknown, RetryLater, TidegateError
from tidegate.jobs.stage_job import StageJob
from tidegate.jobs.statements_job import StatementsJob
from tidegate.model.table_state import TableCommit
from tidegate.ports.session import Job

from fakes.clock import Crash
from fakes.spark import MemoryEngine
from fakes.tables import Row


class _Delegating:
    def __init__(self, port: Any) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        return getattr(self._port, name)


class AnswerLostAfterPublish(_Delegating):
    """A catalog that commits the publish and loses the answer, once."""

    has_lost_answer = False

    def publish(self, table_commit: TableCommit) -> None:
        self._port.publish(table_commit)
        if not self.has_lost_answer:
            self.has_lost_answer = True
            raise OutcomeUnknown("the catalog gave no answer")


class AnswerLostBeforePublish(_Delegating):
    """A catalog that never sees the first publishes, and cannot tell."""

    def __init__(self, port: Any, times: int = 1) -> None:
        super().__init__(port)
        self.remaining = times

    def publish(self, table_commit: TableCommit) -> None:
        if self.remaining:
            self.remaining -= 1
            raise OutcomeUnknown("the catalog gave no answer")
        self._port.publish(table_commit)


class RefusesPublish(_Delegating):
    """A catalog whose table metadata others touch: the first commits are refused though nothing of ours moved."""

    def __init__(self, port: Any, times: int = 1) -> None:
        super().__init__(port)
        self.remaining = times

    def publish(self, table_commit: TableCommit) -> None:
        if self.remaining:
            self.remaining -= 1
            raise CommitRefused("metadata changed")
        self._port.publish(table_commit)


class BusyTable(_Delegating):
    """A table that somebody else appends to, if only no rows, just before each of the first publishes."""

    def __init__(self, port: Any, times: int = 1, *rows: Row) -> None:
        super().__init__(port)
        self.remaining, self.rows = times, rows

    def publish(self, table_commit: TableCommit) -> None:
        if self.remaining:
            self.remaining -= 1
            self._port.append_foreign_rows(table_commit.table, *self.rows)
        self._port.publish(table_commit)


class UnreadableTable(_Delegating):
    """A catalog that does not answer for some names: a destination, or all that is called like it."""

    error: type[TidegateError] = RetryLater
    reason = "catalog or files did not answer"

    def __init__(self, port: Any, *prefixes: str) -> None:
        super().__init__(port)
        self.prefixes = prefixes

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._port, name)

        def call(table: str, /, *arguments: Any, **keywords: Any) -> Any:
            if str(table).startswith(self.prefixes):
                raise self.error(f"table={table}: {self.reason} during {name}")
            return attribute(table, *arguments, **keywords)

        return call if callable(attribute) else attribute


class RefusedTable(UnreadableTable):
    """Names of tables that no pipeline can use as they are, as a view, or one of a newer format."""

    error, reason = GiveUp, "nobody can use it as it is"


class CannotCleanUp(_Delegating):
    """A store that refuses deletes."""

    def clean_up(self, intermediate: str, up_to_batch: int) -> dict[str, int]:
        raise OSError("permission denied")


class CannotRecord(_Delegating):
    """A control table that cannot be written."""

    def append_history(self, control: str, *rows: Row) -> None:
        raise OSError("permission denied")


class FailsToMerge(_Delegating):
    """Spark that fails every merge into one table while `broken`."""

    def __init__(self, engine: MemoryEngine, table: str) -> None:
        super().__init__(engine)
        self.table, self.is_broken = table, True

    def run(self, job: Job) -> None:
        if self.is_broken and isinstance(job, StatementsJob) and f'"target": "{self.table}"' in "".join(job.statements):
            raise RetryLater(f"Spark failed in merge: table={self.table}")
        self._port.run(job)


class FailsOneMerge(_Delegating):
    """Spark that fails its merge of that number, counted from one."""

    def __init__(self, engine: MemoryEngine, number: int) -> None:
        super().__init__(engine)
        self.remaining = number

    def run(self, job: Job) -> None:
        self.remaining -= isinstance(job, StatementsJob)
        if isinstance(job, StatementsJob) and self.remaining == 0:
            raise RetryLater("Spark failed in one merge")
        self._port.run(job)


class WritesBesideTheBranch(_Delegating):
    """Spark whose session has `spark.wap.id`: a merge's snapshot is on no branch."""

    def run(self, job: Job) -> None:
        tables = self._port.destination.tables
        refs_by_table = {name: dict(table.refs) for name, table in tables.items()}
        self._port.run(job)
        if isinstance(job, StatementsJob) and job.table in refs_by_table:
            tables[job.table].refs = refs_by_table[job.table]


class WritesNothing(_Delegating):
    """Spark that runs every merge and writes no row."""

    def run(self, job: Job) -> None:
        if not isinstance(job, StatementsJob):
            self._port.run(job)


class DiesBetweenStatements(_Delegating):
    """Spark whose driver ends after so many statements of its next merge job."""

    def __init__(self, engine: MemoryEngine, statement_count: int) -> None:
        super().__init__(engine)
        self.statement_count = statement_count

    def run(self, job: Job) -> None:
        if isinstance(job, StatementsJob):
            self._port.run(replace(job, statements=job.statements[: self.statement_count]))
            raise Crash("between two statements")
        self._port.run(job)


class ForgetsToFinish(_Delegating):
    """Spark that dies in every stage job after the rows are written and before the counts are."""

    def run(self, job: Job) -> None:
        self._port.run(job)
        if isinstance(job, StageJob):
            for table in job.tables:
                del self._port.destination.tables[table.intermediate].properties[table.property]


class LosesARecord(_Delegating):
    """Spark whose counts do not add up, for every table or for one."""

    def __init__(self, engine: MemoryEngine, table: str = "") -> None:
        super().__init__(engine)
        self.table = table

    def run(self, job: Job) -> None:
        self._port.run(job)
        for table in job.tables if isinstance(job, StageJob) else ():
            if table.intermediate.startswith(self.table):
                properties = self._port.destination.tables[table.intermediate].properties
                outcome = json.loads(properties[table.property])
                properties[table.property] = json.dumps({**outcome, "staged": outcome["staged"] - 1})
