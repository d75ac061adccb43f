"""Making an Iceberg table able to hold a pipeline's columns: additive, idempotent, before anything is merged."""

from pyiceberg.exceptions import CommitFailedException, ResolveError
from pyiceberg.schema import promote
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import IcebergType, ListType, MapType, StructType

from tidegate.adapters.iceberg_types import iceberg_type, spark_type
from tidegate.errors import GiveUp
from tidegate.pipeline import Column
from tidegate.ports import CommitRefused


def evolve(table: Table, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
    """Add missing columns, widen types, relax required ones; returns a sentence for each change.

    `GiveUp` names the column, both types and the way out where the table cannot hold what is asked.
    """
    try:
        return _evolve(table, columns, add=add, widen=widen, relax=relax)
    except CommitFailedException as error:
        raise CommitRefused(f"table={table.name()}: another writer changed it: {error}") from error


def _evolve(table: Table, columns: tuple[Column, ...], *, add: bool, widen: bool, relax: bool) -> list[str]:
    existing = {field.name.lower(): field for field in table.schema().fields}
    changes: list[str] = []
    with table.update_schema(case_sensitive=False) as update:
        for column in columns:
            field = existing.pop(column.name.lower(), None)
            changes += (
                _added(table, update, column, add)
                if field is None
                else _changed(table, update, (field.name,), (field.field_type, iceberg_type(column.type)), widen)
            )
            if field is not None and field.required and column.nullable and relax:
                update.make_column_optional(field.name)
                changes.append(f"relaxed {field.name}")
        for field in existing.values():
            if field.required:
                raise GiveUp(
                    f"table={table.name()} column={field.name} is required and the pipeline does not fill it; "
                    "make it optional, or add it to value.schema"
                )
    return changes


def _added(table: Table, update: UpdateSchema, column: Column, allowed: bool) -> list[str]:
    if not allowed:
        raise GiveUp(
            f"table={table.name()} has no column={column.name} and evolve.add_columns=false; "
            "add the column by hand, or allow it"
        )
    update.add_column((column.name,), iceberg_type(column.type))
    return [f"added {column.name} {column.type}"]


def _changed(
    table: Table, update: UpdateSchema, path: tuple[str, ...], types: tuple[IcebergType, IcebergType], widen: bool
) -> list[str]:
    """From the first type to the second; structs of the same fields are widened field by field."""
    held, wanted = types
    if _shape(wanted) == _shape(held) or _promotes(wanted, held):
        return []
    if isinstance(held, StructType) and isinstance(wanted, StructType) and _names(held) == _names(wanted):
        pairs = [
            ((*path, one.name), (one.field_type, two.field_type))
            for one, two in zip(held.fields, wanted.fields, strict=True)
        ]
        return [change for inner, both in pairs for change in _changed(table, update, inner, both, widen)]
    if widen and _promotes(held, wanted):
        update.update_column(path, wanted)
        return [f"widened {'.'.join(path)} from {spark_type(held)} to {spark_type(wanted)}"]
    raise GiveUp(
        f"table={table.name()} column={'.'.join(path)}: incompatible change from type={spark_type(held)} to "
        f"type={spark_type(wanted)}; nothing was merged; correct value.schema, or change the column by hand"
    )


def _names(struct: StructType) -> list[str]:
    return [field.name.lower() for field in struct.fields]


def _promotes(narrow: IcebergType, wide: IcebergType) -> bool:
    if not (narrow.is_primitive and wide.is_primitive):
        return False
    try:
        return bool(promote(narrow, wide) == wide)
    except ResolveError:
        return False


def _shape(iceberg: IcebergType) -> str:
    """A type without field ids, so that two tables' types can be compared."""
    match iceberg:
        case StructType():
            return f"struct<{','.join(f'{f.name.lower()}:{_shape(f.field_type)}' for f in iceberg.fields)}>"
        case ListType():
            return f"list<{_shape(iceberg.element_type)}>"
        case MapType():
            return f"map<{_shape(iceberg.key_type)},{_shape(iceberg.value_type)}>"
    return str(iceberg)
