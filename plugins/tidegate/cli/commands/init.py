"""``tidegate init``: from a topic to a pipeline file that flushes, with everything said that a sample cannot tell.

Asks for what flags leave out, samples the topics, and has the product validate the proposed file in a folder of its own
beside the existing files before anything is written.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidegate.adapters.server_probe import Patience
from tidegate.cli.output import is_yes, make_printable
from tidegate.cli.pipeline_text import ProposedPipeline, render_pipeline
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.models.settings import KafkaPlace
from tidegate.connections import Resolve, read_connection_from_env
from tidegate.errors import ConfigurationError
from tidegate.model.counts import format_count
from tidegate.model.kafka_log import KafkaRecord
from tidegate.reprocess.record import RecordAddress, Verdict, format_outline, outline_records
from tidegate.sampling.proposal import ProposedTable, propose_tables
from tidegate.sampling.samples import SampleLimits
from tidegate.settings import find_include_folder, format_path, read_command_name
from tidegate.spec.pipeline import Catalog
from tidegate.wiring.pipeline import assemble_pipeline
from tidegate.wiring.proposed_files import check_files, find_new_file, open_trial, refuse_existing, write_files
from tidegate.wiring.sampling import RegistryLookup, list_topics, sample_topic

MAX_ROW_CHARACTERS = 500
DEFAULT_KAFKA = "kafka_default"
DEFAULT_REGISTRY = "schema_registry_default"
MAX_SHOWN_TOPICS = 30
NAME_LENGTH = 60
ROWS = 10
Rows = list[tuple[RecordAddress, Verdict]]


def run_init(args: argparse.Namespace) -> int:
    Patience.seconds = 0.0  # someone looks on: a broker that is down is said at once
    include = find_include_folder()
    answers = read_answers(args, include, read_connection_from_env)
    proposal, text, warnings = propose(args, answers, include)
    rows: Rows = []
    question = "Show ten rows as a flush decodes them, by Spark?"
    is_asked = sys.stdin.isatty() and not args.yes and not args.json and not args.print
    if args.dry_run or (is_asked and is_yes(ask(question, "no"))):
        rows = decode_newest_records(include, proposal, text, read_connection_from_env, _print_progress)
    data = describe(answers, proposal, text, warnings, rows)
    summary = make_printable(format_summary(answers, proposal, warnings, rows))
    if args.print or args.dry_run:
        if args.json:
            print(json.dumps({**data, "done": False}))
        elif args.print:
            # only the file goes to standard output
            print(text, end="")
            _print_progress(summary)
        else:
            print(f"{text}\n{summary}\nnothing was written")
        return 0
    if not args.json:
        print(f"{text}\n{summary}", flush=True)
    if not args.yes and not is_yes(ask(f"Write {format_path(answers.path)}?", "no")):
        if args.json:
            print(json.dumps({**data, "done": False}))
        _print_progress("nothing was written; --yes writes it without asking")
        return 1
    if not args.force:  # one may have come meanwhile
        refuse_existing(answers.path, "--force")
    write_files(include, answers.name, text)
    if args.json:
        print(json.dumps({**data, "done": True}))
    else:
        print(f"{format_path(answers.path)} was written\nnext: {read_command_name()} flush {answers.name}")
    return 0


def _print_progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Answers:
    """`tables` are the destinations of `topics`, in their order."""

    kafka: str | dict[str, str]
    topics: tuple[str, ...]
    tables: tuple[str, ...]
    registry: str | None
    name: str
    path: Path


def read_answers(args: argparse.Namespace, include: Path, resolve: Resolve) -> Answers:
    """`ConfigurationError` for what cannot be, before any topic is read."""
    asks = sys.stdin.isatty() and not args.yes
    kafka = read_kafka(args.kafka or (ask("Kafka connection, or host:port", DEFAULT_KAFKA) if asks else DEFAULT_KAFKA))
    topics = tuple(args.topic) or (ask_topics(kafka, resolve) if asks else ())
    if not topics:
        raise ConfigurationError("--topic is missing; name the topic, e.g. --topic shop.orders")
    twice = sorted({topic for topic in topics if topics.count(topic) > 1})
    if twice:
        raise ConfigurationError(f"--topic={twice[0]}: given twice; keep one")
    catalogs = read_catalogs(include)
    first_part, dot, _ = topics[0].lower().partition(".")
    namespace = re.sub(r"[^a-z0-9_]", "_", first_part) if dot else "main"
    usual = f"{next(iter(catalogs), 'lake')}.{namespace}.{to_word(topics[0])}"
    target = args.to or (ask("Table, <catalog>.<namespace>.<table>", usual) if asks else "")
    tables = find_tables(target, topics, catalogs)
    name = args.name or suggest_name(tables[0] if len(tables) == 1 else target.rpartition(".")[2])
    path = find_new_file(include, name)
    if not (args.force or args.print or args.dry_run):
        refuse_existing(path, "--force")
    registry = find_registry(args.registry, resolve)
    return Answers(kafka=kafka, topics=topics, tables=tables, registry=registry, name=name, path=path)


def ask(question: str, default: str) -> str:
    """The default for an empty answer, or at the end of the input."""
    while True:
        print(f"{question} [{default}]: ", end="", file=sys.stderr, flush=True)
        if answer := sys.stdin.readline().strip() or default:
            return answer


def ask_topics(kafka: KafkaPlace, resolve: Resolve) -> tuple[str, ...]:
    names = list_topics(kafka, resolve)
    more = f" and {len(names) - MAX_SHOWN_TOPICS} more" if len(names) > MAX_SHOWN_TOPICS else ""
    print(f"topics: {', '.join(names[:MAX_SHOWN_TOPICS])}{more}", file=sys.stderr)
    answer = ask("Topic, or several with blanks between", names[0] if names else "")
    return tuple(answer.replace(",", " ").split())


def read_kafka(text: str) -> str | dict[str, str]:
    """A connection id, or brokers as host:port."""
    if "@" in text:
        raise ConfigurationError("--kafka has a login, which the file would show; put it into a connection")
    return {"bootstrap.servers": text} if ":" in text else text


def find_registry(registry: str | None, resolve: Resolve) -> str | None:
    """The named one, else the usual connection if it exists."""
    if registry is None:
        return DEFAULT_REGISTRY if resolve(DEFAULT_REGISTRY) is not None else None
    if "@" in registry:
        raise ConfigurationError("--registry has a login, which the file would show; put it into a connection")
    return registry


def find_tables(target: str, topics: tuple[str, ...], catalogs: Mapping[str, Catalog | str]) -> tuple[str, ...]:
    """One table for each topic: the named one, or in the named namespace one by each topic's name."""
    parts = target.split(".")
    if len(parts) < 2 or not all(parts):
        raise ConfigurationError(
            f"--to={target}: not a table; write <catalog>.<namespace>.<table>, or <catalog>.<namespace>"
        )
    if parts[0] not in catalogs:
        catalog_names = ", ".join(sorted(catalogs)) or "none"
        raise ConfigurationError(
            f"--to={target}: catalog={parts[0]} is not in catalogs.yaml; there are: {catalog_names}; declare it there "
            "first"
        )
    if isinstance(catalogs[parts[0]], str):
        raise ConfigurationError(f"--to={target}: catalog={parts[0]} is declared wrongly: {catalogs[parts[0]]}")
    if len(parts) > 2 and len(topics) == 1:
        return (target,)
    if len(parts) > 2:
        raise ConfigurationError(
            f"--to={target}: one table for {len(topics)} topics, and records of two topics have no order; give "
            f"--to {'.'.join(parts[:2])}, and each topic gets its own table"
        )
    tables = tuple(f"{target}.{to_word(topic)}" for topic in topics)
    if len({*tables}) < len(tables):
        raise ConfigurationError(
            f"--to={target}: two topics would get one table: {', '.join(tables)}; run init for each"
        )
    return tables


def to_word(topic: str) -> str:
    """A table's name from the last part of a topic's."""
    return re.sub(r"[^a-z0-9_]", "_", topic.rpartition(".")[2].lower()) or "records"


def suggest_name(table: str) -> str:
    word = re.sub(r"[^a-z0-9_-]", "_", table.rpartition(".")[2].lower()).lstrip("0123456789_-")
    return word[:NAME_LENGTH] or "pipeline"


def propose(args: argparse.Namespace, answers: Answers, include: Path) -> tuple[ProposedPipeline, str, tuple[str, ...]]:
    """The proposal, its text, and the warnings of `validate`; `ConfigurationError` with what `validate` refuses."""
    limits = SampleLimits(records=args.records, seconds=args.seconds)
    lookup = RegistryLookup(answers.registry, read_connection_from_env)
    tables: list[ProposedTable] = []
    for topic, table in zip(answers.topics, answers.tables, strict=True):
        sample = sample_topic(answers.kafka, read_connection_from_env, topic, limits, _print_progress)
        tables += propose_tables(sample, table, lookup, args.key)
    check_formats(tables)
    proposal = ProposedPipeline(answers.name, answers.kafka, tuple(tables))
    text = render_pipeline(proposal)
    problems, warnings = check_files(include, answers.name, text)
    if problems:
        raise ConfigurationError(*problems, "nothing was written: validate refuses the file above")
    return proposal, text, warnings


def check_formats(tables: Sequence[ProposedTable]) -> None:
    # the source table's name is metadata of one format: all tables of a pipeline need that format
    topics = {table.sample.topic for table in tables if table.source_table}
    formats = {table.value.format.name for table in tables}
    if topics and len(formats) > 1:
        raise ConfigurationError(
            f"topic={min(topics)}: has the changes of several source tables, and the other topics another format "
            f"({', '.join(sorted(formats))}); run init for each topic"
        )


def decode_newest_records(
    include: Path, proposal: ProposedPipeline, text: str, resolve: Resolve, report: Callable[[str], None]
) -> Rows:
    """What a flush would make of the newest records."""
    share = max(1, ROWS // len(proposal.tables))
    rows: Rows = []
    with open_trial(include, proposal.name, text) as trial:
        session = assemble_pipeline(trial, proposal.name, resolve)
        for table in proposal.tables:
            chosen_records = choose_records(table, share)
            report(f"decoding {format_count(len(chosen_records), 'record')} for table={table.name} with Spark")
            places = [RecordAddress(record.topic, record.partition, record.offset) for record in chosen_records]
            outlines = outline_records(session, places, table.name)
            rows += [(at, verdict) for at, verdicts in outlines.items() for verdict in verdicts]
    return rows


def choose_records(table: ProposedTable, number: int) -> list[KafkaRecord]:
    """The newest records, taking turns between partitions."""
    by_partition: dict[int, list[KafkaRecord]] = {}
    for record in table.sample.records:
        by_partition.setdefault(record.partition, []).append(record)
    turns = [records[::-1][turn] for turn in range(number) for records in by_partition.values() if turn < len(records)]
    return turns[:number]


def describe(
    answers: Answers, proposal: ProposedPipeline, text: str, warnings: tuple[str, ...], rows: Rows
) -> dict[str, Any]:
    return {
        "pipeline": answers.name,
        "file": str(answers.path),
        "valid": True,
        "warnings": list(warnings),
        "tables": [_describe_table(table) for table in proposal.tables],
        "checks": [check._asdict() for check in proposal.checks],
        "yaml": text,
        "rows": [
            {**at._asdict(), **{name: getattr(verdict, name) for name in ("table", "operation", "row", "reason")}}
            for at, verdict in rows
        ],
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


def format_summary(answers: Answers, proposal: ProposedPipeline, warnings: tuple[str, ...], rows: Rows) -> str:
    lines = list[str]()
    for table in proposal.tables:
        key = f"key {', '.join(table.key.fields)}" if table.key.fields else "no key"
        mode = "upsert and delete" if table.is_keyed else "append"
        description = f"{table.value.format.name}, {key}, {format_count(len(table.value.columns), 'column')}, {mode}"
        lines.append(f"{table.sample.topic} -> {table.name}: {description}; {table.sample.size}")
    lines += [f"  {format_outline(at, verdict)}"[:MAX_ROW_CHARACTERS] for at, verdict in rows]
    lines += [f"warning: {warning}" for warning in warnings]
    lines.append(f"validate accepts {format_path(answers.path)}")
    checks = proposal.checks
    if checks:
        lines.append(f"CHECK {format_count(len(checks), 'point')}, each marked at its line too:")
        lines += [f"  {number}. {check}" for number, check in enumerate(checks, 1)]
    return "\n".join(lines)
