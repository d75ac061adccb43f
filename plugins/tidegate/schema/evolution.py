"""How a destination's schema follows a pipeline's columns: what is added, widened and relaxed, and what is refused.

Names are compared without case. A column that was renamed in the table is known by its old names too, as far as the
table's name mapping lists them. Every change is additive: rows that are there, and other readers, keep what they have.
Identifier fields (Flink's PRIMARY KEY) stay required, as Iceberg wants them: a record with NULL there cannot be merged.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.errors import IncompatibleSchema
from tidegate.schema.column import Column
from tidegate.schema.data_types import Array, DataType, Map, Primitive, Struct, ddl, parse
from tidegate.sql.spark import literal, quoted

Path = tuple[str, ...]
ELEMENT, VALUE = "element", "value"  # the steps of a path into a list, and into a map's values


@dataclass(frozen=True)
class Rules:
    """Which changes may be made: `evolve` of a table in the pipeline file."""

    add: bool = True
    widen: bool = True
    relax: bool = True


@dataclass(frozen=True)
class Change:
    """One change at `path`, by the table's own names; `kind` is add, widen or relax, `type` Spark's text."""

    kind: str
    path: Path
    type: str
    before: str = ""

    def __str__(self) -> str:
        name = ".".join(self.path)
        if self.kind == "add":
            return f"added {name} {self.type}"
        return f"widened {name} from {self.before} to {self.type}" if self.kind == "widen" else f"relaxed {name}"


@dataclass(frozen=True)
class _Compared:
    """The table's name for messages, and what may be changed."""

    table: str
    rules: Rules

    def incompatible(self, path: Path, why: str, remedy: str) -> IncompatibleSchema:
        return IncompatibleSchema(f"table={self.table} column={'.'.join(path)}: {why}; nothing was written; {remedy}")


def struct_of(columns: Iterable[Column]) -> Struct:
    """Columns as one struct."""
    ready = tuple(columns)
    required = frozenset(c.name for c in ready if not c.nullable)
    return Struct(tuple((c.name, parse(c.type)) for c in ready), required)


def maps_as_entries(columns: Iterable[Column]) -> tuple[Column, ...]:
    """The columns as a table has them that knows no maps: an array of key and value in place of each."""
    return tuple(Column(c.name, ddl(map_as_entries(parse(c.type))), c.nullable) for c in columns)


def map_as_entries(data_type: DataType) -> DataType:
    """The type with an array of key and value in place of each map."""
    match data_type:
        case Map(key, value):
            return Array(Struct((("key", map_as_entries(key)), ("value", map_as_entries(value)))))
        case Array(element, required):
            return Array(map_as_entries(element), required)
        case Struct(fields, required, aliases):
            return Struct(tuple((name, map_as_entries(inner)) for name, inner in fields), required, aliases)
    return data_type


def changes(table: str, held: Struct, columns: Sequence[Column], rules: Rules) -> tuple[Change, ...]:
    """What makes a table that holds `held` able to take `columns`; nothing where it can already.

    `IncompatibleSchema` names the column, both types, and the way out, where no allowed change is enough.
    """
    compared, wanted = _Compared(table, rules), struct_of(columns)
    found = tuple(_in_struct(compared, (), held, wanted))
    filled = {held.named(name) for name, _ in wanted.fields}
    for name in sorted(held.required - filled):
        raise _unfilled(compared, (name,), held, "make it optional, or add it to value.schema")
    return found


def _in_struct(compared: _Compared, path: Path, held: Struct, wanted: Struct) -> Iterable[Change]:
    types = dict(held.fields)
    for name, data_type in wanted.fields:
        own = held.named(name)
        if own is None:
            yield _added(compared, (*path, name), data_type)
            continue
        here = (*path, own)
        yield from _in_type(compared, here, types[own], data_type)
        is_relaxed = own in held.required and name not in wanted.required and own not in held.identifying
        if is_relaxed and compared.rules.relax:
            yield Change("relax", here, ddl(types[own]))
    missing = held.required - {held.named(name) for name, _ in wanted.fields} if path else frozenset()
    for own in sorted(missing):
        if own in held.identifying or not compared.rules.relax:
            raise _unfilled(compared, (*path, own), held, "make it optional, or allow evolve.relax")
        yield Change("relax", (*path, own), ddl(types[own]))


def _in_type(compared: _Compared, path: Path, held: DataType, wanted: DataType) -> Iterable[Change]:
    match held, wanted:
        case Struct(), Struct():
            yield from _in_struct(compared, path, held, wanted)
        case Array(), Array():
            yield from _in_type(compared, (*path, ELEMENT), held.element, wanted.element)
            if held.required and compared.rules.relax:
                yield Change("relax", (*path, ELEMENT), ddl(held.element))
        case Map(), Map() if _holds(held.key, wanted.key) or _same(held.key, wanted.key):
            yield from _in_type(compared, (*path, VALUE), held.value, wanted.value)
            if held.required and compared.rules.relax:
                yield Change("relax", (*path, VALUE), ddl(held.value))
        case Primitive(), Primitive() if _holds(held, wanted):
            return
        case Primitive(), Primitive() if _holds(wanted, held) and compared.rules.widen:
            yield Change("widen", path, ddl(wanted), ddl(held))
        case _:
            raise _refused(compared, path, held, wanted)


def _added(compared: _Compared, path: Path, data_type: DataType) -> Change:
    if compared.rules.add:
        return Change("add", path, ddl(data_type))
    why = f"the table has no such column and evolve.add_columns=false: type={ddl(data_type)}"
    raise compared.incompatible(path, why, "add the column by hand, or allow it")


def _unfilled(compared: _Compared, path: Path, held: Struct, remedy: str) -> IncompatibleSchema:
    if path[-1] not in held.identifying:
        return compared.incompatible(path, "required, and the pipeline does not fill it", remedy)
    why = "one of the table's identifier fields, so it is required, and the pipeline does not fill it"
    return compared.incompatible(path, why, "add it to value.schema, or drop the table's identifier fields")


def _refused(compared: _Compared, path: Path, held: DataType, wanted: DataType) -> IncompatibleSchema:
    why = f"incompatible change from type={ddl(held)} to type={ddl(wanted)}"
    if _holds(wanted, held):
        return compared.incompatible(path, f"{why}, and evolve.widen=false", "widen it by hand, or allow it")
    remedy = "correct the schema in the pipeline file, change the column by hand, or write to another table"
    return compared.incompatible(path, why, remedy)


def _holds(wide: DataType, narrow: DataType) -> bool:
    """Whether every value of `narrow` is one of `wide`, without a change to what is stored."""
    if not isinstance(wide, Primitive) or not isinstance(narrow, Primitive):
        return False
    if wide.decimal and narrow.decimal:
        return wide.decimal[1] == narrow.decimal[1] and wide.decimal[0] >= narrow.decimal[0]
    one, other = _stored(wide.name), _stored(narrow.name)
    return one == other or (other, one) in (("INT", "BIGINT"), ("FLOAT", "DOUBLE"))


def _stored(name: str) -> str:
    """Iceberg stores the small integers as INT."""
    return "INT" if name in ("TINYINT", "SMALLINT") else name


def _same(one: DataType, other: DataType) -> bool:
    return ddl(one).casefold() == ddl(other).casefold()


def aligned(expr: str, staged: DataType, held: DataType) -> str:
    """SQL text: `expr`, staged as one type, as the other: by the table's names and order, what is missing as NULL."""
    if _same(staged, held):
        return expr
    match staged, held:
        case Struct(), Struct():
            return _aligned_struct(expr, staged, held)
        case Array(), Array():
            return f"transform({expr}, e -> {aligned('e', staged.element, held.element)})"
        case Map(), Map():
            return f"transform_values({expr}, (k, v) -> {aligned('v', staged.value, held.value)})"
    return f"CAST({expr} AS {ddl(held)})"


def _aligned_struct(expr: str, staged: Struct, held: Struct) -> str:
    parts = []
    for name, data_type in held.fields:
        found = aligned_field(expr, staged, held, name) or f"CAST(NULL AS {ddl(data_type)})"
        parts.append(f"{literal(name)}, {found}")
    return f"CASE WHEN {expr} IS NOT NULL THEN named_struct({', '.join(parts)}) END"


def aligned_field(expr: str, staged: Struct, held: Struct, name: str) -> str | None:
    """SQL text: the table's field `name` out of a staged struct, None where nothing of it is staged.

    Under several of its names the field's own comes first, then the older ones.
    """
    types = dict(held.fields)
    sources = [(n, t) for n, t in staged.fields if held.named(n) == name]
    sources.sort(key=lambda source: source[0].casefold() != name.casefold())
    found = [aligned(f"{expr}.{quoted(n)}", t, types[name]) for n, t in sources]
    return f"coalesce({', '.join(found)})" if len(found) > 1 else next(iter(found), None)


def readable(held: Struct) -> Struct:
    """What a table holds, as records may be read into it: with every old name of a field beside its own."""
    fields = [(name, _readable(inner)) for name, inner in held.fields]
    types = dict(fields)
    own = {name.casefold() for name in types}
    fields += [(old, types[name]) for old, name in held.aliases if old.casefold() not in own]
    return Struct(tuple(fields))


def _readable(held: DataType) -> DataType:
    match held:
        case Struct():
            return readable(held)
        case Array(element):
            return Array(_readable(element))
        case Map(key, value):
            return Map(key, _readable(value))
    return held
