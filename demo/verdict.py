"""Compares every row of a table with the shop's row."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from demo.shop import KEYS, Key, Row

MAX_SAMPLES = 3


@dataclass(frozen=True)
class Verdict:
    """What the comparison of one table found; `wrong` holds one line per differing row, `samples` some right rows."""

    table: str
    truth: int
    rows: int
    wrong: list[str] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether the table equals the truth."""
        return not self.wrong


def compare_table(name: str, truth: Mapping[Key, Row], rows: list[Row]) -> Verdict:
    """Compare row by row on the truth's columns; a key that occurs twice is wrong, too."""
    key_columns = KEYS[name]
    by_key: dict[Key, Row] = {}
    differences = []
    for row in rows:
        key = tuple(row[column] for column in key_columns)
        if key in by_key:
            differences.append(f"key={key} occurs more than once")
        by_key[key] = row
    differences += [f"key={key} is missing" for key in truth.keys() - by_key.keys()]
    differences += [f"key={key} should not be there" for key in by_key.keys() - truth.keys()]
    for key in truth.keys() & by_key.keys():
        differences += _find_differences(key, truth[key], by_key[key])
    samples = [by_key[key] for key in sorted(truth.keys() & by_key.keys())[-MAX_SAMPLES:]]
    return Verdict(name, len(truth), len(rows), sorted(differences), samples)


def _find_differences(key: Key, expected: Row, actual: Row) -> list[str]:
    return [
        f"key={key} column={name} expected={value!r} found={actual.get(name, 'no such column')!r}"
        for name, value in expected.items()
        if name not in actual or _normalize_instant(actual[name]) != _normalize_instant(value)
    ]


def _normalize_instant(value: object) -> object:
    """Convert times to UTC, as readers return them in different time zones."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value
