"""The parts of a record by the names that a topic's schema gives them, and which of them a decoded column is."""

from dataclasses import dataclass

from tidegate.formats.registry import get_format
from tidegate.lineage.dataset import DatasetField, Transformation
from tidegate.spec.projection import RECORD_FIELDS
from tidegate.spec.record_metadata import METADATA_TYPES
from tidegate.spec.table import Table
from tidegate.table.columns import find_key_field, list_flat_key_columns, list_key_columns, list_value_columns

# a record's own parts; a field of the first two is `key.id`
KEY = "key"
VALUE = "value"
TIMESTAMP = "timestamp"
OTHER_SHAPES = {"header-list": "headers"}  # words of `metadata` that are a part in another shape


@dataclass(frozen=True)
class Part:
    """A part of a record as the topic's schema names it, and how a column is made of it."""

    field: str
    how: Transformation = Transformation.IDENTITY


def list_record_parts(table: Table, metadata: dict[str, str]) -> dict[str, tuple[Part, ...]]:
    """The parts that each column of a decoded record comes from, and what every record has beside them."""
    parts: dict[str, tuple[Part, ...]] = {field.name: (Part(field.name),) for field in RECORD_FIELDS}
    parts |= {c.name: (_name_part(table, VALUE, c.name),) for c in list_value_columns(table)}
    for column in list_key_columns(table):
        field = find_key_field(table, column.name)
        side = _get_key_side(table)
        if field is not None:
            parts[column.name] = (_name_part(table, side, field),)
        else:  # one struct of all fields
            parts[column.name] = tuple(
                Part(_name_part(table, side, name).field, Transformation.TRANSFORMATION) for name in table.key.fields
            )
    return parts | {name: (Part(OTHER_SHAPES.get(word, word)),) for name, word in metadata.items()}


def list_topic_fields(table: Table, metadata: dict[str, str]) -> tuple[DatasetField, ...]:
    """What the topic's records hold, as far as the table's pipeline knows them."""
    side = _get_key_side(table)
    keys = zip(table.key.fields, list_flat_key_columns(table), strict=True)
    part_types = {_name_part(table, side, name).field: column.type for name, column in keys}
    part_types |= {
        _name_part(table, VALUE, c.name).field: c.type for c in list_value_columns(table) if c.name not in part_types
    }
    part_types |= {
        OTHER_SHAPES.get(word, word): METADATA_TYPES[OTHER_SHAPES.get(word, word)] for word in metadata.values()
    }
    part_types |= {field.name: field.type for field in RECORD_FIELDS}
    return tuple(DatasetField(name, kind) for name, kind in ({VALUE: "BINARY"} | part_types).items())


def _get_key_side(table: Table) -> str:
    return VALUE if table.key.from_value else KEY


def _name_part(table: Table, side: str, name: str) -> Part:
    """A field of the key or the value; the whole of one whose format has no fields."""
    format_spec = get_format(table.value.format if side == VALUE else table.key.format)
    return Part(side if format_spec.only_column is not None else f"{side}.{name}")
