"""What a condition in Spark's SQL looks at, as far as its text tells: of a delete nobody knows the row."""

import re
from collections.abc import Collection, Iterator

_TOKEN_PATTERN = re.compile(
    r"""(?P<space>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<text>[rR](?:'[^']*'|"[^"]*")|'(?:\\.|[^'\\])*')
    |(?P<quoted>`(?:[^`]|``)*`|"(?:\\.|[^"\\])*")  # what stands in double quotes may be a name, by Spark's settings
    |(?P<word>\w+)
    |(?P<mark>.)""",
    re.VERBOSE | re.DOTALL,
)
_OPENING, _CLOSING = ("(", "[", "CASE"), (")", "]", "END")
Token = tuple[str, str, int]  # kind, text, and where it begins


def render_without(condition: str, columns: Collection[str]) -> str | None:
    """Those parts of a condition that must all hold and look at none of `columns`; None where there are none."""
    names = {name.casefold() for name in columns}
    parts = [part for part in _split_conjunction(condition) if not _reads(part, names)]
    return " AND ".join(f"(\n{part}\n)" for part in parts) or None


def _list_tokens(sql: str) -> Iterator[Token]:
    for match in _TOKEN_PATTERN.finditer(sql):
        if match.lastgroup != "space":
            yield str(match.lastgroup), match[0], match.start()


def _split_conjunction(condition: str) -> list[str]:
    """The operands of the outermost ANDs; the condition as it is where it is anything else."""
    depth, in_between, start, parts = 0, 0, 0, list[str]()
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


def _reads(sql: str, names: Collection[str]) -> bool:
    """Whether one of these names stands in it, or a star for all of them."""
    before = ""
    for kind, text, _ in _list_tokens(sql):
        name = text[1:-1].replace("``", "`") if kind == "quoted" else text
        if kind in ("word", "quoted") and name.casefold() in names:
            return True
        if text == "*" and before in ("(", ",", "."):
            return True
        before = text
    return False
