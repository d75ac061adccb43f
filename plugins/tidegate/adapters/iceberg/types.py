"""Spark's type texts and Iceberg's types, each from the other, and the values that Python has of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.name_mapping import MappedField
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import (
    UUID_FORM,
    Array,
    Column,
    DataType,
    Map,
    Primitive,
    Struct,
    drop_forms,
    format_type,
    parse_type,
)
from tidegate.spec.time_text import EARLIEST, LATEST

Path = tuple[str, ...]
_SIMPLE: dict[str, IcebergType] = {
    "BOOLEAN": BooleanType(),
    "TINYINT": IntegerType(),
    "SMALLINT": IntegerType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "FLOAT": FloatType(),
    "DOUBLE": DoubleType(),
    "STRING": StringType(),
    "BINARY": BinaryType(),
    "DATE": DateType(),
    "TIMESTAMP": TimestamptzType(),
    "TIMESTAMP_NTZ": TimestampType(),
}
_SPARK = {str(iceberg): spark for spark, iceberg in _SIMPLE.items() if spark not in ("TINYINT", "SMALLINT")}


def is_known_to_spark(iceberg: IcebergType) -> bool:
    """Whether Spark opens a table with a column of this type, apart from what is nested in it."""
    known = (StructType, ListType, MapType, DecimalType, UUIDType, FixedType)
    return isinstance(iceberg, known) or str(iceberg) in _SPARK


def to_iceberg_type(text: str) -> IcebergType:
    """As Spark maps it; field ids are placeholders."""
    return _convert_to_iceberg(parse_type(text), count(1000))


def _convert_to_iceberg(data_type: DataType, ids: "count[int]") -> IcebergType:
    match data_type:
        case Array(element):
            return ListType(next(ids), _convert_to_iceberg(element, ids), element_required=False)
        case Map(key, value):
            return MapType(
                next(ids),
                _convert_to_iceberg(key, ids),
                next(ids),
                _convert_to_iceberg(value, ids),
                value_required=False,
            )
        case Struct(fields):
            return StructType(
                *(NestedField(next(ids), name, _convert_to_iceberg(t, ids), required=False) for name, t in fields)
            )
        case Primitive() if data_type.decimal:
            return DecimalType(*data_type.decimal)
        case Primitive(name) if name in _SIMPLE:
            return _SIMPLE[name]
    raise ConfigurationError(f"type={data_type} has no counterpart in Iceberg; choose another in the schema")


def to_columns(schema: Schema) -> tuple[Column, ...]:
    """Columns in Spark's words."""
    no_names = _SchemaNames({}, set())
    return tuple(
        Column(f.name, format_type(_convert_to_spark(f.field_type, no_names)), not f.required) for f in schema.fields
    )


def read_table_struct(table: Table) -> Struct:
    """With required fields, and each field's names in the table's name mapping."""
    schema = table.schema()
    identifiers = set(schema.identifier_field_ids)
    return _convert_struct(schema.as_struct(), _SchemaNames(_collect_names(table.name_mapping() or ()), identifiers))


@dataclass(frozen=True)
class _SchemaNames:
    """By field id: the names of the name mapping, and which fields identify a row."""

    names: dict[int, list[str]]
    identifiers: set[int]

    def identifies(self, field: NestedField) -> bool:
        inner = field.field_type.fields if isinstance(field.field_type, StructType) else ()
        return field.field_id in self.identifiers or any(self.identifies(operand) for operand in inner)


def _convert_struct(iceberg: StructType, schema: _SchemaNames) -> Struct:
    return Struct(
        tuple((f.name, _convert_to_spark(f.field_type, schema)) for f in iceberg.fields),
        frozenset(f.name for f in iceberg.fields if f.required),
        tuple((name, f.name) for f in iceberg.fields for name in schema.names.get(f.field_id, []) if name != f.name),
        frozenset(f.name for f in iceberg.fields if schema.identifies(f)),
    )


def _convert_to_spark(iceberg: IcebergType, schema: _SchemaNames) -> DataType:
    match iceberg:
        case StructType():
            return _convert_struct(iceberg, schema)
        case ListType():
            return Array(_convert_to_spark(iceberg.element_type, schema), iceberg.element_required)
        case MapType():
            key = drop_forms(_convert_to_spark(iceberg.key_type, schema))
            value = _convert_to_spark(iceberg.value_type, schema)
            return Map(key, value, iceberg.value_required)
        case UUIDType():
            return Primitive("STRING", form=UUID_FORM)
        case FixedType():
            return Primitive("BINARY", form=len(iceberg))
    name = _SPARK.get(str(iceberg), "BINARY")
    return Primitive(f"DECIMAL({iceberg.precision},{iceberg.scale})" if isinstance(iceberg, DecimalType) else name)


def _collect_names(mapping: Iterable[MappedField]) -> dict[int, list[str]]:
    names: dict[int, list[str]] = {}
    for field in mapping:
        if field.field_id is not None:
            names[field.field_id] = list(field.names)
        names |= _collect_names(field.fields)
    return names


def clamp_times(rows: pa.Table, name: str) -> pa.Table:
    """Put the nearest time that Python has in place of each that it does not have; NULL stays NULL."""
    times = rows[name]
    first, last = (pa.scalar(end, times.type).cast(pa.int64()) for end in (EARLIEST, LATEST))
    not_earlier = pc.max_element_wise(times.cast(pa.int64()), first, skip_nulls=False)
    clamped = pc.min_element_wise(not_earlier, last, skip_nulls=False).cast(times.type)
    at = rows.column_names.index(name)
    return rows.set_column(at, rows.schema.field(at), clamped)


def list_field_ids(fields: Iterable[NestedField], above: Path = ()) -> dict[Path, int]:
    """Ids of columns and of fields in their structs, by path."""
    ids: dict[Path, int] = {}
    for field in fields:
        ids[(*above, field.name)] = field.field_id
        if isinstance(field.field_type, StructType):
            ids |= list_field_ids(field.field_type.fields, (*above, field.name))
    return ids
