"""Writes a draft as YAML with comments, in the form that a person would write and can continue."""

import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from tidegate.migration.draft import KeyPath

PLAIN_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(/[A-Za-z0-9_.-]+)*|[1-9][0-9]*[smhd]")
RESERVED_WORDS = frozenset(("true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"))
LINE_LENGTH = 110
MAX_FLOW_LENGTH = 90
Comments = Mapping[KeyPath, str]


def format_yaml(data: Mapping[str, Any], comments: Comments, header: str = "") -> str:
    """A comment stands above the key of its path, `header` above all."""
    lines = [*_format_comment(header, 0), *_format_mapping(data, comments, (), 0)]
    return "\n".join(lines) + "\n"


def _format_comment(text: str, depth: int) -> list[str]:
    indent = "  " * depth + "# "
    return [
        line
        for paragraph in text.splitlines()
        for line in textwrap.wrap(
            paragraph,
            LINE_LENGTH,
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
        or [indent.rstrip()]
    ]


def _format_mapping(data: Mapping[str, Any], comments: Comments, path: KeyPath, depth: int) -> list[str]:
    lines: list[str] = []
    for key, value in data.items():
        below = (*path, key)
        lines += _format_comment(comments.get(below, ""), depth)
        lines += _format_entry(f"{'  ' * depth}{format_scalar(key)}:", value, comments, below, depth)
    return lines


def _format_entry(head: str, value: Any, comments: Comments, path: KeyPath, depth: int) -> list[str]:
    if isinstance(value, str) and "\n" in value:
        return [f"{head} |", *(f"{'  ' * (depth + 1)}{line}" for line in value.strip().splitlines())]
    flow = _format_flow(value)
    is_commented = any(len(comment_path) > len(path) and comment_path[: len(path)] == path for comment_path in comments)
    if not isinstance(value, dict | list) or not value or (len(flow) <= MAX_FLOW_LENGTH and not is_commented):
        return [f"{head} {flow}"]
    if isinstance(value, dict):
        return [head, *_format_mapping(value, comments, path, depth + 1)]
    return [
        head,
        *(line for index, item in enumerate(value) for line in _format_item(item, comments, (*path, index), depth)),
    ]


def _format_item(value: Any, comments: Comments, path: KeyPath, depth: int) -> list[str]:
    indent = "  " * (depth + 1)
    above = _format_comment(comments.get(path, ""), depth + 1)
    if not isinstance(value, dict):
        return [*above, f"{indent}- {_format_flow(value)}"]
    lines = _format_mapping(value, comments, path, depth + 2)
    first = next(index for index, line in enumerate(lines) if not line.lstrip().startswith("#"))
    lines[first] = f"{indent}- {lines[first].lstrip()}"
    return [*above, *(f"{indent}{line.lstrip()}" for line in lines[:first]), *lines[first:]]


def _format_flow(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{format_scalar(k)}: {_format_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_format_flow, value)) + "]"
    return format_scalar(value)


def format_scalar(value: Any) -> str:
    """Quotes a text where YAML would read it as anything else."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    if not isinstance(value, str) or (PLAIN_PATTERN.fullmatch(text) and text.casefold() not in RESERVED_WORDS):
        return text
    return "'" + text.replace("'", "''") + "'" if text.isprintable() else json.dumps(text)
