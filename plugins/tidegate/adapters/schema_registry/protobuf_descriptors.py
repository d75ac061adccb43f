"""Reads Protobuf's descriptors: the files of a schema, the message that is meant, and its shape."""

import base64
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from tidegate.adapters.schema_registry.client import Version
from tidegate.errors import ConfigurationError, GiveUp
from tidegate.schema.proto_source import ProtoSyntaxError, parse_proto
from tidegate.schema.protobuf import (
    Shape,
    drop_unheld_fields,
    find_incompatibility,
    find_missing_field,
    restore_dropped_fields,
    to_column_type,
)
from tidegate.schema.wire_format import KEYLESS

GOOGLE_PREFIX = "google.protobuf."
# Folders of files that every producer has, and the Python packages that bring them.
SHIPPED_PACKAGES = {
    "google/protobuf/": "google.protobuf",
    "google/type/": "google.type",
    "confluent/": "confluent_kafka.schema_registry.confluent",
}
WRAPPER_TYPES = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
WELL_KNOWN_KINDS = {
    "Timestamp": "timestamp", "Duration": "duration", "Empty": "empty",
    "Struct": "json", "Value": "json", "ListValue": "json",
}  # fmt: skip
FIELD_TYPES = (
    "double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "group", "message", "bytes",
    "uint32", "enum", "sfixed32", "sfixed64", "sint32", "sint64",
)  # fmt: skip  # in the order of their numbers, from 1 on


def from_registry(
    versions: Iterable[Version],
    message_name: str | None,
    key_fields: Sequence[str] = (),
    part: str = "value",
    kept: Collection[str] | None = None,
) -> dict[str, Any]:
    """Options of the format, without a secret, for records of these versions, the newest last.

    `ConfigurationError` names a message that no table holds, unless only the `kept` fields of the row are needed.
    """
    version_list = list(versions)
    sets = {version.id: _read_files(version) for version in version_list}
    message = _find_message(sets[version_list[-1].id], message_name)
    pools = {number: _index_messages(files).get(message.full_name) for number, files in sets.items()}
    writer_shapes = {number: to_shape(old) for number, old in pools.items() if old is not None}
    shape = to_shape(message)
    for version in reversed(version_list):
        shape = restore_dropped_fields(shape, writer_shapes.get(version.id, shape))
    shape = _hold_shape(shape, kept)
    refused_versions = {
        str(number): reason
        for number, old in writer_shapes.items()
        if (reason := find_incompatibility(old, shape, kept=kept))
    }
    missing = ((str(number), find_missing_field(old, shape, key_fields)) for number, old in writer_shapes.items())
    keyless = {number: reason for number, reason in missing if reason}
    # a key version without one of the key fields would give all its records one key
    if part == "key":
        refused_versions = keyless | refused_versions
    writers = {
        str(number): _encode_files(files) for number, files in sets.items() if str(number) not in refused_versions
    }
    options = {"shape": shape, "message": message.full_name, "writers": writers, "refused": refused_versions}
    return options | ({KEYLESS: keyless} if keyless and part == "value" else {})


def _hold_shape(shape: Shape, kept: Collection[str] | None) -> Shape:
    held_shape = shape if kept is None else drop_unheld_fields(shape, kept)
    for field in held_shape["fields"]:
        to_column_type(field["shape"])
    return held_shape


def from_file(path: Path, message_name: str | None, kept: Collection[str] | None = None) -> dict[str, Any]:
    """Options for bare messages of a compiled descriptor set; asks no registry."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        files = list(FileDescriptorSet.FromString(path.read_bytes()).file)
        message = _find_message(files, message_name)
    except OSError as fault:
        raise ConfigurationError(f"protobuf.descriptor={path} cannot be read: {fault.strerror}") from fault
    except (DecodeError, TypeError) as fault:
        problem = "is no descriptor set" if isinstance(fault, DecodeError) else f"is not whole: {fault}"
        raise ConfigurationError(
            f"protobuf.descriptor={path} {problem}; write it with: protoc --include_imports --descriptor_set_out=FILE"
        ) from fault
    shape = _hold_shape(to_shape(message), kept)
    return {"shape": shape, "message": message.full_name, "files": _encode_files(files)}


def name_message(version: Version, indexes: Sequence[int]) -> str | None:
    """The full name of the message at these indexes, None where the schema has none there."""
    file = _parse_file(version.text, _describe_version(version))
    names = [file.package] if file.package else []
    inside = file.message_type
    for index in indexes:
        if not 0 <= index < len(inside):
            return None
        names.append(inside[index].name)
        inside = inside[index].nested_type
    return ".".join(names)


def to_shape(message: Any, above: tuple[str, ...] = ()) -> Shape:
    """A message's shape; its name alone if it holds itself, which no column can."""
    if message.full_name in above:
        return {"kind": "recursive", "name": message.full_name}
    inner = (*above, message.full_name)
    fields = [{"name": f.name, "number": f.number, "shape": _to_field_shape(f, inner)} for f in message.fields]
    return {"kind": "message", "name": message.full_name, "fields": fields}


def _to_field_shape(field: Any, above: tuple[str, ...]) -> Shape:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key = message.fields_by_name["key"]
        value = message.fields_by_name["value"]
        return {"kind": "map", "key": _to_value_shape(key, above), "value": _to_value_shape(value, above)}
    element = _to_value_shape(field, above)
    return {"kind": "list", "element": element} if field.is_repeated else element


def _to_value_shape(field: Any, above: tuple[str, ...]) -> Shape:
    message = field.message_type
    if message is None:
        return {"kind": FIELD_TYPES[field.type - 1]}
    name = message.full_name.removeprefix(GOOGLE_PREFIX) if message.full_name.startswith(GOOGLE_PREFIX) else ""
    if name in WELL_KNOWN_KINDS:
        return {"kind": WELL_KNOWN_KINDS[name]}
    if name.removesuffix("Value") in WRAPPER_TYPES:
        return {"kind": "wrapper", "value": _to_value_shape(message.fields_by_name["value"], above)}
    return to_shape(message, above)


def _describe_version(version: Version) -> str:
    return f"subject={version.subject} version={version.number} id={version.id}"


def _parse_file(text: str, place: str) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.json_format import ParseDict, ParseError
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        pass  # it may be the language itself
    try:
        return ParseDict(parse_proto(text), FileDescriptorProto())
    except (ProtoSyntaxError, ParseError) as fault:
        raise GiveUp(
            f"{place}: the Protobuf schema came from the registry as text that cannot be read: {fault}; "
            "register its serialized form (format=serialized)"
        ) from fault


def _read_files(version: Version) -> list[Any]:
    """The file and all that it imports, imports first."""
    root = _parse_file(version.text, _describe_version(version))
    files: dict[str, Any] = {}

    def add(file: Any, name: str) -> None:
        for imported in file.dependency:
            if imported in files:
                continue
            if imported in version.references:
                place = f"{_describe_version(version)} import={imported}"
                add(_parse_file(version.references[imported], place), imported)
                continue
            shipped_file = _load_shipped_file(imported)
            if shipped_file is None:
                raise GiveUp(
                    f"{_describe_version(version)}: the Protobuf schema imports {imported}, which is not registered; "
                    "register it as a reference of the schema, or give protobuf.descriptor"
                )
            add(shipped_file, imported)
        file.name = name  # as it is imported, whatever it was called when it was registered
        files[name] = file

    add(root, root.name or "schema.proto")
    return list(files.values())


def _load_shipped_file(name: str) -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    # registries leave out Google's common types and those of Confluent's client
    for folder, package in SHIPPED_PACKAGES.items():
        if not name.startswith(folder):
            continue
        module = name.removeprefix(folder).removesuffix(".proto").replace("/", ".")
        with suppress(ImportError):
            file = FileDescriptorProto()
            import_module(f"{package}.{module}_pb2").DESCRIPTOR.CopyToProto(file)
            return file
    return None


def _index_messages(files: list[Any]) -> dict[str, Any]:
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    for file in files:
        pool.Add(file)
    by_name: dict[str, Any] = {}

    def add(messages: Iterable[Any]) -> None:
        for message in messages:
            by_name[message.full_name] = message
            add(message.nested_types)

    for file in files:
        add(pool.FindFileByName(file.name).message_types_by_name.values())
    return by_name


def _find_message(files: list[Any], message_name: str | None) -> Any:
    """By full name or last part; without a name the first message of the last file."""
    messages = _index_messages(files)
    if message_name is None:
        root = files[-1]
        if not root.message_type:
            raise ConfigurationError(f"the Protobuf schema={root.name} has no message; correct the subject")
        return messages[".".join(filter(None, (root.package, root.message_type[0].name)))]
    matching_messages = [name for name in messages if name == message_name or name.endswith(f".{message_name}")]
    if len(matching_messages) != 1:
        message_names = ", ".join(sorted(name for name in messages if not name.startswith(GOOGLE_PREFIX)))
        raise ConfigurationError(
            f"protobuf.message={message_name} is not one of the schema's messages: {message_names}"
        )
    return messages[matching_messages[0]]


def _encode_files(files: list[Any]) -> str:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    return base64.b64encode(FileDescriptorSet(file=files).SerializeToString()).decode()
