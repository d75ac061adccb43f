"""Protobuf messages for tests, made without a compiler: a file's descriptor from plain words, and its classes."""

from typing import Any

from google.protobuf import descriptor_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2  # noqa: F401
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

KNOWN = ("timestamp", "duration", "wrappers", "struct", "empty", "any")


def build_field(name: str, number: int, kind: str, **options: Any) -> dict[str, Any]:
    """`kind` is a word of the language, or a message's or enum's full name with a dot ahead; `enum:` before an enum."""
    return {"name": name, "number": number, "kind": kind, **options}


def build_message(name: str, *fields: dict[str, Any], nested: tuple[DescriptorProto, ...] = ()) -> DescriptorProto:
    message = DescriptorProto(name=name, nested_type=nested)
    oneofs = [*dict.fromkeys(f["oneof"] for f in fields if "oneof" in f)]
    oneofs += [f"_{f['name']}" for f in fields if f.get("optional")]  # those of one field come last
    for name_of_one in oneofs:
        message.oneof_decl.add(name=name_of_one)
    for field in fields:
        kind = field["kind"]
        new = message.field.add(name=field["name"], number=field["number"])
        new.label = (
            FieldDescriptorProto.LABEL_REPEATED if field.get("repeated") else FieldDescriptorProto.LABEL_OPTIONAL
        )
        if kind.startswith("enum:"):
            new.type, new.type_name = FieldDescriptorProto.TYPE_ENUM, kind.removeprefix("enum:")
        elif kind.startswith("."):
            new.type, new.type_name = FieldDescriptorProto.TYPE_MESSAGE, kind
        else:
            new.type = FieldDescriptorProto.Type.Value(f"TYPE_{kind.upper()}")
        group = f"_{field['name']}" if field.get("optional") else field.get("oneof")
        if group:
            new.oneof_index = oneofs.index(group)
            new.proto3_optional = bool(field.get("optional"))
    return message


def build_map_entry(name: str, key: str, value: str) -> DescriptorProto:
    """The message behind a map."""
    entry = build_message(name, build_field("key", 1, key), build_field("value", 2, value))
    entry.options.map_entry = True
    return entry


def build_file(*messages: DescriptorProto, name: str = "shop.proto", enums: dict[str, dict[str, int]] | None = None,
           syntax: str = "proto3", imports: tuple[str, ...] = ()) -> FileDescriptorProto:  # fmt: skip
    known = [f"google/protobuf/{word}.proto" for word in KNOWN]
    file = FileDescriptorProto(
        name=name, package="shop", syntax=syntax, dependency=[*known, *imports], message_type=messages
    )
    for word, values in (enums or {}).items():
        enum = file.enum_type.add(name=word)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    return file


def build_classes(*files: FileDescriptorProto) -> dict[str, Any]:
    """The classes of the last file's messages by their full names."""
    from google.protobuf import any_pb2, duration_pb2  # noqa: F401
    from google.protobuf.descriptor_pool import Default

    pool = DescriptorPool()
    for word in KNOWN:
        known = FileDescriptorProto()
        Default().FindFileByName(f"google/protobuf/{word}.proto").CopyToProto(known)
        pool.Add(known)
    for file in files:
        pool.Add(file)
    classes: dict[str, Any] = {}

    def add(descriptors: Any) -> None:
        for descriptor in descriptors:
            if not descriptor.GetOptions().map_entry:
                classes[descriptor.full_name] = GetMessageClass(descriptor)
            add(descriptor.nested_types)

    add(pool.FindFileByName(files[-1].name).message_types_by_name.values())
    return classes
