"""Spark's type texts taken apart, so that both Spark and Iceberg can be told the same thing."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from tidegate.sql.spark import quote


@dataclass(frozen=True)
class MaxLength:
    """The most characters of a text, or bytes, that a table's column holds."""

    limit: int


@dataclass(frozen=True)
class Primitive:
    """A type without parts; `name` as Spark spells it, e.g. ``BIGINT`` or ``DECIMAL(12, 2)``."""

    name: str
    is_lenient: bool = False  # a number may be written as text
    encoding: str | None = None  # how bytes are written, if not in base64
    is_truncated: bool = False  # what is finer than a microsecond is cut off a time
    counts_days: bool = False  # a number is a date in days
    # a table's type that Spark lacks: UUID texts, bytes of a fixed number, texts or bytes of a greatest length, and
    # decimals of any smaller scale
    form: str | int | MaxLength | None = None

    @property
    def decimal(self) -> tuple[int, int] | None:
        if not self.name.startswith("DECIMAL"):
            return None
        precision, _, scale = self.name[len("DECIMAL") :].strip("() ").partition(",")
        return int(precision or 10), int(scale or 0)


@dataclass(frozen=True)
class Array:
    """A list of `element`; `required` elements are never NULL."""

    element: "DataType"
    required: bool = False


@dataclass(frozen=True)
class Map:
    """A map from `key` to `value`; `required` values are never NULL."""

    key: "DataType"
    value: "DataType"
    required: bool = False


@dataclass(frozen=True)
class Struct:
    """Named fields in order; `required` are never NULL, `aliases` other names of a field.

    `identifier_fields` (or parts of them) can never be optional. `defaulted_fields`: the table fills them if a new row
    does not.
    """

    fields: tuple[tuple[str, "DataType"], ...]
    required: frozenset[str] = frozenset()
    aliases: tuple[tuple[str, str], ...] = ()
    identifier_fields: frozenset[str] = frozenset()
    defaulted_fields: frozenset[str] = frozenset()

    def find_name(self, name: str) -> str | None:
        """Return the field that goes by this name, without case: its own name before any other."""
        own_fields = {field.casefold(): field for field, _ in self.fields}
        fields_by_name = {alias.casefold(): field for alias, field in self.aliases} | own_fields
        return fields_by_name.get(name.casefold())

    def get_own_name(self, name: str) -> str:
        """Return the field's own name; `name` itself if there is no such field."""
        return self.find_name(name) or name


DataType = Primitive | Array | Map | Struct
MOMENTS = ("TIMESTAMP", "TIMESTAMP_NTZ")
UUID_FORM = "uuid"  # of a text
ANY_SCALE_FORM = "any scale"  # of a decimal: it holds each that has no more digits before the point, and behind it
MAX_PRECISION = 38  # digits of a DECIMAL
PRIMITIVE_NAMES = frozenset({  # beside DECIMAL
    "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "BINARY", "DATE", "TIMESTAMP",
    "TIMESTAMP_NTZ",
})  # fmt: skip
BINARY_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")  # without DECIMAL, which is read from text


def make_lenient(data_type: DataType) -> DataType:
    return replace_leaves(data_type, lambda leaf: replace(leaf, is_lenient=leaf.name in BINARY_NUMBERS))


def make_encoded(data_type: DataType, encoding: str) -> DataType:
    return replace_leaves(data_type, lambda leaf: replace(leaf, encoding=encoding) if leaf.name == "BINARY" else leaf)


def make_truncated(data_type: DataType) -> DataType:
    return replace_leaves(data_type, lambda leaf: replace(leaf, is_truncated=leaf.name in MOMENTS))


def make_counted(data_type: DataType) -> DataType:
    return replace_leaves(data_type, lambda leaf: replace(leaf, counts_days=leaf.name == "DATE"))


def replace_leaves(data_type: DataType, substitute: Callable[[Primitive], Primitive]) -> DataType:
    """Replace each primitive by `substitute(leaf)`, at every depth; keys of maps stay."""
    match data_type:
        case Array(element):
            return replace(data_type, element=replace_leaves(element, substitute))
        case Map(_, value):
            return replace(data_type, value=replace_leaves(value, substitute))
        case Struct(fields):
            return replace(data_type, fields=tuple((name, replace_leaves(inner, substitute)) for name, inner in fields))
        case Primitive():
            return substitute(data_type)


def drop_forms(data_type: DataType) -> DataType:
    return replace_leaves(data_type, lambda leaf: replace(leaf, form=None))


def iterate_types(data_type: DataType, *, with_keys: bool = True) -> Iterator[DataType]:
    """Yield the type and each one inside of it, at every depth; `with_keys`: also those of the keys of maps."""
    yield data_type
    match data_type:
        case Array(element):
            inner_types: tuple[DataType, ...] = (element,)
        case Map(key, value):
            inner_types = (key, value) if with_keys else (value,)
        case Struct(fields):
            inner_types = tuple(inner for _, inner in fields)
        case Primitive():
            inner_types = ()
    for inner in inner_types:
        yield from iterate_types(inner, with_keys=with_keys)


def has_leaf(data_type: DataType, holds: Callable[[Primitive], bool]) -> bool:
    """Whether `holds` is true of a primitive at any depth, except in keys of maps."""
    return any(isinstance(leaf, Primitive) and holds(leaf) for leaf in iterate_types(data_type, with_keys=False))


def has_other_keys(data_type: DataType) -> bool:
    """Whether a map at any depth has keys that are no texts."""
    types = iterate_types(data_type, with_keys=False)
    return any(isinstance(part, Map) and part.key != Primitive("STRING") for part in types)


def list_full_names(data_type: DataType, path: str = "") -> Iterator[str]:
    """Yield the names of all parts as Iceberg knows them: joined by dots, case-folded."""
    match data_type:
        case Struct(fields):
            steps: tuple[tuple[str, DataType], ...] = fields
        case Array(element):
            steps = (("element", element),)
        case Map(key, value):
            steps = (("key", key), ("value", value))
        case Primitive():
            steps = ()
    for step, inner in steps:
        full_name = f"{path}.{step}" if path else step
        yield full_name.lower()
        yield from list_full_names(inner, full_name)


def find_full_name_twice(struct: Struct) -> str | None:
    """Return a name that two parts have: `a.b` is both a column, and a field of the struct `a`."""
    return next((name for name, count in Counter(list_full_names(struct)).items() if count > 1), None)


NOT_NULL_PATTERN = re.compile(r"\s+NOT\s+NULL$", re.IGNORECASE)

_SYNONYMS = {
    "INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT",
    "TEXT": "STRING", "VARCHAR": "STRING", "CHAR": "STRING", "BOOL": "BOOLEAN", "NUMERIC": "DECIMAL", "DEC": "DECIMAL",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}  # fmt: skip


@lru_cache(maxsize=4096)  # types are immutable, and a run reads those of a table again and again
def parse_type(text: str) -> DataType:
    """Read one Spark type; `ValueError` names what is wrong with it."""
    body = text.strip()
    head, opening, inner_text = body.partition("<")
    if not opening:
        return Primitive(_parse_primitive(body))
    if not inner_text.endswith(">"):
        raise ValueError(f"type={text} has no closing '>'")
    parts = _split_fields(inner_text[:-1])
    name = head.strip().upper()
    if name == "ARRAY" and len(parts) == 1:
        return Array(parse_type(parts[0]))
    if name == "MAP" and len(parts) == 2:
        return Map(parse_type(parts[0]), parse_type(parts[1]))
    if name == "STRUCT":
        fields = [_parse_field(part) for part in parts]
        required_names = frozenset(name for name, _, is_required in fields if is_required)
        return Struct(tuple((name, inner) for name, inner, _ in fields), required_names)
    raise ValueError(f"type={text} is not one that Spark knows")


def format_type(data_type: DataType, quote_name: Callable[[str], str] = quote) -> str:
    """Format as Spark's text, without what is required; `quote_name` writes the name of a field."""
    match data_type:
        case Array(element):
            return f"ARRAY<{format_type(element, quote_name)}>"
        case Map(key, value):
            return f"MAP<{format_type(key, quote_name)}, {format_type(value, quote_name)}>"
        case Struct(fields):
            inner_types = (f"{quote_name(name)}: {format_type(inner, quote_name)}" for name, inner in fields)
            return f"STRUCT<{', '.join(inner_types)}>"
        case Primitive(name):
            return name


def _parse_primitive(body: str) -> str:
    head, opening, arguments = body.partition("(")
    name = _SYNONYMS.get(head.strip().upper(), head.strip().upper())
    if name != "DECIMAL":
        return name
    return f"DECIMAL({','.join(a.strip() for a in arguments.rstrip(') ').split(','))})" if opening else "DECIMAL(10,0)"


def _parse_field(text: str) -> tuple[str, DataType, bool]:
    body = text.strip()
    if body.startswith("`"):
        end = body[1:].replace("``", "\0\0").index("`") + 1  # the first one opens, whatever the name begins with
        name = body[1:end].replace("``", "`")
        type_text = body[end + 1 :]
    else:
        name_end = min(i for i in (body.find(":"), body.find(" "), len(body)) if i > 0)
        name = body[:name_end]
        type_text = body[name_end:]
    body = type_text.strip().removeprefix(":").strip()
    ending = NOT_NULL_PATTERN.search(body)
    return name, parse_type(body[: ending.start()] if ending else body), ending is not None


def _split_fields(text: str) -> list[str]:
    parts = []
    depth = 0
    quoted = False
    start = 0
    for index, char in enumerate(text):
        if char == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif char in "<(":
            depth += 1
        elif char in ">)":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    return [*parts, text[start:]]


@dataclass(frozen=True)
class Column:
    """A column as the user or a table declares it; `type` is Spark DDL, e.g. ``DECIMAL(12,2)``."""

    name: str
    type: str
    nullable: bool = True
