"""``tidegate init``: from a topic to a pipeline file that flushes, with everything said that a sample cannot tell."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tidegate.adapters.server_probe import Patience
from tidegate.cli.new_pipeline.questions import Answers, ask, read_answers
from tidegate.cli.new_pipeline.trial import decode_newest_records, find_partition_problem, validate
from tidegate.cli.output import is_yes, make_printable
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError
from tidegate.model.counts import format_count
from tidegate.sampling.columns import Proposal
from tidegate.sampling.pipeline_text import ProposedPipeline, render_pipeline
from tidegate.sampling.proposal import ProposedTable, propose_tables
from tidegate.sampling.samples import SampleLimits
from tidegate.settings import find_include_folder, format_path, read_command_name
from tidegate.wiring.sampling import RegistryLookup, sample_topic

MAX_ROW_CHARACTERS = 500


def run_init(words: argparse.Namespace) -> int:
    Patience.seconds = 0.0  # someone looks on: a broker that is down is said at once
    include = find_include_folder()
    answers = read_answers(words, include, read_connection_from_env)
    proposal, text, warnings = propose(words, answers, include)
    rows = list[dict[str, Any]]()
    question = "Show ten rows as a flush decodes them, by Spark?"
    if words.dry_run or (_is_asked(words) and is_yes(ask(question, "no"))):
        rows = decode_newest_records(include, proposal, text, read_connection_from_env, _print_progress)
    data = describe(answers, proposal, text, warnings, rows)
    summary = make_printable(format_summary(answers, proposal, warnings, rows))
    if words.print or words.dry_run:
        return _show(words, text, summary, data)
    if not words.json:
        print(f"{text}\n{summary}", flush=True)
    if not words.yes and not is_yes(ask(f"Write {format_path(answers.path)}?", "no")):
        return _decline(words, data)
    write_pipeline_file(answers.path, text, is_forced=words.force)
    if words.json:
        print(json.dumps({**data, "done": True}))
    else:
        print(f"{format_path(answers.path)} was written\nnext: {read_command_name()} flush {answers.name}")
    return 0


def _decline(words: argparse.Namespace, data: dict[str, Any]) -> int:
    if words.json:
        print(json.dumps({**data, "done": False}))
    _print_progress("nothing was written; --yes writes it without asking")
    return 1


def _is_asked(words: argparse.Namespace) -> bool:
    return sys.stdin.isatty() and not words.yes and not words.json and not words.print


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _show(words: argparse.Namespace, text: str, summary: str, data: dict[str, Any]) -> int:
    if words.json:
        print(json.dumps({**data, "done": False}))
    elif words.print:
        # with --print only the file goes to standard output
        print(text, end="")
        _print_progress(summary)
    else:
        print(f"{text}\n{summary}\nnothing was written")
    return 0


def propose(
    words: argparse.Namespace, answers: Answers, include: Path
) -> tuple[ProposedPipeline, str, tuple[str, ...]]:
    """The proposal, its text, and the warnings of `validate`; `ConfigurationError` with what `validate` refuses."""
    limits = SampleLimits(records=words.records, seconds=words.seconds)
    lookup = RegistryLookup(answers.registry, read_connection_from_env)
    tables: list[ProposedTable] = []
    for topic, table in zip(answers.topics, answers.tables, strict=True):
        sample = sample_topic(answers.kafka, read_connection_from_env, topic, limits, _print_progress)
        tables += propose_tables(sample, table, lookup, words.key)
    check_formats(tables)
    no_partitioning = ProposedPipeline(answers.name, answers.kafka, tuple(tables))
    text = render_pipeline(no_partitioning)
    try:
        return no_partitioning, text, validate(include, answers.name, text)
    except ConfigurationError as fault:
        problem = find_partition_problem(fault)
        if problem is None or not any(table.partitioning.value for table in tables):
            raise
        without = Proposal("", f"none: what was proposed is refused: {problem}")
        no_partitioning = replace(
            no_partitioning, tables=tuple(replace(table, partitioning=without) for table in tables)
        )
        text = render_pipeline(no_partitioning)
        return no_partitioning, text, validate(include, answers.name, text)


def check_formats(tables: Sequence[ProposedTable]) -> None:
    """The source table's name is metadata of one format: all tables of a pipeline need that format."""
    topics = {table.sample.topic for table in tables if table.source_table}
    formats = {table.value.format.name for table in tables}
    if topics and len(formats) > 1:
        raise ConfigurationError(
            f"topic={min(topics)}: has the changes of several source tables, and the other topics another format "
            f"({', '.join(sorted(formats))}); run init for each topic"
        )


def write_pipeline_file(path: Path, text: str, *, is_forced: bool) -> None:
    """`ConfigurationError` where a file came meanwhile, or none can be written."""
    try:
        path.parent.mkdir(exist_ok=True)
        with path.open("w" if is_forced else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as fault:
        raise ConfigurationError(f"{format_path(path)}: exists already; choose another --name, or --force") from fault
    except OSError as fault:
        raise ConfigurationError(
            f"{format_path(path)}: cannot be written: {fault.strerror}; check its rights"
        ) from fault


def describe(
    answers: Answers, proposal: ProposedPipeline, text: str, warnings: tuple[str, ...], rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """For programs."""
    return {
        "pipeline": answers.name,
        "file": str(answers.path),
        "valid": True,
        "warnings": list(warnings),
        "tables": [_describe_table(table) for table in proposal.tables],
        "checks": [check._asdict() for check in proposal.checks],
        "yaml": text,
        "rows": rows,
    }


def _describe_table(table: ProposedTable) -> dict[str, Any]:
    return {
        "table": table.name,
        "topic": table.sample.topic,
        "partitions": len(table.sample.end),
        "records": len(table.sample.records),
        "offsets": table.sample.span,
        "tombstones": table.tombstones,
        "format": table.value.format.name,
        "columns": [{"name": column.name, "type": column.type} for column in table.value.columns],
        "key_fields": list(table.key.fields),
        "key_format": table.key.format,
        "upsert": table.is_keyed,
    }


def format_summary(
    answers: Answers, proposal: ProposedPipeline, warnings: tuple[str, ...], rows: list[dict[str, Any]]
) -> str:
    """For people: what was recognised, what to check, and the rows."""
    lines = [_format_table(table) for table in proposal.tables]
    lines += [_format_row(row) for row in rows]
    lines += [f"warning: {warning}" for warning in warnings]
    lines.append(f"validate accepts {format_path(answers.path)}")
    checks = proposal.checks
    if checks:
        lines.append(f"CHECK {format_count(len(checks), 'point')}, each marked at its line too:")
        lines += [f"  {number}. {check}" for number, check in enumerate(checks, 1)]
    return "\n".join(lines)


def _format_table(table: ProposedTable) -> str:
    key = f"key {', '.join(table.key.fields)}" if table.key.fields else "no key"
    mode = "upsert and delete" if table.is_keyed else "append"
    description = f"{table.value.format.name}, {key}, {format_count(len(table.value.columns), 'column')}, {mode}"
    return f"{table.sample.topic} -> {table.name}: {description}; {table.sample.size}"


def _format_row(row: dict[str, Any]) -> str:
    place = f"{row['topic']}:{row['partition']}:{row['offset']}"
    if row["reason"]:
        return f"  {place} cannot be decoded: {row['reason']}"
    operation = {"d": "delete", None: "nothing"}.get(row["operation"], "row")
    return f"  {place} {operation} {row['row'] or ''}".rstrip()[:MAX_ROW_CHARACTERS]
