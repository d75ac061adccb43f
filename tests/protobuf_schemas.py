"""Schemas of Protobuf for the types of `value_cases.PROTOBUF`, as the options by which their messages are read."""

from base64 import b64encode
from typing import Any

from protobuf_messages import build_field, build_file, build_map_entry, build_message
from tidegate.adapters.schema_registry.client import Version
from tidegate.adapters.schema_registry.protobuf_descriptors import from_registry
from value_cases import NOTHING, PROTOBUF, Case

CURRENT_ID, OLDER_ID = 1, 2  # of schemas; the older one lacks the field
PROTO2_TYPES = ("required int32", "closed enum", "group")
TYPE_NAMES = {
    "enum": "enum:.shop.State", "message": ".shop.Inside", "group": ".shop.Row.V", "int32>": ".shop.Row.VEntry",
}  # fmt: skip


def build_options_of_type(kind: str) -> dict[str, Any]:
    """For messages of one field `v` of this type, with number 1."""
    file = _build_file([kind], "proto2" if kind in PROTO2_TYPES else "proto3")
    older = type(file).FromString(file.SerializeToString())
    del older.message_type[0].field[0], older.message_type[0].oneof_decl[:]
    return from_registry([_build_version(OLDER_ID, older), _build_version(CURRENT_ID, file)], "shop.Row")


def build_options_of_types(kinds: list[str]) -> dict[str, Any]:
    """For messages with a field of each type: `v`, `v2`, `v3` ..., with numbers from 1 on."""
    return from_registry([_build_version(CURRENT_ID, _build_file(kinds, "proto3"))], "shop.Row")


def encode_case(case: Case) -> bytes:
    """The case's message behind its header: the id of its schema, and no index."""
    number = OLDER_ID if case.text == NOTHING and case.edge == "missing" else CURRENT_ID
    return b"\0\0\0\0" + bytes([number, 0]) + bytes.fromhex(case.text)


def encode_cases(cases: list[Case]) -> bytes:
    """One message with the fields of all cases, whose messages have one field each."""
    body = b""
    for number, message in enumerate((bytes.fromhex(case.text) for case in cases), 1):
        tag = number << 3 | message[0] & 7
        body += bytes([tag] if number < 16 else [tag & 0x7F | 0x80, tag >> 7]) + message[1:]
    return b"\0\0\0\0" + bytes([CURRENT_ID, 0]) + body


def list_types() -> list[str]:
    return list(dict.fromkeys(case.type for case in PROTOBUF))


def _build_version(number: int, file: Any) -> Version:
    return Version(number, "PROTOBUF", b64encode(file.SerializeToString()).decode(), {})


def _build_file(kinds: list[str], syntax: str) -> Any:
    fields = [_build_field("v" if number == 1 else f"v{number}", number, kind) for number, kind in enumerate(kinds, 1)]
    nested = (build_map_entry("VEntry", "string", "int32"), build_message("V", build_field("x", 1, "int32")))
    file = build_file(
        build_message("Row", *fields, build_field("z", 99, "int32"), nested=nested),
        build_message("Inside", build_field("x", 1, "int32")),
        enums={"State": {"NONE": 0, "OPEN": 1, "SHUT": 2, "DONE": 2}},
        syntax=syntax,
    )
    file.enum_type[0].options.allow_alias = True
    for field, kind in zip(file.message_type[0].field, kinds, strict=False):  # z is the last one
        field.label = 2 if kind.startswith("required ") else field.label
        field.type = 10 if kind == "group" else field.type
    return file


def _build_field(name: str, number: int, kind: str) -> dict[str, Any]:
    word, type_name = kind.rpartition(" ")[::2]
    known = f".google.protobuf.{type_name}" if type_name[0].isupper() else type_name
    is_repeated = type_name == "int32>" or word == "repeated"
    return build_field(
        name, number, TYPE_NAMES.get(type_name, known), repeated=is_repeated, optional=word == "optional"
    )
