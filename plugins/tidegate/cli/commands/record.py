"""``tidegate record`` and ``tidegate skip``: one record, what the decoder says of its fields, and a way past it."""

import argparse
import json

from tidegate.actions.skip import describe_record, format_record, format_verdict, propose_skip
from tidegate.cli.confirmation import perform_action
from tidegate.cli.output import print_text
from tidegate.connections import read_connection_from_env
from tidegate.reprocess.record import explain_record, parse_address, read_record
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_checked_pipeline


def run_record(words: argparse.Namespace) -> int:
    """Show it; exit code 0, also of a bad record."""
    ports = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    at = parse_address(words.at)
    record = read_record(ports, at)
    if not words.json:
        print_text(format_record(record))
    verdicts = explain_record(ports, at, words.table)
    if words.json:
        print(json.dumps({**describe_record(record), "tables": [verdict.to_dict() for verdict in verdicts]}))
    else:
        print_text("\n".join(format_verdict(verdict) for verdict in verdicts))
    return 0


def run_skip(words: argparse.Namespace) -> int:
    """Show the record, ask, and have it set aside; the exit code."""
    ports = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    return perform_action(words, propose_skip(ports, parse_address(words.at), words.table))
