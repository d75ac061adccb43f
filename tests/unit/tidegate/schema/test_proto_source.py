"""The language of `.proto` files, read without its compiler: Protobuf's runtime makes of it what was written."""

from typing import Any

import pytest
from google.protobuf import duration_pb2, timestamp_pb2  # noqa: F401 (their files are in the default pool)
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import Default, DescriptorPool
from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.message_factory import GetMessageClass
from tidegate.schema.proto_source import ProtoSyntaxError, parse_proto

ORDER = """
// what a shop sells
syntax = "proto3";
package shop.v1;

import "google/protobuf/timestamp.proto";
import public "google/protobuf/duration.proto";

option java_package = "com.example.shop";  /* of no account
   over two lines; } */
option (custom).name = { a: "}" b: 2 };

message Order {
  option deprecated = false;
  reserved 4, 20 to 25, 1000 to max;
  reserved "old_name", "other";
  int64 id = 1 [json_name = "identifier", (checked) = { min: 1, names: ["a", "b"] }];
  optional string note = 2;
  repeated Line lines = 3;
  map<string, Line.Money> prices_by_name = 5;
  google.protobuf.Timestamp at = 6;
  .google.protobuf.Duration took = 7;
  State state = 8;
  oneof payment {
    option (a) = 1;
    string card = 9;
    Line.Money cash = 10;
  };
  repeated sint32 marks = 0xB [packed = false];
  optional bytes raw = 12;

  message Line {
    message Money { int64 cents = 1; }
    Money price = 1;
    State state = 2;
    enum State { NONE = 0; SOME = 1; }
  }
}

enum State {
  option allow_alias = true;
  reserved 7;
  UNKNOWN = 0;
  OPEN = 1 [deprecated = true];
  STARTED = 1;
  CLOSED = -2;
}

service Shop { rpc Buy (Order) returns (Order) { option idempotent = true; } }
"""


def load(text: str, name: str = "order.proto") -> Any:
    """The file as Protobuf's runtime took it."""
    pool = DescriptorPool()
    for known in ("timestamp", "duration"):
        file = FileDescriptorProto()
        Default().FindFileByName(f"google/protobuf/{known}.proto").CopyToProto(file)
        pool.Add(file)
    pool.Add(ParseDict({**parse_proto(text), "name": name}, FileDescriptorProto()))
    return pool.FindFileByName(name)


def test_every_word_of_the_language_is_what_the_runtime_reads() -> None:
    file = load(ORDER)
    order, line = file.message_types_by_name["Order"], file.message_types_by_name["Order"].nested_types_by_name["Line"]
    fields = order.fields_by_name
    assert (file.package, order.full_name) == ("shop.v1", "shop.v1.Order")
    assert {name: field.number for name, field in fields.items()} == {
        "id": 1, "note": 2, "lines": 3, "prices_by_name": 5, "at": 6, "took": 7, "state": 8, "card": 9, "cash": 10,
        "marks": 11, "raw": 12,
    }  # fmt: skip
    assert fields["lines"].is_repeated
    assert fields["lines"].message_type is line
    assert fields["prices_by_name"].message_type.GetOptions().map_entry
    assert fields["prices_by_name"].message_type.fields_by_name["value"].message_type.full_name.endswith("Line.Money")
    assert fields["at"].message_type.full_name == "google.protobuf.Timestamp"
    assert fields["took"].message_type.full_name == "google.protobuf.Duration"
    assert fields["state"].enum_type.full_name == "shop.v1.State"
    assert line.fields_by_name["state"].enum_type.full_name == "shop.v1.Order.Line.State"
    assert [field.name for field in order.oneofs_by_name["payment"].fields] == ["card", "cash"]
    assert [fields[name].has_presence for name in ("id", "note", "raw", "card")] == [False, True, True, True]
    assert [value.number for value in file.enum_types_by_name["State"].values] == [0, 1, 1, -2]
    proto = FileDescriptorProto()
    file.CopyToProto(proto)
    ranges = [(reserved_range.start, reserved_range.end) for reserved_range in proto.message_type[0].reserved_range]
    assert ranges == [(4, 5), (20, 26), (1000, 536870912)]


def test_bytes_go_through_the_messages_and_come_back() -> None:
    file = load(ORDER)
    order = GetMessageClass(file.message_types_by_name["Order"])
    data = {
        "identifier": "9007199254740993", "note": "", "lines": [{"price": {"cents": "5"}, "state": "SOME"}],
        "pricesByName": {"a": {"cents": "-1"}}, "at": "2026-01-01T00:00:00Z", "took": "1.500s", "state": "CLOSED",
        "cash": {"cents": "7"}, "marks": [1, -1],
    }  # fmt: skip
    message_bytes = ParseDict(data, order()).SerializeToString()
    assert MessageToDict(order.FromString(message_bytes)) == data


DEFAULTS = {
    "double": {"1.5e-3": 0.0015, "2.5E+3": 2500.0, "-.5": -0.5, "1.": 1.0, "-inf": float("-inf"), "1e10": 1e10},
    "int64": {"-5": -5, "0x1F": 31, "017": 15},
    "string": {'"x;y"': "x;y", r"""'a\"b\n\x41\101'""": 'a"b\nAA', """"a" 'é'""": "aé"},
    "bytes": {r'"\001\xff\"q"': b'\x01\xff"q', '"a" "b"': b"ab"},
}


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [(kind, text, value) for kind, cases in DEFAULTS.items() for text, value in cases.items()],
)
def test_default_is_what_the_compiler_makes_of_it(kind: str, text: str, value: Any) -> None:
    file = load(f"message M {{ optional {kind} x = 1 [deprecated = true, default = {text}, (a) = 2]; }}")
    assert file.message_types_by_name["M"].fields_by_name["x"].default_value == value


def test_options_of_others_readers_are_kept_and_those_of_a_custom_option_are_not_taken_for_them() -> None:
    file = load(
        """message M { repeated int32 a_b = 1 [packed = true, json_name = "zz", (o) = {packed: false, default: 1}];
        repeated int32 c = 2 [(o).packed = true]; }"""
    )
    named, plain = file.message_types_by_name["M"].fields
    assert (named.json_name, named.is_packed, named.has_default_value) == ("zz", True, False)
    assert (plain.json_name, plain.is_packed) == ("c", False)


def test_older_language_has_labels_and_defaults() -> None:
    file = load('message M { required int32 id = 1; optional string name = 2 [default = "x;y", deprecated = true]; }')
    message = GetMessageClass(file.message_types_by_name["M"])
    assert message(id=1).name == "x;y"
    assert file.message_types_by_name["M"].fields_by_name["id"].is_required


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message M {", "the text ends too early"),
        ('edition = "2023";', "line=1: 'edition' begins nothing"),
        ("message M {\n  int32 id = one;\n}", "line=2: 'one' is no number"),
        ("message M { optional group G = 1 { } }", "a group is not read"),
        ("CgdvLnByb3Rv+EgRz", "is no word of the language|begins nothing"),
        (r'message M { optional string s = 1 [default = "\x"]; }', "is no default of a string"),
        ('syntax "proto3";', "'\"proto3\"' stands where '=' must"),
    ],
)
def test_what_is_no_such_text_says_where(text: str, reason: str) -> None:
    with pytest.raises(ProtoSyntaxError, match=reason):
        parse_proto(text)
