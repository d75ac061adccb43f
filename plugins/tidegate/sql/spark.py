"""Names and text as Spark SQL writes them: one place for quoting, on the worker and in the jobs."""

import re

STEP_REGEX = r"`(?:[^`]|``)+`|[^\s`(),.]+"  # a part of a column's path


def quote(name: str) -> str:
    """One identifier in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def unquote(name: str) -> str:
    """The identifier that stands in backquotes; a name without them is itself."""
    return name[1:-1].replace("``", "`") if len(name) > 1 and name[0] == name[-1] == "`" else name


def split_path(column: str) -> tuple[str, ...]:
    """The steps of a path to a column or to a field of it, such as ``http.`status code```, without backquotes."""
    return tuple(map(unquote, re.findall(STEP_REGEX, column)))


def unquote_path(column: str) -> str:
    """A path with dots between its steps, and without backquotes; a name that is no path is itself."""
    is_path = re.fullmatch(rf"(?:{STEP_REGEX})(?:\.(?:{STEP_REGEX}))+", column.strip())
    return ".".join(split_path(column)) if is_path else unquote(column.strip())


def quote_name(table: str) -> str:
    """A dotted table name, each part in backquotes."""
    return ".".join(quote(part) for part in table.split("."))


def strip_alias(expression: str, name: str) -> str:
    """A rendered column without the ` AS name` at its end; it is not searched for, as a name may hold those words."""
    return expression.removesuffix(f" AS {quote(name)}")


def render_literal(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
