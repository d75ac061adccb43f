"""Protobuf written by confluent-kafka's own serializer: every type at its limits, versions, and bytes that are bad."""

import base64
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from protobuf_messages import build_classes, build_field, build_file, build_map_entry, build_message
from schema_registry import SchemaRegistry
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.errors import ConfigurationError, GiveUp
from tidegate.schema.data_types import Column
from tidegate.schema.protobuf import make_truncated_shape
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Table
from tidegate_spark.fields.protobuf import MessageDecoder, to_arrow_type

G = ".google.protobuf."
STATE = {"NONE": 0, "OPEN": 1}
INSIDE = build_message("Place", build_field("x", 1, "int32"), build_field("y", 2, "double", optional=True))
# kind of the field, what is written, type of the column, what arrives
TYPES: dict[str, tuple[dict[str, Any], Any, str, Any]] = {
    "precise": ({"kind": "double"}, 1.7976931348623157e308, "DOUBLE", 1.7976931348623157e308),
    "single": ({"kind": "float"}, 0.5, "FLOAT", 0.5),
    "i32": ({"kind": "int32"}, -(2**31), "INT", -(2**31)),
    "s32": ({"kind": "sint32"}, 2**31 - 1, "INT", 2**31 - 1),
    "f32": ({"kind": "sfixed32"}, -1, "INT", -1),
    "i64": ({"kind": "int64"}, -(2**63), "BIGINT", -(2**63)),
    "s64": ({"kind": "sint64"}, 2**63 - 1, "BIGINT", 2**63 - 1),
    "f64": ({"kind": "sfixed64"}, -1, "BIGINT", -1),
    "u32": ({"kind": "uint32"}, 2**32 - 1, "BIGINT", 2**32 - 1),
    "x32": ({"kind": "fixed32"}, 2**32 - 1, "BIGINT", 2**32 - 1),
    "u64": ({"kind": "uint64"}, 2**64 - 1, "DECIMAL(20,0)", Decimal(2**64 - 1)),
    "x64": ({"kind": "fixed64"}, 0, "DECIMAL(20,0)", Decimal(0)),
    "flag": ({"kind": "bool"}, True, "BOOLEAN", True),
    "text": ({"kind": "string"}, "日本 \x00 😀", "STRING", "日本 \x00 😀"),
    "blob": ({"kind": "bytes"}, b"\x00\xff", "BINARY", b"\x00\xff"),
    "state": ({"kind": "enum:.shop.State"}, 1, "STRING", "OPEN"),
    "maybe": ({"kind": "int32", "optional": True}, 0, "INT", 0),
    "place": ({"kind": ".shop.Place"}, {"x": 1}, "STRUCT<`x`: INT, `y`: DOUBLE>", {"x": 1, "y": None}),
    "places": (
        {"kind": ".shop.Place", "repeated": True}, [{"y": 1.5}, {}],
        "ARRAY<STRUCT<`x`: INT, `y`: DOUBLE>>", [{"x": 0, "y": 1.5}, {"x": 0, "y": None}],
    ),
    "numbers": ({"kind": "uint64", "repeated": True}, [1, 2**64 - 1], "ARRAY<DECIMAL(20,0)>", [1, 2**64 - 1]),
    "states": ({"kind": "enum:.shop.State", "repeated": True}, [1, 0], "ARRAY<STRING>", ["OPEN", "NONE"]),
    "marks": ({"kind": ".shop.All.MarksEntry", "repeated": True}, {"a": 1}, "MAP<STRING, BIGINT>", [("a", 1)]),
    "by_number": (
        {"kind": ".shop.All.ByNumberEntry", "repeated": True}, {7: {"x": 3}},
        "MAP<INT, STRUCT<`x`: INT, `y`: DOUBLE>>", [(7, {"x": 3, "y": None})],
    ),
    "at": ({"kind": G + "Timestamp"}, {"seconds": -1, "nanos": 999_999_000}, "TIMESTAMP", -1),
    "span": ({"kind": G + "Duration"}, {"seconds": -1, "nanos": -500_000_000}, "BIGINT", -1_500_000),
    "wrapped": ({"kind": G + "Int64Value"}, {"value": 0}, "BIGINT", 0),
    "large": ({"kind": G + "UInt64Value"}, {"value": 2**64 - 1}, "DECIMAL(20,0)", Decimal(2**64 - 1)),
    "wrapped_text": ({"kind": G + "StringValue"}, {"value": ""}, "STRING", ""),
    "doc": ({"kind": G + "Struct"}, {"a": [1.5, None, "ü"]}, "STRING", '{"a": [1.5, null, "ü"]}'),
    "nothing": ({"kind": G + "Empty"}, {}, "BOOLEAN", True),
    "any": (
        {"kind": G + "Any"}, {"type_url": "t/x", "value": b"\x01"},
        "STRUCT<`type_url`: STRING, `value`: BINARY>", {"type_url": "t/x", "value": b"\x01"},
    ),
    "one": ({"kind": "int32", "oneof": "choice"}, None, "INT", None),
    "other": ({"kind": "string", "oneof": "choice"}, "", "STRING", ""),
}  # fmt: skip
UNSET = {
    **dict.fromkeys(("precise", "single"), 0.0), **dict.fromkeys(("i32", "s32", "f32", "i64", "s64", "f64"), 0),
    **dict.fromkeys(("u32", "x32", "u64", "x64"), 0), "flag": False, "text": "", "blob": b"", "state": "NONE",
    **{name: [] for name in ("places", "numbers", "states", "marks", "by_number")},
}  # fmt: skip


def build_message_class() -> Any:
    entries = (
        build_map_entry("MarksEntry", "string", "int64"),
        build_map_entry("ByNumberEntry", "int32", ".shop.Place"),
    )
    fields = (build_field(name, n, type_case[0]["kind"], **{k: v for k, v in type_case[0].items() if k != "kind"})
              for n, (name, type_case) in enumerate(TYPES.items(), 1))  # fmt: skip
    return build_file(build_message("All", *fields, nested=entries), INSIDE, enums={"State": STATE})


def encode_message(registry: SchemaRegistry, message: Any, part: str = "value") -> bytes:
    """As a producer writes it, registered under `orders-<part>`."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import SerializationContext

    serializer = ProtobufSerializer(type(message), SchemaRegistryClient({"url": registry.url}))
    encoded_value = serializer(message, SerializationContext("orders", part))
    assert isinstance(encoded_value, bytes)
    return encoded_value


def build_described_table(options: dict[str, Any], folder: Path = Path(), **field_options: Any) -> Table:
    table = Table("lake.shop.orders", ("orders",), KeyFormat(), ValueFormat("protobuf", options=options), True, True)
    return RegistrySchemas(lambda _: None, folder).describe_table(replace(table, **field_options))


def build_decoder(registry: SchemaRegistry, **options: Any) -> MessageDecoder:
    return MessageDecoder(build_described_table({"registry": registry.url, **options}).value.options, "value")


def test_every_type_arrives_at_its_limits_and_unset_as_protobuf_says(registry: SchemaRegistry) -> None:
    import pyarrow as pa

    message_class = build_classes(build_message_class())["shop.All"]
    full = message_class(
        **{name: type_case[1] for name, type_case in TYPES.items() if name != "doc" and type_case[1] is not None}
    )
    full.doc.update(TYPES["doc"][1])
    value = encode_message(registry, full)
    table = build_described_table({"registry": registry.url})
    assert [(c.name, c.type) for c in table.value.columns or ()] == [
        (n, type_case[2]) for n, type_case in TYPES.items()
    ]
    reads = MessageDecoder(table.value.options, "value")
    row, reason = reads.decode(value) or ({}, "none")
    assert (row, reason) == ({name: type_case[3] for name, type_case in TYPES.items()}, None)
    empty, _ = reads.decode(encode_message(registry, message_class())) or ({}, None)
    assert empty == {**dict.fromkeys(TYPES), **UNSET}
    assert len(pa.array([row, empty], to_arrow_type(table.value.options["shape"]))) == 2


def test_each_version_is_read_by_its_own_descriptor_and_fields_are_known_by_number(registry: SchemaRegistry) -> None:
    old = build_message(
        "Order", build_field("id", 1, "int32"), build_field("total", 2, "uint32"), build_field("gone", 3, "string")
    )
    new = build_message(
        "Order", build_field("id", 1, "sint64"), build_field("amount", 2, "uint64"), build_field("note", 4, "string")
    )
    first = encode_message(registry, build_classes(build_file(old))["shop.Order"](id=-5, total=7, gone="x"))
    second = encode_message(registry, build_classes(build_file(new))["shop.Order"](id=-5, amount=2**63, note="n"))
    reads = build_decoder(registry)
    assert reads.decode(first) == ({"id": -5, "amount": 7, "note": None, "gone": "x"}, None)
    assert reads.decode(second) == ({"id": -5, "amount": 2**63, "note": "n", "gone": None}, None)


def test_field_that_is_put_aside_is_found_where_the_sizes_agree_by_chance(registry: SchemaRegistry) -> None:
    marks = build_field("marks", 1, ".shop.Order.MarksEntry", repeated=True)
    order = build_message(
        "Order", marks, build_field("name", 2, "string"), nested=(build_map_entry("MarksEntry", "string", "int64"),)
    )
    header = encode_message(registry, build_classes(build_file(order))["shop.Order"]())
    mark_without_its_zero = b"\x0a\x03\x0a\x01a"  # Protobuf itself writes the zero, too: two bytes more
    number_for_a_name = b"\x10\x05"  # two bytes that it puts aside
    reads = build_decoder(registry)
    assert reads.decode(header + mark_without_its_zero) == ({"marks": [("a", 0)], "name": ""}, None)
    for body in (mark_without_its_zero + number_for_a_name, number_for_a_name + mark_without_its_zero):
        row, reason = reads.decode(header + body) or ({}, None)
        assert row is None
        assert "the field name" in str(reason)


def test_field_dropped_inside_lists_and_maps_keeps_the_values_of_older_records(registry: SchemaRegistry) -> None:
    def order(*fields: dict[str, Any]) -> Any:
        line = build_message("Line", *fields)
        lines, named_field = (
            build_map_entry("NamedEntry", "string", ".shop.Line"),
            build_field("lines", 1, ".shop.Line", repeated=True),
        )
        return build_file(
            build_message(
                "Order", named_field, build_field("named", 2, ".shop.Order.NamedEntry", repeated=True), nested=(lines,)
            ),
            line,
        )

    sku, price = build_field("sku", 1, "string"), build_field("price", 2, "int64")
    old, new = build_classes(order(sku, price))["shop.Order"], build_classes(order(sku))["shop.Order"]
    first = old(lines=[{"sku": "a", "price": 5}])
    first.named["k"].price = 7
    values = [encode_message(registry, first), encode_message(registry, new(lines=[{"sku": "b"}]))]
    reads = build_decoder(registry)
    assert [reads.decode(value) for value in values] == [
        ({"lines": [{"sku": "a", "price": 5}], "named": [("k", {"sku": "", "price": 7})]}, None),
        ({"lines": [{"sku": "b", "price": None}], "named": []}, None),
    ]


@pytest.mark.parametrize("name", ["note", "Note"])  # two columns of one name, in another case, are in no table
def test_field_whose_name_was_taken_by_another_number_is_bad_in_older_records(
    registry: SchemaRegistry, name: str
) -> None:
    old = build_classes(
        build_file(build_message("Order", build_field("id", 1, "int32"), build_field(name, 2, "string")))
    )["shop.Order"]
    new = build_classes(
        build_file(build_message("Order", build_field("id", 1, "int32"), build_field("note", 3, "string")))
    )["shop.Order"]
    values = [encode_message(registry, old(**{name: "x"})), encode_message(registry, new(note="y"))]
    reads = build_decoder(registry)
    assert reads.decode(values[0]) == (
        None, f"the value has schema id=1, whose field {name} had number=2 and has another"
    )  # fmt: skip
    assert reads.decode(values[1]) == ({"id": 0, "note": "y"}, None)


def test_latest_version_is_the_one_registered_last_also_with_an_older_id(registry: SchemaRegistry) -> None:
    from tidegate.adapters.schema_registry.client import Version
    from tidegate.adapters.schema_registry.protobuf_descriptors import from_registry

    def version(number: int, *fields: dict[str, Any]) -> Version:
        text = base64.b64encode(build_file(build_message("Order", *fields)).SerializeToString()).decode()
        return Version(number, "PROTOBUF", text, {})

    first, second = version(1, build_field("b", 1, "string")), version(2, build_field("a", 1, "string"))
    imported_registry = from_registry([first, second, first], None)
    assert [f["name"] for f in imported_registry["shape"]["fields"]] == ["b"]


@pytest.mark.parametrize("path", ["confluent/meta.proto", "confluent/type/decimal.proto", "google/type/money.proto"])
def test_files_that_every_producer_has_need_not_be_registered(path: str) -> None:
    from tidegate.adapters.schema_registry.client import Version
    from tidegate.adapters.schema_registry.protobuf_descriptors import from_registry

    kind = {"confluent/type/decimal.proto": ".confluent.type.Decimal", "google/type/money.proto": ".google.type.Money"}
    file = build_file(build_message("Order", build_field("x", 1, kind.get(path, "int32"))), imports=(path,))
    registry = from_registry([Version(1, "PROTOBUF", base64.b64encode(file.SerializeToString()).decode(), {})], None)
    reads = MessageDecoder(registry, "value")
    row, reason = reads.decode(b"\x00\x00\x00\x00\x01\x00" + (b"\x08\x07" if path not in kind else b"\x0a\x00")) or (
        {},
        "",
    )
    empty = {"confluent/type/decimal.proto": {"value": b"", "precision": 0, "scale": 0}}
    empty["google/type/money.proto"] = {"currency_code": "", "units": 0, "nanos": 0}
    assert (row, reason) == ({"x": empty.get(path, 7)}, None)


def test_number_that_a_closed_enum_does_not_name_is_bad_and_not_missing(registry: SchemaRegistry) -> None:
    enum = "enum:.shop.State"
    order = build_message(
        "Order",
        build_field("one", 1, enum),
        build_field("many", 2, enum, repeated=True),
        build_field("named", 3, ".shop.Order.NamedEntry", repeated=True),
        nested=(build_map_entry("NamedEntry", "string", enum),),
    )
    message_class = build_classes(build_file(order, enums={"State": STATE}, syntax="proto2"))["shop.Order"]
    good = encode_message(registry, message_class(one=1, many=[0, 1], named={"a": 1}))
    header, reads = good[:6], build_decoder(registry)
    assert reads.decode(good) == ({"one": "OPEN", "many": ["NONE", "OPEN"], "named": [("a", "OPEN")]}, None)
    for name, body in {"one": b"\x08\x07", "many": b"\x10\x07", "named": b"\x1a\x05\x0a\x01a\x10\x07"}.items():
        row, reason = reads.decode(header + body) or ({}, "")
        assert row is None
        assert str(reason).startswith(f"the field {name} has ")
        assert str(reason).endswith("which its enum does not name")


@pytest.mark.parametrize(("before", "after"), [
    ("int64", "int32"), ("string", "bytes"), ("int32", "double"), ("double", "float"), ("int64", "string"),
    (G + "Timestamp", "int64"), (G + "Duration", "int64"), ("int32", ".shop.Place"),
])  # fmt: skip
def test_version_that_means_something_else_is_bad_records_not_other_values(
    registry: SchemaRegistry, before: str, after: str
) -> None:
    values = [
        encode_message(
            registry,
            build_classes(build_file(build_message("Order", build_field("x", 1, kind)), INSIDE))["shop.Order"](),
        )
        for kind in (before, after)
    ]
    reads = build_decoder(registry)
    row, reason = reads.decode(values[0]) or ({}, "")
    assert row is None
    assert "the value has schema id=1, whose field x was a " in str(reason)
    assert reads.decode(values[1]) is not None


def test_nested_message_is_found_by_its_indexes_and_another_one_is_bad(registry: SchemaRegistry) -> None:
    inner = build_message("Line", build_field("sku", 1, "string"))
    file = build_file(build_message("First", build_field("id", 1, "int32")), build_message("Order", nested=(inner,)))
    classes = build_classes(file)
    line, first = (
        encode_message(registry, classes["shop.Order.Line"](sku="a")),
        encode_message(registry, classes["shop.First"](id=1)),
    )
    reads = build_decoder(registry, message="shop.Order.Line")
    assert reads.decode(line) == ({"sku": "a"}, None)
    assert reads.decode(first) == (None, "the value is a message=shop.First, not shop.Order.Line")
    assert build_decoder(registry).decode(first) == ({"id": 1}, None)
    with pytest.raises(ConfigurationError, match=r"protobuf.message=Nope .*shop.First, shop.Order, shop.Order.Line"):
        build_decoder(registry, message="Nope")


def test_imported_files_come_from_the_registry(registry: SchemaRegistry) -> None:
    imported = build_file(build_message("Money", build_field("cents", 1, "int64")), name="money.proto")
    file = build_file(build_message("Order", build_field("price", 1, ".shop.Money")), imports=("money.proto",))
    message_class = build_classes(imported, file)["shop.Order"]
    value = encode_message(registry, message_class(price={"cents": 5}))
    assert build_decoder(registry).decode(value) == ({"price": {"cents": 5}}, None)


def test_bytes_that_are_no_message_say_why(registry: SchemaRegistry) -> None:
    order = build_message("Order", build_field("name", 1, "string"), build_field("at", 2, G + "Timestamp"),
                    build_field("state", 3, "enum:.shop.State"), build_field("span", 4, G + "Duration"))  # fmt: skip
    message_class = build_classes(build_file(order, enums={"State": STATE}))["shop.Order"]
    good = encode_message(registry, message_class(name="a"))
    header, reads = good[:6], build_decoder(registry)
    undecodable = "the value is not a Protobuf message of its schema"
    reasons = {
        b"": "the value does not begin with the magic byte, a schema id and message indexes",
        b"\x01" + good[1:]: "the value does not begin with the magic byte, a schema id and message indexes",
        b"\x00\x00\x00\x00\x63" + good[5:]: "the value has schema id=99, which is no version of its subject",
        header + b"\x0a\x02\xff\xfe": undecodable,
        header + b"\x0a\x7f": undecodable,
        good[:5] + b"\x80": undecodable,
        good[:5] + b"\x02\x04": "the value has message indexes=[2], which schema id=1 does not",
        encode_message(registry, message_class(at={"nanos": 1})): "the field at does not fit its column without loss",
        encode_message(
            registry, message_class(at={"seconds": 2**60})
        ): "the field at does not fit its column without loss",
        encode_message(
            registry, message_class(span={"nanos": 1})
        ): "the field span does not fit its column without loss",
        encode_message(
            registry, message_class(span={"seconds": 2**62})
        ): "the field span does not fit its column without loss",
        encode_message(registry, message_class(state=7)): "the field state has number=7, which its enum does not name",
    }
    assert {value: reads.decode(value) for value in reasons} == {value: (None, text) for value, text in reasons.items()}
    assert reads.decode(None) is None


def test_message_indexes_that_no_schema_has_are_bad(registry: SchemaRegistry) -> None:
    good = encode_message(
        registry, build_classes(build_file(build_message("Order", build_field("id", 1, "int32"))))["shop.Order"](id=5)
    )
    reads, header = build_decoder(registry), good[:5]
    assert reads.decode(good) == ({"id": 5}, None)
    assert reads.decode(header + b"\x02\x00\x08\x05") == ({"id": 5}, None)
    undecodable = "the value is not a Protobuf message of its schema"
    reasons = {
        b"\x01\x08\x05": "the value has a negative number of message indexes",
        b"\x02\x01\x08\x05": "the value has message indexes=[-1], which schema id=1 does not",
        b"\x80" * 11 + b"\x00": undecodable,
        b"\xfe\xff\x7f": undecodable,
    }
    assert {indexes: reads.decode(header + indexes) for indexes in reasons} == {
        indexes: (None, reason) for indexes, reason in reasons.items()
    }


def test_field_that_is_put_aside_or_cut_is_bad_wherever_it_stands_and_others_are_not_looked_at(
    registry: SchemaRegistry,
) -> None:
    small = build_message("Small", build_field("n", 1, "int32"))
    field = build_field("many", 3, ".shop.Small", repeated=True)
    times = (build_field("doc", 4, G + "Struct"), build_field("at", 5, G + "Timestamp"))
    order = build_message("Order", build_field("id", 1, "int32"), build_field("of", 2, ".shop.Small"), field, *times)
    header = encode_message(registry, build_classes(build_file(order, small))["shop.Order"](id=1))[:6]
    large, reads = b"\x80\x80\x80\x80\x80\x01", build_decoder(registry)
    wide_number, wrong_type = "has a number of more bits than its type", "is not written as its type is"
    reasons = {
        b"\x12\x07\x08" + large: f"the field of.n {wide_number}",
        b"\x1a\x02\x08\x01\x1a\x07\x08" + large: f"the field many.n {wide_number}",
        b"\x1a\x03\x0a\x01a": f"the field many.n {wrong_type}",
        b"\x22\x02\x08\x01": f"the field doc.fields {wrong_type}",
        b"\x2a\x07\x10" + large: f"the field at.nanos {wide_number}",
        b"\x08\x01\x08" + large: f"the field id {wide_number}",
    }
    assert {body: reads.decode(header + body) for body in reasons} == {
        body: (None, reason) for body, reason in reasons.items()
    }
    strange = b"\x08\x81\x00\x12\x00\x32\x01a\x3b\x08\x05\x3c\x45\x00\x00\x00\x00"  # a long 1, and fields 6, 7 and 8
    row, reason = reads.decode(header + strange) or ({}, "none")
    assert (row and row["id"], row and row["of"], reason) == (1, {"n": 0}, None)
    empty_schema = {
        **build_described_table({"registry": registry.url}).value.options,
        "shape": {"kind": "message", "fields": []},
    }
    assert MessageDecoder(empty_schema, "value").decode(header + b"\x08" + large) == ({}, None)


def test_wrapper_that_came_or_went_between_versions_is_the_value_inside(registry: SchemaRegistry) -> None:
    text = build_field("z", 3, G + "StringValue")
    old = build_message("Order", build_field("x", 1, "int32"), build_field("y", 2, G + "Int64Value"), text)
    new = build_message("Order", build_field("x", 1, G + "Int32Value"), build_field("y", 2, "int64"), text)
    first = build_classes(build_file(old))["shop.Order"]
    values = [encode_message(registry, first(x=5, y={"value": 7}, z={})), encode_message(registry, first())]
    values.append(encode_message(registry, build_classes(build_file(new))["shop.Order"](y=9)))
    reads = build_decoder(registry)
    assert [reads.decode(value) for value in values] == [
        ({"x": 5, "y": 7, "z": ""}, None),
        ({"x": 0, "y": None, "z": None}, None),
        ({"x": None, "y": 9, "z": None}, None),
    ]


def test_document_is_the_same_text_in_each_run_and_a_number_that_json_lacks_is_bad(registry: SchemaRegistry) -> None:
    message_class = build_classes(build_file(build_message("Order", build_field("doc", 1, G + "Struct"))))["shop.Order"]
    names = [f"n{number}" for number in range(30)]
    first_message, second_message = message_class(), message_class()
    first_message.doc.update(dict.fromkeys(names, 1.5))
    second_message.doc.update(dict.fromkeys(reversed(names), 1.5))
    values, reads = (
        [encode_message(registry, message) for message in (first_message, second_message)],
        build_decoder(registry),
    )
    text = "{" + ", ".join(f'"{name}": 1.5' for name in sorted(names)) + "}"
    assert [reads.decode(value) for value in values] == [({"doc": text}, None)] * 2
    first_message.doc.update({"n0": float("nan")})
    assert reads.decode(encode_message(registry, first_message)) == (
        None,
        "the field doc has a number that JSON does not have",
    )


def test_nanoseconds_are_cut_where_that_is_asked_for(registry: SchemaRegistry) -> None:
    order = build_message("Order", build_field("at", 1, G + "Timestamp"), build_field("span", 2, G + "Duration"),
                    build_field("many", 3, G + "Timestamp", repeated=True))  # fmt: skip
    message_class = build_classes(build_file(order))["shop.Order"]
    value = encode_message(
        registry,
        message_class(
            at={"seconds": -1, "nanos": 999_999_999}, span={"seconds": -1, "nanos": -1}, many=[{"nanos": 1999}]
        ),
    )
    options = build_described_table({"registry": registry.url}).value.options
    assert MessageDecoder(options, "value").decode(value)[0] is None
    cut = MessageDecoder({**options, "shape": make_truncated_shape(options["shape"])}, "value")
    assert cut.decode(value) == ({"at": -1, "span": -1_000_001, "many": [1]}, None)
    message = encode_message(registry, message_class(at={"seconds": 2**60, "nanos": 1}))
    assert cut.decode(message) == (None, "the field at does not fit its column without loss")


def test_value_that_no_column_holds_takes_no_other_record_of_its_batch_down(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow as pa
    from tidegate_spark.fields import protobuf as decoder

    shape = {"kind": "message", "fields": [{"name": "n", "number": 1, "shape": {"kind": "int64"}}]}
    rows = {b"a": 1, b"b": 2**63, b"c": 3}
    monkeypatch.setattr(decoder.MessageDecoder, "decode", lambda self, value: ({"n": rows[value]}, None))
    row_values = decoder.build_decoder({"shape": shape}, "value")(pa.array(list(rows))).to_pylist()
    assert [row["row"] for row in row_values] == [{"n": 1}, None, {"n": 3}]
    assert [row["reason"] for row in row_values] == [None, "the value has a value that its column cannot hold", None]


def test_descriptor_file_reads_bare_messages_without_a_registry(tmp_path: Path) -> None:
    message_class = build_classes(file := build_file(build_message("Order", build_field("id", 1, "int64"))))[
        "shop.Order"
    ]
    known = FileDescriptorSet()
    pool = message_class.DESCRIPTOR.file.pool
    for name in file.dependency:
        pool.FindFileByName(name).CopyToProto(known.file.add())
    known.file.append(file)
    (tmp_path / "orders.desc").write_bytes(known.SerializeToString())
    options = {"descriptor": "orders.desc", "message": "Order"}
    reads = MessageDecoder(build_described_table(options, tmp_path).value.options, "value")
    assert reads.decode(message_class(id=7).SerializeToString()) == ({"id": 7}, None)
    assert reads.decode(b"") == ({"id": 0}, None)
    assert reads.decode(b"\x08") == (None, "the value is not a Protobuf message of its schema")
    with pytest.raises(ConfigurationError, match="cannot be read: No such file"):
        build_described_table({**options, "descriptor": "none.desc"}, tmp_path)
    (tmp_path / "text.desc").write_text("syntax = 'proto3';")
    with pytest.raises(ConfigurationError, match="is no descriptor set; write it with: protoc"):
        build_described_table({**options, "descriptor": "text.desc"}, tmp_path)


def test_what_no_table_can_hold_and_schemas_of_another_type_are_refused(registry: SchemaRegistry) -> None:
    tree = build_message("Tree", build_field("child", 1, ".shop.Tree"))
    encode_message(registry, build_classes(build_file(tree))["shop.Tree"]())
    with pytest.raises(ConfigurationError, match=r"message=shop.Tree holds itself"):
        build_described_table({"registry": registry.url})
    registry.register("avro-value", {"schema": '"string"'})
    with pytest.raises(ConfigurationError, match=r"schema id=2 of its values is of type AVRO; correct value.format"):
        build_described_table({"registry": registry.url, "subject": "avro-value"})
    registry.register("text-value", {"schema": "no language", "schemaType": "PROTOBUF"})
    with pytest.raises(GiveUp, match="came from the registry as text"):
        build_described_table({"registry": registry.url, "subject": "text-value"})


def test_key_is_a_message_with_the_key_fields(registry: SchemaRegistry) -> None:
    message_class = build_classes(build_file(build_message("Key", build_field("id", 1, "uint64"))))["shop.Key"]
    value = encode_message(registry, message_class(id=2**64 - 1), "key")
    key = KeyFormat("protobuf", ("id",), options={"registry": registry.url})
    table = build_described_table({}, key=key, value=ValueFormat("raw"))
    assert [(c.name, c.type) for c in table.key.columns or ()] == [("id", "DECIMAL(20,0)")]
    assert MessageDecoder(table.key.options, "key").decode(value) == ({"id": Decimal(2**64 - 1)}, None)
    with pytest.raises(ConfigurationError, match=r"key.fields=\['nope'\] are not in the key's schema"):
        build_described_table({}, key=replace(key, fields=("nope",)), value=ValueFormat("raw"))


def test_descriptors_travel_as_text(registry: SchemaRegistry) -> None:
    encode_message(registry, build_classes(build_message_class())["shop.All"]())
    (files,) = build_described_table({"registry": registry.url}).value.options["writers"].values()
    assert FileDescriptorSet.FromString(base64.b64decode(files)).file[-1].package == "shop"


def test_message_that_holds_itself_is_read_over_where_no_column_is_made_of_it(registry: SchemaRegistry) -> None:
    node = build_message("Node", build_field("n", 1, "int32"), build_field("inside", 2, ".shop.Node", repeated=True))
    order = build_message(
        "Order",
        build_field("Id", 1, "int32"),
        build_field("tree", 2, ".shop.Node"),
        build_field("parent", 3, ".shop.Order"),
        build_field("marker", 4, ".shop.Marker"),
    )
    classes = build_classes(build_file(order, node, build_message("Marker")))
    message = classes["shop.Order"](Id=7)
    message.tree.inside.add().inside.add().n = 1
    message.parent.Id = 8
    message.marker.SetInParent()
    value = encode_message(registry, message)
    wanted = ValueFormat("protobuf", (Column("Id", "INT"),), options={"registry": registry.url})
    options = build_described_table({}, value=wanted).value.options
    assert MessageDecoder(options, "value").decode(value) == ({"Id": 7}, None)
