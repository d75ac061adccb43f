"""The ports `Engine` and `Sql` in memory: jobs and statements are JSON, and Python does what they say."""

import json
import re
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import Any

from tidegate.failpoints import hit_failpoint
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.jobs.stage_job import StageJob
from tidegate.jobs.statements_job import StatementsJob
from tidegate.ports.session import Job
from tidegate.schema.data_types import Column

from fakes.audits import write_answers
from fakes.broker import MemoryBroker
from fakes.dead_letters import build_mark, write_dead_letters
from fakes.lake import MemoryDestination
from fakes.merge_runner import MergeRunner
from fakes.stage_runner import StageRunner
from fakes.tables import is_of_parts

SNAPSHOT_PROPERTY = "spark.sql.iceberg.snapshot-property."


class StructuredSql:
    """The port `Sql` that keeps what it was asked for as JSON, so that `MemoryEngine` can do it."""

    def render(self, statement: str, **values: Any) -> str:
        return _AS_JSON.encode({"statement": statement, **values})


def _flatten(value: Any) -> Any:
    """What JSON has no word for, one level deep: its encoder asks again for what lies in it."""
    if is_dataclass(value):
        return {dataclass_field.name: getattr(value, dataclass_field.name) for dataclass_field in fields(value)}
    return list(value)


_AS_JSON = json.JSONEncoder(default=_flatten)


class MemoryEngine(StageRunner, MergeRunner):
    """The port `Engine` that does in Python what the jobs do in Spark."""

    def __init__(self, broker: MemoryBroker, destination: MemoryDestination) -> None:
        super().__init__(broker, destination)
        self.jobs: list[Job] = []

    def run(self, job: Job) -> None:
        job = type(job).from_json(job.to_json())  # the jobs and the steps share nothing but this text
        self.jobs.append(job)
        if isinstance(job, StageJob):
            for table in (*job.tables, *([job.finder] if job.finder else [])):
                for text in table.create:
                    self._create(json.loads(text))
                    hit_failpoint("job.created")
            for table in job.tables:
                self.stage_table(job, table)
            if job.finder is not None:
                self.find_names(job, job.finder)
        elif isinstance(job, MaintainJob):
            outcome = {name: self._maintain(name, json.loads(text)) for name, text in job.statements.items()}
            outcome_text = json.dumps({"attempt": job.attempt, **outcome})
            self.destination.tables[job.table].properties[job.property] = outcome_text
        else:
            summary = {k.removeprefix(SNAPSHOT_PROPERTY): v for k, v in job.conf.items() if SNAPSHOT_PROPERTY in k}
            for text in job.statements:
                statement = json.loads(text)
                if statement["statement"] in ("remember_deletes", "remember_changes"):
                    self.remember_rows(statement, summary)
                elif "dead_letters" in statement["statement"]:
                    write_dead_letters(self.destination, statement)
                elif not self._create(statement):
                    self._check_columns(statement)
                    self.merge_rows(statement, summary)
                hit_failpoint("job.statement")
            if job.questions is not None:
                write_answers(job.questions, self.destination, self.conditions)
                hit_failpoint("job.audited")

    def _check_columns(self, statement: dict[str, Any]) -> None:
        """A merge names no column that its rows were staged without: Spark would not find it."""
        source_table = self.destination.tables.get(statement["source"])
        if source_table is None or statement["snapshot_id"] not in source_table.snapshots:
            return
        rows = source_table.snapshots[statement["snapshot_id"]].rows
        attempts = {row["attempt"] for row in rows if is_of_parts(row, statement["parts"])}
        for table in (table for job in self.stages for table in job.tables if table.attempt in attempts):
            staged_columns = (*table.key_columns, *table.value_columns)
            names = {name.casefold() for name in (*(column.name for column in staged_columns), *table.metadata)}
            expressions = statement.get("expressions", {})
            for name in statement["values"] if table.select is None else ():
                read = re.findall("`([^`]+)`", expressions[name]) if name in expressions else [name]
                assert not read or names & {field.casefold() for field in read}, f"{name} was not staged: {names}"

    @property
    def merges(self) -> list[StatementsJob]:
        """The jobs that merged rows, without those that created tables."""
        return [j for j in self.jobs if isinstance(j, StatementsJob) and '"statement": "merge_' in j.statements[-1]]

    @property
    def stages(self) -> list[StageJob]:
        return [j for j in self.jobs if isinstance(j, StageJob)]

    def _maintain(self, name: str, statement: dict[str, Any]) -> dict[str, Any]:
        """Compaction makes one file of all; expiry keeps the last of main and whatever a branch or tag names."""
        table = f"{statement['catalog']}.{statement['table']}"
        memory_table = self.destination.tables[table]
        if name == "compact":
            self.destination.add_snapshot(table, "main", tuple(memory_table.read_rows()), {"compacted": "true"})
        if name == "expire":
            cut_off_ms = datetime.fromisoformat(statement["older_than"]).replace(tzinfo=UTC).timestamp() * 1000
            recent_snapshots = takewhile(
                lambda numbered_snapshot: (
                    numbered_snapshot[0] < statement["retain_last"] or numbered_snapshot[1].ms >= cut_off_ms
                ),
                enumerate(memory_table.ancestors()),
            )
            required_ids = {s.id for _, s in recent_snapshots} | set(memory_table.refs.values())
            line = memory_table.ancestors()
            required_ids |= {s.id for s in memory_table.snapshots.values() if s not in line and s.ms >= cut_off_ms}
            for snapshot_id in set(memory_table.snapshots) - required_ids:
                self.destination.expire(table, snapshot_id)
        return {"rows": 0}

    def _create(self, statement: dict[str, Any]) -> bool:
        if statement["statement"] in ("create_table", "create_deletes"):
            memory_table = self.destination.create(statement["table"], tuple(Column(**c) for c in statement["columns"]))
            if "pipeline" in statement:
                memory_table.properties.setdefault("tidegate.created-by", statement["pipeline"])
            if "own" in statement:
                memory_table.properties |= build_mark(statement["own"])
        elif statement["statement"] == "branch_memory":
            memory_table = self.destination.tables[statement["table"]]
            if "main" not in memory_table.refs:
                self.destination.add_snapshot(statement["table"], statement["branch"], (), {})
            memory_table.refs.setdefault(statement["branch"], memory_table.refs.get("main", 0))
        elif statement["statement"] == "order_table":
            self.destination.tables[statement["table"]].ordered_by = tuple(statement["cluster_by"])
        elif statement["statement"] == "create_intermediate":
            memory_table = self.destination.create(statement["table"], ())
            memory_table.properties |= {
                "tidegate.shape": statement["shape"],
                "tidegate.highest-batch": str(statement["batch"]),
            }
            memory_table.properties |= {**statement.get("properties", {}), **build_mark(statement["own"])}
        elif statement["statement"] == "drop_intermediate":
            self.destination.tables.pop(statement["table"], None)
        elif statement["statement"] == "forget_answers":
            self.destination.tables[statement["target"]].properties.pop(statement["property"], None)
        elif statement["statement"] == "keep_verification":
            self.destination.tables[statement["target"]].properties[statement["property"]] = statement["verification"]
        return statement["statement"].startswith(
            ("create_", "branch_", "drop_", "order_", "identify_", "forget_answers", "keep_verification")
        )
