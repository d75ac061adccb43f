"""Arguments that several commands have. Help and completion load them, and no library."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from tidegate.cli.completion import complete_names

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
JSON_HELP = "stable output for programs"
MAX_COUNT = 1_000_000
MAX_SECONDS = 86_400


def add_command(commands: Commands, name: str, summary: str, description: str | None = None) -> argparse.ArgumentParser:
    """The parser of a command. Its own help begins with its line in the list of all, unless there is more to say."""
    text = description or f"{summary[0].upper()}{summary[1:]}."
    return commands.add_parser(name, help=summary, description=text)


def add_name(parser: argparse.ArgumentParser, *kinds: str, **options: Any) -> None:
    """A pipeline's or publication's name, which shells complete."""
    kinds = kinds or ("pipeline",)
    text = f"name of a {' or '.join(kinds)}; `tidegate list` shows them"
    action = parser.add_argument(kinds[0], help=options.pop("help", text), **options)
    attach_completer(action, lambda **_: complete_names(*kinds))


def attach_completer(action: argparse.Action, complete: Callable[..., Iterable[str]]) -> None:
    """Shells complete the argument with what the function returns: argcomplete looks for it on the action."""
    action.completer = complete  # type: ignore[attr-defined]


def add_json(parser: argparse.ArgumentParser) -> None:
    """The word of a command that programs read too."""
    parser.add_argument("--json", action="store_true", help=JSON_HELP)


def add_confirmation(parser: argparse.ArgumentParser) -> None:
    """The words of a command that asks."""
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json(parser)


def parse_count(text: str, least: int = 1) -> int:
    """An option's number; argparse.ArgumentTypeError below `least` and above a million."""
    digits = text.lstrip("0") or "0"
    is_number = text.isascii() and text.isdecimal() and len(digits) <= len(str(MAX_COUNT))
    if not is_number or not least <= int(digits) <= MAX_COUNT:
        raise argparse.ArgumentTypeError(f"{text} is no number from {least} to {MAX_COUNT:,}")
    return int(digits)


def parse_seconds(text: str) -> float:
    """An option's time; argparse.ArgumentTypeError for 0 and below, and above a day."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is no time; give seconds, more than 0 and at most {MAX_SECONDS:,}")
    return seconds
