"""Spark's SQL in a pipeline file, read by sqlglot: one statement or expression, or a sentence about why it is none."""

import logging
from collections.abc import Mapping
from typing import Any

TOO_DEEP = "brackets or functions nest too deeply to be read; write it flatter"


def parse_statement(sql: str, example: str, placeholders: Mapping[str, str] | None = None) -> Any:
    """The tree of one statement or expression. ValueError shows where it cannot be read, and ends with `example`.

    `placeholders` are the names that stand in `sql` for what the user wrote in braces, each with the user's word.
    """
    import sqlglot
    from sqlglot.errors import SqlglotError

    # what it reads as a mere command is refused by who asked for something else; its own warning names no file
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    try:
        statements = sqlglot.parse(sql, read="spark")
    except SqlglotError as fault:
        errors = getattr(fault, "errors", None)
        word = errors[0].get("highlight") if errors else None
        place = f" near {(placeholders or {}).get(word, word)!r}" if word else ""
        raise ValueError(f"not SQL that Spark reads{place}; {example}") from fault
    except RecursionError:
        raise ValueError(f"{TOO_DEEP}; {example}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError) as fault:  # of sqlglot itself, over what is no SQL
        raise ValueError(f"not SQL that Spark reads; {example}") from fault
    if len(statements) != 1 or statements[0] is None:
        raise ValueError(f"one expression expected, {len(statements)} statements found; {example}")
    return statements[0]
