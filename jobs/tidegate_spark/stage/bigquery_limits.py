"""What BigQuery cannot hold of a record: a reason, so that none fails a whole batch; maps become lists of entries."""

from collections.abc import Iterable, Iterator

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct, parse_type
from tidegate.spec.source import METADATA_TYPES
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.written_values import LAST_MOMENTS, render_year_range
from tidegate_spark.formats.decoded import NO_CHANGE

NULL_ELEMENT_REASON = "NULL inside of an array, which BigQuery cannot hold"
INVALID_TEXT_REASON = "not valid UTF-8, which BigQuery cannot hold"
YEAR_RANGE_REASON = "outside of the years 1 to 9999, which BigQuery cannot hold"
# a record's own time as a column of files; one that BigQuery cannot hold is of a bad record
STORABLE_TIME = (
    f"CASE WHEN timestamp NOT BETWEEN {render_year_range('TIMESTAMP')} "
    f"THEN TIMESTAMP'{LAST_MOMENTS['TIMESTAMP']}' ELSE timestamp END"
)


def add_limit_reasons(decoded: DataFrame, table: StageTable) -> DataFrame:
    """Give records a `key_reason` or a `value_reason` that hold what the destination has no room for."""
    if table.naming is not None and table.naming.name is None:  # names are looked for, and nothing is staged
        return decoded
    keys = [*table.key_limits]
    values = [] if table.keys_only else [*table.value_limits]
    if table.folder:
        own_keys = [(c.name.removeprefix(table.key.prefix), c.type) for c in table.key_columns]
        keys += _list_struct_faults("key_struct", own_keys)
        values += _list_record_faults(table)
    cases = {"key_reason": _render_case(keys), "value_reason": _render_case(values)}
    columns = {name: F.expr(f"coalesce({name}, {case})") for name, case in cases.items() if case}
    return decoded.withColumns(columns) if columns else decoded


def _list_values(table: StageTable) -> list[tuple[str, str]]:
    if table.keys_only:
        return []
    if table.select is not None:
        return [(c.name, c.type) for c in table.select.columns]
    own_columns = [(c.name, c.type) for c in table.value_columns]
    return [*own_columns, *((name, METADATA_TYPES[word]) for name, word in table.metadata.items())]


def _list_record_faults(table: StageTable) -> Iterator[tuple[str, str]]:
    yield from list_faults("timestamp", Primitive("TIMESTAMP"), "timestamp")
    values = _list_values(table)
    yield from _list_struct_faults("value_struct", values)
    kinds = dict(values) if table.select is None else {c.name: c.type for c in table.value_columns}
    kinds |= {name: METADATA_TYPES[word] for name, word in table.metadata.items()}
    kinds |= {c.name: c.type for c in table.select.columns if c.is_derived} if table.select is not None else {}
    yield from _list_struct_faults("sequence", [(name, kinds[name]) for name in table.sequence if name in kinds])
    if table.select is not None:  # records are looked at before their text is taken apart, and nobody else looks again
        texts = (name for name, kind in values if kind == "STRING")
        yield from (
            (f"{name}: {INVALID_TEXT_REASON}", f"NOT is_valid_utf8(value_struct.{quote(name)})") for name in texts
        )


def _list_struct_faults(struct: str, fields: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return (fault for name, kind in fields for fault in list_faults(f"{struct}.{quote(name)}", parse_type(kind), name))


def _render_case(faults: Iterable[tuple[str, str]]) -> str:
    cases = " ".join(f"WHEN {sql} THEN {render_literal(reason)}" for reason, sql in faults)
    return f"CASE WHEN change = '{NO_CHANGE}' OR NOT is_wanted THEN NULL {cases} END" if cases else ""


def list_faults(value: str, kind: DataType, name: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield reasons, which begin with the column's name, each with SQL that is true if it holds, else false or NULL."""
    each = f"e{depth}"
    match kind:
        case Array(element):
            yield f"{name}: {NULL_ELEMENT_REASON}", f"exists({value}, {each} -> {each} IS NULL)"
            yield from _list_element_faults(value, each, list_faults(each, element, name, depth + 1))
        case Map(key, item):
            for part, inner in (("map_keys", key), ("map_values", item)):
                yield from _list_element_faults(f"{part}({value})", each, list_faults(each, inner, name, depth + 1))
        case Struct(fields):
            for field, inner in fields:
                yield from list_faults(f"{value}.{quote(field)}", inner, f"{name}.{field}", depth)
        case Primitive(time) if time in LAST_MOMENTS:
            yield f"{name}: {YEAR_RANGE_REASON}", f"{value} NOT BETWEEN {render_year_range(time)}"


def _list_element_faults(values: str, each: str, faults: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((reason, f"exists({values}, {each} -> coalesce({sql}, false))") for reason, sql in faults)


def replace_map_values(rows: DataFrame) -> DataFrame:
    """Replace every map by an array of its entries, at any depth: BigQuery has no maps."""
    return rows.selectExpr(
        *(f"{_render_without_maps(quote(f.name), f.dataType)} AS {quote(f.name)}" for f in rows.schema)
    )


def _render_without_maps(value: str, kind: T.DataType, depth: int = 0) -> str:
    if not _has_map(kind):
        return value
    each = f"e{depth}"
    match kind:
        case T.MapType():
            key = _render_without_maps(f"{each}.key", kind.keyType, depth + 1)
            item = _render_without_maps(f"{each}.value", kind.valueType, depth + 1)
            return f"transform(map_entries({value}), {each} -> struct({key} AS key, {item} AS value))"
        case T.ArrayType():
            return f"transform({value}, {each} -> {_render_without_maps(each, kind.elementType, depth + 1)})"
        case T.StructType():
            parts = (
                f"{_render_without_maps(f'{value}.{quote(f.name)}', f.dataType, depth)} AS {quote(f.name)}"
                for f in kind
            )
            return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"
    return value


def _has_map(kind: T.DataType) -> bool:
    match kind:
        case T.MapType():
            return True
        case T.ArrayType():
            return _has_map(kind.elementType)
        case T.StructType():
            return any(_has_map(field.dataType) for field in kind)
    return False
