"""A command that changes something shows first what it will do, and asks."""

import argparse
import json
import sys

from tidegate.actions.proposed_action import ProposedAction
from tidegate.cli.output import print_text
from tidegate.settings import find_user


def perform_action(words: argparse.Namespace, action: ProposedAction) -> int:
    """Show what the action would do and ask, unless `--yes` is given; do it where the answer is yes. The exit code.

    With `--json` a program gets one object, whose `done` says whether anything was changed.
    """
    if not words.json:
        print_text(action.full_preview or action.preview)
    if not words.yes and not _ask(f"{action.question} Type yes: "):
        if words.json:
            print(json.dumps({**action.data, "done": False}))
        print("nothing was changed", file=sys.stderr)
        return 1
    action.perform(find_user())
    if words.json:
        print(json.dumps({**action.data, "done": True}))
    else:
        print_text(action.success_message)
    return 0


def _ask(question: str) -> bool:
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == "yes"
