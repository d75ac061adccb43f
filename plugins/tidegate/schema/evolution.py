"""How a destination's schema follows a pipeline's columns: what is added, widened and relaxed, and what is refused.

Names are compared without case; the table's name mapping lists a renamed column's old names. Every change is additive.
Identifier fields (Flink's PRIMARY KEY) stay required, as Iceberg wants them: a record with NULL there cannot be merged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from tidegate.errors import IncompatibleSchema
from tidegate.schema.data_types import (
    ANY_SCALE_FORM,
    UUID_FORM,
    Array,
    Column,
    DataType,
    Map,
    Primitive,
    Struct,
    format_type,
    has_leaf,
    list_full_names,
    parse_type,
)
from tidegate.sql.spark import quote, render_literal

Path = tuple[str, ...]
# the steps of a path into a list, and into a map's values
ELEMENT = "element"
VALUE = "value"


@dataclass(frozen=True)
class EvolutionRules:
    """Which changes may be made: `evolve` of a table in the pipeline file."""

    add: bool = True
    widen: bool = True
    relax: bool = True


class ChangeKind(StrEnum):
    """A change of a column: it is new, its type gets wider, or it becomes optional."""

    ADD = "add"
    WIDEN = "widen"
    RELAX = "relax"


@dataclass(frozen=True)
class SchemaChange:
    """One change at `path`, by the table's own names; `type` and `before` are Spark's text."""

    kind: ChangeKind
    path: Path
    type: str
    before: str = ""

    def __str__(self) -> str:
        name = ".".join(self.path)
        if self.kind is ChangeKind.ADD:
            return f"added {name} {self.type}"
        return (
            f"widened {name} from {self.before} to {self.type}" if self.kind is ChangeKind.WIDEN else f"relaxed {name}"
        )


@dataclass(frozen=True)
class _Compared:
    table: str
    rules: EvolutionRules
    full_names: frozenset[str]

    def build_error(self, path: Path, problem: str, remedy: str) -> IncompatibleSchema:
        return IncompatibleSchema(
            f"table={self.table} column={'.'.join(path)}: {problem}; nothing was written; {remedy}"
        )


def to_struct(columns: Iterable[Column]) -> Struct:
    ready = tuple(columns)
    required_names = frozenset(c.name for c in ready if not c.nullable)
    return Struct(tuple((c.name, parse_type(c.type)) for c in ready), required_names)


def replace_map_types(columns: Iterable[Column]) -> tuple[Column, ...]:
    """Replace each map by an array of key and value, for a table that knows no maps."""
    return tuple(Column(c.name, format_type(replace_map(parse_type(c.type))), c.nullable) for c in columns)


def replace_map(data_type: DataType) -> DataType:
    match data_type:
        case Map(key, value):
            return Array(Struct((("key", replace_map(key)), ("value", replace_map(value)))))
        case Array(element, required):
            return Array(replace_map(element), required)
        case Struct(fields, required, aliases):
            return Struct(tuple((name, replace_map(inner)) for name, inner in fields), required, aliases)
    return data_type


def find_schema_changes(
    table: str, current: Struct, columns: Sequence[Column], rules: EvolutionRules
) -> tuple[SchemaChange, ...]:
    """Return the changes that let a table of the `current` schema take `columns`.

    `IncompatibleSchema` names the column, both types, and the way out, if no allowed change is enough.
    """
    compared = _Compared(table, rules, frozenset(list_full_names(current)))
    expected_struct = to_struct(columns)
    changes = tuple(_compare_structs(compared, (), current, expected_struct))
    filled_columns = {current.find_name(name) for name, _ in expected_struct.fields}
    for name in sorted(current.required - current.defaulted_fields - filled_columns):
        raise _build_unfilled_error(compared, (name,), current, "make it optional, or add it to value.schema")
    return changes


def _compare_structs(
    compared: _Compared, path: Path, current: Struct, expected_struct: Struct
) -> Iterable[SchemaChange]:
    types = dict(current.fields)
    for name, data_type in expected_struct.fields:
        own_name = current.find_name(name)
        if own_name is None:
            yield _plan_addition(compared, (*path, name), data_type)
            continue
        field_path = (*path, own_name)
        yield from _compare_types(compared, field_path, types[own_name], data_type)
        is_relaxed = (
            own_name in current.required
            and name not in expected_struct.required
            and own_name not in current.identifier_fields
        )
        if is_relaxed and compared.rules.relax:
            yield SchemaChange(ChangeKind.RELAX, field_path, format_type(types[own_name]))
    missing = (
        current.required - {current.find_name(name) for name, _ in expected_struct.fields} if path else frozenset()
    )
    for own_name in sorted(missing):
        if own_name in current.identifier_fields or not compared.rules.relax:
            raise _build_unfilled_error(compared, (*path, own_name), current, "make it optional, or allow evolve.relax")
        yield SchemaChange(ChangeKind.RELAX, (*path, own_name), format_type(types[own_name]))


def _compare_types(
    compared: _Compared, path: Path, current: DataType, expected_type: DataType
) -> Iterable[SchemaChange]:
    match current, expected_type:
        case Struct(), Struct():
            yield from _compare_structs(compared, path, current, expected_type)
        case Array(), Array():
            yield from _compare_types(compared, (*path, ELEMENT), current.element, expected_type.element)
            if current.required and compared.rules.relax:
                yield SchemaChange(ChangeKind.RELAX, (*path, ELEMENT), format_type(current.element))
        case Map(), Map() if _is_wider(current.key, expected_type.key) or _is_same_type(current.key, expected_type.key):
            yield from _compare_types(compared, (*path, VALUE), current.value, expected_type.value)
            if current.required and compared.rules.relax:
                yield SchemaChange(ChangeKind.RELAX, (*path, VALUE), format_type(current.value))
        case Primitive(), Primitive() if _is_wider(current, expected_type):
            return
        case Primitive(), Primitive() if _is_wider(expected_type, current) and compared.rules.widen:
            yield SchemaChange(ChangeKind.WIDEN, path, format_type(expected_type), format_type(current))
        case _:
            raise _build_change_error(compared, path, current, expected_type)


def _plan_addition(compared: _Compared, path: Path, data_type: DataType) -> SchemaChange:
    added_names = {".".join(path).lower(), *list_full_names(data_type, ".".join(path))}
    if taken_names := sorted(added_names & compared.full_names):
        problem = f"the table has {taken_names[0]} already, as a column or as a part of one"
        raise compared.build_error(path, problem, "give one of the two another name, e.g. in select")
    if compared.rules.add:
        return SchemaChange(ChangeKind.ADD, path, format_type(data_type))
    problem = f"the table has no such column and evolve.add_columns=false: type={format_type(data_type)}"
    raise compared.build_error(path, problem, "add the column by hand, or allow it")


def _build_unfilled_error(compared: _Compared, path: Path, current: Struct, remedy: str) -> IncompatibleSchema:
    if path[-1] not in current.identifier_fields:
        return compared.build_error(path, "required, and the pipeline does not fill it", remedy)
    problem = "one of the table's identifier fields, so it is required, and the pipeline does not fill it"
    return compared.build_error(path, problem, "add it to value.schema, or drop the table's identifier fields")


def _build_change_error(
    compared: _Compared, path: Path, current: DataType, expected_type: DataType
) -> IncompatibleSchema:
    problem = f"incompatible change from type={format_type(current)} to type={format_type(expected_type)}"
    if _is_wider(expected_type, current):
        return compared.build_error(path, f"{problem}, and evolve.widen=false", "widen it by hand, or allow it")
    remedy = "correct the schema in the pipeline file, change the column by hand, or write to another table"
    return compared.build_error(path, problem, remedy)


def _is_wider(wide: DataType, narrow: DataType) -> bool:
    if not isinstance(wide, Primitive) or not isinstance(narrow, Primitive):
        return False
    if wide.decimal and narrow.decimal:
        # as many digits before the point, and an equal scale; a greater one, if the table has any
        precision, scale = wide.decimal
        other_precision, other_scale = narrow.decimal
        has_scale = scale >= other_scale if ANY_SCALE_FORM in (wide.form, narrow.form) else scale == other_scale
        return has_scale and precision - scale >= other_precision - other_scale
    wide_type = _get_stored_type(wide.name)
    narrow_type = _get_stored_type(narrow.name)
    return wide_type == narrow_type or (narrow_type, wide_type) in (("INT", "BIGINT"), ("FLOAT", "DOUBLE"))


def _get_stored_type(name: str) -> str:
    return "INT" if name in ("TINYINT", "SMALLINT") else name


def _is_same_type(first_type: DataType, second_type: DataType) -> bool:
    return format_type(first_type).casefold() == format_type(second_type).casefold()


def render_aligned(expr: str, staged_type: DataType, target: DataType) -> str:
    """Render `expr`, staged as one type, as another: by the table's names and order, what is missing as NULL."""
    if _is_same_type(staged_type, target) and not has_leaf(target, _is_uuid):
        return expr
    match staged_type, target:
        case Primitive(), Primitive() if _is_uuid(target):
            return f"lower({expr})"
        case Struct(), Struct():
            parts = []
            for name, data_type in target.fields:
                field_sql = render_aligned_field(expr, staged_type, target, name)
                parts.append(f"{render_literal(name)}, {field_sql or f'CAST(NULL AS {format_type(data_type)})'}")
            return f"CASE WHEN {expr} IS NOT NULL THEN named_struct({', '.join(parts)}) END"
        case Array(), Array():
            return f"transform({expr}, e -> {render_aligned('e', staged_type.element, target.element)})"
        case Map(), Map():
            return f"transform_values({expr}, (k, v) -> {render_aligned('v', staged_type.value, target.value)})"
    return f"CAST({expr} AS {format_type(target)})"


def _is_uuid(leaf: Primitive) -> bool:
    return leaf.form == UUID_FORM


def render_aligned_field(expr: str, staged_struct: Struct, target: Struct, name: str) -> str | None:
    """Render the table's field `name` out of a staged struct, None if nothing of it is staged."""
    types = dict(target.fields)
    sources = list_sources(staged_struct, target, name)
    expressions = [render_aligned(f"{expr}.{quote(n)}", t, types[name]) for n, t in sources]
    return f"coalesce({', '.join(expressions)})" if len(expressions) > 1 else next(iter(expressions), None)


def list_sources(staged_struct: Struct, target: Struct, name: str) -> list[tuple[str, DataType]]:
    """List the staged fields that fill the table's field `name`: that of its own name first, then of older ones."""
    sources = [(n, t) for n, t in staged_struct.fields if target.find_name(n) == name]
    return sorted(sources, key=lambda source: source[0].casefold() != name.casefold())


def find_missing_path(current: DataType, expected_type: DataType, path: Path = ()) -> Path | None:
    """Return the path of a field that `current` lacks, at any depth of structs and lists; None if it has all."""
    match current, expected_type:
        case Struct(), Struct():
            types = dict(current.fields)
            for name, inner in expected_type.fields:
                own_name = current.find_name(name)
                missing = (
                    (*path, name) if own_name is None else find_missing_path(types[own_name], inner, (*path, name))
                )
                if missing:
                    return missing
        case Array(), Array():
            return find_missing_path(current.element, expected_type.element, path)
    return None


def find_own_path(schema: Struct, path: Path) -> Path:
    """Return the path to a field by the table's own names; what the table lacks stays as it is."""
    if not path:
        return ()
    own_name = schema.get_own_name(path[0])
    below = dict(schema.fields).get(own_name)
    return (own_name, *(find_own_path(below, path[1:]) if isinstance(below, Struct) else path[1:]))


def add_old_names(schema: Struct) -> Struct:
    fields = [(name, _add_names_in_type(inner)) for name, inner in schema.fields]
    types = dict(fields)
    taken_names = {name.casefold() for name in types}
    for old_name, name in schema.aliases:
        if old_name.casefold() not in taken_names:
            taken_names.add(old_name.casefold())
            fields.append((old_name, types[name]))
    return Struct(tuple(fields))


def _add_names_in_type(data_type: DataType) -> DataType:
    match data_type:
        case Struct():
            return add_old_names(data_type)
        case Array(element):
            return Array(_add_names_in_type(element))
        case Map(key, value):
            return Map(key, _add_names_in_type(value))
    return data_type
