"""``tidegate rebase``: the only way to move a position by hand."""

import argparse
import sys

from tidegate.cli import output
from tidegate.connections import read_connection_from_env
from tidegate.reprocess.rebase import propose_moves, rebase_positions
from tidegate.settings import find_include_folder, find_user
from tidegate.wiring.pipeline import assemble_checked_pipeline


def run_rebase(words: argparse.Namespace) -> int:
    """Show what moves, ask, move; exit code 1 where the answer is no."""
    ports = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
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
