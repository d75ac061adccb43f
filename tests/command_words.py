"""The commands of ``tidegate`` with their options, and those that a text names, for tests of messages and pages."""

import argparse
import re
from collections.abc import Iterator
from functools import cache

from tidegate.cli.parser import build_parser

# a command behind a backtick, a colon or `bin/`, with its options up to the next command or the end of the code
COMMAND_PATTERN = re.compile(
    r"(?:`|bin/|: |run |^)tidegate(?: -v)? ([a-z][a-z-]+)((?:(?!tidegate )[^;`|#\n])*)", re.MULTILINE
)
OPTION_PATTERN = re.compile(r"(?<![\w-])--[a-z][a-z-]+")


@cache
def list_commands() -> dict[str, set[str]]:
    """Each command with its options, those of its own commands too."""
    return {name: set(_list_options(parser)) for name, parser in _list_parsers(build_parser())}


def find_unknown_words(text: str) -> list[str]:
    """The commands of ``tidegate`` in `text` that are not there, and the options that theirs does not have."""
    commands = list_commands()
    unknown_words = []
    for name, rest in COMMAND_PATTERN.findall(text):
        if name not in commands:
            unknown_words.append(name)
        else:
            unknown_words += [f"{name} {it}" for it in OPTION_PATTERN.findall(rest) if it not in commands[name]]
    return unknown_words


def _list_parsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _list_options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
    for _, child in _list_parsers(parser):
        yield from _list_options(child)
