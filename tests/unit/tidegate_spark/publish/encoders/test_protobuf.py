"""Protobuf messages that a publication makes of its columns: numbers that never move, bytes that are always equal."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from tidegate_spark.publish.encoders.protobuf_messages import IncompatibleColumn, build_descriptor, build_encoder


def field(name: str, kind: str, *fields: dict[str, Any], repeated: bool = False) -> dict[str, Any]:
    return {"name": name, "kind": kind, "repeated": repeated, "fields": list(fields)}


FIELDS = [
    field("id", "int64"),
    field("at", "timestamp"),
    field("tags", "string", repeated=True),
    field("who", "message", field("name", "string"), field("age", "int32")),
    field("more", "map", field("key", "string"), field("value", "message", field("n", "double"))),
    field("rows", "message", field("a", "bool"), repeated=True),
]
ROW = {
    "id": 0,
    "at": datetime(2026, 1, 1, 0, 0, 0, 7, UTC),
    "tags": ["x", ""],
    "who": {"name": None, "age": 3},
    "more": [("b", {"n": 2.0}), ("a", {"n": None})],
    "rows": [{"a": False}, {"a": None}],
}
TYPE = pa.struct(
    [
        ("id", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("tags", pa.list_(pa.string())),
        ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
        ("more", pa.map_(pa.string(), pa.struct([("n", pa.float64())]))),
        ("rows", pa.list_(pa.struct([("a", pa.bool_())]))),
    ]
)


def message_of(file: bytes, name: str, data: bytes) -> Any:
    pool, known = DescriptorPool(), FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(FileDescriptorProto.FromString(file))
    return GetMessageClass(pool.FindMessageTypeByName(name)).FromString(data)


def test_every_kind_of_column_is_read_back_and_null_is_told_from_zero() -> None:
    file, name, index, is_known = build_descriptor("out_value", FIELDS, None, None)
    assert (name, index, is_known) == ("out_value", 0, False)
    encode = build_encoder(file, name, b"head")
    (made,) = encode(pa.array([ROW], TYPE)).to_pylist()
    assert made.startswith(b"head")
    found = message_of(file, name, made[4:])
    assert (found.HasField("id"), found.id, found.at.ToMicroseconds()) == (True, 0, 1767225600000007)
    assert (list(found.tags), found.who.HasField("name"), found.who.age) == (["x", ""], False, 3)
    assert (found.more["b"].n, found.more["a"].HasField("n")) == (2.0, False)
    assert [(row.HasField("a"), row.a) for row in found.rows] == [(True, False), (False, False)]
    turned = {**ROW, "more": ROW["more"][::-1]}
    assert encode(pa.array([turned], TYPE)).to_pylist() == [made], "entries of maps in one order"
    (nothing,) = encode(pa.array([dict.fromkeys(ROW)], TYPE)).to_pylist()
    assert nothing == b"head"


def test_schema_that_is_there_keeps_its_numbers_and_new_columns_get_new_ones() -> None:
    first, name, _, _ = build_descriptor("m", [field("a", "int32"), field("gone", "string")], None, None)
    same, _, _, is_known = build_descriptor("m", [field("gone", "string"), field("a", "int32")], first, None)
    assert (same, is_known) == (first, True), "columns may come in any order"
    second, _, _, is_known = build_descriptor("m", [field("b", "bool"), field("a", "int32")], first, None)
    numbers = {f.name: f.number for f in FileDescriptorProto.FromString(second).message_type[0].field}
    assert (numbers, is_known) == ({"a": 1, "gone": 2, "b": 3}, False)
    data = build_encoder(second, name, b"")(pa.array([{"b": True, "a": 5}])).to_pylist()[0]
    assert message_of(first, name, data).a == 5, "old readers read it"


def test_schema_of_somebody_else_is_used_as_it_is() -> None:
    given = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    given.message_type.add(name="Other")
    order = given.message_type.add(name="Order")
    order.field.add(name="id", number=7, type="TYPE_SINT64", label="LABEL_OPTIONAL")
    order.reserved_range.add(start=8, end=10)
    file, name, index, is_known = build_descriptor("m", [field("id", "int32")], given.SerializeToString(), "Order")
    assert (name, index, is_known) == ("shop.Order", 1, True)
    assert message_of(file, name, build_encoder(file, name, b"")(pa.array([{"id": -4}])).to_pylist()[0]).id == -4
    more, *_ = build_descriptor("m", [field("id", "int32"), field("n", "string")], given.SerializeToString(), "Order")
    assert FileDescriptorProto.FromString(more).message_type[1].field[1].number == 10
    for wrong in (field("id", "string"), field("id", "int64", repeated=True), field("id", "message")):
        with pytest.raises(IncompatibleColumn, match="the field id is registered with another type"):
            build_descriptor("m", [wrong], given.SerializeToString(), "Order")


def test_null_in_a_list_or_a_map_is_refused() -> None:
    file, name, *_ = build_descriptor("m", [field("tags", "string", repeated=True)], None, None)
    with pytest.raises(ValueError, match="column=tags: Protobuf's lists hold no NULL"):
        build_encoder(file, name, b"")(pa.array([{"tags": ["a", None]}]))
