"""Protobuf messages decoded in batches of Arrow, on Spark's Python workers.

The module travels to the workers by value, so it imports nothing of the product; `protobuf` and `pyarrow` are there.
"""

import base64
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from tidegate_spark.fields.arrow_decoder import DecodingError, build_arrow_decoder, decode_or_explain
from tidegate_spark.fields.protobuf.wire import find_misread_field, read_zigzag

HEADER_BYTES = 5  # the magic byte and four bytes of schema id
# of the years 1 and 9999
FIRST_SECOND = -62_135_596_800
LAST_SECOND = 253_402_300_799
ARROW_TYPES = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), "int32"),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32", "duration"), "int64"),
    **dict.fromkeys(("string", "enum", "json"), "string"),
    **{"double": "float64", "float": "float32", "bool": "bool_", "empty": "bool_", "bytes": "binary"},
}
# what is a message itself, and no wrapper around a value
MESSAGE_KINDS = ("message", "timestamp", "duration", "json", "empty")


def build_decoder(options: dict[str, Any], part: str) -> Callable[[Any], Any]:
    """A function of an Arrow array of messages: an array of structs of `row` and `reason`, one of them NULL."""
    shape = options["shape"]
    return build_arrow_decoder(lambda: MessageDecoder(options, part).decode, lambda: to_arrow_type(shape), part)


class MessageDecoder:
    """Reads messages of all schema ids; classes are made when the first record of their id comes."""

    def __init__(self, options: dict[str, Any], part: str) -> None:
        self._options = options
        self._part = part
        self._shape = options["shape"]
        self._numbers = frozenset(field["number"] for field in self._shape["fields"])
        self._classes: dict[tuple[str, tuple[int, ...]], Any] = {}

    def decode(self, value: bytes | None) -> tuple[dict[str, Any] | None, str | None] | None:
        """The row, or the reason why there is none; None for no bytes."""
        return decode_or_explain(self._decode_row, value, f"the {self._part} is not a Protobuf message of its schema")

    def _decode_row(self, value: bytes) -> dict[str, Any]:
        number, indexes, body = ("", (), value) if "files" in self._options else self._parse_header(value)
        message = self._get_class(number, indexes).FromString(body)
        if not message.IsInitialized():
            raise DecodingError(f"the {self._part} lacks the required {', '.join(message.FindInitializationErrors())}")
        is_as_written = message.SerializeToString() == body
        message.DiscardUnknownFields()
        if not is_as_written or message.ByteSize() != len(body):  # something was put aside or cut, or written otherwise
            misread = find_misread_field(body, message.DESCRIPTOR, self._numbers)
            if misread is not None:
                raise DecodingError(f"the field {misread.path} {misread.problem}")
        return convert_message(message, self._shape, "")

    def _parse_header(self, value: bytes) -> tuple[str, tuple[int, ...], bytes]:
        if len(value) <= HEADER_BYTES or value[0] != 0:
            raise DecodingError(f"the {self._part} does not begin with the magic byte, a schema id and message indexes")
        number = str(int.from_bytes(value[1:HEADER_BYTES], "big"))
        if number in self._options["refused"]:
            raise DecodingError(f"the {self._part} has schema id={number}, whose {self._options['refused'][number]}")
        if number not in self._options["writers"]:
            raise DecodingError(f"the {self._part} has schema id={number}, which is no version of its subject")
        count, at = read_zigzag(value, HEADER_BYTES)
        if count < 0:
            raise DecodingError(f"the {self._part} has a negative number of message indexes")
        indexes = []
        for _ in range(count):
            index, at = read_zigzag(value, at)
            indexes.append(index)
        return number, tuple(indexes) or (0,), value[at:]

    def _get_class(self, number: str, indexes: tuple[int, ...]) -> Any:
        message_class = self._classes.get((number, indexes))
        if message_class is None:
            message_class = self._classes[number, indexes] = self._build_class(number, indexes)
        return message_class

    def _build_class(self, number: str, indexes: tuple[int, ...]) -> Any:
        from google.protobuf.descriptor_pb2 import FileDescriptorSet
        from google.protobuf.descriptor_pool import DescriptorPool
        from google.protobuf.message_factory import GetMessageClass

        message_name = self._options["message"]
        files = FileDescriptorSet.FromString(
            base64.b64decode(self._options["writers"][number] if number else self._options["files"])
        ).file
        pool = DescriptorPool()
        for file in files:
            pool.Add(file)
        if not indexes:
            return GetMessageClass(pool.FindMessageTypeByName(message_name))
        descriptor = None
        below = list(pool.FindFileByName(files[-1].name).message_types_by_name.values())
        for index in indexes:
            if not 0 <= index < len(below):
                raise DecodingError(
                    f"the {self._part} has message indexes={list(indexes)}, which schema id={number} does not"
                )
            descriptor = below[index]
            below = list(below[index].nested_types)
        if descriptor is None or descriptor.full_name != message_name:
            raise DecodingError(
                f"the {self._part} is a message={getattr(descriptor, 'full_name', None)}, not {message_name}"
            )
        return GetMessageClass(descriptor)


def convert_message(message: Any, shape: dict[str, Any], path: str) -> dict[str, Any]:
    """The message as a dictionary, by the reader's names; fields that the writer does not know are None."""
    writer_fields = message.DESCRIPTOR.fields_by_number
    row = {}
    for field in shape["fields"]:
        writer_field = writer_fields.get(field["number"])
        has_value = writer_field is not None and (not writer_field.has_presence or message.HasField(writer_field.name))
        below = f"{path}.{field['name']}"
        row[field["name"]] = (
            _convert_field(getattr(message, writer_field.name), writer_field, field["shape"], below)
            if has_value
            else None
        )
    return row


def _convert_field(value: Any, writer_field: Any, shape: dict[str, Any], path: str) -> Any:
    if shape["kind"] == "list":
        return [_convert_value(element, writer_field, shape["element"], path) for element in value]
    if shape["kind"] == "map":
        fields = writer_field.message_type.fields_by_name
        items = ((k, value[k]) for k in value)  # a message map makes what it is asked for
        return [
            (
                _convert_value(k, fields["key"], shape["key"], path),
                _convert_value(v, fields["value"], shape["value"], path),
            )
            for k, v in items
        ]
    return _convert_value(value, writer_field, shape, path)


def _convert_value(value: Any, writer_field: Any, shape: dict[str, Any], path: str) -> Any:
    shape, writer_field, value = _unwrap(shape, writer_field, value)
    match shape["kind"]:
        case _ if writer_field.enum_type is not None:
            result: Any = _get_enum_name(value, writer_field, path)
        case "message":
            result = convert_message(value, shape, path)
        case "timestamp" | "duration":
            result = _to_micros(value, shape, path)
        case "json":
            result = _format_json(value, path)
        case "empty":
            result = True
        case "uint64" | "fixed64":
            result = Decimal(value)
        case _:
            result = value
    return result


def _unwrap(shape: dict[str, Any], writer_field: Any, value: Any) -> tuple[dict[str, Any], Any, Any]:
    """The shape, the field and the value inside of a wrapper; a version without one is read as one with it."""
    shape = shape["value"] if shape["kind"] == "wrapper" else shape
    if writer_field.message_type is None or shape["kind"] in MESSAGE_KINDS:
        return shape, writer_field, value
    return shape, value.DESCRIPTOR.fields_by_name["value"], value.value


def _get_enum_name(value: int, writer_field: Any, path: str) -> str:
    enum_value = writer_field.enum_type.values_by_number.get(value)
    if enum_value is None:
        raise DecodingError(f"the field {path.removeprefix('.')} has number={value}, which its enum does not name")
    return str(enum_value.name)


def _format_json(value: Any, path: str) -> str:
    from google.protobuf.json_format import Error, MessageToJson

    try:  # in the order of names: Protobuf keeps them in any
        return MessageToJson(value, indent=None, ensure_ascii=False, sort_keys=True)
    except (Error, ValueError):
        raise DecodingError(f"the field {path.removeprefix('.')} has a number that JSON does not have") from None


def _to_micros(value: Any, shape: dict[str, Any], path: str) -> int:
    kind = shape["kind"]
    is_cut = not shape.get("truncated") and value.nanos % 1000
    least = 0 if kind == "timestamp" else 1 - 10**9
    within = FIRST_SECOND <= value.seconds <= LAST_SECOND or kind == "duration"
    micros = int(value.seconds * 1_000_000 + value.nanos // 1000)
    if not within or is_cut or not least <= value.nanos < 10**9 or not -(2**63) <= micros < 2**63:
        raise DecodingError(f"the field {path.removeprefix('.')} does not fit its column without loss")
    return micros


def to_arrow_type(shape: dict[str, Any]) -> Any:
    """The Arrow type of the shape's column."""
    import pyarrow as pa

    match shape["kind"]:
        case "message":
            arrow_type = pa.struct([(field["name"], to_arrow_type(field["shape"])) for field in shape["fields"]])
        case "list":
            arrow_type = pa.list_(to_arrow_type(shape["element"]))
        case "map":
            arrow_type = pa.map_(to_arrow_type(shape["key"]), to_arrow_type(shape["value"]))
        case "wrapper":
            arrow_type = to_arrow_type(shape["value"])
        case "timestamp":
            arrow_type = pa.timestamp("us", "UTC")
        case "uint64" | "fixed64":
            arrow_type = pa.decimal128(20, 0)
        case leaf:
            arrow_type = getattr(pa, ARROW_TYPES[leaf])()
    return arrow_type
