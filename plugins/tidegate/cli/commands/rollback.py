"""``tidegate undo-rollback`` and ``tidegate answer-rollback``: the ways out for a table that was rolled back."""

import argparse

from tidegate.actions.rollback import propose_answer, propose_undo
from tidegate.cli.confirmation import perform_action
from tidegate.connections import read_connection_from_env
from tidegate.ports.context import Ports
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_checked_pipeline


def run_undo_rollback(words: argparse.Namespace) -> int:
    """Show, ask, undo; the exit code."""
    action = propose_undo(_assemble_ports(words), words.table, discard_foreign=words.discard_foreign)
    return perform_action(words, action)


def run_answer_rollback(words: argparse.Namespace) -> int:
    """Show, ask, answer; the exit code."""
    return perform_action(words, propose_answer(_assemble_ports(words), words.answer, words.table))


def _assemble_ports(words: argparse.Namespace) -> Ports:
    return assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
