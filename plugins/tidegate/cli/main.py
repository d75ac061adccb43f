"""``tidegate <command>``: words in, exit code out.

0 done or nothing to do; 1 refused or failed; 2 wrong usage; 3 another run published first, nothing to repair;
130 ended by Ctrl-C or SIGTERM.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module

from tidegate.cli.parser import answer_shell, build_parser
from tidegate.errors import ConfigurationError, NothingToDo, PublishedElsewhere, TidegateError

# command -> its module in `commands`, and its function; loaded when it is run: help and completion load no library
COMMANDS = {
    "init": "init:run_init",
    "validate": "files:run_validate",
    "doctor": "doctor:run_doctor",
    "list": "files:run_list",
    "flush": "flush:run_flush",
    "stage": "flush:run_staging",
    "merge": "flush:run_merging",
    "run": "run:run_run",
    "plan": "progress:run_plan",
    "status": "progress:run_status",
    "live-view": "progress:run_live_view",
    "verify": "verify:run_verify",
    "approve": "actions:run_previewed_action",
    "reject": "actions:run_previewed_action",
    "explain": "verify:run_explain",
    "rebase": "actions:run_previewed_action",
    "upgrade-format": "actions:run_upgrade_format",
    "undo-rollback": "actions:run_previewed_action",
    "answer-rollback": "actions:run_previewed_action",
    "record": "actions:run_record",
    "skip": "actions:run_previewed_action",
    "backfill": "flush:run_backfill",
    "maintain": "flush:run_maintain",
    "dead-letters": "dead_letters:run_dead_letters",
    "publish": "progress:run_publish",
    "import": "import_connector:run_import",
    "schema": "files:run_schema",
    "airflow": "install:run_airflow",
    "jars": "install:run_jars",
    "completion": "install:run_completion",
}
NEEDS_NO_FOLDER = ("schema", "doctor", "import", "airflow", "jars", "completion")
INTERRUPTED = 130  # as shells have it: 128 and the number of the signal


def main(arguments: Sequence[str] | None = None, prepare: Callable[[], None] | None = None) -> int:
    """Run one command and return its exit code. `prepare` is called before a command, not for help."""
    parser = build_parser()
    answer_shell(parser)
    args = argparse.Namespace(command=parser.prog)  # until a command is named
    try:
        try:
            parser.parse_args(arguments, args)
            code = _run_and_report(args, prepare)
        finally:  # help and version end the process here
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as fault:
        if not _is_output_gone():
            raise
        print(f"{args.command}: its output cannot be written: {fault.strerror}; what is done stands", file=sys.stderr)
        return 1
    return code


def _is_output_gone() -> bool:
    try:
        print(flush=True)  # if Python buffers nothing, only a write shows that the output is closed
    except OSError:
        # the reader ended, or the disk is full: the rest is thrown away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return True
    return False


def _run_and_report(args: argparse.Namespace, prepare: Callable[[], None] | None) -> int:
    try:
        if prepare is not None:
            prepare()
        return _run_command(args)
    except NothingToDo as reason:
        from tidegate.cli.output import print_result

        print_result(args, str(reason), {"nothing_to_do": str(reason)})
        return 0
    except PublishedElsewhere as reason:
        print(reason, file=sys.stderr)
        return 3
    except KeyboardInterrupt:
        from tidegate.cli.output import format_interruption

        print(format_interruption(args), file=sys.stderr)
        return INTERRUPTED
    except TidegateError as problem:
        from tidegate.cli.output import format_problem, format_runbook_page

        print(format_problem(problem), file=sys.stderr)
        if sys.stderr.isatty() and (way := format_runbook_page(problem)):
            print(way, file=sys.stderr)
        return 1


def _run_command(args: argparse.Namespace) -> int:
    import logging

    from tidegate.cli.output import build_log_handler
    from tidegate.settings import find_include_folder, is_checkout

    level = logging.INFO if args.verbose else logging.WARNING
    logging.basicConfig(level=level, handlers=[build_log_handler(verbose=args.verbose)])
    if args.command not in NEEDS_NO_FOLDER and not (include := find_include_folder()).is_dir():
        way_out = "set TIDEGATE_INCLUDE to one with catalogs.yaml and pipelines/"
        way_out += "" if is_checkout() else ", or make it: tidegate airflow install"
        raise ConfigurationError(f"include={include}: no such folder; {way_out}")
    module, _, function = COMMANDS[args.command].partition(":")
    try:
        code: int = getattr(import_module(f"tidegate.cli.commands.{module}"), function)(args)
    except ModuleNotFoundError as fault:
        package = (fault.name or "").partition(".")[0]
        if not package or package.startswith("tidegate"):
            raise
        extras = "pip install 'tidegate[all]', or with the one extra that you need: iceberg, bigquery, spark"
        way_out = "make setup" if is_checkout() else extras
        raise ConfigurationError(f"module={package} is not installed; run: {way_out}") from fault
    return code
