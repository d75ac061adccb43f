"""What the bytes of a message say beside what Protobuf's own decoder makes of them.

The decoder puts aside, as unknown, a field of another wire type and a number that a closed enum does not name; and it
cuts a number of more bits than its field has. The module travels to the workers by value.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tidegate_spark.fields.arrow_decoder import DecodingError, build_arrow_decoder, decode_or_explain

VARINT, FIXED64, DELIMITED, GROUP, GROUP_END, FIXED32 = range(6)
MAX_VARINT_BYTES = 10
SIGNED = "signed"
UNSIGNED = "unsigned"
# the numbers of field types in a descriptor whose numbers have less than 64 bits, and travel in up to ten bytes
NARROW_TYPES = {5: SIGNED, 14: SIGNED, 13: UNSIGNED, 17: UNSIGNED}  # int32, enum; uint32, sint32
# how fields of a type travel; all others are numbers of a length of their own
WIRE_TYPES = {
    **dict.fromkeys((1, 6, 16), FIXED64),
    **dict.fromkeys((2, 7, 15), FIXED32),
    **dict.fromkeys((9, 11, 12), DELIMITED),
    10: GROUP,
}
BITS_32 = 1 << 32
BITS_64 = 1 << 64


def read_varint(value: bytes, at: int) -> tuple[int, int]:
    """Read a number of up to 64 bits and where it ends; ValueError if it is longer, IndexError if it is cut off."""
    number = shift = 0
    for at in range(at, at + MAX_VARINT_BYTES):  # noqa: B020, PLR1704 (it ends where the number does)
        byte = value[at]
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number % BITS_64, at + 1
    raise ValueError("a number of more than 64 bits")


def read_zigzag(value: bytes, at: int) -> tuple[int, int]:
    number, end = read_varint(value, at)
    return (number >> 1) ^ -(number & 1), end


def encode_zigzag(number: int) -> bytes:
    remaining_bits = number << 1
    encoded_bytes = bytearray()
    while remaining_bits > 0x7F:
        encoded_bytes.append(remaining_bits & 0x7F | 0x80)
        remaining_bits >>= 7
    return bytes([*encoded_bytes, remaining_bits])


@dataclass(frozen=True)
class MisreadField:
    """Where a field stands in a message, and what the decoder did not read as it is written."""

    path: str
    problem: str


def find_misread_field(body: bytes, descriptor: Any, numbers: frozenset[int] | None = None) -> MisreadField | None:
    """Return the first field that the decoder has put aside or cut, although its schema names it; else None.

    Only fields of these `numbers`, or all.
    """
    at = 0
    while at < len(body):
        tag, at = read_varint(body, at)
        field = descriptor.fields_by_number.get(tag >> 3) if numbers is None or tag >> 3 in numbers else None
        begin, end = _find_end(body, at, tag)
        misread = None if field is None else _find_misread_part(body[begin:end], tag & 7, field)
        if misread is not None:
            return misread
        at = end + _get_trailing_bytes(body, end, tag)
    return None


def _find_misread_part(content: bytes, wire: int, field: Any) -> MisreadField | None:
    own_wire = WIRE_TYPES.get(field.type, VARINT)
    is_packed = wire == DELIMITED and field.is_repeated and own_wire not in (DELIMITED, GROUP)
    if wire != own_wire and not is_packed:
        return MisreadField(field.name, "is not written as its type is")
    if field.message_type is not None:
        inside = find_misread_field(content, field.message_type)
        is_entry = field.message_type.GetOptions().map_entry
        return inside and MisreadField(field.name if is_entry else f"{field.name}.{inside.path}", inside.problem)
    at = 0
    while own_wire == VARINT and at < len(content):
        number, at = read_varint(content, at)
        if not _fits(number, NARROW_TYPES.get(field.type)):
            return MisreadField(field.name, "has a number of more bits than its type")
        signed = number - BITS_64 if number >= BITS_64 // 2 else number
        if field.enum_type is not None and field.enum_type.is_closed and signed not in field.enum_type.values_by_number:
            return MisreadField(field.name, f"has number={signed}, which its enum does not name")
    return None


def _fits(number: int, kind: str | None) -> bool:
    if kind == SIGNED:
        return number < BITS_32 // 2 or number >= BITS_64 - BITS_32 // 2
    return kind is None or number < BITS_32


def _find_end(body: bytes, at: int, tag: int) -> tuple[int, int]:
    # the content of a group ends before its closing tag
    wire = tag & 7
    if wire == VARINT:
        return at, read_varint(body, at)[1]
    if wire == DELIMITED:
        length, at = read_varint(body, at)
        return at, at + length
    if wire == GROUP:
        return at, _find_group_end(body, at)
    return at, at + (8 if wire == FIXED64 else 4)


def _find_group_end(body: bytes, at: int) -> int:
    while True:
        tag, inside = read_varint(body, at)
        if tag & 7 == GROUP_END:
            return at
        _, end = _find_end(body, inside, tag)
        at = end + _get_trailing_bytes(body, end, tag)


def _get_trailing_bytes(body: bytes, end: int, tag: int) -> int:
    return read_varint(body, end)[1] - end if tag & 7 == GROUP else 0


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
    """Return a function of an Arrow array of messages: an array of structs of `row` and `reason`, one of them NULL."""
    shape = options["shape"]
    return build_arrow_decoder(lambda: MessageDecoder(options, part).decode, lambda: to_arrow_type(shape), part)


class MessageDecoder:
    """Reads messages of all schema ids; a class is made at the first record of its id."""

    def __init__(self, options: dict[str, Any], part: str) -> None:
        self._options = options
        self._part = part
        self._shape = options["shape"]
        self._numbers = frozenset(field["number"] for field in self._shape["fields"])
        self._classes: dict[tuple[str, tuple[int, ...]], Any] = {}

    def decode(self, value: bytes | None) -> tuple[dict[str, Any] | None, str | None] | None:
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
    """Convert to a dictionary, by the reader's names; fields that the writer does not know are None."""
    writer_fields = message.DESCRIPTOR.fields_by_number
    row: dict[str, Any] = {field["name"]: None for field in shape["fields"]}
    for field in shape["fields"]:
        writer_field = writer_fields.get(field["number"])
        if writer_field is not None and (not writer_field.has_presence or message.HasField(writer_field.name)):
            value = getattr(message, writer_field.name)
            row[field["name"]] = _convert_field(value, writer_field, field["shape"], f"{path}.{field['name']}")
    return row


def _convert_field(value: Any, writer_field: Any, shape: dict[str, Any], path: str) -> Any:
    if shape["kind"] == "list":
        return [_convert_value(element, writer_field, shape["element"], path) for element in value]
    if shape["kind"] == "map":
        fields = writer_field.message_type.fields_by_name
        keys = [_convert_value(k, fields["key"], shape["key"], path) for k in value]
        # a message map makes what it is asked for
        values = [_convert_value(value[k], fields["value"], shape["value"], path) for k in value]
        return list(zip(keys, values, strict=True))
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
    # a version without a wrapper is read as one with it
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
