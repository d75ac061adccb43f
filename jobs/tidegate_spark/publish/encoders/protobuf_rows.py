"""A publication's rows as Protobuf messages in bytes, on Spark's Python workers.

The module travels to the workers by value, so it imports nothing of the product; `protobuf` and `pyarrow` are there.
"""

from collections.abc import Callable
from typing import Any

TIMESTAMP_NAME = "google.protobuf.Timestamp"


def build_encoder(file: bytes, message: str, header: bytes) -> Callable[[Any], Any]:
    """Return a function of an Arrow array of structs: an array of `header` and the message in bytes. Deterministic."""
    import pyarrow as pa

    message_classes: list[Any] = []

    def encode(rows: pa.Array) -> pa.Array:
        if not message_classes:
            message_classes.append(build_class(file, message))
        messages = (
            None if row is None else header + _encode_row(message_classes[0](), row) for row in rows.to_pylist()
        )
        return pa.array(messages, pa.binary())

    return encode


def build_class(file: bytes, message: str) -> Any:
    """Return the class of the message of that full name. TypeError if the file's descriptor is none."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(build_pool(FileDescriptorProto.FromString(file)).FindMessageTypeByName(message))


def build_pool(file: Any) -> Any:
    """Return a pool of the file and of Protobuf's own that it imports. TypeError if its descriptor is none."""
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool

    pool = DescriptorPool()
    for name in file.dependency:
        known_file = FileDescriptorProto()
        module = name.removesuffix(".proto").replace("/", ".")
        import_module(f"{module}_pb2").DESCRIPTOR.CopyToProto(known_file)
        pool.Add(known_file)
    pool.Add(file)
    return pool


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
                if element is None:
                    raise ValueError(f"column={name}: Protobuf's lists hold no NULL; leave them out in sql")
                if kind is None:
                    getattr(message, name).append(element)
                else:
                    _set_value(getattr(message, name).add(), element)
        elif kind is None:
            setattr(message, name, value)
        else:
            _set_value(getattr(message, name), value)


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
    elif message.DESCRIPTOR.full_name == TIMESTAMP_NAME:
        message.FromDatetime(value)
    else:  # a wrapper
        message.value = value
