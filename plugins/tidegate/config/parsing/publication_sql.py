"""Reads the SQL of a publication: rows for rows, or an aggregate whose groups can be told from the rows in them."""

import re
from functools import lru_cache
from typing import Any

from tidegate.config.parsing.spark_sql import (
    ORDER_DEPENDENT_AGGREGATES,
    ORDERLESS_AGGREGATES,
    REPEATABLE_FUNCTIONS,
    SYNTAX_WORDS,
    TYPE_WORDS,
    find_functions,
    parse_statement,
    split_words,
)
from tidegate.spec.publication import PLACEHOLDER, Grouped
from tidegate.sql.spark import NONDETERMINISTIC_FUNCTIONS

ALLOWED_FUNCTIONS = split_words("""
    explode explode_outer inline inline_outer json_tuple posexplode posexplode_outer stack timestampadd
    timestampdiff try_cast
""").union(REPEATABLE_FUNCTIONS, ORDERLESS_AGGREGATES, TYPE_WORDS, SYNTAX_WORDS)
ALLOWED_CLAUSES = split_words("""
    Select From Where Having Group Join Table TableAlias Alias Aliases Column Identifier Star Literal Boolean Null
    Paren Tuple Case If Cast TryCast DataType DataTypeParam ColumnDef Interval Var IntervalSpan Bracket Slice
    Lambda Distinct Filter Lateral In Between Escape PropertyEQ Kwarg Rollup Cube GroupingSets
""")


FUNCTION_REMEDY = "use Spark's functions that answer from their arguments alone, or let the pipeline store the value"


def refuse_nondeterministic(tree: Any, called_functions: list[str]) -> None:
    """`ValueError` for functions whose answer changes, also written without parentheses."""
    from sqlglot import exp

    words = [name.casefold() for node in tree.find_all(exp.Func) for name in node.sql_names() if name]
    words += [column.name.casefold() for column in tree.find_all(exp.Column) if not column.table]
    moving = [*sorted(NONDETERMINISTIC_FUNCTIONS & {*called_functions}), *sorted(NONDETERMINISTIC_FUNCTIONS & {*words})]
    if moving:
        raise ValueError(f"{moving[0]}() answers differently each time; store its value in the table")


def refuse_unknown(tree: Any, called_functions: list[str]) -> None:
    """`ValueError` for a function or clause not known to depend on the rows alone."""
    from sqlglot import exp

    unknown = sorted({*called_functions} - ALLOWED_FUNCTIONS)
    if unknown:
        raise ValueError(f"{unknown[0]}() is not known to give the same answer for the same rows; {FUNCTION_REMEDY}")
    plain = (
        exp.Func,
        exp.Binary,
        exp.Unary,
        *(getattr(exp, name) for name in ALLOWED_CLAUSES),
    )
    for node in tree.walk():
        if not isinstance(node, plain):
            raise ValueError(
                f"{node.sql('spark')[:60]}: this clause is not known to give the same answer for the same rows; "
                "write SELECT … FROM … JOIN … WHERE … GROUP BY … HAVING"
            )


def is_aggregate(tree: Any) -> bool:
    """Whether a part of a statement looks at several rows."""
    from sqlglot import exp

    function_names = (node.name.casefold() for node in tree.find_all(exp.Anonymous, exp.AnonymousAggFunc))
    return tree.find(exp.AggFunc) is not None or any(
        name in ORDERLESS_AGGREGATES | ORDER_DEPENDENT_AGGREGATES for name in function_names
    )


SELECT_EXAMPLE = f"write e.g. SELECT id, upper(name) AS name FROM {PLACEHOLDER} WHERE NOT hidden"
GROUP_EXAMPLE = f"write e.g. SELECT word, count(*) AS n FROM {PLACEHOLDER} GROUP BY word"
ORDER_REMEDY = "use min, max, sum, count or the like; for the value of the last row max(struct(at, value)).value"
TABLE_STAND_IN = "_tidegate_table"
JOINED_STAND_IN = "_tidegate_joined_{}_"
JOINED_PATTERN = re.compile(r"\{([^{}\s]+(?:\.[^{}\s]+){2,})\}")  # {lake.shop.customers}
JOIN_SIDES = ("", "LEFT")
JOIN_KINDS = ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")
SESSION_WINDOW = "session_window"
# a word of its own to the parser
WINDOW_PATTERN = re.compile(r"\bwindow\s*\(", re.IGNORECASE)
WINDOW_STAND_IN = "_tidegate_window"


def find_joined_tables(sql: str) -> tuple[str, ...]:
    """The tables in braces beside `{table}`, in their order."""
    return tuple(dict.fromkeys(JOINED_PATTERN.findall(sql)))


@lru_cache(maxsize=256)
def parse_publication_sql(sql: str, key: tuple[str, ...]) -> Grouped | None:
    """How the groups of an aggregate are told; None for SQL that looks at one row at a time.

    `ValueError` unless `sql` is one SELECT over `{table}`, and joined tables in braces, whose answer depends on rows
    alone.
    """
    from sqlglot import exp

    tree = parse_tree(sql)
    if tree.find(exp.Window, exp.Limit, exp.Offset, exp.Order) or tree.args.get("distinct"):
        raise ValueError(f"OVER, DISTINCT, ORDER BY and LIMIT look across rows and groups; {SELECT_EXAMPLE}")
    called_functions = find_functions(_replace_placeholders(sql))
    refuse_nondeterministic(tree, called_functions)
    is_grouped = is_aggregate(tree) or tree.find(exp.Group) is not None
    ordered_functions = sorted(ORDER_DEPENDENT_AGGREGATES & {*called_functions})
    if ordered_functions:
        raise ValueError(f"{ordered_functions[0]}() depends on the order of rows; {ORDER_REMEDY}")
    grouped_sql = _build_grouped(tree, key, find_joined_tables(sql)) if is_grouped else None
    refuse_unknown(tree, called_functions)
    return grouped_sql


def has_groups(sql: str) -> bool:
    """Whether its rows are groups of the table's; false for SQL that `parse_publication_sql` refuses."""
    try:
        return parse_publication_sql(sql, ()) is not None
    except ValueError:
        return False


def name_stand_in(number: int) -> str:
    """The name in the parsed statement for a joined table, by its order in `find_joined_tables`."""
    return JOINED_STAND_IN.format(number)


def _replace_placeholders(sql: str) -> str:
    text = sql.replace(PLACEHOLDER, TABLE_STAND_IN)
    for number, name in enumerate(find_joined_tables(sql)):
        text = text.replace(f"{{{name}}}", name_stand_in(number))
    return text


def parse_tree(sql: str) -> Any:
    """The statement, with stand-ins for the tables in braces; `ValueError` unless its rows can be followed."""
    from sqlglot import exp

    if sql.count(PLACEHOLDER) != 1:
        raise ValueError(f"{PLACEHOLDER} must occur in it once, after FROM; {SELECT_EXAMPLE}")
    joined_tables = find_joined_tables(sql)
    text = WINDOW_PATTERN.sub(f"{WINDOW_STAND_IN}(", _replace_placeholders(sql))
    placeholders = {name_stand_in(number): f"{{{name}}}" for number, name in enumerate(joined_tables)}
    tree = parse_statement(text, SELECT_EXAMPLE, {TABLE_STAND_IN: PLACEHOLDER, **placeholders})
    if not isinstance(tree, exp.Select):
        raise ValueError(f"not one SELECT; {SELECT_EXAMPLE}")
    tables = sorted(table.sql("spark").split(" ")[0] for table in tree.find_all(exp.Table))
    if tables != sorted([TABLE_STAND_IN, *(name_stand_in(number) for number in range(len(joined_tables)))]):
        raise ValueError(
            f"it may read {PLACEHOLDER} and, each once, tables in braces like {{lake.shop.customers}}: a change of any "
            f"other would not be seen; {SELECT_EXAMPLE}"
        )
    _check_joins(tree)
    return tree


def _check_joins(tree: Any) -> None:
    from sqlglot import exp

    if tree.find(exp.Subquery) or len(list(tree.find_all(exp.Select))) > 1:
        raise ValueError(f"subqueries are not supported; join the tables instead; {SELECT_EXAMPLE}")
    if tree.find(exp.From).this.name != TABLE_STAND_IN:
        raise ValueError(f"{PLACEHOLDER} must follow FROM, and the others JOIN; {SELECT_EXAMPLE}")
    # each row of the result must come from one row of the table: untouched rows need not be looked at
    for join in tree.find_all(exp.Join):
        is_plain = (join.side or "").upper() in JOIN_SIDES and (join.kind or "").upper() in JOIN_KINDS
        if not is_plain or join.args.get("method"):
            raise ValueError(
                f"JOIN, LEFT JOIN, SEMI, ANTI and CROSS JOIN may be used: others give rows "
                f"that no row of {PLACEHOLDER} gives"
            )


def _build_grouped(tree: Any, key: tuple[str, ...], joined_tables: tuple[str, ...]) -> Grouped:
    from sqlglot import exp

    group = tree.args.get("group")
    if group is not None and (group.args.get("all") or tree.find(exp.Rollup, exp.Cube, exp.GroupingSets)):
        raise ValueError(f"GROUP BY takes a list of expressions; {GROUP_EXAMPLE}")
    if any(isinstance(entry, exp.Literal) for entry in (group.expressions if group is not None else ())):
        raise ValueError(f"GROUP BY takes expressions, not their numbers; {GROUP_EXAMPLE}")
    items = {item.alias_or_name.casefold(): item for item in tree.selects}
    key_items = []
    for name in key:
        item = items.get(name.casefold())
        if item is None or is_aggregate(item):
            raise ValueError(f"key column {name} must stand in SELECT, as a group or a constant; {GROUP_EXAMPLE}")
        key_items.append(item)
    # the same SELECT without what looks at the rows of a group
    keys = tree.copy()
    # also those that are no key: GROUP BY, and other columns, may name them by their aliases
    keys.set("expressions", [item.copy() for item in tree.selects if not is_aggregate(item)])
    keys.set("having", None)
    matched_columns = tuple(
        name for name, item in zip(key, key_items, strict=True) if SESSION_WINDOW not in item.sql("spark").casefold()
    )
    text = keys.sql("spark").replace(TABLE_STAND_IN, PLACEHOLDER)
    for number, name in enumerate(joined_tables):
        text = text.replace(name_stand_in(number), f"{{{name}}}")
    return Grouped(re.sub(WINDOW_STAND_IN, "window", text, flags=re.IGNORECASE), matched_columns)
