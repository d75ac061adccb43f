"""A pattern that recognises all of a text says that the object has no field but its columns, and null."""

import json
import re
from typing import Any

import pytest
from tidegate.schema.data_types import Array, Struct, parse_type
from tidegate_spark.fields.json.unknown_fields import build_pattern

ROW = (
    "STRUCT<id: BIGINT, Name: STRING, price: DECIMAL(9,2), lines: ARRAY<STRUCT<sku: STRING, n: INT>>, "
    "at: STRUCT<city: STRING>, extra: MAP<STRING, STRUCT<x: INT>>, tags: ARRAY<STRING>, idle: BOOLEAN>"
)
KNOWN = [
    {}, {"id": 1}, {"id": 1, "Name": "a"}, {"idle": None}, {"none": {}, "no": [], "id": 3},
    {"Name": {"any": {"thing": [1, {"x": '"}'}]}}},
    {"lines": [{"sku": "a", "n": 1}, {"sku": None}, None]}, {"lines": None}, {"at": {"city": "c", "zip": None}},
    {"extra": {"of any name": {"x": 1}, "b": {}}}, {"tags": ["a:", "{", '"', "\\"]}, {"other": None, "id": -1.5e7},
    {"Name": 'a "quoted": {text}', "id": 2},
]  # fmt: skip
UNKNOWN = [
    {"other": 1}, {"i": 1}, {"idx": 1}, {"id": 1, "name": "a"}, {"id": 1, "other": "null"},
    {"other": {"a": 1}}, {"other": [0]},
    {"lines": [{"sku": "a"}, {"sku": "b", "price": 1}]}, {"at": {"city": "c", "zip": 1}}, {"extra": {"a": {"y": 1}}},
    {"at": {"id": 1}}, {"sku": "a"},
]  # fmt: skip


def recognises(kind: Any, paths: list[tuple[str, ...]], text: str) -> bool:
    return re.match(build_pattern(kind, paths).replace(r"\z", r"\Z"), text) is not None


@pytest.mark.parametrize("is_known", [True, False])
def test_rows_of_columns_alone_are_recognised_at_every_place_and_no_others(is_known: bool) -> None:
    kind = parse_type(ROW)
    after = [("payload", "after"), ("after",)]
    for row in KNOWN if is_known else UNKNOWN:
        event = {"before": {"q": [{}]}, "after": row, "op": "c", "source": {"db": {"x": {}}}}
        for spelled in (json.dumps(row), json.dumps(row, indent=3), json.dumps(row, separators=(",", ":"))):
            assert recognises(kind, [()], spelled) == is_known, spelled
        assert recognises(kind, after, json.dumps(event)) == is_known, row
        assert recognises(kind, after, json.dumps({"schema": {"a": [event]}, "payload": event})) == is_known, row
        assert recognises(Array(kind), [("data",)], json.dumps({"data": [{}, row], "type": "u"})) == is_known, row


def test_text_that_is_spelled_in_an_unusual_way_is_looked_at_itself() -> None:
    kind = parse_type("STRUCT<id: BIGINT>")
    for text in ("{'id': 1, 'x': 2}", '{"i\\u0064": 1}', '{"id": 1} {"x": 1}', "[]", '{"id": 1, "x": nullx}'):
        assert not recognises(kind, [()], text)
    assert recognises(kind, [()], ' {"id" :\t1 ,\n"id": 2}\r\n')


def test_many_names_are_told_apart() -> None:
    names = [f"{begin}{n}" for begin in ("a", "ab", "order.", "") for n in range(12)]
    kind = Struct(tuple((name, parse_type("INT")) for name in names))
    assert all(recognises(kind, [()], json.dumps({name: 1})) for name in names)
    assert not any(recognises(kind, [()], json.dumps({name: 1})) for name in ("a", "ab", "a99", "order_1", "orders"))
