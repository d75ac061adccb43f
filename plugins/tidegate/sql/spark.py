"""Names and text as Spark SQL writes them: one place for quoting, on the worker and in the jobs."""

import re
from collections.abc import Mapping

STEP_REGEX = r"`(?:[^`]|``)+`|[^\s`(),.]+"  # a part of a column's path
PATH_REGEX = rf"(?:{STEP_REGEX})(?:\.(?:{STEP_REGEX}))*"

# another answer each time
NONDETERMINISTIC_FUNCTIONS = frozenset({
    "current_date", "current_time", "current_timestamp", "curdate", "localtimestamp", "now", "rand", "randn", "random",
    "randstr", "shuffle", "uniform", "unix_timestamp", "uuid", "monotonically_increasing_id",
})  # fmt: skip


def quote(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


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
