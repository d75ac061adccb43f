"""Names and text as Spark SQL writes them: one place for quoting, on the worker and in the jobs."""


def quote(name: str) -> str:
    """One identifier in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def quote_name(table: str) -> str:
    """A dotted table name, each part in backquotes."""
    return ".".join(quote(part) for part in table.split("."))


def render_literal(text: str) -> str:
    """A string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
