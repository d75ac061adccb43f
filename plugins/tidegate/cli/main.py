"""``tidegate <command>``: words in, exit code out.

0 done or nothing to do; 1 refused or failed; 2 wrong usage; 3 another run published first, nothing to repair;
130 ended by Ctrl-C.
"""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from tidegate.cli import output
from tidegate.cli.airflow_install import add_airflow, run_airflow
from tidegate.cli.backfill import add_backfill, run_backfill
from tidegate.cli.dead_letters import add_dead_letters, run_dead_letters
from tidegate.cli.flush import add_flush, run_flush
from tidegate.cli.listing import add_list, run_list
from tidegate.cli.publications import add_publish, format_publication_status, is_publication, read_statuses, run_publish
from tidegate.cli.record import add_record, add_skip, run_record, run_skip
from tidegate.cli.rollback import add_rollback_commands, run_answer_rollback, run_undo_rollback
from tidegate.config.catalogs_file import list_catalog_problems
from tidegate.config.models.publication import build_publication_schema
from tidegate.config.pipeline_file import build_json_schema, check_tables_of_others, load_all_pipelines, load_pipeline
from tidegate.config.publication_file import load_publication, load_publications
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError, NothingToDo, PublishedElsewhere, TidegateError, join_tables
from tidegate.monitoring.reports import PipelineStatus, UnknownStatus
from tidegate.monitoring.status import read_status
from tidegate.ports.context import Ports
from tidegate.reprocess.rebase import propose_moves, rebase_positions
from tidegate.settings import find_include_folder, find_user, read_version
from tidegate.spec.pipeline import Pipeline
from tidegate.steps.maintain import list_maintained_tables, maintain
from tidegate.steps.plan import plan
from tidegate.wiring.pipeline import assemble_checked_pipeline, assemble_pipeline, find_pipeline_file

NEEDS_NO_FOLDER = ("schema", "airflow")
EPILOG = """exit codes:
  0  done, or nothing to do
  1  refused or failed; the reason is on standard error
  2  wrong usage
  3  another run published first; nothing to repair
  130  ended by Ctrl-C; what is published stands

environment:
  TIDEGATE_INCLUDE        folder with catalogs.yaml, pipelines/ and publications/;
                          default: include/ of the checkout, of an installed package that of AIRFLOW_HOME
  AIRFLOW_CONN_<ID>       a connection that a file names, as a URI or JSON, as in Airflow
"""
INTERRUPTED = 130  # as shells have it: 128 and the number of the signal


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = _build_parser().parse_args(arguments)
    level = logging.INFO if words.verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    try:
        if words.command not in NEEDS_NO_FOLDER:
            _check_include_folder()
        return COMMANDS[words.command](words)
    except NothingToDo as reason:
        output.print_result(words, str(reason), {"nothing_to_do": str(reason)})
        return 0
    except PublishedElsewhere as reason:
        print(reason, file=sys.stderr)
        return 3
    except TidegateError as problem:
        print(output.format_problem(problem), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(output.format_interruption(words), file=sys.stderr)
        return INTERRUPTED


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidegate",
        description="Exactly-once upserts and deletes from Kafka into Apache Iceberg and BigQuery.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say each step on standard error")
    parser.add_argument("--version", action="version", version=f"tidegate {read_version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    validate = commands.add_parser("validate", help="check every pipeline file; print all problems")
    validate.add_argument("file", nargs="?", type=Path, help="one file instead of all")
    add_list(commands)
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
    add_rollback_commands(commands)
    add_record(commands)
    add_skip(commands)
    add_backfill(commands)
    keep = commands.add_parser("maintain", help="compact, expire snapshots and remove orphans, table by table")
    keep.add_argument("pipeline")
    keep.add_argument("--json", action="store_true", help="stable output for programs")
    add_dead_letters(commands)
    add_publish(commands)
    add_airflow(commands)
    schema = commands.add_parser("schema", help="JSON Schema of the pipeline file, for editors")
    schema.add_argument("of", nargs="?", choices=("pipeline", "publication"), default="pipeline")
    return parser


def _check_include_folder() -> None:
    include = find_include_folder()
    if not include.is_dir():
        raise ConfigurationError(
            f"include={include}: no such folder; set TIDEGATE_INCLUDE to one with catalogs.yaml and pipelines/"
        )


def _assemble_ports(name: str) -> Ports:
    return assemble_checked_pipeline(find_include_folder(), name, read_connection_from_env)


def _run_validate(words: argparse.Namespace) -> int:
    if words.file is not None:
        is_out = words.file.resolve().parent.name == "publications"
        loaded = load_publication(words.file) if is_out else load_pipeline(words.file)
        if not is_out:
            check_tables_of_others(words.file.resolve().parents[1], words.file.stem)
        print(_describe_result(str(words.file), loaded))
        return 0
    results = [*load_all_pipelines(find_include_folder()), *load_publications(find_include_folder())]
    problems = list_catalog_problems(find_include_folder())
    print("\n".join([*problems, *(_describe_result(name, result) for name, result in results)]))
    return 1 if problems or any(isinstance(result, ConfigurationError) for _, result in results) else 0


def _describe_result(name: str, result: object) -> str:
    if isinstance(result, ConfigurationError):
        return str(result)
    warnings = result.warnings if isinstance(result, Pipeline) else ()
    return "\n".join([f"{name}: ok", *(f"  warning: {warning}" for warning in warnings)])


def _run_plan(words: argparse.Namespace) -> int:
    planned = plan(_assemble_ports(words.pipeline))
    output.print_result(words, output.format_plan(planned), planned.to_dict())
    return 1 if planned.refused else 0


def _run_status(words: argparse.Namespace) -> int:
    requested_name, statuses = words.pipeline, list[PipelineStatus | UnknownStatus]()
    names = [requested_name] if requested_name else [name for name, _ in load_all_pipelines(find_include_folder())]
    published = read_statuses(requested_name) if requested_name is None or is_publication(requested_name) else []
    if requested_name and published and not (find_include_folder() / "pipelines" / f"{requested_name}.yaml").exists():
        names = []
    for name in names:
        find_pipeline_file(find_include_folder(), name)
        try:
            statuses.append(read_status(assemble_pipeline(find_include_folder(), name, read_connection_from_env)))
        except TidegateError as problem:
            if words.pipeline:
                raise
            statuses.append({"pipeline": name, "error": str(problem)})
    texts = [output.format_status(one) for one in statuses] + [format_publication_status(one) for one in published]
    print(json.dumps({"pipelines": statuses, "publications": published}) if words.json else "\n\n".join(texts))
    return 1 if any("error" in one for one in (*statuses, *published)) else 0


def _run_rebase(words: argparse.Namespace) -> int:
    ports = _assemble_ports(words.pipeline)
    proposed = propose_moves(ports, words.to)
    moves = output.format_moves([move for table in proposed for move in table.moves])
    print("\n".join(text for text in (moves, output.format_old_topics(words.pipeline, proposed)) if text))
    if not words.yes and not _confirm_move():
        print("nothing was changed", file=sys.stderr)
        return 1
    rebase_positions(ports, proposed, find_user())
    print("the position was moved")
    return 0


def _confirm_move() -> bool:
    try:
        return input("Move the position? Type yes: ").strip() == "yes"
    except EOFError:
        return False


def _run_maintain(words: argparse.Namespace) -> int:
    ports, failures = _assemble_ports(words.pipeline), list[TidegateError]()
    tables = list_maintained_tables(ports)
    if not tables:
        raise NothingToDo(f"pipeline={words.pipeline}: none of its tables exists yet")
    for table in tables:
        try:
            done = maintain(ports, table)
            output.print_result(words, output.format_maintenance(done), done)
        except TidegateError as problem:  # the other tables are kept small all the same
            failures.append(problem)
    if failures:
        raise join_tables("\n".join(map(str, failures)), map(type, failures))
    return 0


def _run_schema(words: argparse.Namespace) -> int:
    print(json.dumps(build_publication_schema() if words.of == "publication" else build_json_schema(), indent=2))
    return 0


COMMANDS = {
    "validate": _run_validate,
    "list": run_list,
    "flush": run_flush,
    "plan": _run_plan,
    "status": _run_status,
    "rebase": _run_rebase,
    "undo-rollback": run_undo_rollback,
    "answer-rollback": run_answer_rollback,
    "record": run_record,
    "skip": run_skip,
    "backfill": run_backfill,
    "maintain": _run_maintain,
    "dead-letters": run_dead_letters,
    "publish": run_publish,
    "schema": _run_schema,
    "airflow": run_airflow,
}
