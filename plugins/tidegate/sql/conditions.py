"""Which parts of a condition in Spark's SQL look at columns of the row: a delete shows no row.

The stage job uses this in Spark, with the standard library alone, and needs the user's own text of each part: so the
text is cut by tokens, and not parsed.
"""

import re
from collections.abc import Collection, Iterator

_TOKEN_PATTERN = re.compile(
    r"""(?P<space>\s+|--[^\n]*)
    |(?P<comment>/\*)  # its end is looked for: comments in brackets nest in Spark
    |(?P<text>[rR](?:'[^']*'|"[^"]*")|'(?:\\.|[^'\\])*')
    |(?P<quoted>`(?:[^`]|``)*`|"(?:\\.|[^"\\])*")  # what stands in double quotes may be a name, by Spark's settings
    |(?P<word>\w+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK_PATTERN = re.compile(r"/\*|\*/")
_OPENING = ("(", "[", "CASE")
_CLOSING = (")", "]", "END")
Token = tuple[str, str, int]  # kind, text, and where it begins


def render_without(condition: str, columns: Collection[str]) -> str | None:
    """Return those parts of a condition that must all hold and look at none of `columns`; None without any."""
    parts = [part for part in split_conjunction(condition) if not reads_any(part, columns)]
    return " AND ".join(f"(\n{part}\n)" for part in parts) or None


def reads_any(condition: str, columns: Collection[str]) -> bool:
    return _reads(condition, {name.casefold() for name in columns})


def split_conjunction(condition: str) -> list[str]:
    """Return the operands of the outermost ANDs; else the condition as it is."""
    depth = 0
    in_between = 0
    start = 0
    parts = list[str]()
    for kind, text, at in _list_tokens(condition):
        word = text.upper() if kind in ("word", "mark") else ""
        depth += (word in _OPENING) - (word in _CLOSING)
        if depth < 0 or (depth == 0 and word == "OR"):
            return [condition]
        if depth == 0 and word == "BETWEEN":
            in_between += 1
        elif depth == 0 and word == "AND" and in_between:
            in_between -= 1
        elif depth == 0 and word == "AND":
            parts.append(condition[start:at])
            start = at + len(text)
    return [*parts, condition[start:]] if depth == 0 else [condition]


def _list_tokens(sql: str) -> Iterator[Token]:
    place = 0
    while match := _TOKEN_PATTERN.match(sql, place):
        place = _find_comment_end(sql, match.end()) if match.lastgroup == "comment" else match.end()
        if match.lastgroup not in ("space", "comment"):
            yield str(match.lastgroup), match[0], match.start()


def _find_comment_end(sql: str, place: int) -> int:
    depth = 1
    for mark in _COMMENT_MARK_PATTERN.finditer(sql, place):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    return len(sql)


def _reads(sql: str, names: Collection[str]) -> bool:
    before = ""
    for kind, text, _ in _list_tokens(sql):
        name = text[1:-1].replace("``", "`") if kind == "quoted" else text
        if kind in ("word", "quoted") and name.casefold() in names:
            return True
        if text == "*" and before in ("(", ",", "."):
            return True
        before = text
    return False
