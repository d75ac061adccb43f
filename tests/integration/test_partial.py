"""Columns that keep their value through real Kafka, Spark and Iceberg: hundreds of little histories at once."""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import decoding
import pytest
from conftest import build_debezium_event
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat
from tidegate.spec.table import Route
from tidegate.spec.table_template import TableNaming

HELD = "__debezium_unavailable_value"
KEY = {"fields": ["id"], "schema": "id BIGINT"}
SCHEMA = "id BIGINT, a STRING, tags ARRAY<STRING>, doc BINARY, n INT"
COLUMNS = ("a", "tags", "doc", "n")
BASE64 = {"x": "eA==", HELD: "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}
FORMS: dict[str, list[Any]] = {
    "a": [None, "x", "it's", HELD],
    "tags": [None, [], ["x"], [HELD]],
    "doc": [None, BASE64["x"], BASE64[HELD]],
    "n": [None, 0, 7],
}
HOLDS = (HELD, [HELD], BASE64[HELD])
Change = dict[str, Any] | None


def make_histories(keys: int, seed: int) -> list[tuple[int, Change]]:
    """Changes of many keys, mixed; None deletes."""
    chance = random.Random(seed)
    changes = []
    for _ in range(keys * 5):
        value = {name: chance.choice(forms) for name, forms in FORMS.items()}
        changes.append((chance.randrange(keys), None if chance.random() < 0.2 else value))
    return changes


def compute_rows(
    changes: list[tuple[int, Change]], partial: bool, soft: bool, updated: Sequence[str]
) -> list[tuple[Any, ...]]:
    """The model, one record at a time."""
    rows: dict[int, dict[str, Any]] = {}
    for key, value in changes:
        standing = rows.get(key)
        changeable = COLUMNS if standing is None else updated
        if value is None:
            if soft and standing:
                standing["gone"] = True
            else:
                rows.pop(key, None)
            continue
        if standing is None:
            standing = rows[key] = dict.fromkeys(COLUMNS)
        for name, new in value.items():
            keeps = new in HOLDS or (partial and new is None) or name not in changeable
            standing[name] = standing[name] if keeps else new
        standing["gone"] = False
    return sorted((key, *(repr(row[name]) for name in COLUMNS), row["gone"]) for key, row in rows.items())


def convert_landed_rows(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    texts = {b"x": BASE64["x"], None: None}
    landed_rows = [{**row, "doc": texts[row["doc"]]} for row in rows]
    return sorted((r["id"], *(repr(r[name]) for name in COLUMNS), bool(r.get("_deleted"))) for r in landed_rows)


TABLES: dict[str, dict[str, Any]] = {
    "unchanged": {},
    "unchanged_soft": {"deletes": "soft"},
    "partial": {"partial_updates": True},
    "updated": {"update_columns": ["A", "doc"]},
    "updated_soft": {"update_columns": ["tags", "n"], "deletes": "soft"},
}


@pytest.mark.repeats("unit/scenarios/test_partial_updates.py::test_table_equals_the_model_wherever_batches_are_cut")
def test_many_histories_end_as_the_model_wherever_batches_are_cut(workbench) -> None:
    topic = workbench.topic(2)
    tables = [{"name": f"lake.shop.{name}", **table} for name, table in TABLES.items()]
    workbench.pipeline("many", [topic], key=KEY, value={"format": "debezium-json", "schema": SCHEMA}, tables=tables)
    changes = make_histories(150, seed=9)
    cuts = [0, 200, 290, len(changes)]
    for start, end in pairwise(cuts):
        records = [
            (
                {"id": key},
                build_debezium_event("u", None, {"id": key, **value})
                if value
                else build_debezium_event("d", {"id": key}),
                {"partition": key % 2},
            )
            for key, value in changes[start:end]
        ]
        workbench.produce(topic, *records)
        workbench.flush("many")
    for name, table in TABLES.items():
        soft = table.get("deletes") == "soft"
        updated = [column.lower() for column in table.get("update_columns", COLUMNS)]
        assert convert_landed_rows(workbench.read_rows(f"shop.{name}")) == compute_rows(
            changes, name == "partial", soft, updated
        ), name


GROUPED = ("va", "a", "tags", "vb", "b")
GROUPS = {"va": ["a", "tags"], "vb": ["b"]}


def make_grouped_changes(keys: int, seed: int, spread: bool) -> list[tuple[int, int, dict[str, Any] | None]]:
    """Changes of many keys with their partition, often late and often alike; None deletes.

    `spread`: a key's groups come by any partition, each with its sequence, and no two alike; nothing is deleted.
    """
    chance = random.Random(seed)
    numbers = list(range(keys * 6))
    chance.shuffle(numbers)
    changes: list[tuple[int, int, dict[str, Any] | None]] = []
    for number in numbers:
        key = chance.randrange(keys)
        if spread:
            sequence = chance.choice(["va", "vb"])
            values = {sequence: number, **{name: chance.choice([None, "x", "y"]) for name in GROUPS[sequence]}}
        else:
            values = {name: chance.choice([None, 1, 2, 3]) for name in GROUPS}
            values |= {name: chance.choice([None, "x", "y", "it's"]) for name in ("a", "tags", "b", "name")}
        values["tags"] = values.get("tags") and [values["tags"]]
        is_delete = not spread and chance.random() < 0.15
        changes.append((key, chance.randrange(2) if spread else key % 2, None if is_delete else values))
    return changes


def compute_grouped_rows(changes: list[tuple[int, int, dict[str, Any] | None]], soft: bool) -> list[str]:
    """The model, one record at a time."""
    rows: dict[int, dict[str, Any]] = {}
    for key, _, values in changes:
        row = rows.get(key)
        if values is None:
            if soft and row:
                row["_deleted"] = True
            elif not soft:
                rows.pop(key, None)
            continue
        if row is None:
            row = rows[key] = {"id": key, **{name: values.get(name) for name in (*GROUPED, "name")}}
        for sequence, members in GROUPS.items():
            if values.get(sequence) is not None and (row[sequence] is None or values[sequence] >= row[sequence]):
                row |= {name: values.get(name) for name in (sequence, *members)}
        row["name"] = row["name"] if values.get("name") is None else values["name"]
        row |= {"_deleted": False} if soft else {}
    return sorted(repr(sorted(row.items())) for row in rows.values())


@pytest.mark.repeats(
    "test_groups_end_as_the_model_wherever_batches_are_cut_and_after_a_second_reading[grouped_soft-table1]",
    "grouped-table0",
    "grouped_spread-table2",
)
@pytest.mark.parametrize(("name", "table"), [
    ("grouped", {}),
    ("grouped_soft", {"deletes": "soft"}),
    ("grouped_spread", {"delete": False}),
])  # fmt: skip
def test_groups_end_as_the_model_wherever_batches_are_cut_and_after_a_second_reading(
    workbench, name: str, table: dict
) -> None:
    topic, spread, soft = workbench.topic(2), name == "grouped_spread", table.get("deletes") == "soft"
    schema = "id BIGINT, va INT, a STRING, tags ARRAY<STRING>, vb BIGINT, b STRING" + (
        "" if spread else ", name STRING"
    )
    settings = {"partial_updates": {"sequence_groups": GROUPS}, **table}
    workbench.pipeline(name, [topic], key=KEY, value={"schema": schema}, table=settings)
    changes = make_grouped_changes(120, len(name), spread)

    def read_rows() -> list[str]:
        rows = workbench.read_rows(f"shop.{name}")
        return sorted(repr(sorted({"name": None, **row}.items())) for row in rows)

    for start, end in pairwise([0, 250, len(changes)]):
        records = (
            ({"id": key}, None if values is None else {"id": key, **values}, {"partition": partition})
            for key, partition, values in changes[start:end]
        )
        workbench.produce(topic, *records)
        workbench.flush(name)
        assert read_rows() == compute_grouped_rows(changes[:end], soft)
    if spread:
        workbench.run_spark_sql(f"UPDATE lake.shop.{name} SET vb = NULL, b = NULL WHERE id < 5")
        workbench.run_spark_sql(f"DELETE FROM lake.shop.{name} WHERE id BETWEEN 5 AND 9")
        ranges = {topic: {str(partition): [0, end] for partition, end in workbench.read_ends(topic)[topic].items()}}
        process = workbench.run_cli("backfill", name, "--range", json.dumps(ranges))
        assert process.returncode == 0, process.stderr
        assert read_rows() == compute_grouped_rows(changes, soft)


MOVED = "the row has another key now, and the value of {} is not in the event, as it did not change: "


def test_row_under_a_new_key_does_not_lose_what_its_event_leaves_out(spark: Any) -> None:
    """Debezium tells a changed key as a delete, and an insert with a header that leaves unchanged values out, too."""
    columns = (Column("id", "INT"), Column("a", "STRING"), Column("doc", "BINARY"))
    options = {"key_columns": columns[:1], "unchanged": ("a", "doc"), "stages_kept": True}
    stage = replace(decoding.build_stage_table(ValueFormat("debezium-json", unavailable=HELD), columns), **options)
    old_key = [("__debezium.oldkey", b'{"id": 1}')]
    rows = [("x", None, old_key), (HELD, "eA==", old_key), (None, BASE64[HELD], old_key), (HELD, None, [])]
    records = [
        (b'{"id": 2}', json.dumps({"op": "c", "after": {"id": 2, "a": a, "doc": doc}}).encode()) for a, doc, _ in rows
    ]
    results = decoding.decode(spark, stage, records, "kept", "reason", headers=[headers for *_, headers in rows])
    assert [(kept_names, reason and reason.split("the row of the new")[0]) for kept_names, reason in results] == [
        ([], None), (["a"], MOVED.format("a")), (["doc"], MOVED.format("doc")), (["a"], None),
    ]  # fmt: skip
    flat = replace(stage, value=ValueFormat("json", unavailable=HELD))  # as ExtractNewRecordState leaves it
    row = (b'{"id": 2}', json.dumps({"id": 2, "a": HELD}).encode())
    (alone,) = decoding.decode(spark, flat, [row], "reason", headers=[old_key])
    assert alone[0].startswith(MOVED.format("a"))
    keyless = replace(stage, key=replace(stage.key, from_value=True))
    events = [
        (None, json.dumps({"op": "u", "before": {"id": n}, "after": {"id": 2, "a": HELD}}).encode()) for n in (1, 2)
    ]
    reasons = [reason for (reason,) in decoding.decode(spark, keyless, events, "reason")]
    assert [reason and reason.split("the row of the new")[0] for reason in reasons] == [MOVED.format("a"), None]


PARTED = "b = 'mine' AND a = 'vip'"
NAMED = TableNaming("shop.{A}", ("shop",), "tidegate_.*", "shop.vip")


@pytest.mark.repeats(
    "test_condition_is_never_asked_of_a_placeholder[when]", "delete_when", "route", "parted", "of another column"
)
@pytest.mark.parametrize(
    ("options", "fates"),
    [
        ({"when": "upper(A) = 'VIP'"}, ["staged u", "bad u", "filtered u", "bad u"]),
        ({"when": "a = 'vip'", "retracts": ("false", "null")}, ["staged u", "bad u", "staged d", "bad u"]),
        ({"delete_when": "a = 'vip'"}, ["staged d", "bad u", "staged u", "bad u"]),
        ({"route": Route("a", "v.p")}, ["staged u", "bad u", "filtered u", "bad u"]),
        ({"when": PARTED}, ["staged u", "bad u", "filtered u", "filtered u"]),
        ({"when": "b = 'mine'"}, ["staged u", "staged u", "staged u", "filtered u"]),
        # who collects the names says that one cannot be told
        ({"naming": replace(NAMED, name=None)}, ["staged u", "bad u", "staged u", "bad u"]),
        ({"naming": NAMED}, ["staged u", "filtered u", "filtered u", "filtered u"]),
    ],
    ids=["when", "retracts", "delete_when", "route", "parted", "of another column", "names", "name"],
)
def test_condition_is_never_asked_of_a_placeholder(spark: Any, options: Any, fates: list[str]) -> None:
    """Else an update of other columns would be left out, or delete the row."""
    columns = (Column("id", "INT"), Column("a", "STRING"), Column("b", "STRING"))
    base = decoding.build_stage_table(ValueFormat("debezium-json", unavailable=HELD), columns)
    stage = replace(base, key_columns=columns[:1], unchanged=("a", "b"), stages_kept=True, **options)
    rows = [("vip", "mine"), (HELD, "mine"), ("x", "mine"), (HELD, "other")]
    records = [
        (b'{"id": 2}', json.dumps({"op": "u", "after": {"id": 2, "a": a, "b": b}, "source": {}}).encode())
        for a, b in rows
    ]
    found = decoding.decode(spark, stage, records, "concat(fate, ' ', op)", "reason")
    assert [fate for fate, _ in found] == fates
    assert all("a value that the event leaves out" in reason for fate, reason in found if fate.startswith("bad"))
