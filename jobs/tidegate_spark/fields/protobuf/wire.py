"""What the bytes of a message say beside what Protobuf's own decoder makes of them.

That decoder takes a field of another wire type, and a number that a closed enum does not name, for unknown fields, so
that they look as if they had not been sent; and it cuts a number of more bits than its field has. The module travels to
the workers by value.
"""

from dataclasses import dataclass
from typing import Any

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
    """A number of up to 64 bits and where it ends; ValueError where it is longer, IndexError where it is cut off."""
    number = shift = 0
    for at in range(at, at + MAX_VARINT_BYTES):  # noqa: B020, PLR1704 (it ends where the number does)
        byte = value[at]
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number % BITS_64, at + 1
    raise ValueError("a number of more than 64 bits")


def read_zigzag(value: bytes, at: int) -> tuple[int, int]:
    """A zigzag number and where it ends."""
    number, end = read_varint(value, at)
    return (number >> 1) ^ -(number & 1), end


@dataclass(frozen=True)
class MisreadField:
    """Where a field stands in a message, and what the decoder did not read as it is written."""

    path: str
    problem: str


def find_misread_field(body: bytes, descriptor: Any, numbers: frozenset[int] | None = None) -> MisreadField | None:
    """The first field that the decoder has put aside or cut, although its schema names it; None where all are whole.

    `body` is a message that the decoder has read. Only the fields of these `numbers` are looked at, or all.
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
    """Where the content of a field begins and ends; that of a group ends before its closing tag."""
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
    """How many bytes the closing tag of a group takes; 0 for other fields."""
    return read_varint(body, end)[1] - end if tag & 7 == GROUP else 0
