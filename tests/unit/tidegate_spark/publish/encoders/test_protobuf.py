"""Protobuf messages that a publication makes of its columns: numbers that never move, bytes that are always equal."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from tidegate.errors import GiveUp
from tidegate.schema.proto_source import parse_proto
from tidegate_spark.publish.encoders.protobuf_messages import (
    IncompatibleColumn,
    build_descriptor,
    serialize_description,
)
from tidegate_spark.publish.encoders.protobuf_rows import build_encoder
from tidegate_spark.publish.encoders.schema_registration import _read_description


def build_field(name: str, kind: str, *fields: dict[str, Any], repeated: bool = False) -> dict[str, Any]:
    return {"name": name, "kind": kind, "repeated": repeated, "fields": list(fields)}


FIELDS = [
    build_field("id", "int64"),
    build_field("at", "timestamp"),
    build_field("tags", "string", repeated=True),
    build_field("who", "message", build_field("name", "string"), build_field("age", "int32")),
    build_field(
        "more", "map", build_field("key", "string"), build_field("value", "message", build_field("n", "double"))
    ),
    build_field("rows", "message", build_field("a", "bool"), repeated=True),
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


def decode_message(file: bytes, name: str, data: bytes) -> Any:
    pool, known = DescriptorPool(), FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(known)
    pool.Add(known)
    pool.Add(FileDescriptorProto.FromString(file))
    return GetMessageClass(pool.FindMessageTypeByName(name)).FromString(data)


def test_every_kind_of_column_is_read_back_and_null_is_told_from_zero() -> None:
    file, name, index, is_known = build_descriptor("out_value", FIELDS, None, None)
    assert (name, index, is_known) == ("out_value", 0, False)
    encode = build_encoder(file, name, b"head")
    (rows,) = encode(pa.array([ROW], TYPE)).to_pylist()
    assert rows.startswith(b"head")
    message = decode_message(file, name, rows[4:])
    assert (message.HasField("id"), message.id, message.at.ToMicroseconds()) == (True, 0, 1767225600000007)
    assert (list(message.tags), message.who.HasField("name"), message.who.age) == (["x", ""], False, 3)
    assert (message.more["b"].n, message.more["a"].HasField("n")) == (2.0, False)
    assert [(row.HasField("a"), row.a) for row in message.rows] == [(True, False), (False, False)]
    reversed_row = {**ROW, "more": ROW["more"][::-1]}
    assert encode(pa.array([reversed_row], TYPE)).to_pylist() == [rows], "entries of maps in one order"
    (nothing,) = encode(pa.array([dict.fromkeys(ROW)], TYPE)).to_pylist()
    assert nothing == b"head"


def test_schema_that_is_there_keeps_its_numbers_and_new_columns_get_new_ones() -> None:
    first, name, _, _ = build_descriptor("m", [build_field("a", "int32"), build_field("gone", "string")], None, None)
    reordered_bytes, _, _, is_known = build_descriptor(
        "m", [build_field("gone", "string"), build_field("a", "int32")], first, None
    )
    assert (reordered_bytes, is_known) == (first, True), "columns may come in any order"
    second, _, _, is_known = build_descriptor("m", [build_field("b", "bool"), build_field("a", "int32")], first, None)
    numbers = {f.name: f.number for f in FileDescriptorProto.FromString(second).message_type[0].field}
    assert (numbers, is_known) == ({"a": 1, "gone": 2, "b": 3}, False)
    data = build_encoder(second, name, b"")(pa.array([{"b": True, "a": 5}])).to_pylist()[0]
    assert decode_message(first, name, data).a == 5, "old readers read it"


def test_schema_of_somebody_else_is_used_as_it_is() -> None:
    file_descriptor_proto = FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file_descriptor_proto.message_type.add(name="Other")
    order = file_descriptor_proto.message_type.add(name="Order")
    order.field.add(name="id", number=7, type="TYPE_SINT64", label="LABEL_OPTIONAL")
    order.reserved_range.add(start=8, end=10)
    file, name, index, is_known = build_descriptor(
        "m", [build_field("id", "int32")], file_descriptor_proto.SerializeToString(), "Order"
    )
    assert (name, index, is_known) == ("shop.Order", 1, True)
    assert decode_message(file, name, build_encoder(file, name, b"")(pa.array([{"id": -4}])).to_pylist()[0]).id == -4
    longer_descriptor, *_ = build_descriptor(
        "m",
        [build_field("id", "int32"), build_field("n", "string")],
        file_descriptor_proto.SerializeToString(),
        "Order",
    )
    assert FileDescriptorProto.FromString(longer_descriptor).message_type[1].field[1].number == 10
    for wrong in (build_field("id", "string"), build_field("id", "int64", repeated=True), build_field("id", "message")):
        with pytest.raises(IncompatibleColumn, match="the field id is registered with another type"):
            build_descriptor("m", [wrong], file_descriptor_proto.SerializeToString(), "Order")


TEXT = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
message Row { google.protobuf.Timestamp at = 1; Part part = 2; map<string, Part> parts = 3;
  message Part { optional int32 n = 1; } }"""


def test_schema_that_a_registry_gives_as_text_holds_the_columns_that_it_names() -> None:
    part = build_field("part", "message", build_field("n", "int32"))
    parts = build_field("parts", "map", build_field("key", "string"), {**part, "name": "value"})
    registered_file = serialize_description(parse_proto(TEXT))
    columns = [build_field("at", "timestamp"), part, parts]
    assert build_descriptor("m", columns, registered_file, "Row").is_known
    longer_descriptor, *_ = build_descriptor("m", [*columns, build_field("b", "bool")], registered_file, "Row")
    fields = FileDescriptorProto.FromString(longer_descriptor).message_type[0].field
    assert [(field.name, field.number) for field in fields] == [("at", 1), ("part", 2), ("parts", 3), ("b", 4)]


@pytest.mark.parametrize(
    "text",
    ["message Row {", "message Row { optional Lost a = 1; }", "message Row { optional int64 a = 5000000000; }"],
)
def test_text_that_is_no_schema_is_named_by_subject_version_and_id(text: str) -> None:
    place = "subject=Rows-value version=2 id=72"
    with pytest.raises(GiveUp, match=f"^{place}: the newest schema cannot be read: .*; give another subject"):
        _read_description(place, text)


def build_registered_file(*fields: dict[str, Any], **options: Any) -> FileDescriptorProto:
    """A file with one message, `shop.Row`, of these fields."""
    file = FileDescriptorProto(name="shop.proto", package="shop", **options)
    file.message_type.add(name="Row", field=fields)
    return file


INT32 = {"type": "TYPE_INT32", "label": "LABEL_OPTIONAL"}


@pytest.mark.parametrize("columns", [("a_b", "aB"), ("aB", "a_b")])
def test_names_that_json_does_not_tell_apart_are_refused_before_they_are_registered(columns: tuple[str, str]) -> None:
    for kind in ("int32", "message", "map"):
        inner = [build_field("key", "string"), build_field("value", "int32")]
        with pytest.raises(
            IncompatibleColumn, match=r"a_b.* have the same name in JSON, aB,.*; rename one of them in sql"
        ):
            build_descriptor("m", [build_field(name, kind, *inner) for name in columns], None, None)
    registered_file = build_registered_file(
        {"name": columns[0], "number": 1, **INT32}, syntax="proto3"
    ).SerializeToString()
    with pytest.raises(IncompatibleColumn, match="have the same name in JSON"):
        build_descriptor("m", [build_field(name, "int32") for name in columns], registered_file, None)


def test_messages_of_columns_whose_names_read_alike_are_told_apart() -> None:
    fields = [
        build_field("a_b", "message", build_field("x", "int32")),
        build_field("AB", "message", build_field("y", "string")),
    ]
    file, name, *_ = build_descriptor("m", fields, None, None)
    encode = build_encoder(file, name, b"")
    message = decode_message(file, name, encode(pa.array([{"a_b": {"x": 1}, "AB": {"y": "z"}}])).to_pylist()[0])
    assert (message.a_b.x, message.AB.y) == (1, "z")


def test_required_field_without_a_column_is_told_before_a_row_is_written() -> None:
    must = {"name": "must", "number": 2, "type": "TYPE_INT32", "label": "LABEL_REQUIRED"}
    registered_file = build_registered_file({"name": "a", "number": 1, **INT32}, must)
    with pytest.raises(
        IncompatibleColumn, match=r"no column fills the field must, which is required .*; add the column"
    ):
        build_descriptor("m", [build_field("a", "int32")], registered_file.SerializeToString(), None)
    file, name, *_ = build_descriptor(
        "m", [build_field("a", "int32"), build_field("must", "int32")], registered_file.SerializeToString(), None
    )
    assert (
        decode_message(file, name, build_encoder(file, name, b"")(pa.array([{"a": 1, "must": 2}])).to_pylist()[0]).must
        == 2
    )


def test_message_may_be_named_with_its_package() -> None:
    file_bytes = build_registered_file({"name": "a", "number": 1, **INT32}, syntax="proto3")
    file_bytes.message_type.insert(0, type(file_bytes.message_type[0])(name="First"))
    for word in ("Row", "shop.Row"):
        _, name, index, is_known = build_descriptor(
            "m", [build_field("a", "int32")], file_bytes.SerializeToString(), word
        )
        assert (name, index, is_known) == ("shop.Row", 1, True)
    _, name, index, is_known = build_descriptor(
        "m", [build_field("a", "int32")], file_bytes.SerializeToString(), "shop.Next"
    )
    assert (name, index, is_known) == ("shop.Next", 2, False)
    for word, registered_file in (("other.Row", file_bytes.SerializeToString()), ("shop.Row", None)):
        with pytest.raises(
            IncompatibleColumn, match=rf"protobuf.message={word} is no message of the registered schema"
        ):
            build_descriptor("m", [build_field("a", "int32")], registered_file, word)


@pytest.mark.parametrize(
    ("reserved", "extensions", "number"),
    [
        ([(5, 2**29)], [], 4),
        ([(4, 6)], [], 6),
        ([], [(4, 100)], 100),
        ([(4, 6)], [(6, 2**29)], None),
        ([], [(4, 19500)], 20000),
    ],
)
def test_new_field_has_no_number_that_is_kept_for_others(
    reserved: list[tuple[int, int]], extensions: list[tuple[int, int]], number: int | None
) -> None:
    registered_file = build_registered_file({"name": "a", "number": 3, **INT32})
    for start, end in reserved:
        registered_file.message_type[0].reserved_range.add(start=start, end=end)
    for start, end in extensions:
        registered_file.message_type[0].extension_range.add(start=start, end=end)
    arguments = ("m", [build_field("a", "int32"), build_field("b", "int32")], registered_file.SerializeToString(), None)
    if number is None:
        with pytest.raises(
            IncompatibleColumn, match="message=Row has no number left after its fields; add the column's"
        ):
            build_descriptor(*arguments)
    else:
        file_descriptor = FileDescriptorProto.FromString(build_descriptor(*arguments)[0])
        assert [f.number for f in file_descriptor.message_type[0].field] == [3, number]


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("Duration", "int64"),
        ("Struct", "string"),
        ("UInt32Value", "int64"),
        ("UInt64Value", "int64"),
        ("Int32Value", "int64"),
    ],
)
def test_message_of_protobufs_own_that_no_column_fills_may_stand_there_and_takes_no_other_column(
    word: str, kind: str
) -> None:
    """What a pipeline reads of a duration or a struct is a number or a text that says nothing of what it was."""
    file = "duration" if word == "Duration" else "struct" if word == "Struct" else "wrappers"
    own = {
        "name": "v",
        "number": 2,
        "type": "TYPE_MESSAGE",
        "type_name": f".google.protobuf.{word}",
        "label": "LABEL_OPTIONAL",
    }
    registered_file = build_registered_file({"name": "a", "number": 1, **INT32}, own, syntax="proto3")
    registered_file.dependency.append(f"google/protobuf/{file}.proto")
    assert build_descriptor("m", [build_field("a", "int32")], registered_file.SerializeToString(), None).is_known
    for wrong in (build_field("v", kind), build_field("v", "message", build_field("seconds", "int64"))):
        with pytest.raises(IncompatibleColumn, match=r"the field v is registered .*; cast it in sql, or publish"):
            build_descriptor("m", [wrong], registered_file.SerializeToString(), None)
    registered_file.dependency.append("google/type/money.proto")
    with pytest.raises(
        IncompatibleColumn, match=r"imports google/type/money.proto; register one without it, or publish"
    ):
        build_descriptor("m", [build_field("a", "int32")], registered_file.SerializeToString(), None)


def test_null_in_a_list_or_a_map_is_refused() -> None:
    file, name, *_ = build_descriptor("m", [build_field("tags", "string", repeated=True)], None, None)
    with pytest.raises(ValueError, match="column=tags: Protobuf's lists hold no NULL"):
        build_encoder(file, name, b"")(pa.array([{"tags": ["a", None]}]))
