"""Spark's type texts taken apart, so that both Spark and Iceberg can be told the same thing."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Primitive:
    """A type without parts; `name` as Spark spells it, e.g. ``BIGINT`` or ``DECIMAL(12, 2)``."""

    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """Precision and scale of a decimal, None for other types."""
        if not self.name.startswith("DECIMAL"):
            return None
        precision, _, scale = self.name[len("DECIMAL") :].strip("() ").partition(",")
        return int(precision or 10), int(scale or 0)


@dataclass(frozen=True)
class Array:
    """A list of `element`."""

    element: "DataType"


@dataclass(frozen=True)
class Map:
    """A map from `key` to `value`."""

    key: "DataType"
    value: "DataType"


@dataclass(frozen=True)
class Struct:
    """Named fields in order."""

    fields: tuple[tuple[str, "DataType"], ...]


DataType = Primitive | Array | Map | Struct

_SYNONYMS = {
    "INTEGER": "INT", "LONG": "BIGINT", "SHORT": "SMALLINT", "BYTE": "TINYINT", "REAL": "FLOAT",
    "TEXT": "STRING", "VARCHAR": "STRING", "CHAR": "STRING", "BOOL": "BOOLEAN", "NUMERIC": "DECIMAL", "DEC": "DECIMAL",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}  # fmt: skip


def parse(text: str) -> DataType:
    """Read one Spark type; `ValueError` names what is wrong with it."""
    body = text.strip()
    head, opening, rest = body.partition("<")
    if not opening:
        return Primitive(_primitive(body))
    if not rest.endswith(">"):
        raise ValueError(f"type={text} has no closing '>'")
    parts, name = _split(rest[:-1]), head.strip().upper()
    if name == "ARRAY" and len(parts) == 1:
        return Array(parse(parts[0]))
    if name == "MAP" and len(parts) == 2:
        return Map(parse(parts[0]), parse(parts[1]))
    if name == "STRUCT":
        return Struct(tuple(_field(part) for part in parts))
    raise ValueError(f"type={text} is not one that Spark knows")


def _primitive(body: str) -> str:
    head, opening, arguments = body.partition("(")
    name = _SYNONYMS.get(head.strip().upper(), head.strip().upper())
    if name != "DECIMAL":
        return name
    return f"DECIMAL({','.join(a.strip() for a in arguments.rstrip(') ').split(','))})" if opening else "DECIMAL(10,0)"


def _field(text: str) -> tuple[str, DataType]:
    body = text.strip()
    if body.startswith("`"):
        end = body.replace("``", "\0\0").index("`", 1)
        name, rest = body[1:end].replace("``", "`"), body[end + 1 :]
    else:
        cut = min(i for i in (body.find(":"), body.find(" "), len(body)) if i > 0)
        name, rest = body[:cut], body[cut:]
    return name, parse(rest.strip().removeprefix(":").strip())


def _split(text: str) -> list[str]:
    """Cut at commas that stand outside brackets and backquotes."""
    parts, depth, quoted, start = [], 0, False, 0
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
