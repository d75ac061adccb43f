"""Commands that change a table by hand or decide about a batch, each after a preview; and `record`, which shows one."""

import argparse
import json
import sys

from tidegate.cli.output import is_yes, print_text
from tidegate.cli.session import open_named_pipeline
from tidegate.errors import ConfigurationError
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ProposedAction
from tidegate.reprocess.record import (
    RecordAddress,
    describe_record,
    explain_record,
    format_outline,
    format_record,
    format_verdict,
    outline_records,
    parse_address,
    parse_neighbourhood,
    read_record,
    read_records_around,
)
from tidegate.reprocess.request import propose_action
from tidegate.reprocess.upgrade import propose_upgrade
from tidegate.settings import find_user


def perform_action(args: argparse.Namespace, action: ProposedAction) -> int:
    """Preview, ask unless `--yes`, then act if the answer is yes. Returns the exit code.

    With `--json` a program gets one object, whose `done` says whether anything was changed.
    """
    if not args.json:
        print_text(action.full_preview or action.preview)
    if not args.yes and not _ask(f"{action.question} Type yes: "):
        if args.json:
            print(json.dumps({**action.data, "done": False}))
        print("nothing was changed", file=sys.stderr)
        return 1
    action.perform(find_user())
    if args.json:
        print(json.dumps({**action.data, "done": True}))
    else:
        print_text(action.success_message)
    return 0


def _ask(question: str) -> bool:
    print(question, end="", file=sys.stderr, flush=True)
    return is_yes(sys.stdin.readline())


def refuse_empty_options(args: argparse.Namespace) -> None:
    """An empty one, as of a script whose variable is unset, would choose all."""
    for name, value in vars(args).items():
        if value == "":
            raise ConfigurationError(f"{name} is empty; give it a value, or leave it out; nothing was changed")


def run_previewed_action(args: argparse.Namespace) -> int:
    """Do what the form of Airflow's DAG of this action does. Exit code 1 where the answer is no."""
    refuse_empty_options(args)
    action = getattr(args, "answer", args.command)
    return perform_action(args, propose_action(open_named_pipeline(args), {**vars(args), "action": action}))


def run_upgrade_format(args: argparse.Namespace) -> int:
    return perform_action(args, propose_upgrade(open_named_pipeline(args), args.table))


def run_record(args: argparse.Namespace) -> int:
    """Exit code 0, also for a bad record."""
    session = open_named_pipeline(args)
    if args.around:
        return _show_neighbours(args, session)
    at = parse_address(args.at)
    record = read_record(session, at)
    if not args.json:
        print_text(format_record(record))
    verdicts = explain_record(session, at, args.table)
    if args.json:
        print(json.dumps({**describe_record(record), "tables": [verdict.to_dict() for verdict in verdicts]}))
    else:
        print_text("\n".join(format_verdict(verdict) for verdict in verdicts))
    return 0


def _show_neighbours(args: argparse.Namespace, session: Session) -> int:
    offsets, records = read_records_around(session, parse_neighbourhood(args.around))
    if not args.json:
        none = f"no record lies in [{offsets.start}, {offsets.stop})"
        print_text("\n".join(map(format_record, records)) or none)
    places = [RecordAddress(record.topic, record.partition, record.offset) for record in records]
    verdicts = outline_records(session, places, args.table)
    if args.json:
        tables = [[verdict.to_dict() | {"becomes": verdict.becomes} for verdict in verdicts[at]] for at in places]
        parts = zip(records, tables, strict=True)
        print(json.dumps({"records": [{**describe_record(record), "tables": own} for record, own in parts]}))
    else:
        print_text("\n".join(format_outline(at, verdict) for at in places for verdict in verdicts[at]))
    return 0
