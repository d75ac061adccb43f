"""Between which values keys lie, as the statistics of their files would tell, and whether a statement keeps to it."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from tidegate.sql.pruning import Bound, Bounds, Overlap


def compute_bounds(keys: list[Any], values: Mapping[str, Any]) -> Bounds:
    """Of the leaves that are text or whole numbers; a file holds rows without a key too, which are bad records."""
    key_fields, key_bounds = dict(values["keys"]), []
    for leaf in (leaf for leaf in values.get("leaves", ()) if leaf[0] in key_fields):
        path = leaf[1:] if key_fields[leaf[0]] is None else (key_fields[leaf[0]], *leaf[1:])
        column = [_get_value(key, path) for key in keys]
        values_present = [value for value in column if value is not None]
        if values_present and {type(value) for value in values_present} in ({int}, {str}):
            value_range = (f"'{min(values_present)}'", f"'{max(values_present)}'")
            key_bounds.append(Bound(leaf, (value_range,), None in column))
    return Bounds(tuple(key_bounds))


def compute_overlap(rows: Iterable[dict[str, Any]], bounds: Bounds) -> Overlap | None:
    """Of a table in which each row is a file of its own; nothing is known without bounds."""
    if not bounds.conditions:
        return None
    conditions = [asdict(bound) for bound in bounds.conditions]
    overlap_rows = sum(all(_is_within(_get_value(row, bound["path"]), bound) for bound in conditions) for row in rows)
    return Overlap(overlap_rows, overlap_rows)


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
