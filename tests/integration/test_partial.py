"""Partial updates and unchanged values through real Kafka, Spark and Iceberg: hundreds of little histories at once."""

import random
from itertools import pairwise
from typing import Any

import pytest
from conftest import debezium

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


def histories(keys: int, seed: int) -> list[tuple[int, Change]]:
    """Changes of many keys, mixed; None deletes."""
    chance = random.Random(seed)
    changes = []
    for _ in range(keys * 5):
        value = {name: chance.choice(forms) for name, forms in FORMS.items()}
        changes.append((chance.randrange(keys), None if chance.random() < 0.2 else value))
    return changes


def expected(changes: list[tuple[int, Change]], partial: bool, soft: bool) -> list[tuple[Any, ...]]:
    """The model, one record at a time."""
    rows: dict[int, dict[str, Any]] = {}
    for key, value in changes:
        standing = rows.get(key)
        if value is None:
            if soft and standing:
                standing["gone"] = True
            else:
                rows.pop(key, None)
            continue
        if standing is None:
            standing = rows[key] = dict.fromkeys(COLUMNS)
        for name, new in value.items():
            keeps = new in HOLDS or (partial and new is None)
            standing[name] = standing[name] if keeps else new
        standing["gone"] = False
    return sorted((key, *(repr(row[name]) for name in COLUMNS), row["gone"]) for key, row in rows.items())


def landed(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    texts = {b"x": BASE64["x"], None: None}
    shown = [{**row, "doc": texts[row["doc"]]} for row in rows]
    return sorted((r["id"], *(repr(r[name]) for name in COLUMNS), bool(r.get("_deleted"))) for r in shown)


@pytest.mark.parametrize(("name", "table"), [
    ("unchanged", {}),
    ("unchanged_soft", {"deletes": "soft"}),
    ("partial", {"partial_updates": True}),
])  # fmt: skip
def test_many_histories_end_as_the_model_wherever_batches_are_cut(workbench, name: str, table: dict) -> None:
    topic = workbench.topic()
    workbench.pipeline(name, [topic], key=KEY, value={"format": "debezium-json", "schema": SCHEMA}, table=table)
    changes = histories(150, seed=len(name))
    cuts = [0, 200, 290, len(changes)]
    for start, end in pairwise(cuts):
        records = [
            ({"id": key}, debezium("u", None, {"id": key, **value}) if value else debezium("d", {"id": key}))
            for key, value in changes[start:end]
        ]
        workbench.produce(topic, *records)
        workbench.flush(name)
    soft = table.get("deletes") == "soft"
    assert landed(workbench.rows(f"shop.{name}")) == expected(changes, name == "partial", soft)
