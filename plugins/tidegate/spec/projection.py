"""A projection of decoded records: what `select` makes of a record and the rows of dimension tables beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidegate.errors import ConfigurationError
from tidegate.schema.data_types import Column, DataType, Struct, format_type, parse_type
from tidegate.sql.spark import quote

RECORD = "record"  # what FROM names: the decoded record
RECORD_COLUMNS = (
    Column("topic", "STRING"),
    Column("partition", "INT"),
    Column("offset", "BIGINT"),
    Column("timestamp", "TIMESTAMP"),
)


@dataclass(frozen=True)
class Dimension:
    """A table that is joined, of which a record sees at most one row. `columns` are None until they are looked up.

    `snapshot_id` pins what is read; None: the table is empty.
    """

    table: str
    alias: str
    on: str
    columns: tuple[Column, ...] | None = None
    snapshot_id: int | None = None


@dataclass(frozen=True)
class Item:
    """One entry of the list. A star has no `name`; a column has a `path` in what `alias` names; else `sql` and `type`.

    `is_checked` tells a value that its type cannot hold from NULL. `reads`: the record's columns that it is made of;
    `is_joined`: a dimension's are among the others.
    """

    name: str | None
    alias: str = ""
    path: tuple[str, ...] = ()
    sql: str = ""
    type: str = ""
    is_checked: bool = False
    reads: tuple[str, ...] = ()
    excluded_columns: tuple[str, ...] = ()
    is_joined: bool = False


@dataclass(frozen=True)
class Select:
    """The user's statement in parts. `alias` is the record's name in it."""

    text: str
    items: tuple[Item, ...]
    alias: str = RECORD
    dimensions: tuple[Dimension, ...] = ()
    reads: tuple[str, ...] = ()


@dataclass(frozen=True)
class Selected:
    """A column that is made: SQL over the record and the dimensions, and its type."""

    name: str
    sql: str
    type: str
    nullable: bool = True
    is_checked: bool = False
    is_computed: bool = False  # an expression, which may fail for a record
    reads: tuple[str, ...] = ()  # the record's columns that it is made of

    @property
    def is_derived(self) -> bool:
        return self.is_computed or bool(self.reads)


@dataclass(frozen=True)
class Projection:
    """The stage job's part of `select`. `keys` are the key's columns with the field of the key for each.

    Records in which one of `unusable_columns` keeps its value are bad.
    """

    text: str
    alias: str
    columns: tuple[Selected, ...]
    keys: tuple[tuple[str, str | None], ...] = ()
    dimensions: tuple[Dimension, ...] = ()
    unusable_columns: tuple[str, ...] = ()


def resolve_projection(select: Select, record: Sequence[Column], place: str) -> tuple[Selected, ...]:
    """Return the columns in order. `ConfigurationError` for one that is missing, or is there twice.

    `record` are the columns that a star stands for; what every record has may be named beside them.
    """
    columns = [column for item in select.items for column in _resolve_item(select, item, record, place)]
    names: set[str] = set()
    for column in columns:
        if column.name.casefold() in names:
            raise ConfigurationError(f"{place}: select has two columns of one name: {column.name}; rename one with AS")
        names.add(column.name.casefold())
    return tuple(columns)


def _resolve_item(select: Select, item: Item, record: Sequence[Column], place: str) -> Iterable[Selected]:
    if item.name is None:
        left_out = {name.casefold() for name in item.excluded_columns}
        unknown = left_out - {c.name.casefold() for c in record}
        if unknown:
            raise ConfigurationError(f"{place}: EXCEPT ({', '.join(sorted(unknown))}) are no columns of the record")
        star_columns = [c for c in record if c.name.casefold() not in left_out]
        return [Selected(c.name, _format_path(select.alias, (c.name,)), c.type, c.nullable) for c in star_columns]
    if not item.path:
        return [
            Selected(item.name, item.sql, item.type, is_checked=item.is_checked, is_computed=True, reads=item.reads)
        ]
    dimension = next((d for d in select.dimensions if d.alias.casefold() == item.alias.casefold()), None)
    if dimension is None:
        names = {c.name.casefold() for c in record}
        columns = (*record, *(column for column in RECORD_COLUMNS if column.name not in names))
    else:
        columns = dimension.columns or ()
    data_type, is_required = _find_column(
        columns, item.path, f"{place}: select column={'.'.join((item.alias, *item.path))}"
    )
    nullable = dimension is not None or len(item.path) > 1 or not is_required
    reads = () if _is_passed(select, item) else item.reads
    return [Selected(item.name, _format_path(item.alias, item.path), format_type(data_type), nullable, reads=reads)]


def _find_column(columns: Sequence[Column], path: tuple[str, ...], place: str) -> tuple[DataType, bool]:
    columns_by_name = {c.name.casefold(): c for c in columns}
    column = columns_by_name.get(path[0].casefold())
    if column is None:
        raise ConfigurationError(f"{place}: there is no such column; there are {', '.join(c.name for c in columns)}")
    data_type = parse_type(column.type)
    for step in path[1:]:
        inner = dict(data_type.fields) if isinstance(data_type, Struct) else {}
        name = next((name for name in inner if name.casefold() == step.casefold()), None)
        if name is None:
            raise ConfigurationError(f"{place}: {step} is no field of a struct; write CAST(... AS TYPE) AS name")
        data_type = inner[name]
    return data_type, not column.nullable


def _format_path(alias: str, path: tuple[str, ...]) -> str:
    return ".".join(quote(step) for step in (alias, *path))


def list_passed_columns(select: Select, record: Iterable[str]) -> set[str]:
    """Return those of the record's columns, case-folded, that are selected under their own name."""
    names: set[str] = set()
    for item in select.items:
        if item.name is None:
            names |= {name.casefold() for name in record} - {name.casefold() for name in item.excluded_columns}
        elif _is_passed(select, item):
            names.add(item.path[0].casefold())
    return names


def find_derived_columns(select: Select) -> dict[str, Item]:
    """Return what `select` makes of the record alone, by case-folded names: records can be ordered by it."""
    items = (item for item in select.items if item.name is not None and not item.is_joined)
    return {item.name.casefold(): item for item in items if item.name and not _is_passed(select, item)}


def list_unusable_columns(select: Select) -> tuple[str, ...]:
    """Return the record's columns of which something else is made: another name, an expression, a join."""
    made_of = [name for item in select.items if not _is_passed(select, item) for name in item.reads]
    return tuple(dict.fromkeys((*made_of, *select.reads)))


def _is_passed(select: Select, item: Item) -> bool:
    is_own = item.alias.casefold() == select.alias.casefold() and len(item.path) == 1
    return is_own and item.name is not None and item.name.casefold() == item.path[0].casefold()
