"""The records of the journey, of every type that the product writes, and the rows that each mode makes of them."""

import base64
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

BASE = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = """
    id BIGINT NOT NULL, seq BIGINT, Name STRING, kind STRING, flag BOOLEAN, n INT, big BIGINT, ratio FLOAT,
    amount DOUBLE, price DECIMAL(10,2), long_price DECIMAL(38,10), day DATE, at TIMESTAMP, local_at TIMESTAMP_NTZ,
    content BINARY, code STRING, four BINARY, tags ARRAY<STRING>, props MAP<STRING, INT>,
    address STRUCT<City: STRING, zip: INT>, lines ARRAY<STRUCT<sku: STRING, n: INT, prices: ARRAY<DECIMAL(5,2)>>>,
    by_name MAP<STRING, STRUCT<n: INT, at: TIMESTAMP>>, far_day DATE, far_at TIMESTAMP_NTZ, note STRING
"""
# the same a year later: a new column, a new field of a struct, and wider types, also inside of structs and lists
LATER_SCHEMA = (
    SCHEMA.replace("n INT, big", "n BIGINT, big")
    .replace("ratio FLOAT", "ratio DOUBLE")
    .replace("price DECIMAL(10,2)", "price DECIMAL(18,2)")
    .replace("zip: INT>", "zip: BIGINT, Country: STRING>")
    .replace("sku: STRING, n: INT", "sku: STRING, n: BIGINT")
    .replace("note STRING", "note STRING, extra ARRAY<INT>")
)
RENAMED = {"note": "remark"}  # in the table; records keep the old name
NULLS, EMPTIES = 5, 4  # of six rows this one has NULLs, and that one empty lists, maps and texts
MARKS = "abcdef"
FAR = (date(1, 1, 1), datetime(1, 1, 1)), (date(9999, 12, 31), datetime(9999, 12, 31, 23, 59, 59, 999999))

Row = dict[str, Any]
TEXTS: dict[type, Callable[[Any], str]] = {
    bytes: lambda value: base64.b64encode(value).decode(),
    datetime: lambda value: value.isoformat().replace("+00:00", "Z"),
    date: date.isoformat,
    Decimal: lambda value: f"{value:f}",
}


@dataclass(frozen=True)
class Change:
    """A record: the row that it writes under the key, or None for a delete."""

    key: int
    row: Row | None


@dataclass(frozen=True)
class Case:
    """A table of the journey: the settings of its entry in the pipeline file, and what stands for it in the report."""

    name: str
    title: str
    settings: Row
    partitions: tuple[str, ...] = ()


COPY_ON_WRITE = {f"write.{verb}.mode": "copy-on-write" for verb in ("merge", "update", "delete")}
CASES = (
    Case("upserts", "upserts and deletes, merge-on-read", {}),
    Case("copied", "upserts and deletes, copy-on-write", {"create": {"properties": COPY_ON_WRITE}}),
    Case("parted", "partitioned by day, bucket and text", {}, ("days(at)", "bucket(2, id)", "kind")),
    Case("appended", "append", {"upsert": False, "delete": False}),
    Case("deleted", "append, with deletes", {"upsert": False}),
    Case("soft", "soft deletes", {"deletes": "soft", "deleted_column": "is_deleted"}),
    Case("versions", "history", {"history": "scd2"}),
    Case("partial", "partial updates", {"partial_updates": True}),
    Case("ordered", "order by a column", {"sequence_by": ["seq"]}),
    Case("foreign", "a table that somebody made, with uuid and fixed(4)", {}),
)


def build_row(number: int, mark: str, *, later: bool = False, sequence: int | None = None) -> Row:
    """The row of a key in one version, which the mark names; `later`, with what the later schema has."""
    version = MARKS.index(mark)
    shape = (number + version) % 6
    row: Row = {"id": number, "seq": version if sequence is None else sequence, "kind": "AB"[number % 2]}
    if shape == NULLS:
        return row
    at = BASE + timedelta(days=number % 3, microseconds=version)
    far_day, far_at = FAR[number % 2]
    row |= {
        "Name": f"{mark}{number} ß名",
        "flag": number % 3 == 0,
        "n": -1000 * number - version,
        "big": 2**62 - number,
        "ratio": (1.5, -0.25, math.inf, math.nan)[number % 4],
        "amount": (0.1, -0.0, math.nan, 1e300)[number % 4],
        "price": Decimal(number * 100 - version) / 100,
        "long_price": Decimal(f"-12345678901234567890123456{number:02d}.0123456789"),
        "day": date(1969, 12, 31) + timedelta(days=number),
        "at": at,
        "local_at": datetime(1969, 12, 31, 23, 59, 59, 999999) + timedelta(hours=number),
        "content": bytes([0, 255, number]),
        "code": f"00000000-0000-4000-8000-0000000000{number:02x}",
        "four": bytes([number, version, 0, 255]),
        "tags": [mark, None, ""],
        "props": {"a": number, "ß": None},
        "address": {"City": f"c{version}", "zip": number} if number % 4 else None,
        "lines": [{"sku": mark, "n": number, "prices": [Decimal("1.25"), None]}, {"sku": None, "n": 1, "prices": None}],
        "by_name": {"x": {"n": version, "at": at}, "none": None},
        "far_day": far_day,
        "far_at": far_at,
        "note": f"note {mark}",
    }
    if shape == EMPTIES:
        row |= {"Name": "", "content": b"", "tags": [], "props": {}, "lines": [], "by_name": {}}
    if later:
        row |= {"n": -(2**40) - number, "price": Decimal("1234567890123456.78"), "extra": [number, None], "ratio": 0.1}
        row["address"] = {"City": "new", "zip": 2**40, "Country": "CH"}
    return row


def encode_row(row: Row | None) -> bytes | None:
    """The record's value."""
    return None if row is None else json.dumps(_simplify(row)).encode()


def _simplify(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _simplify(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_simplify(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    for kind, render in TEXTS.items():
        if isinstance(value, kind):
            return render(value)
    return value


def compute_rows(case: Case, batches: Sequence[Sequence[Change]]) -> list[Row]:
    """The rows that a table of this mode has after these batches, by the names that records have."""
    if case.name in ("appended", "deleted"):
        return _append(batches, deletes=case.name == "deleted")
    if case.name == "versions":
        return _keep_versions(batches)
    rows: dict[int, Row] = {}
    for change in (change for batch in batches for change in batch):
        old = rows.get(change.key)
        if change.row is None:
            if case.name == "soft" and old is not None:
                rows[change.key] = old | {"is_deleted": True}
            elif case.name != "soft":
                rows.pop(change.key, None)
        elif case.name == "ordered" and old is not None and old["seq"] > change.row["seq"]:
            continue
        elif case.name == "partial":
            rows[change.key] = (old or {}) | {name: value for name, value in change.row.items() if value is not None}
        else:
            rows[change.key] = change.row | ({"is_deleted": False} if case.name == "soft" else {})
    return list(rows.values())


def _append(batches: Sequence[Sequence[Change]], *, deletes: bool) -> list[Row]:
    rows: list[Row] = []
    for change in (change for batch in batches for change in batch):
        if change.row is not None:
            rows.append(change.row)
        elif deletes:
            rows = [row for row in rows if row["id"] != change.key]
    return rows


def find_time(batch: int) -> datetime:
    """The time of a batch's records, by which history orders them."""
    return BASE + timedelta(minutes=batch)


def _keep_versions(batches: Sequence[Sequence[Change]]) -> list[Row]:
    closed: list[Row] = []
    current: dict[int, Row] = {}
    for number, batch in enumerate(batches):
        for change in batch:
            if old := current.pop(change.key, None):
                closed.append(old | {"valid_to": find_time(number), "is_current": False})
            if change.row is not None:
                times = {"valid_from": find_time(number), "valid_to": None, "is_current": True}
                current[change.key] = change.row | times
    return [*closed, *current.values()]
