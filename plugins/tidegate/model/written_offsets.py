"""Offsets and ranges as a person writes them, as JSON: whole numbers, each place once."""

import json
from typing import Any

from tidegate.model.offsets import MAX_OFFSET, MAX_PARTITION

NAMED_TWICE = "is named twice; keep one"


def parse_written_offsets(words: Any) -> dict[str, dict[int, int]]:
    """``{"topic": {"0": 42}}`` as JSON text or as the object; ValueError for anything else."""
    return {topic: {p: _check_offset(o) for p, o in parts.items()} for topic, parts in _parse_places(words).items()}


def parse_written_ranges(words: Any) -> dict[str, dict[int, tuple[int, int]]]:
    """``{"topic": {"0": [100, 900]}}`` as JSON text or as the object; ValueError for anything else."""
    return {topic: {p: _parse_range(r) for p, r in parts.items()} for topic, parts in _parse_places(words).items()}


def _parse_places(words: Any) -> dict[str, dict[int, Any]]:
    data = json.loads(words, object_pairs_hook=_build_object) if isinstance(words, str) else words
    if not isinstance(data, dict) or not all(isinstance(parts, dict) for parts in data.values()):
        raise ValueError("a topic holds partitions, and a partition what is asked for")
    return {topic: _parse_partitions(parts) for topic, parts in data.items()}


def _parse_partitions(parts: dict[Any, Any]) -> dict[int, Any]:
    partitions = dict[int, Any]()
    for name, value in parts.items():
        if isinstance(name, bool) or not str(name).isdecimal():
            raise ValueError(f"partition {name} is no whole number")
        if int(name) > MAX_PARTITION:
            raise ValueError(f"partition {name} is none that a topic can have")
        if int(name) in partitions:
            raise ValueError(f"partition {int(name)} {NAMED_TWICE}")
        partitions[int(name)] = value
    return partitions


def _parse_range(value: Any) -> tuple[int, int]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{json.dumps(value)} is no range of two offsets")
    return _check_offset(value[0]), _check_offset(value[1])


def _check_offset(value: Any) -> int:
    offset = int(value) if isinstance(value, str) and value.isdecimal() else value
    if isinstance(offset, bool) or not isinstance(offset, int):
        raise ValueError(f"offset {json.dumps(value)} is no whole number")
    if not 0 <= offset <= MAX_OFFSET:
        raise ValueError(f"offset {json.dumps(value)} is none that a log can have")
    return offset


def _build_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    twice = [name for index, name in enumerate(names) if name in names[:index]]
    if twice:
        raise ValueError(f"{twice[0]} {NAMED_TWICE}")
    return dict(pairs)
