"""Reads the Spark DDL and SQL conditions of a pipeline file, so that a typo is found before the first record."""

from functools import lru_cache
from typing import Any

from tidegate.config.parsing.spark_sql import (
    AGGREGATE_FUNCTIONS,
    ROW_FUNCTIONS,
    WINDOW_FUNCTIONS,
    find_known_functions,
    parse_statement,
    refuse_nested_rows,
)
from tidegate.merge.audits import PLACEHOLDER
from tidegate.schema.data_types import Column
from tidegate.sql.spark import quote

# sqlglot's name of a type -> Spark's. What is missing here Spark or Iceberg cannot hold.
SIMPLE_TYPES = {
    "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT", "SMALLINT": "SMALLINT", "INT": "INT", "BIGINT": "BIGINT",
    "FLOAT": "FLOAT", "DOUBLE": "DOUBLE", "TEXT": "STRING", "BINARY": "BINARY", "VARBINARY": "BINARY", "DATE": "DATE",
    "TIMESTAMPTZ": "TIMESTAMP", "TIMESTAMPLTZ": "TIMESTAMP",
    "TIMESTAMP": "TIMESTAMP_NTZ", "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
}  # fmt: skip
KNOWN_TYPES = (
    "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, BINARY, DATE, "
    "TIMESTAMP, TIMESTAMP_NTZ, ARRAY<>, MAP<,>, STRUCT<:>"
)
COLUMNS_EXAMPLE = "write e.g. id BIGINT NOT NULL, name STRING"
# functions that Spark calls without brackets, as far as sqlglot takes them for columns
CALLED_BY_NAME = {
    *("current_catalog", "current_database", "current_date", "current_schema", "current_time", "current_timestamp"),
    *("current_user", "localtimestamp", "session_user", "user"),
}
AUDIT_EXAMPLE = "e.g. SELECT count(*) > 0 FROM {table}"


@lru_cache(maxsize=1024)
def parse_columns(ddl: str) -> tuple[Column, ...]:
    """Columns of ``id BIGINT NOT NULL, name STRING`` in one canonical spelling. `ValueError` says what is wrong."""
    from sqlglot import exp

    statement = parse_statement(f"CREATE TABLE t ({ddl}\n)", COLUMNS_EXAMPLE)
    schema = statement.this if isinstance(statement, exp.Create) else None
    if not isinstance(schema, exp.Schema) or statement.args.get("expression") or not schema.expressions:
        raise ValueError(f"not a list of columns; {COLUMNS_EXAMPLE}")
    columns = tuple(_parse_column(definition) for definition in schema.expressions)
    _check_unique([column.name for column in columns], "column")
    return columns


def _check_unique(names: list[str], subject: str) -> None:
    folded = [name.casefold() for name in names]
    twice = [name for i, name in enumerate(names) if folded[i] in folded[:i]]
    if twice:
        raise ValueError(f"{subject} {twice[0]} is given twice (names are compared without case); keep one")


def _parse_column(definition: Any) -> Column:
    from sqlglot import exp

    if not isinstance(definition, exp.ColumnDef) or definition.args.get("kind") is None:
        raise ValueError(f"{definition.name or definition.sql('spark')} has no type; {COLUMNS_EXAMPLE}")
    if not definition.name:
        raise ValueError(f"a column or field without a name; name it, {COLUMNS_EXAMPLE}")
    return Column(definition.name, _format_type(definition.kind), _is_nullable(definition))


def _is_nullable(definition: Any) -> bool:
    from sqlglot import exp

    kinds = [constraint.kind for constraint in definition.args.get("constraints") or []]
    for kind in kinds:
        if not isinstance(kind, exp.NotNullColumnConstraint | exp.CommentColumnConstraint):
            # other constraints would be silently lost
            raise ValueError(
                f"column {definition.name} has {kind.sql('spark')}; only NOT NULL and COMMENT are understood"
            )
    return not any(isinstance(k, exp.NotNullColumnConstraint) and not k.args.get("allow_null") for k in kinds)


def _format_type(kind: Any) -> str:
    name = getattr(kind.this, "name", str(kind.this))
    inner = kind.expressions
    if name == "DECIMAL":
        numbers = [int(argument.name) for argument in inner]
        precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)  # Spark's own meaning of a bare DECIMAL
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise ValueError(
                f"DECIMAL({precision},{scale}) is out of range; precision is 1 to 38, scale 0 to precision"
            )
        return f"DECIMAL({precision},{scale})"
    if name == "ARRAY" and len(inner) == 1:
        return f"ARRAY<{_format_type(inner[0])}>"
    if name == "MAP" and len(inner) == 2:
        return f"MAP<{_format_type(inner[0])}, {_format_type(inner[1])}>"
    if name == "STRUCT" and inner:
        _check_unique([field.name for field in inner], "field")
        fields = map(_parse_column, inner)
        texts = (f"{quote(field.name)}: {field.type}{'' if field.nullable else ' NOT NULL'}" for field in fields)
        return f"STRUCT<{', '.join(texts)}>"
    if name in SIMPLE_TYPES and not inner:
        return SIMPLE_TYPES[name]
    if name in {"VARCHAR", "CHAR"}:
        raise ValueError(f"{kind.sql('spark')} would lose its length limit in the table; use STRING")
    raise ValueError(f"{kind.sql('spark')} is not a type of the destination; use one of {KNOWN_TYPES}")


@lru_cache(maxsize=1024)
def check_condition(sql: str, in_spark: bool = True) -> None:
    """`ValueError` unless `sql` is one SQL condition on a single row: no statement, subquery, aggregate or window.

    Functions are Spark's, unless another engine runs it.
    """
    from sqlglot import exp

    example = "write one condition, e.g. status = 'open'"
    tree = parse_statement(sql, example)
    if not isinstance(tree, exp.Condition) or tree.find(exp.Query):
        raise ValueError(f"not a condition on the record; {example}")
    functions = find_known_functions(sql, tree) if in_spark else frozenset()
    if tree.find(exp.AggFunc, exp.Window) or functions & (AGGREGATE_FUNCTIONS | WINDOW_FUNCTIONS):
        raise ValueError(f"a condition sees one record, so aggregates and windows have no meaning; {example}")
    if functions & ROW_FUNCTIONS:
        problem = f"{min(functions & ROW_FUNCTIONS)}() makes several rows, and a condition is true or false of one"
        raise ValueError(f"{problem}; {example}")


@lru_cache(maxsize=1024)
def find_condition_paths(sql: str) -> tuple[tuple[str, ...], ...]:
    """Paths to the columns, or fields of them, in a condition, in its order; empty if it cannot be read."""
    from sqlglot import exp

    try:
        tree = parse_statement(sql, "a condition")
    except ValueError:
        return ()
    paths = dict.fromkeys(
        tuple(part.name for part in column.parts)
        for column in tree.find_all(exp.Column, bfs=False)
        if isinstance(column.this, exp.Identifier)
        and (len(column.parts) > 1 or column.this.quoted or column.name.casefold() not in CALLED_BY_NAME)
    )
    return tuple(paths)


@lru_cache(maxsize=1024)
def check_audit(sql: str, in_spark: bool = True) -> None:
    """`ValueError` unless `sql` is a condition on a row, or one query with `{table}`; in Spark's SQL or another."""
    from sqlglot import exp

    if PLACEHOLDER not in sql:
        try:
            check_condition(sql, in_spark)
        except ValueError as fault:
            raise ValueError(f"{fault}; or a query over {PLACEHOLDER}, {AUDIT_EXAMPLE}") from fault
        return
    stand_in = "_tidegate_table"
    text = sql.replace(PLACEHOLDER, stand_in)
    tree = parse_statement(text, AUDIT_EXAMPLE, {stand_in: PLACEHOLDER})
    tables = {table.name for table in tree.find_all(exp.Table)}
    if not isinstance(tree, exp.Query) or stand_in not in tables:
        raise ValueError(f"not one query over {PLACEHOLDER}; {AUDIT_EXAMPLE}")
    if len(tree.selects) != 1:
        raise ValueError(f"an audit's query gives one column, true or false; {AUDIT_EXAMPLE}")
    if in_spark:
        find_known_functions(text, tree)
        refuse_nested_rows(tree)
