"""Protobuf schemas that a registry gives as text: what is read of them, and what is said of those that cannot be."""

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from tidegate.adapters.schema_registry.client import Version
from tidegate.adapters.schema_registry.protobuf_descriptors import from_file, from_registry
from tidegate.errors import ConfigurationError, GiveUp

OLDER = 'syntax = "proto3"; package shop; message Order { int64 id = 1; }'
NEWER = """syntax = "proto3"; package shop; import "shop/money.proto"; import "google/protobuf/timestamp.proto";
message Order { int64 id = 1; Money paid = 2; google.protobuf.Timestamp at = 3; State state = 4;
  enum State { NEW = 0; SENT = 1; } }"""
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'


def build_version(text: str, number: int = 2, **references: str) -> Version:
    named_references = {f"shop/{name}.proto": reference for name, reference in references.items()}
    return Version(70 + number, "PROTOBUF", text, named_references, subject="Orders-value", number=str(number))


def test_types_of_imported_texts_are_found_from_the_inside_out() -> None:
    registry = from_registry([build_version(OLDER, 1), build_version(NEWER, money=MONEY)], None)
    shapes = {field["name"]: field["shape"] for field in registry["shape"]["fields"]}
    assert registry["message"] == "shop.Order"
    assert [shapes[name]["kind"] for name in ("id", "at", "state")] == ["int64", "timestamp", "enum"]
    assert shapes["paid"]["fields"] == [{"name": "cents", "number": 1, "shape": {"kind": "int64"}}]
    assert sorted(registry["writers"]) == ["71", "72"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message Order {", "text that cannot be read: line=1: the text ends too early; register its serialized form"),
        ("message Order { optional int64 id = 5000000000; }", "text that cannot be read: .*Value out of range"),
        ('import "lost.proto"; message Order { }', "imports lost.proto, which is not registered; register it"),
    ],
)
def test_schema_that_cannot_be_used_is_named_by_subject_version_and_id(text: str, reason: str) -> None:
    with pytest.raises(
        GiveUp, match=rf"^subject=Orders-value version=2 id=72: the Protobuf schema .*{reason}"
    ) as error:
        from_registry([build_version(OLDER, 1), build_version(text), build_version(OLDER, 3)], None)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("old_field", ["string Note = 2", "string note = 2", "int64 note = 3"])
def test_version_is_refused_only_for_a_field_that_a_column_reads(old_field: str) -> None:
    head = 'syntax = "proto3"; package shop; message Order { int64 id = 1;'
    old = build_version(f"{head} {old_field}; }}", 1)
    versions = [old, build_version(f"{head} string note = 3; string Name = 4; string name = 5; }}")]
    assert from_registry(versions, None, kept={"id", "name"})["refused"] == {}
    for kept in (None, {"id", "note"}):
        assert list(from_registry(versions, None, kept=kept)["refused"]) == ["71"]


def test_bad_text_of_an_import_is_named_too() -> None:
    place = "subject=Orders-value version=2 id=72 import=shop/money.proto: the Protobuf schema came"
    with pytest.raises(GiveUp, match=f"^{place}"):
        from_registry([build_version(NEWER, money="message Money {")], None)


def test_descriptor_set_without_its_imports_says_how_to_write_it(tmp_path) -> None:
    file = FileDescriptorProto(name="orders.proto", dependency=["lost.proto"])
    (tmp_path / "orders.desc").write_bytes(FileDescriptorSet(file=[file]).SerializeToString())
    with pytest.raises(
        ConfigurationError, match=r"orders.desc is not whole: .*lost.proto.*; write it with: protoc --inc"
    ):
        from_file(tmp_path / "orders.desc", "Order")
