"""``tidegate rebase``: the only way to move a position by hand."""

import argparse

from tidegate.actions.rebase import propose_rebase
from tidegate.cli.confirmation import perform_action
from tidegate.connections import read_connection_from_env
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_checked_pipeline


def run_rebase(words: argparse.Namespace) -> int:
    """Show what moves, ask, move; exit code 1 where the answer is no."""
    ports = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    return perform_action(words, propose_rebase(ports, words.to, words.table))
