"""Reads which columns a SELECT makes its columns of: `select` of a pipeline file, and the SQL of a publication."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tidegate.config.parsing.publication_sql import TABLE_STAND_IN, find_joined_tables, name_stand_in, parse_tree
from tidegate.config.parsing.spark_sql import parse_statement
from tidegate.lineage.dataset import Read, StatementReads, Transformation
from tidegate.spec.projection import RECORD_COLUMNS, Select

Tables = Mapping[str, Sequence[str]]  # the columns of each table by its alias; the first is that behind FROM


def read_select(select: Select, record: Sequence[str]) -> StatementReads:
    """`record`: its columns, which a star stands for."""
    tables = {select.alias: [*record, *(c.name for c in RECORD_COLUMNS if c.name not in record)]}
    tables |= {d.alias: [field.name for field in d.columns or ()] for d in select.dimensions}
    columns = dict[str, tuple[Read, ...]]()
    for item in select.items:
        if item.name is None:
            left_out = {name.casefold() for name in item.excluded_columns}
            columns |= {name: (Read(select.alias, name),) for name in record if name.casefold() not in left_out}
        elif item.path:
            transformation = Transformation.IDENTITY if len(item.path) == 1 else Transformation.TRANSFORMATION
            columns[item.name] = tuple(_find_owner((item.alias, *item.path), tables, transformation))
        else:
            columns[item.name] = _read_text(item.sql, tables, Transformation.TRANSFORMATION)
    join_reads = [read for d in select.dimensions for read in _read_text(d.on, tables, Transformation.JOIN)]
    return StatementReads(columns, tuple(dict.fromkeys(join_reads)))


def _read_text(sql: str, tables: Tables, transformation: Transformation) -> tuple[Read, ...]:
    tree = parse_statement(f"SELECT {sql}\n", "an expression")
    return tuple(dict.fromkeys(_read_expression(tree.expressions[0], tree, tables, transformation)))


def read_publication(sql: str, table: str, columns: Tables) -> tuple[StatementReads, dict[str, str]]:
    """What a publication's SQL reads, and the table of each alias in it. `columns`: by full table names."""
    from sqlglot import exp

    tree = parse_tree(sql)
    names = {TABLE_STAND_IN: table} | {name_stand_in(n): name for n, name in enumerate(find_joined_tables(sql))}
    aliases = {node.alias_or_name: names[node.name] for node in tree.find_all(exp.Table)}
    tables = {alias: columns[name] for alias, name in aliases.items()}
    column_reads = dict[str, tuple[Read, ...]]()
    for item in tree.expressions:
        column_reads |= _read_item(item, tree, tables)
    rows = [*_read_joins(tree, tables), *_read_clause(tree, "where", Transformation.FILTER, tables)]
    rows += _read_clause(tree, "having", Transformation.FILTER, tables)
    rows += _read_clause(tree, "group", Transformation.GROUP_BY, tables)
    return StatementReads(column_reads, tuple(dict.fromkeys(rows))), aliases


def read_condition(sql: str, columns: Sequence[str]) -> tuple[str, ...]:
    tree = parse_statement(f"SELECT 1 FROM record WHERE {sql}\n", "a condition")
    return tuple(read.column for read in _read_expression(tree.args["where"], tree, {"record": columns}))


def _read_item(item: Any, tree: Any, tables: Tables) -> dict[str, tuple[Read, ...]]:
    from sqlglot import exp

    star = item if isinstance(item, exp.Star) else item.this if isinstance(item, exp.Column) else None
    if isinstance(star, exp.Star):
        left_out = {c.name.casefold() for c in star.args.get("except_") or []}
        owners = [item.table] if isinstance(item, exp.Column) else list(tables)
        owner_columns = ((alias, column) for alias in owners for column in tables[_fold(alias, tables)])
        return {
            column: (Read(_fold(alias, tables), column),)
            for alias, column in owner_columns
            if column.casefold() not in left_out
        }
    inner = item.this if isinstance(item, exp.Alias) else item
    transformation = Transformation.TRANSFORMATION
    if isinstance(inner, exp.Column | exp.Dot):
        transformation = Transformation.IDENTITY
    elif inner.find(exp.AggFunc):
        transformation = Transformation.AGGREGATION
    reads = list(_read_expression(inner, tree, tables, transformation))
    if not reads and transformation is Transformation.AGGREGATION:  # count(*) counts the rows of a group
        reads = list(_read_clause(tree, "group", transformation, tables))
    return {item.alias_or_name or inner.sql("spark"): tuple(dict.fromkeys(reads))}


def _fold(alias: str, tables: Tables) -> str:
    return next(name for name in tables if name.casefold() == alias.casefold())


def _read_joins(tree: Any, tables: Tables) -> Iterator[Read]:
    for join in tree.args.get("joins") or []:
        if join.args.get("on") is not None:
            yield from _read_expression(join.args["on"], tree, tables, Transformation.JOIN)
        for column in join.args.get("using") or []:
            yield from _find_owner([column.name], tables, Transformation.JOIN)


def _read_clause(tree: Any, name: str, transformation: Transformation, tables: Tables) -> Iterator[Read]:
    clause = tree.args.get(name)
    if clause is not None:
        yield from _read_expression(clause, tree, tables, transformation)


def _read_expression(
    node: Any, tree: Any, tables: Tables, transformation: Transformation = Transformation.FILTER, depth: int = 0
) -> Iterator[Read]:
    from sqlglot import exp

    for column in node.find_all(exp.Column):
        steps = [part.name for part in column.parts]
        reads = list(_find_owner(steps, tables, transformation))
        # a name that no table has is another item's, or of a view that explodes
        if not reads and depth == 0:
            for named_expression in _find_named(steps, tree):
                yield from _read_expression(named_expression, tree, tables, transformation, depth + 1)
        yield from reads


def _find_owner(steps: Sequence[str], tables: Tables, transformation: Transformation) -> Iterable[Read]:
    folded = [step.casefold() for step in steps]
    for alias, columns in tables.items():
        if len(steps) > 1 and alias.casefold() == folded[0]:
            return [Read(alias, column, transformation) for column in columns if column.casefold() == folded[1]]
    reads = [
        Read(alias, c, transformation)
        for alias, columns in tables.items()
        for c in columns
        if c.casefold() == folded[0]
    ]
    # the first table that has it
    return reads[:1]


def _find_named(steps: Sequence[str], tree: Any) -> list[Any]:
    from sqlglot import exp

    names = {step.casefold() for step in steps}
    items = [item.this for item in tree.expressions if isinstance(item, exp.Alias) and item.alias.casefold() in names]
    views = []
    for view in tree.args.get("laterals") or []:
        alias = view.args.get("alias")
        alias_names = {c.name.casefold() for c in alias.columns} | {alias.name.casefold()} if alias else set()
        if names & alias_names:
            views.append(view.this)
    return [*items, *views]
