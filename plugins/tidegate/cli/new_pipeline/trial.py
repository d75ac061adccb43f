"""Tries a proposed file in a folder of its own, beside the existing files: validates it, and decodes records."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tidegate.config.pipeline_file import check_tables_of_others, load_all_pipelines, load_pipeline
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError
from tidegate.model.kafka_log import KafkaRecord
from tidegate.reprocess.record import RecordAddress, explain_record
from tidegate.sampling.pipeline_text import ProposedPipeline
from tidegate.sampling.proposal import ProposedTable
from tidegate.settings import format_path
from tidegate.spec.pipeline import Pipeline
from tidegate.wiring.pipeline import assemble_pipeline

ROWS = 10


@contextmanager
def open_trial(include: Path, name: str, text: str) -> Iterator[Path]:
    """An include folder with all of the real one, and this file in it."""
    with tempfile.TemporaryDirectory(prefix="tidegate-init-") as folder:
        trial = Path(folder)
        (trial / "pipelines").mkdir()
        for entry in include.iterdir():
            if entry.name != "pipelines":
                (trial / entry.name).symlink_to(entry)
        for file in (include / "pipelines").glob("*.y*ml"):
            if file.stem != name:
                (trial / "pipelines" / file.name).symlink_to(file)
        (trial / "pipelines" / f"{name}.yaml").write_text(text, encoding="utf-8")
        yield trial


def validate(include: Path, name: str, text: str) -> tuple[str, ...]:
    """The product's own warnings; `ConfigurationError` with its problems, under the file's later name."""
    with open_trial(include, name, text) as trial:
        try:
            pipeline = load_pipeline(trial / "pipelines" / f"{name}.yaml")
            check_tables_of_others(trial, name)
        except ConfigurationError as fault:
            include_path = format_path(include / "pipelines" / f"{name}.yaml").removesuffix(f"/pipelines/{name}.yaml")
            problems = (problem.replace(str(trial), include_path) for problem in fault.problems)
            raise ConfigurationError(*problems, "nothing was written: validate refuses the file above") from fault
        return (*pipeline.warnings, *_list_other_writers(trial, pipeline))


def _list_other_writers(include: Path, pipeline: Pipeline) -> list[str]:
    own_tables = {table.name.casefold() for table in pipeline.tables}
    other_pipelines = [
        (name, other_pipeline)
        for name, other_pipeline in load_all_pipelines(include)
        if isinstance(other_pipeline, Pipeline) and name != pipeline.name
    ]
    # two pipelines of one table have no common order of records
    return [
        f"pipeline={name} writes {table.name} already; two pipelines of one table overwrite each other's rows of a key"
        for name, other_pipeline in other_pipelines
        for table in other_pipeline.tables
        if table.name.casefold() in own_tables
    ]


def decode_newest_records(
    include: Path, proposal: ProposedPipeline, text: str, resolve: Resolve, report: Callable[[str], None]
) -> list[dict[str, Any]]:
    """What a flush would make of the newest records: place, table, fate, row and reason of each."""
    share = max(1, ROWS // len(proposal.tables))
    chosen_records = [(table.name, record) for table in proposal.tables for record in choose_records(table, share)]
    rows = list[dict[str, Any]]()
    with open_trial(include, proposal.name, text) as trial:
        session = assemble_pipeline(trial, proposal.name, resolve)
        for number, (table, record) in enumerate(chosen_records, 1):
            report(f"decoding record {number} of {len(chosen_records)} with Spark")
            at = RecordAddress(record.topic, record.partition, record.offset)
            for verdict in explain_record(session, at, table):
                outcome = {"operation": verdict.operation, "row": verdict.row, "reason": verdict.reason}
                rows.append({**at._asdict(), "table": verdict.table, **outcome})
    return rows


def choose_records(table: ProposedTable, number: int) -> list[KafkaRecord]:
    """The newest records, taking turns between partitions."""
    by_partition: dict[int, list[KafkaRecord]] = {}
    for record in table.sample.records:
        by_partition.setdefault(record.partition, []).append(record)
    turns = [records[::-1][turn] for turn in range(number) for records in by_partition.values() if turn < len(records)]
    return turns[:number]


def find_partition_problem(fault: ConfigurationError) -> str | None:
    """The problem with the partitioning, if the destination cannot have it; else None."""
    partition_problems = (problem for problem in fault.problems if "partition" in problem)
    return next((problem.partition(": ")[2] for problem in partition_problems), None)
