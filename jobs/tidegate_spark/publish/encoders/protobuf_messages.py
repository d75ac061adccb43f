"""Protobuf messages of a publication: the descriptor that its columns have, a new one or one that is registered."""

from typing import Any, NamedTuple

from tidegate_spark.publish.encoders.protobuf_rows import TIMESTAMP_NAME, build_class, build_pool

TIMESTAMP_FILE = "google/protobuf/timestamp.proto"
TIMESTAMP = f".{TIMESTAMP_NAME}"
# Files that a registered schema may import, as all users of Protobuf have them.
KNOWN_FILES = tuple(
    f"google/protobuf/{word}.proto" for word in ("timestamp", "duration", "wrappers", "struct", "empty", "any")
)
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
WRAPPERS = {
    f".google.protobuf.{word}Value": word.upper()
    for word in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
RESERVED_NUMBERS = range(19000, 20000)  # Protobuf's own
MAX_NUMBER = 2**29 - 1


class IncompatibleColumn(Exception):
    """A column that the known message cannot hold; the text says which, and what to do."""


class BuiltDescriptor(NamedTuple):
    """A file in bytes, the full name and the place of its message, and whether the registered file has all of it."""

    file: bytes
    name: str
    message_index: int
    is_known: bool


def build_descriptor(
    name: str, fields: list[dict[str, Any]], registered_file: bytes | None, message_name: str | None
) -> BuiltDescriptor:
    """Return the registered file, or a new one, with a message of these fields.

    Registered fields keep their numbers, also those without a column; new ones get the next. Each has a presence of its
    own, so that NULL differs from 0. `IncompatibleColumn` for a column that the registered message cannot hold.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="schema.proto", syntax="proto3")
    if registered_file:
        file = FileDescriptorProto.FromString(registered_file)
    known_messages = _list_messages(file)
    unknown = [imported for imported in file.dependency if imported not in KNOWN_FILES]
    if unknown:
        raise IncompatibleColumn(
            f"the registered schema imports {', '.join(unknown)}; register one without it, or publish to a new topic"
        )
    full_name = _name_message(file, message_name, name)
    names = [f"{_render_package(file)}.{message.name}" for message in file.message_type]
    if full_name not in names:
        names.append(full_name)
        file.message_type.add(name=full_name.rpartition(".")[2])
    if TIMESTAMP_FILE not in file.dependency:
        file.dependency.append(TIMESTAMP_FILE)
    _extend_message(file, full_name, fields)
    descriptor = BuiltDescriptor(
        file.SerializeToString(deterministic=True), full_name.removeprefix("."), names.index(full_name),
        is_known=registered_file is not None and _list_messages(file) == known_messages,
    )  # fmt: skip
    try:
        build_class(descriptor.file, descriptor.name)
    except TypeError as fault:  # before it is registered
        raise IncompatibleColumn(
            f"the columns make no valid Protobuf message: {fault}; rename the columns that it names with AS in sql, "
            "or publish to a new topic"
        ) from fault
    return descriptor


def _name_message(file: Any, message_name: str | None, own_name: str) -> str:
    package = _render_package(file)
    if message_name is None:
        return f"{package}.{file.message_type[0].name if file.message_type else own_name}"
    name = message_name.removeprefix(package.removeprefix(".") + ".")
    if "." in name:
        raise IncompatibleColumn(
            f"protobuf.message={message_name} is no message of the registered schema, which has "
            f"{', '.join(f'{package}.{message.name}'.removeprefix('.') for message in file.message_type) or 'none'}; "
            "name one of those, or a new one without a dot"
        )
    return f"{package}.{name}"


def _render_package(file: Any) -> str:
    return f".{file.package}" if file.package else ""


def serialize_description(description: dict[str, Any]) -> bytes:
    """Return a descriptor in bytes, with the full names of its types, from Protobuf's JSON form.

    ValueError if it is no descriptor. Imports of others than Protobuf's own files are not followed.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.json_format import ParseDict, ParseError

    try:
        file = ParseDict(description, FileDescriptorProto(name="schema.proto"))
        resolved_file = FileDescriptorProto()
        if not set(file.dependency) <= set(KNOWN_FILES):
            return bytes(file.SerializeToString())
        build_pool(file).FindFileByName(file.name).CopyToProto(resolved_file)
    except (TypeError, ParseError) as fault:
        raise ValueError(str(fault)) from fault
    return bytes(resolved_file.SerializeToString())


class FileMessages(NamedTuple):
    """The messages of a file by full name with a dot ahead, inner ones too; and whether its syntax is proto3."""

    by_name: dict[str, Any]
    is_proto3: bool


def describe_messages(file: bytes) -> FileMessages:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file_descriptor = FileDescriptorProto.FromString(file)
    return FileMessages(_index_messages(file_descriptor), file_descriptor.syntax == "proto3")


def _index_messages(file: Any) -> dict[str, Any]:
    pending_messages = [(_render_package(file), message) for message in file.message_type]
    by_name = {}
    while pending_messages:
        place, message = pending_messages.pop()
        name = f"{place}.{message.name}"
        by_name[name] = message
        pending_messages += [(name, inner) for inner in message.nested_type]
    return by_name


def _list_messages(file: Any) -> list[bytes]:
    return [message.SerializeToString(deterministic=True) for message in file.message_type]


def _extend_message(file: Any, path: str, fields: list[dict[str, Any]]) -> None:
    message = _index_messages(file)[path]
    registered_fields = {field.name: field for field in message.field}
    names = {field["name"] for field in fields}
    required_fields = [name for name, field in registered_fields.items() if field.label == field.LABEL_REQUIRED]
    unfilled = next((name for name in required_fields if name not in names), None)
    if unfilled is not None:
        raise IncompatibleColumn(
            f"no column fills the field {unfilled}, which is required in the registered message; "
            "add the column in sql, or publish to a new topic",
        )
    for field in fields:
        descriptor = registered_fields.get(field["name"])
        if descriptor is None:
            descriptor = _add_field(file, message, field, path)
        elif not _can_hold(descriptor, field):
            raise IncompatibleColumn(
                f"the field {field['name']} is registered with another type; cast it in sql, or publish to a new topic"
            )
        if field["kind"] in ("message", "map"):
            if descriptor.type_name not in _index_messages(file):
                raise IncompatibleColumn(
                    f"the field {field['name']} is registered as {descriptor.type_name[1:]}; cast it in sql, or "
                    "publish to a new topic"
                )
            _extend_message(file, descriptor.type_name, field["fields"])


def _add_field(file: Any, message: Any, field: dict[str, Any], path: str) -> Any:
    # behind all numbers that were ever given, and with a presence of its own
    json_name = _to_json_name(field["name"])
    alike = next((f.name for f in message.field if _to_json_name(f.name) == json_name), None)
    if alike is not None:
        raise IncompatibleColumn(
            f"the fields {alike} and {field['name']} have the same name in JSON, {json_name}, which Protobuf refuses; "
            "rename one of them in sql",
        )
    descriptor = message.field.add(name=field["name"], number=_choose_number(message))
    _set_type(message, descriptor, field, path)
    is_message = descriptor.type == descriptor.TYPE_MESSAGE
    is_entry = message.options.map_entry
    if not (file.syntax != "proto3" or field["repeated"] or is_message or is_entry):
        # a oneof of its own is how the language says optional
        descriptor.oneof_index = len(message.oneof_decl)
        descriptor.proto3_optional = True
        message.oneof_decl.add(name=f"_{field['name']}")
    return descriptor


def _choose_number(message: Any) -> int:
    reserved_ranges = [*message.reserved_range, *message.extension_range]
    number: int = 1 + max(
        [0, *(f.number for f in message.field), *(r.end - 1 for r in reserved_ranges if r.end <= MAX_NUMBER)]
    )
    if number in RESERVED_NUMBERS:
        number = RESERVED_NUMBERS.stop
    if number > MAX_NUMBER or any(r.start <= number < r.end for r in reserved_ranges):
        raise IncompatibleColumn(
            f"the registered message={message.name} has no number left after its fields; "
            "add the column's field to it yourself, or publish to a new topic",
        )
    return number


def _set_type(message: Any, new_field: Any, field: dict[str, Any], path: str) -> None:
    new_field.label = (
        new_field.LABEL_REPEATED if field["repeated"] or field["kind"] == "map" else new_field.LABEL_OPTIONAL
    )
    if field["kind"] == "timestamp":
        new_field.type = new_field.TYPE_MESSAGE
        new_field.type_name = TIMESTAMP
    elif field["kind"] in ("message", "map"):
        is_map = field["kind"] == "map"
        name = _to_camel_case(field["name"]) + ("Entry" if is_map else "Row")
        used_names = {member.name for member in (*message.nested_type, *message.field)}
        while not is_map and name in used_names:  # `a_b` and `AB`; of a map's entry the language says what it is called
            name += "_"
        nested = message.nested_type.add(name=name)
        nested.options.map_entry = is_map
        new_field.type = new_field.TYPE_MESSAGE
        new_field.type_name = f"{path}.{nested.name}"
    else:
        new_field.type = getattr(new_field, f"TYPE_{LOSSLESS_TYPES[field['kind']][0]}")


def _to_camel_case(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))  # as maps' entries must be called


def _to_json_name(name: str) -> str:
    head, _, tail = name.partition("_")
    return head + _to_camel_case(tail)


def _can_hold(descriptor: Any, field: dict[str, Any]) -> bool:
    is_list = field["repeated"] or field["kind"] == "map"
    if (descriptor.label == descriptor.LABEL_REPEATED) != is_list:
        return False
    if field["kind"] == "timestamp":
        return bool(descriptor.type_name == TIMESTAMP)
    if field["kind"] in ("message", "map"):
        return bool(descriptor.type == descriptor.TYPE_MESSAGE)
    if descriptor.type_name in WRAPPERS:
        return WRAPPERS[descriptor.type_name] in LOSSLESS_TYPES[field["kind"]]
    return descriptor.type in [getattr(descriptor, f"TYPE_{name}") for name in LOSSLESS_TYPES[field["kind"]]]
