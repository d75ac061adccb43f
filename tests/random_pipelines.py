"""Pipelines of random features with random records, and a model that says what their tables must hold."""

import json
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgpack
from fakes.versions import compute_versions

PARTITIONS = 2
EVENT_FORMATS = ("debezium-json", "maxwell-json")
TEXTS = ("a", "b", None, "", "naïve", "it's", "x" * 40)
NUMBERS = (None, 1, 7, 49, 50, 99, -5)
LIMIT = 50  # `when` lets numbers below it pass
VERSIONS = {"valid_from": "Since", "valid_to": "Till", "is_current": "Now"}
STAMPS = {"seq", "at_offset", "at_partition"}  # versions that differ only in these are one
UPDATED = ("n", "name")  # what updates change where other columns keep their first value
Row = dict[str, Any]


@dataclass(frozen=True)
class Change:
    """What happened to one key: a `row`, a `tombstone`, a delete `event`, a row that is `flagged` as a delete, or one
    that is `bad`."""

    kind: str
    key: Row
    row: Row

    @property
    def partition(self) -> int:
        """The partition of the key's records."""
        return (self.key["id"] + len(str(self.key.get("part")))) % PARTITIONS


@dataclass(frozen=True)
class Placed:
    """A change where the log has it."""

    change: Change
    offset: int


@dataclass
class Shape:
    """What one pipeline asks for. Every field is a feature; what goes wrong lies in their combinations."""

    bigquery: bool = False
    fmt: str = "json"
    key_fields: tuple[str, ...] = ("id",)
    key_place: str = "flat"  # flat, prefix, into
    fields_include: str = "ALL"
    upsert: bool = True
    delete: bool = True
    soft: bool = False
    delete_when: bool = False
    when_false: str | None = None
    sequence: bool = False
    partial: bool = False
    keeps_first: bool = False
    select: bool = False
    metadata: bool = False
    tolerant: bool = False
    routed: str | None = None  # pattern, name
    max_records: int = 1000
    partition_by: str | None = None
    branch: bool = False
    copy_on_write: bool = False
    history: bool = False
    format_version: int = field(default=2, repr=False)  # the dice of `history` are the other fields' text

    @property
    def takes_tombstones(self) -> bool:
        """Whether a record without a value deletes: beside events it does so only where every record is the table's."""
        is_conditional = self.routed is not None or self.when_false is not None
        return self.fmt not in EVENT_FORMATS or (self.fmt == "debezium-json" and not is_conditional)

    @property
    def is_verifiable(self) -> bool:
        """Whether `verify` compares such tables with the log."""
        return not self.bigquery and self.upsert and self.routed != "name"

    @staticmethod
    def choose(chance: random.Random) -> "Shape":
        """Random features. Those that the product refuses together are not chosen together."""
        shape = Shape(bigquery=chance.random() < 0.2)
        shape.fmt = chance.choice(["json", "json", "debezium-json", "msgpack", "maxwell-json", "csv"])
        shape.key_fields = chance.choice([("id",), ("id",), ("id", "part")])
        shape.key_place = chance.choice(["flat", "flat", "prefix", "into"])
        if shape.key_place != "flat" and shape.fmt in ("json", "msgpack"):
            shape.fields_include = chance.choice(["ALL", "EXCEPT_KEY"])
        shape.upsert, shape.delete = chance.choice([*[(True, True)] * 4, (True, False), (False, True), (False, False)])
        shape.soft = shape.upsert and shape.delete and chance.random() < 0.3
        shape.delete_when = shape.delete and chance.random() < 0.4
        shape.sequence = shape.upsert and chance.random() < 0.3
        shape.partial = shape.upsert and not shape.sequence and chance.random() < 0.25
        ways = [None, None, "ignore", *(["delete"] if shape.delete and not shape.partial else [])]
        shape.when_false = chance.choice(ways)
        shape.select, shape.metadata = chance.random() < 0.3, chance.random() < 0.5
        shape.routed = chance.choice([None, None, None, "pattern", "name"])
        shape.tolerant = shape.routed != "name" and chance.random() < 0.3
        shape.max_records = chance.choice([3, 7, 20, 1000])
        if not shape.bigquery:
            shape.partition_by = chance.choice([None, None, "bucket(4, n)", "name"])
            shape.branch = shape.routed != "name" and chance.random() < 0.15
            shape.copy_on_write = chance.random() < 0.2
        shape.keeps_first = shape.upsert and not (shape.sequence or shape.partial) and chance.random() < 0.25
        # by their own dice, so that a seed stays the same pipeline
        dice = random.Random(f"{shape}")
        shape.history = dice.random() < 0.5 and shape.sequence and not shape.soft
        shape.format_version = 3 if dice.random() < 0.3 and not shape.bigquery else 2
        return shape

    def list_sections(self, name_table: Callable[[str], str]) -> Row:
        """The pipeline file without its topics."""
        key = {"fields": list(self.key_fields), "schema": "id BIGINT, part STRING"}
        if len(self.key_fields) == 1:
            key["schema"] = "id BIGINT"
        key_columns = "" if self.fields_include == "EXCEPT_KEY" else f"{key['schema']}, "
        value: Row = {"format": self.fmt, "fields_include": self.fields_include}
        value["schema"] = f"{key_columns}n INT, name STRING, seq INT, flag INT, type STRING"
        if self.fmt == "csv":
            value["csv"] = {"null_literal": "NULL"}
        key |= {"prefix": {"prefix": "k_"}, "into": {"into": "whole_key"}, "flat": {}}[self.key_place]
        source: Row = {"metadata": {"at_offset": "offset", "at_partition": "partition"}} if self.metadata else {}
        if self.tolerant:
            source["errors"] = {"tolerance": "all"}
        merge = {"max_records": self.max_records}
        tables = [{**self._describe_table(), **table} for table in self._name_tables(name_table)]
        return {"source": source, "key": key, "value": value, "merge": merge, "tables": tables}

    def _name_tables(self, name_table: Callable[[str], str]) -> list[Row]:
        if self.routed == "pattern":
            kinds = ("even", "odd")
            return [{"name": name_table(f"walk_{k}"), "route": {"field": "type", "pattern": k}} for k in kinds]
        return [{"name": name_table("walk_{type}" if self.routed == "name" else "walk")}]

    def _describe_table(self) -> Row:
        create: Row = {"partition_by": [self.partition_by]} if self.partition_by else {}
        if self.format_version == 3:
            create["format_version"] = 3
        if self.copy_on_write:
            create["properties"] = {"write.merge.mode": "copy-on-write"}
        table: Row = {"upsert": self.upsert, "delete": self.delete, "create": create}
        if self.soft:
            table |= {"deletes": "soft", "deleted_column": "is_deleted"}
        if self.delete_when:
            table["delete_when"] = "flag = 1"
        if self.when_false:
            table |= {"when": f"coalesce(n, 0) < {LIMIT}", "when_false": self.when_false}
        if self.sequence:
            table["sequence_by"] = ["seq"]
        if self.history:
            table |= {"history": "scd2", "history_columns": VERSIONS}
        if self.partial:
            table["partial_updates"] = True
        if self.keeps_first:
            table["update_columns"] = [name.upper() for name in UPDATED]
        if self.branch:
            table["branch"] = "dev"
        if self.select:
            columns = [*self._list_key_columns(), "n", "name", "seq", "flag", "type", "CAST(n * 2 AS INT) AS twice"]
            columns += [
                "CAST(upper(name) AS STRING) AS loud",
                *(["at_offset", "at_partition"] if self.metadata else []),
            ]
            table["select"] = f"SELECT {', '.join(columns)} FROM record"
        return table

    def _list_key_columns(self) -> list[str]:
        if self.key_place == "into":
            return ["whole_key"]
        return [f"k_{name}" if self.key_place == "prefix" else name for name in self.key_fields]

    def choose_change(self, chance: random.Random) -> Change:
        """One change of one of a few keys, of a kind that the features allow."""
        kinds = {"row": 8, "tombstone": 0 if self.sequence else 2, "flagged": int(self.delete_when)}
        kinds |= {"bad": int(self.tolerant), "event": int(self.fmt in EVENT_FORMATS and not self.sequence)}
        (kind,) = chance.choices([*kinds], [*kinds.values()])
        key: Row = {"id": chance.randint(0, 4)}
        if len(self.key_fields) == 2:
            key["part"] = chance.choice(["p", "q", "p" if self.fmt == "csv" else None])
        row = {
            "n": 1 if kind == "flagged" else chance.choice(NUMBERS),
            "name": chance.choice(TEXTS),
            "seq": chance.randint(0, 6),
            "flag": int(kind == "flagged"),
            "type": "odd" if key["id"] % 2 else "even",  # a key stays in its table, as a tombstone names none
        }
        return Change(kind, key, row)

    def encode(self, change: Change) -> tuple[Any, ...]:
        """The record: its key, its value, and the partition."""
        place = {"partition": change.partition}
        if change.kind == "tombstone":
            return change.key, None, place
        columns_of_row = {**({} if self.fields_include == "EXCEPT_KEY" else change.key), **change.row}
        if change.kind == "bad":
            columns_of_row["n"] = "x"
        return change.key, ENCODERS[self.fmt](columns_of_row, change.kind == "event"), place


def _write_debezium(row: Row, is_delete: bool) -> Row:
    before, after = (row, None) if is_delete else (None, row)
    return {"before": before, "after": after, "op": "d" if is_delete else "u", "source": {}, "ts_ms": 1}


def _write_csv(row: Row, is_delete: bool) -> str:
    del is_delete
    return ",".join(map(_write_cell, row.values()))


def _write_cell(value: Any) -> str:
    if value is None:
        return "NULL"
    return '"' + value.replace('"', '""') + '"' if isinstance(value, str) else str(value)


ENCODERS: dict[str, Callable[[Row, bool], Any]] = {
    "json": lambda row, is_delete: row,
    "msgpack": lambda row, is_delete: msgpack.packb(row),
    "maxwell-json": lambda row, is_delete: {"type": "delete" if is_delete else "update", "data": row},
    "debezium-json": _write_debezium,
    "csv": _write_csv,
}


class Version(Row):
    """A row that equals another where nothing but stamps differs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._list_values() == other._list_values()

    __hash__ = None  # type: ignore[assignment]

    def _list_values(self) -> Row:
        return {name: value for name, value in self.items() if name not in STAMPS}


class Model:
    """The tables after changes, taken one at a time in the order of the log."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.rows: dict[str, list[Row]] = {}
        self._changes: dict[str, list[Any]] = {}  # with history
        self._highest: dict[tuple[str, Row], int] = {}

    def apply(self, placed: Placed) -> None:
        """One more change."""
        change, shape = placed.change, self.shape
        if change.kind == "tombstone" and not shape.takes_tombstones:
            return
        deletes = change.kind in ("tombstone", "event", "flagged")
        if not deletes and shape.when_false and (change.row["n"] or 0) >= LIMIT:
            if shape.when_false == "ignore":
                return
            deletes = True
        if change.kind == "bad" or (deletes and not shape.delete):
            return
        for table in self._list_tables(change):
            if shape.history:
                self._remember(table, placed, deletes)
            elif not self._is_late(table, change):
                self._delete(table, change) if deletes else self._write(table, placed)

    def _list_tables(self, change: Change) -> list[str]:
        if self.shape.routed is None:
            return ["walk"]
        return ["walk_even", "walk_odd"] if change.kind == "tombstone" else [f"walk_{change.row['type']}"]

    def _is_late(self, table: str, change: Change) -> bool:
        if not self.shape.sequence:
            return False
        place = (table, json.dumps(change.key))
        if change.row["seq"] < self._highest.get(place, -1):
            return True
        self._highest[place] = change.row["seq"]
        return False

    def _remember(self, table: str, placed: Placed, deletes: bool) -> None:
        change = placed.change
        fact = (json.dumps(change.key), "delete" if deletes else "upsert", (change.row["seq"],), 0)
        changes = self._changes.setdefault(table, [])
        changes.append((*fact, None if deletes else Version(self._build_row(placed))))
        rows = [
            {**version, VERSIONS["valid_from"]: begin, VERSIONS["valid_to"]: end, VERSIONS["is_current"]: end is None}
            for _, version, begin, end in compute_versions(changes)
        ]
        if rows or table in self.rows:
            self.rows[table] = rows

    def _delete(self, table: str, change: Change) -> None:
        rows = self.rows.get(table, [])
        if not self.shape.soft:
            rows[:] = [row for row in rows if row["key"] != change.key]
        for row in (row for row in rows if row["key"] == change.key):
            row.update({"is_deleted": True} | ({"seq": change.row["seq"]} if self.shape.sequence else {}))

    def _write(self, table: str, placed: Placed) -> None:
        change, shape = placed.change, self.shape
        rows = self.rows.setdefault(table, [])
        new_row = self._build_row(placed)
        if shape.upsert:
            before = next((row for row in rows if row["key"] == change.key), None)
            if shape.partial and before is not None:
                new_row = {name: before[name] if value is None else value for name, value in new_row.items()}
            if shape.keeps_first and before is not None:
                new_row = {n: value if n in (*UPDATED, "is_deleted") else before[n] for n, value in new_row.items()}
            rows[:] = [row for row in rows if row["key"] != change.key]
        rows.append(new_row)

    def _build_row(self, placed: Placed) -> Row:
        change, shape = placed.change, self.shape
        new_row = {"key": change.key, **change.row}
        if shape.metadata:
            new_row |= {"at_offset": placed.offset, "at_partition": change.partition}
        if shape.soft:
            new_row["is_deleted"] = False
        if shape.select:
            number, text = change.row["n"], change.row["name"]
            new_row |= {"twice": None if number is None else number * 2, "loud": None if text is None else text.upper()}
        return new_row

    def lay_out(self) -> dict[str, list[Row]]:
        """Rows by table, with the columns that the tables have, in the order of `sort_rows`."""
        return {table: sort_rows(map(self._lay_out, rows)) for table, rows in self.rows.items()}

    def _lay_out(self, new_row: Row) -> Row:
        shape = self.shape
        row = {name: value for name, value in new_row.items() if name != "key"}
        repeats = shape.key_place == "flat" or (shape.fields_include == "ALL" and not shape.select)
        if shape.key_place == "prefix":
            row |= {f"k_{name}": value for name, value in new_row["key"].items()}
        if shape.key_place == "into":
            row["whole_key"] = new_row["key"]
        return row | (new_row["key"] if repeats else {})


def sort_rows(rows: Iterable[Row]) -> list[Row]:
    """Rows in an order that their values alone decide."""
    return sorted(rows, key=lambda row: json.dumps(row, sort_keys=True, default=repr))
