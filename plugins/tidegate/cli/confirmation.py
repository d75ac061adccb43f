"""A command that changes something shows first what it will do, and asks."""

import argparse
import json
import sys
from typing import Any


def confirm_change(words: argparse.Namespace, preview: str, data: dict[str, Any], question: str) -> bool:
    """Show the preview and ask, unless `--yes` is given. Where the answer is no, that is said, and nothing may change.

    With `--json` a program gets one object: here where nothing changes, else from `report_change`.
    """
    if not words.json:
        print(preview, flush=True)
    if words.yes or _ask(f"{question} Type yes: "):
        return True
    if words.json:
        print(json.dumps({**data, "done": False}))
    print("nothing was changed", file=sys.stderr)
    return False


def report_change(words: argparse.Namespace, text: str, data: dict[str, Any]) -> None:
    """What was done."""
    print(json.dumps({**data, "done": True}) if words.json else text)


def _ask(question: str) -> bool:
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip() == "yes"
