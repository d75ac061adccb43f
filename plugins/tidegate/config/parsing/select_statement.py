"""Takes the SELECT of a pipeline file apart: sqlglot says what it means, and the user's own words go to Spark."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from tidegate.config.parsing.ddl import parse_columns
from tidegate.config.parsing.spark_sql import (
    AGGREGATE_FUNCTIONS,
    ROW_FUNCTIONS,
    WINDOW_FUNCTIONS,
    find_known_functions,
    parse_statement,
)
from tidegate.spec.projection import RECORD, Dimension, Item, Select

SELECT_EXAMPLE = "e.g. SELECT id, upper(name) ... FROM record, or FROM record r LEFT JOIN lake.shop.customers c ON ..."
ALLOWED_CLAUSES = {"expressions", "from_", "joins", "kind", "hint"}
CAST_EXAMPLE = "write CAST(... AS TYPE) AS name"
SEVERAL_RECORDS = "an aggregate or window over several records; select sees one record at a time"
SEVERAL_ROWS = "a function that makes several rows; each record becomes one row"


@lru_cache(maxsize=256)
def parse_select(text: str) -> Select:
    """`ValueError` says what is wrong and what to write instead."""
    from sqlglot import exp

    tree = parse_statement(text, SELECT_EXAMPLE)
    if not isinstance(tree, exp.Select):
        raise ValueError(f"not one SELECT; {SELECT_EXAMPLE}")
    _check_clauses(tree)
    functions = find_known_functions(text, tree)
    if functions & (AGGREGATE_FUNCTIONS | WINDOW_FUNCTIONS):
        raise ValueError(SEVERAL_RECORDS)
    if functions & ROW_FUNCTIONS:
        raise ValueError(SEVERAL_ROWS)
    alias = _find_record_alias(tree)
    joins = tree.args.get("joins") or []
    for join in joins:
        _check_join(join)
    texts, conditions = _split_texts(text)
    if not _is_same_meaning([*texts, *conditions], [*tree.expressions, *(join.args["on"] for join in joins)]):
        raise ValueError(f"not a statement that can be taken apart; {SELECT_EXAMPLE}")
    names = [".".join(part.name for part in join.this.parts) for join in joins]
    dimensions = tuple(Dimension(n, j.this.alias, on) for n, j, on in zip(names, joins, conditions, strict=True))
    aliases = [alias, *(d.alias for d in dimensions)]
    if len({name.casefold() for name in aliases}) < len(aliases):
        raise ValueError(f"two tables are called the same: {', '.join(aliases)}; give each an alias of its own")
    items = tuple(_parse_item(node, sql, alias, aliases) for node, sql in zip(tree.expressions, texts, strict=True))
    reads = tuple(name for join in joins for name in _find_reads(join.args["on"], alias, aliases))
    return Select(text=" ".join(text.split()), items=items, alias=alias, dimensions=dimensions, reads=reads)


def _check_clauses(tree: Any) -> None:
    from sqlglot import exp

    clauses = sorted(name.rstrip("_") for name, value in tree.args.items() if value and name not in ALLOWED_CLAUSES)
    if clauses:
        raise ValueError(
            f"each record becomes one row, so there is no {clauses[0].upper()} here; leave records out with when"
        )
    for node in tree.walk():
        if isinstance(node, exp.Query) and node is not tree:
            raise ValueError("a subquery; join a dimension table with LEFT JOIN instead")
        if isinstance(node, exp.AggFunc | exp.Window):
            raise ValueError(SEVERAL_RECORDS)
        if isinstance(node, exp.UDTF):
            raise ValueError(SEVERAL_ROWS)


def _find_record_alias(tree: Any) -> str:
    from sqlglot import exp

    source = (tree.args.get("from_") or exp.From()).this
    if not isinstance(source, exp.Table) or [part.name.casefold() for part in source.parts] != [RECORD]:
        raise ValueError(f"it reads FROM {RECORD}, the decoded record; {SELECT_EXAMPLE}")
    return str(source.alias or RECORD)


def _check_join(join: Any) -> None:
    from sqlglot import exp

    words = [str(join.args[word]) for word in ("side", "kind", "method") if join.args.get(word)]
    table = join.this
    if words not in (["LEFT"], ["LEFT", "OUTER"]) or not join.args.get("on"):
        raise ValueError("only LEFT JOIN ... ON: a record without a match is a row too; leave it out with when")
    if not isinstance(table, exp.Table) or len(table.parts) < 3 or not table.alias:
        name = join.this.sql("spark")
        raise ValueError(f"LEFT JOIN {name}: write <catalog>.<namespace>.<table> and an alias")
    if table.args.get("version"):
        raise ValueError("a version of a table is pinned by each batch itself; for the past join a table with history")


def _parse_item(node: Any, sql: str, alias: str, aliases: Sequence[str]) -> Item:
    from sqlglot import exp

    if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
        if isinstance(node, exp.Column) and node.table.casefold() != alias.casefold():
            raise ValueError(f"{node.sql('spark')}: name the columns of a dimension table one by one")
        star = node if isinstance(node, exp.Star) else node.this
        extra = [word for word, value in star.args.items() if value and word != "except_"]
        if extra:
            raise ValueError(f"* {extra[0].rstrip('_').upper()}: only EXCEPT (...) is understood")
        return Item(None, excluded_columns=tuple(column.name for column in star.args.get("except_") or []))
    name = node.alias
    inner = node.this if isinstance(node, exp.Alias) else node
    if isinstance(node, exp.Alias) and not name:
        raise ValueError(f"{node.sql('spark')}: a column without a name; name it with AS")
    if isinstance(inner, exp.Column | exp.Dot):
        steps = _list_steps(inner)
        if steps is not None:
            owner, path = _resolve_owner(steps, alias, aliases)
            is_own = owner == alias
            return Item(name or steps[-1], owner, path, reads=path[:1] if is_own else (), is_joined=not is_own)
    if not isinstance(inner, exp.Cast) or not name:
        raise ValueError(f"{sql}: the type of what is computed must be said; {CAST_EXAMPLE}")
    inside = sql[sql.index("(") + 1 : sql.rindex(")")] if sql.rstrip().endswith(")") and "(" in sql else ""
    as_span = _find_last_as(inside)
    if as_span is None or not sql.upper().lstrip().startswith(("CAST", "TRY_CAST")):
        raise ValueError(f"{sql}: the type of what is computed must be said; {CAST_EXAMPLE}")
    value, type_text = inside[: as_span[0]].strip(), inside[as_span[1] :].strip()
    word = parse_columns(f"c {type_text}")[0].type
    is_strict = not inner.args.get("safe")
    reads = tuple(_find_reads(inner, alias, aliases))
    columns = list(inner.find_all(exp.Column))
    return Item(name, sql=value, type=word, is_checked=is_strict, reads=reads, is_joined=len(reads) < len(columns))


def _resolve_owner(steps: tuple[str, ...], alias: str, aliases: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    owner = next((candidate for candidate in aliases if candidate.casefold() == steps[0].casefold()), None)
    if owner is not None and len(steps) > 1:
        return owner, steps[1:]
    # beside dimension tables each column must name its table: the file does not tell their columns
    if len(aliases) > 1:
        raise ValueError(f"{'.'.join(steps)}: beside a join each column names its table, e.g. {alias}.{steps[0]}")
    return alias, steps


def _list_steps(node: Any) -> tuple[str, ...] | None:
    from sqlglot import exp

    if isinstance(node, exp.Column):
        return tuple(part.name for part in node.parts)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        before = _list_steps(node.this)
        return None if before is None else (*before, node.expression.name)
    return None


def _find_reads(node: Any, alias: str, aliases: Sequence[str]) -> Iterator[str]:
    from sqlglot import exp

    for column in node.find_all(exp.Column):
        if isinstance(column.this, exp.Star):
            raise ValueError("a star inside of an expression; name the columns")
        owner, path = _resolve_owner(tuple(part.name for part in column.parts), alias, aliases)
        if owner == alias:
            yield path[0]


def _split_texts(text: str) -> tuple[list[str], list[str]]:
    """The user's own words: of each entry of the list without its alias, and of each join's condition."""
    from sqlglot.dialects.spark import Spark

    tokens = Spark().tokenize(text)
    depth = 0
    begin = tokens[0].end + 1
    items: list[str] = []
    conditions: list[str] = []
    pieces = items
    is_condition = False
    for index, token in enumerate(tokens[1:]):
        word = token.text.upper() if token.token_type.name not in ("STRING", "IDENTIFIER") else ""
        depth += {"L_PAREN": 1, "L_BRACKET": 1, "R_PAREN": -1, "R_BRACKET": -1}.get(token.token_type.name, 0)
        is_call = index + 2 < len(tokens) and tokens[index + 2].token_type.name == "L_PAREN"
        ends = depth == 0 and (word in (",", "FROM", "JOIN", ";") or (word == "LEFT" and not is_call))
        if ends and begin >= 0:
            pieces.append(text[begin : token.start].strip())
            begin = -1
        if depth == 0 and word == "FROM":
            is_condition = True
            pieces = conditions
        if depth == 0 and ((word == "," and not is_condition) or (word == "ON" and is_condition)):
            begin = token.end + 1
    if begin >= 0:
        pieces.append(text[begin:].strip())
    spans = [_find_last_as(piece) for piece in items]
    texts = [piece if span is None else piece[: span[0]].strip() for piece, span in zip(items, spans, strict=True)]
    return texts, conditions


def _is_same_meaning(texts: list[str], nodes: list[Any]) -> bool:
    """Whether the user's words, cut out of the statement, mean what was read in their place."""
    from sqlglot import exp

    if len(texts) != len(nodes):
        return False
    inner = [node.this if isinstance(node, exp.Alias) else node for node in nodes]
    return all(
        parse_statement(f"SELECT {t}\n", SELECT_EXAMPLE).expressions[:1] == [n]
        for t, n in zip(texts, inner, strict=True)
    )


def _find_last_as(text: str) -> tuple[int, int] | None:
    from sqlglot.dialects.spark import Spark

    depth = 0
    span = None
    for token in Spark().tokenize(text):
        depth += {"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0)
        if depth == 0 and token.token_type.name == "ALIAS":
            span = (token.start, token.end + 1)
    return span
