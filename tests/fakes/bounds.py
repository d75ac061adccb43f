"""Between which values keys lie, as the statistics of their files would tell, and whether a statement keeps to it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from tidegate.sql.pruning import Bound, Bounds, Overlap


def compute_bounds(keys: list[Any], values: Mapping[str, Any]) -> Bounds:
    """Of the leaves that are text or whole numbers; a file holds rows without a key too, which are bad records."""
    parts, found = dict(values["keys"]), []
    for leaf in (leaf for leaf in values.get("leaves", ()) if leaf[0] in parts):
        path = leaf[1:] if parts[leaf[0]] is None else (parts[leaf[0]], *leaf[1:])
        column = [_get_value(key, path) for key in keys]
        known = [value for value in column if value is not None]
        if known and {type(value) for value in known} in ({int}, {str}):
            ends = (f"'{min(known)}'", f"'{max(known)}'")
            found.append(Bound(leaf, (ends,), None in column))
    return Bounds(tuple(found))


def compute_overlap(rows: Iterable[dict[str, Any]], bounds: Bounds) -> Overlap | None:
    """Of a table in which each row is a file of its own; nothing is known without bounds."""
    if not bounds.conditions:
        return None
    plain = [asdict(bound) for bound in bounds.conditions]
    near = sum(all(_is_within(_get_value(row, bound["path"]), bound) for bound in plain) for row in rows)
    return Overlap(near, near)


def _get_value(value: Any, path: Iterable[str]) -> Any:
    for name in path:
        value = None if value is None else value.get(name)
    return value


def check_bounds(statement: dict[str, Any], keys: Iterable[dict[str, Any]]) -> None:
    """A key outside of the bounds would find no row in a real table, and be inserted beside the one that is there."""
    for key in keys:
        for bound in statement.get("bounds", ()):
            assert _is_within(_get_value(key, bound["path"]), bound), f"key={key} lies outside of bound={bound}"


def _is_within(value: Any, bound: dict[str, Any]) -> bool:
    if value is None:
        return bool(bound["nulls"])
    low, high = (type(value)(text[1:-1]) for text in bound["ranges"][0])
    return bool(low <= value <= high)
