"""Protobuf messages of a publication: the descriptor that its columns have, and rows as bytes on Python workers.

The module travels to the workers by value, so it imports nothing of the product; `protobuf` and `pyarrow` are there.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

TIMESTAMP_FILE = "google/protobuf/timestamp.proto"
# Of each kind of column the field types that hold it without loss, the usual one first.
LOSSLESS_TYPES = {
    "int32": ("INT32", "SINT32", "SFIXED32", "INT64", "SINT64", "SFIXED64"),
    "int64": ("INT64", "SINT64", "SFIXED64"),
    "float": ("FLOAT", "DOUBLE"),
    "double": ("DOUBLE",),
    "bool": ("BOOL",),
    "string": ("STRING",),
    "bytes": ("BYTES",),
}
RESERVED_NUMBERS = range(19000, 20000)  # Protobuf's own


class IncompatibleColumn(Exception):
    """A column that the known message cannot hold; the text says which."""


class BuiltDescriptor(NamedTuple):
    """A file in bytes, the full name and the place of its message, and whether the registered file has all of it."""

    file: bytes
    name: str
    message_index: int
    is_known: bool


def build_descriptor(
    name: str, fields: list[dict[str, Any]], registered_file: bytes | None, message_name: str | None
) -> BuiltDescriptor:
    """The registered file, or a new one, with a message of these fields.

    Registered fields keep their numbers, also those without a column; new ones get the next. Each has a presence of its
    own, so that NULL is told from 0. IncompatibleColumn for a column that the registered message cannot hold.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = (
        FileDescriptorProto.FromString(registered_file)
        if registered_file
        else FileDescriptorProto(name="schema.proto", syntax="proto3")
    )
    before = file.SerializeToString(deterministic=True)
    if registered_file and set(file.dependency) - {TIMESTAMP_FILE}:
        raise IncompatibleColumn(f"the registered schema imports {', '.join(file.dependency)}")
    names = [message.name for message in file.message_type]
    target_name = message_name or (names[0] if names else name)
    if target_name not in names:
        names.append(file.message_type.add(name=target_name).name)
    index = names.index(target_name)
    if TIMESTAMP_FILE not in file.dependency:
        file.dependency.append(TIMESTAMP_FILE)
        before = b"" if not registered_file else before
    own = f"{file.package}." if file.package else ""
    has_presence = file.syntax != "proto3"
    _extend_message(file.message_type[index], fields, f".{own}{target_name}", has_presence=has_presence)
    is_known = registered_file is not None and _list_messages(file) == _list_messages(
        FileDescriptorProto.FromString(before)
    )
    return BuiltDescriptor(file.SerializeToString(deterministic=True), f"{own}{target_name}", index, is_known)


def serialize_description(description: dict[str, Any]) -> bytes:
    """A file's descriptor in bytes, from Protobuf's JSON form."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.json_format import ParseDict

    return bytes(ParseDict(description, FileDescriptorProto()).SerializeToString())


class FileMessages(NamedTuple):
    """The messages of a file by their full names with a dot ahead, inner ones too; and whether its syntax is proto3."""

    by_name: dict[str, Any]
    is_proto3: bool


def describe_messages(file: bytes) -> FileMessages:
    """Read the messages out of a file's descriptor."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    described = FileDescriptorProto.FromString(file)
    place = f".{described.package}" if described.package else ""
    waiting, by_name = [(place, message) for message in described.message_type], {}
    while waiting:
        place, message = waiting.pop()
        name = f"{place}.{message.name}"
        by_name[name] = message
        waiting += [(name, inner) for inner in message.nested_type]
    return FileMessages(by_name, described.syntax == "proto3")


def _list_messages(file: Any) -> list[bytes]:
    return [message.SerializeToString(deterministic=True) for message in file.message_type]


def _extend_message(message: Any, fields: list[dict[str, Any]], path: str, *, has_presence: bool) -> None:
    """Add the fields that the message at `path` lacks, inner ones too; `has_presence` where all fields have one."""
    registered_fields = {field.name: field for field in message.field}
    for field in fields:
        descriptor = registered_fields.get(field["name"])
        if descriptor is None:
            descriptor = _add_field(message, field, path, has_presence=has_presence)
        elif not _can_hold(descriptor, field):
            raise IncompatibleColumn(f"the field {field['name']} is registered with another type")
        if field["kind"] in ("message", "map"):
            nested = next((m for m in message.nested_type if descriptor.type_name == f"{path}.{m.name}"), None)
            if nested is None:
                raise IncompatibleColumn(
                    f"the field {field['name']} is a message that stands elsewhere in the registered schema"
                )
            _extend_message(nested, field["fields"], f"{path}.{nested.name}", has_presence=has_presence)


def _add_field(message: Any, field: dict[str, Any], path: str, *, has_presence: bool) -> Any:
    """A new field behind all numbers that were ever given, which can say that it is not set."""
    highest = max([0, *(f.number for f in message.field), *(r.end - 1 for r in message.reserved_range)])
    number = highest + 1 if highest + 1 not in RESERVED_NUMBERS else RESERVED_NUMBERS.stop
    descriptor = message.field.add(name=field["name"], number=number)
    _set_type(message, descriptor, field, path)
    is_message, is_entry = descriptor.type == descriptor.TYPE_MESSAGE, message.options.map_entry
    if not (has_presence or field["repeated"] or is_message or is_entry):
        # a oneof of its own is how the language says optional
        descriptor.oneof_index, descriptor.proto3_optional = len(message.oneof_decl), True
        message.oneof_decl.add(name=f"_{field['name']}")
    return descriptor


def _set_type(message: Any, new: Any, field: dict[str, Any], path: str) -> None:
    new.label = new.LABEL_REPEATED if field["repeated"] or field["kind"] == "map" else new.LABEL_OPTIONAL
    if field["kind"] == "timestamp":
        new.type, new.type_name = new.TYPE_MESSAGE, ".google.protobuf.Timestamp"
    elif field["kind"] in ("message", "map"):
        nested = message.nested_type.add(
            name=_to_camel_case(field["name"]) + ("Entry" if field["kind"] == "map" else "Row")
        )
        nested.options.map_entry = field["kind"] == "map"
        new.type, new.type_name = new.TYPE_MESSAGE, f"{path}.{nested.name}"
    else:
        new.type = getattr(new, f"TYPE_{LOSSLESS_TYPES[field['kind']][0]}")


def _to_camel_case(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))  # as maps' entries must be called


def _can_hold(descriptor: Any, field: dict[str, Any]) -> bool:
    is_list = field["repeated"] or field["kind"] == "map"
    if (descriptor.label == descriptor.LABEL_REPEATED) != is_list:
        return False
    if field["kind"] == "timestamp":
        return bool(descriptor.type_name == ".google.protobuf.Timestamp")
    if field["kind"] in ("message", "map"):
        return bool(descriptor.type == descriptor.TYPE_MESSAGE)
    return descriptor.type in [getattr(descriptor, f"TYPE_{name}") for name in LOSSLESS_TYPES[field["kind"]]]


def build_encoder(file: bytes, message: str, header: bytes) -> Callable[[Any], Any]:
    """A function of an Arrow array of structs: an array of `header` and the message in bytes, always the same ones.

    NULL stays NULL.
    """
    import pyarrow as pa

    made: list[Any] = []

    def encode(rows: pa.Array) -> pa.Array:
        if not made:
            made.append(_build_class(file, message))
        messages = (None if row is None else header + _encode_row(made[0](), row) for row in rows.to_pylist())
        return pa.array(messages, pa.binary())

    return encode


def _build_class(file: bytes, message: str) -> Any:
    from google.protobuf import timestamp_pb2
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool, timestamp_file = DescriptorPool(), FileDescriptorProto()
    timestamp_pb2.DESCRIPTOR.CopyToProto(timestamp_file)
    pool.Add(timestamp_file)
    pool.Add(FileDescriptorProto.FromString(file))
    return GetMessageClass(pool.FindMessageTypeByName(message))


def _encode_row(message: Any, row: dict[str, Any]) -> bytes:
    _fill_message(message, row)
    return bytes(message.SerializeToString(deterministic=True))


def _fill_message(message: Any, row: dict[str, Any]) -> None:
    for name, value in row.items():
        if value is None:
            continue
        field = message.DESCRIPTOR.fields_by_name[name]
        kind = field.message_type
        if kind is not None and kind.GetOptions().map_entry:
            _fill_map(getattr(message, name), value, kind.fields_by_name["value"].message_type is not None)
        elif field.is_repeated:
            for element in value:
                _append_element(message, name, kind, element)
        elif kind is None:
            setattr(message, name, value)
        else:
            _set_value(getattr(message, name), value)


def _append_element(message: Any, name: str, kind: Any, element: Any) -> None:
    if element is None:
        raise ValueError(f"column={name}: Protobuf's lists hold no NULL; leave them out in sql")
    if kind is None:
        getattr(message, name).append(element)
    else:
        _set_value(getattr(message, name).add(), element)


def _fill_map(entries: Any, pairs: Any, holds_messages: bool) -> None:
    for key, value in pairs:
        if value is None:
            raise ValueError(f"key={key}: Protobuf's maps hold no NULL; leave them out in sql")
        if holds_messages:
            _set_value(entries[key], value)
        else:
            entries[key] = value


def _set_value(message: Any, value: Any) -> None:
    message.SetInParent()
    if isinstance(value, dict):
        _fill_message(message, value)
    else:
        message.FromDatetime(value)
