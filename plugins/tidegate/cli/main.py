"""``tidegate <command>``: words in, exit code out.

0 done or nothing to do; 1 refused or failed; 2 wrong usage; 3 another run published first, nothing to repair.
"""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tidegate.cli import output
from tidegate.cli.backfill import add_backfill, run_backfill
from tidegate.cli.dead_letters import add_dead_letters, dead_letters
from tidegate.cli.flush import add_flush, run_flush
from tidegate.cli.publications import add_publish, is_publication, publications_status, run_publish, status_text
from tidegate.config.catalogs_file import catalog_problems
from tidegate.config.models.publication import publication_schema
from tidegate.config.pipeline_file import check_tables_of_others, json_schema, load_all, load_pipeline
from tidegate.config.publication_file import load_publication, load_publications
from tidegate.connections import connection_from_env
from tidegate.errors import ConfigurationError, NothingToDo, PublishedElsewhere, TidegateError, join_tables
from tidegate.monitoring.status import status
from tidegate.ports.context import Ports
from tidegate.reprocess.rebase import propose, rebase
from tidegate.settings import include_folder
from tidegate.spec.pipeline import Pipeline
from tidegate.steps.maintain import maintain, maintained_tables
from tidegate.steps.plan import plan
from tidegate.wiring.pipeline import assemble, assemble_checked, pipeline_path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = _parser().parse_args(arguments)
    level = logging.INFO if words.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        return COMMANDS[words.command](words)
    except NothingToDo as reason:
        output.say(words, str(reason), {"nothing_to_do": str(reason)})
        return 0
    except PublishedElsewhere as reason:
        print(reason, file=sys.stderr)
        return 3
    except TidegateError as problem:
        print(problem, file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tidegate", description="Kafka into Iceberg, exactly once.")
    parser.add_argument("-v", "--verbose", action="store_true", help="say each step on standard error")
    commands = parser.add_subparsers(dest="command", required=True)
    validate = commands.add_parser("validate", help="check every pipeline file; print all problems")
    validate.add_argument("file", nargs="?", type=Path, help="one file instead of all")
    add_flush(commands)
    for name, text in (
        ("plan", "what the next batch would be; changes nothing"),
        ("status", "position, lag and last batches"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("pipeline", nargs="?" if name == "status" else None)
        command.add_argument("--json", action="store_true", help="stable output for programs")
    move = commands.add_parser("rebase", help="move a position by hand; shows what that skips or reads again, and asks")
    move.add_argument("pipeline")
    move.add_argument("--to", required=True, help='earliest, latest, group, a time, or {"topic": {"0": 42}}')
    move.add_argument("--yes", action="store_true", help="do not ask")
    add_backfill(commands)
    keep = commands.add_parser("maintain", help="compact, expire snapshots and remove orphans, table by table")
    keep.add_argument("pipeline")
    keep.add_argument("--json", action="store_true", help="stable output for programs")
    add_dead_letters(commands)
    add_publish(commands)
    schema = commands.add_parser("schema", help="JSON Schema of the pipeline file, for editors")
    schema.add_argument("of", nargs="?", choices=("pipeline", "publication"), default="pipeline")
    return parser


def _ports(name: str) -> Ports:
    return assemble_checked(include_folder(), name, connection_from_env)


def _validate(words: argparse.Namespace) -> int:
    if words.file is not None:
        is_out = words.file.resolve().parent.name == "publications"
        loaded = load_publication(words.file) if is_out else load_pipeline(words.file)
        if not is_out:
            check_tables_of_others(words.file.resolve().parents[1], words.file.stem)
        print(_describe_result(str(words.file), loaded))
        return 0
    results = [*load_all(include_folder()), *load_publications(include_folder())]
    problems = catalog_problems(include_folder())
    print("\n".join([*problems, *(_describe_result(name, result) for name, result in results)]))
    return 1 if problems or any(isinstance(result, ConfigurationError) for _, result in results) else 0


def _describe_result(name: str, result: object) -> str:
    if isinstance(result, ConfigurationError):
        return str(result)
    warnings = result.warnings if isinstance(result, Pipeline) else ()
    return "\n".join([f"{name}: ok", *(f"  warning: {warning}" for warning in warnings)])


def _plan(words: argparse.Namespace) -> int:
    planned = plan(_ports(words.pipeline))
    output.say(words, output.planned(planned), planned.to_dict())
    return 1 if planned.refused else 0


def _status(words: argparse.Namespace) -> int:
    asked, found = words.pipeline, list[dict[str, Any]]()
    names = [asked] if asked else [name for name, _ in load_all(include_folder())]
    published = publications_status(asked) if asked is None or is_publication(asked) else []
    if asked and published and not (include_folder() / "pipelines" / f"{asked}.yaml").exists():
        names = []
    for name in names:
        pipeline_path(include_folder(), name)
        try:
            found.append(status(assemble(include_folder(), name, connection_from_env)))
        except TidegateError as problem:
            if words.pipeline:
                raise
            found.append({"pipeline": name, "error": str(problem)})
    texts = [output.status(one) for one in found] + [status_text(one) for one in published]
    print(json.dumps({"pipelines": found, "publications": published}) if words.json else "\n\n".join(texts))
    return 1 if any("error" in one for one in (*found, *published)) else 0


def _rebase(words: argparse.Namespace) -> int:
    ports = _ports(words.pipeline)
    proposed = propose(ports, words.to)
    print(output.moves([move for table in proposed for move in table.moves]))
    if not words.yes and not _agreed():
        print("nothing was changed", file=sys.stderr)
        return 1
    rebase(ports, proposed)
    print("the position was moved")
    return 0


def _agreed() -> bool:
    try:
        return input("Move the position? Type yes: ").strip() == "yes"
    except EOFError:
        return False


def _maintain(words: argparse.Namespace) -> int:
    ports, failures = _ports(words.pipeline), list[TidegateError]()
    tables = maintained_tables(ports)
    if not tables:
        raise NothingToDo(f"pipeline={words.pipeline}: none of its tables exists yet")
    for table in tables:
        try:
            done = maintain(ports, table)
            output.say(words, output.maintained(done), done)
        except TidegateError as problem:  # the other tables are kept small all the same
            failures.append(problem)
    if failures:
        raise join_tables("\n".join(map(str, failures)), map(type, failures))
    return 0


def _schema(words: argparse.Namespace) -> int:
    print(json.dumps(publication_schema() if words.of == "publication" else json_schema(), indent=2))
    return 0


COMMANDS = {
    "validate": _validate,
    "flush": run_flush,
    "plan": _plan,
    "status": _status,
    "rebase": _rebase,
    "backfill": run_backfill,
    "maintain": _maintain,
    "dead-letters": dead_letters,
    "publish": run_publish,
    "schema": _schema,
}
