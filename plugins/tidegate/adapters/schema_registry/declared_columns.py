"""The columns that a pipeline file declares, held to those that a registered schema has."""

from collections.abc import Collection

from tidegate.errors import ConfigurationError
from tidegate.schema.avro import MAX_PRECISION
from tidegate.schema.column import Column
from tidegate.schema.data_types import Primitive, format_type, parse_type
from tidegate.spec.table import Table

# without loss; a time without a zone is one of UTC, as the session's is
LOSSLESS_WIDENINGS = {("INT", "BIGINT"), ("FLOAT", "DOUBLE"), ("INT", "DOUBLE"), ("TIMESTAMP_NTZ", "TIMESTAMP")}


def choose_columns(
    table: Table,
    part: str,
    declared_columns: tuple[Column, ...] | None,
    schema_columns: tuple[Column, ...],
    numbers: Collection[str] = (),
) -> tuple[Column, ...]:
    """The columns that were declared, as far as the schema can give them without loss; all of it if none were.

    `numbers` are the fields that may also be a DECIMAL or the number's text.
    """
    if declared_columns is None:
        return schema_columns
    by_name = {c.name: c.type for c in schema_columns}
    for column in declared_columns:
        source = by_name.get(column.name)
        if column.name in numbers and column.type.startswith(("DECIMAL", "STRING")):
            continue
        if source is None or not (source == column.type or _can_widen(source, column.type)):
            raise ConfigurationError(
                f"table={table.name}: {part}.schema has {column.name} {column.type}, and the registered schema "
                f"{f'has it as {source}' if source else 'has no such field'}; correct it, or leave {part}.schema out"
            )
    return declared_columns


def _can_widen(source: str, target: str) -> bool:
    old = parse_type(source)
    new = parse_type(target)
    # a declared part may be NOT NULL where the schema has it optional: a record with NULL there is bad
    if format_type(old) == format_type(new) or (source, target) in LOSSLESS_WIDENINGS:
        return True
    if not (isinstance(old, Primitive) and isinstance(new, Primitive) and old.decimal and new.decimal):
        return False
    (p, s), (wider, scale) = old.decimal, new.decimal
    # a registered precision that is the highest says nothing: each number is held to the declared one
    return scale >= s and (p == MAX_PRECISION or wider - scale >= p - s)
