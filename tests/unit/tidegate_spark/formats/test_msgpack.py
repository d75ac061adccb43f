"""MessagePack taken apart: what is no record, what is refused before it takes memory, and every edge of a value."""

import tracemalloc
from typing import Any

import msgpack
import pytest
from tidegate.schema.data_types import parse_type
from tidegate_spark.fields import msgpack as msgpack_fields
from tidegate_spark.fields.msgpack import MapDecoder, build_decoder
from tidegate_spark.formats.msgpack import build_shape


def read(kind: str, value: bytes, **options: Any) -> tuple[Any, str | None] | None:
    return MapDecoder({**build_shape(parse_type(kind)), **options}, "value").decode(value)


def encode_msgpack(value: Any) -> bytes:
    return bytes(msgpack.packb(value))


ROW = "STRUCT<a: BIGINT, b: STRUCT<c: INT>, m: MAP<STRING, INT>>"


def test_fields_are_found_by_their_names_and_others_are_passed_over() -> None:
    assert read(ROW, encode_msgpack({"z": [{"a": 9}], "b": {"c": 1, "d": 2}, "a": 7})) == (
        {"a": 7, "b": {"c": 1}, "m": None}, None)  # fmt: skip
    assert read(ROW, encode_msgpack({})) == ({"a": None, "b": None, "m": None}, None)
    assert MapDecoder(build_shape(parse_type(ROW)), "value").decode(None) is None


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE"])
def test_key_that_is_no_number_is_one_key_however_it_is_written(kind: str) -> None:
    nan, other_nan = b"\xcb\x7f\xf8\x00\x00\x00\x00\x00\x00", b"\xca\xff\xc0\x00\x01"
    twice = b"\x81\xa1m\x82" + nan + b"\x01" + other_nan + b"\x02"
    assert read(f"STRUCT<m: MAP<{kind}, INT>>", twice) == (None, "the value field m has a key twice")


REFUSED = {
    "no bytes": (b"", "the value is not MessagePack"),
    "a list": (encode_msgpack([1]), "the value is not a MessagePack map"),
    "nil": (encode_msgpack(None), "the value is not a MessagePack map"),
    "bytes behind": (encode_msgpack({"a": 1}) + b"\xc0", "the value has bytes after its MessagePack map"),
    "two maps": (encode_msgpack({"a": 1}) * 2, "the value has bytes after its MessagePack map"),
    "cut": (encode_msgpack({"a": 2**40})[:-1], "the value is not MessagePack"),
    "cut in a field that is passed over": (encode_msgpack({"z": "abc"})[:-1], "the value is not MessagePack"),
    "other fields only": (encode_msgpack({"z": 1, "y": 2}), "the value has none of the columns, but fields: y, z"),
    "another spelling": (encode_msgpack({"A": 1}), "the value has the field A, and the column is a"),
    "another spelling inside": (
        encode_msgpack({"b": {"C": 1}}),
        "the value field b has the field C, and the column is c",
    ),
    "a field twice": (b"\x82\xa1a\x01\xa1a\x01", "the value has the field a twice"),
    "another field twice": (b"\x83\xa1a\x01\xa1z\x01\xa1z\x01", "the value has the field z twice"),
    "a field inside twice": (b"\x81\xa1b\x82\xa1c\x01\xa1c\x02", "the value field b has the field c twice"),
    "a name that is a number": (b"\x82\xa1a\x01\x01\x01", "the value has a field whose name is no text"),
    "a name that is no UTF-8": (b"\x82\xa1a\x01\xa1\xff\x01", "the value is not valid UTF-8"),
    "a key twice": (b"\x81\xa1m\x82\xa1x\x01\xa1x\x01", "the value field m has a key twice"),
    "a key that is nil": (b"\x81\xa1m\x81\xc0\x01", "the value field m has a key that is nil"),
    "a map in place of a number": (encode_msgpack({"a": {}}), "the value field a is not a BIGINT without loss"),
    "a list in place of a struct": (
        encode_msgpack({"b": [1]}),
        "the value field b is not a STRUCT<c: INT> without loss",
    ),
    "a number that is too large inside": (
        encode_msgpack({"b": {"c": 2**31}}),
        "the value field b.c is not a INT without loss",
    ),
    "a byte that is no type": (b"\x81\xa1a\xc1", "the value is not MessagePack"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bytes_that_are_no_row_say_why(name: str) -> None:
    value, reason = REFUSED[name]
    assert read(ROW, value) == (None, reason)


def test_own_spelling_of_a_column_goes_before_another_one() -> None:
    assert read(ROW, encode_msgpack({"A": 1, "a": 2})) == ({"a": 2, "b": None, "m": None}, None)


def test_field_of_the_key_counts_as_one_of_the_columns() -> None:
    assert read("STRUCT<a: INT>", encode_msgpack({"id": 1}), known=["id"]) == ({"a": None}, None)


def test_lone_field_of_a_key_may_come_bare_and_must_be_there() -> None:
    assert read("STRUCT<a: INT>", encode_msgpack(7), must=True, bare=True) == ({"a": 7}, None)
    assert read("STRUCT<a: INT>", encode_msgpack({"a": 7}), must=True, bare=True) == ({"a": 7}, None)
    assert read("STRUCT<a: INT>", encode_msgpack({"b": 7}), must=True) == (None, "the value lacks the key's field a")
    assert read("STRUCT<a: INT>", encode_msgpack({"a": None}), must=True) == ({"a": None}, None)


HUGE = {
    "a map of four billion": b"\x81\xa1m\xdf\xff\xff\xff\xff",
    "a record of four billion fields": b"\xdf\xff\xff\xff\xff",
    "a list of four billion": b"\x81\xa1l\xdd\xff\xff\xff\xff",
    "a text of four gigabytes": b"\x81\xa1s\xdb\xff\xff\xff\xff",
    "an extension of four gigabytes": b"\x81\xa1s\xc9\xff\xff\xff\xff\xff",
    "what is passed over": b"\x81\xa1z\xdd\xff\xff\xff\xff",
    "endless nesting": b"\x81\xa1z" + b"\x91" * 100_000,
    "nesting where a number is expected": b"\x81\xa1n" + b"\xdd\x00\x01\x00\x00" * 20_000,
    "lists in lists that each claim as much as the record is long": b"\x81\xa1z" + b"\xdd\x00\x01\x00\x00" * 20_000,
}


@pytest.mark.parametrize("name", HUGE)
def test_record_that_claims_to_be_huge_takes_no_memory(name: str) -> None:
    kind = "STRUCT<m: MAP<STRING, INT>, l: ARRAY<INT>, s: STRING, n: INT>"
    read(kind, HUGE[name])  # what the library needs once
    tracemalloc.start()
    value = read(kind, HUGE[name])
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert value is not None
    assert value[0] is None
    assert peak_bytes < 1_000_000 + 4 * len(HUGE[name])


def test_batch_keeps_the_order_of_its_records_and_one_bad_record_takes_no_other_down() -> None:
    import pyarrow as pa

    shape = build_shape(parse_type("STRUCT<a: INT, m: MAP<TINYINT, STRING>>"))
    values = [encode_msgpack({"a": 1, "m": {7: "x"}}), None, b"\xc1", encode_msgpack({"a": 2})]
    assert build_decoder(shape, "value")(pa.array(values, pa.binary())).to_pylist() == [
        {"row": {"a": 1, "m": [(7, "x")]}, "reason": None}, None,
        {"row": None, "reason": "the value is not a MessagePack map"}, {"row": {"a": 2, "m": None}, "reason": None},
    ]  # fmt: skip


def transcribe(value: Any) -> tuple[Any, str | None] | None:
    return msgpack_fields.transcribe(value if isinstance(value, bytes) else encode_msgpack(value))


def test_record_is_written_as_json_with_null_for_what_holds_no_scalar() -> None:
    record = {"a": 1, "none": [], "b": {"c": [None, {"d": 1.0}], "e": {}}, 'q"': [[], {"x": None}], "t": "\u00fc\\"}
    text = '{"a":1,"none":null,"b":{"c":[null,{"d":1.0}],"e":null},"q\\"":null,"t":"\u00fc\\\\"}'
    assert transcribe(record) == ({"text": text}, None)
    assert transcribe({}) == ({"text": "{}"}, None)
    assert transcribe({"a": None}) == ({"text": '{"a":null}'}, None)
    assert transcribe({2**63: 2**64 - 1}) == ({"text": '{"9223372036854775808":18446744073709551615}'}, None)
    assert msgpack_fields.transcribe(None) is None


UNWRITTEN = {
    "a list": ([1], "the value is not a MessagePack map"),
    "bytes behind": (encode_msgpack({"a": 1}) + b"\xc0", "the value has bytes after its MessagePack map"),
    "cut": (encode_msgpack({"a": 2**40})[:-1], "the value is not MessagePack"),
    "a field twice": (b"\x82\xa1a\x01\xa1a\x01", "the value has the field a twice"),
    "a field inside twice": (b"\x81\xa1b\x82\xa1c\x01\xa1c\x02", "the value field b has the field c twice"),
    "one name as text and as number": (b"\x82\xa11\x01\x01\x01", "the value has the field 1 twice"),
    "a name that is nil": (b"\x81\xc0\x01", "the value has a field whose name is no text and no number"),
    "no UTF-8": (b"\x81\xa1a\xa1\xff", "the value field a is not valid UTF-8"),
    "too deep": (b"\x81\xa1a" + b"\x91" * 300 + b"\x01", "the value field a is nested deeper than 200 levels"),
    "a false count": (b"\x81\xa1a\xdd\xff\xff\xff\xff\x01", "the value is not MessagePack"),
    "a time of no year": (
        encode_msgpack({"a": msgpack.Timestamp(2**40)}), "the value field a is a time outside of the years 1 to 9999",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNWRITTEN)
def test_record_that_is_no_json_says_why(case: str) -> None:
    value, reason = UNWRITTEN[case]
    assert transcribe(value) == (None, reason)
