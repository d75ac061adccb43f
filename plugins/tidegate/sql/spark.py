"""Names and text as Spark SQL writes them: one place for quoting, on the worker and in the jobs."""

import re
from collections.abc import Mapping

STEP_REGEX = r"`(?:[^`]|``)+`|[^\s`(),.]+"  # a part of a column's path
PATH_REGEX = rf"(?:{STEP_REGEX})(?:\.(?:{STEP_REGEX}))*"

PLAIN_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that SQL's grammar keeps for itself: a column of such a name needs backquotes.
_RESERVED = """
    all alter and anti any array as asc at authorization backup begin between bigint binary boolean both by
    cascade case cast char check cluster collate column comment commit constraint create cross cube current
    current_date current_time current_timestamp current_user database date decimal declare default delete desc
    describe distinct double drop else end escape except exists explain external false fetch filter first
    float for foreign format from full function grant group grouping having if in index inner insert int
    integer intersect interval into is join key language last lateral left like limit local lock map match
    merge minus natural no not null nulls of offset on only option or order outer over overlaps partition
    percent pivot position primary procedure range real references rename replace restrict revoke right
    rollback row rows schema select semi session_user set show some start struct table tablesample temporary
    then time timestamp to trailing transaction trigger true truncate union unique unknown unpivot update use
    user using values varchar view when where window with within without year zone
"""
RESERVED = frozenset(_RESERVED.split())

# another answer each time
NONDETERMINISTIC_FUNCTIONS = frozenset({
    "current_date", "current_time", "current_timestamp", "curdate", "localtimestamp", "now", "rand", "randn", "random",
    "randstr", "shuffle", "uniform", "unix_timestamp", "uuid", "monotonically_increasing_id",
})  # fmt: skip


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quote_if_needed(name: str) -> str:
    """Quote a name that is no plain word, or a word of the grammar."""
    is_plain = PLAIN_NAME_PATTERN.fullmatch(name) and name.casefold() not in RESERVED
    return name if is_plain else quote(name)


def unquote(name: str) -> str:
    return name[1:-1].replace("``", "`") if len(name) > 1 and name[0] == name[-1] == "`" else name


def split_path(column: str) -> tuple[str, ...]:
    """Split a path such as ``http.`status code``` into its steps, without backquotes."""
    return tuple(map(unquote, re.findall(STEP_REGEX, column)))


def split_name_or_path(column: str) -> tuple[str, ...]:
    """Return the steps of a path; a name that is no path, as one with spaces, is one step."""
    is_path = re.fullmatch(rf"(?:{STEP_REGEX})(?:\.(?:{STEP_REGEX}))+", column.strip())
    return split_path(column) if is_path else (unquote(column.strip()),)


def unquote_path(column: str) -> str:
    """Return a path with dots between its steps, and without backquotes."""
    return ".".join(split_name_or_path(column))


def quote_name(table: str) -> str:
    return ".".join(quote(part) for part in table.split("."))


def render_columns(values: Mapping[str, str]) -> str:
    """The columns of a SELECT or a struct: each value under its name."""
    return ", ".join(f"{sql} AS {quote(name)}" for name, sql in values.items())


def render_literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def render_once(value: str, expression: str) -> str:
    """Compute `expression`, SQL over `b`, once, however often `b` stands in it."""
    return f"get(transform(array({value}), b -> {expression}), 0)"
