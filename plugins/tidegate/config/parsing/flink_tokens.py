"""Flink SQL's tokens: sqlglot finds them, with Flink's own quotes and escapes; each keeps the user's spelling."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tidegate.sql.spark import render_literal


@dataclass(frozen=True)
class FlinkToken:
    """One token, and its place in the script."""

    kind: str
    raw: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """A keyword in capitals; empty for a name in backquotes."""
        return self.raw if self.kind in ("IDENTIFIER", "STRING") else self.raw.upper()

    @property
    def text(self) -> str:
        """A name or a text without its quotes."""
        is_quoted = self.kind in ("IDENTIFIER", "STRING")
        return self.raw[1:-1].replace(self.raw[0] * 2, self.raw[0]) if is_quoted else self.raw

    def render(self) -> str:
        """As Spark reads it: there a backslash begins an escape, and two quotes end a text."""
        if self.kind != "STRING" or (self.text.isprintable() and not {"\\", "'"} & set(self.text)):
            return self.raw
        literal = render_literal(self.text)  # a line's end in it would be one of the YAML file
        return "".join(letter if letter.isprintable() else f"\\U{ord(letter):08x}" for letter in literal)


@cache
def _build_tokenizer() -> Any:
    from sqlglot.tokens import Tokenizer

    rules = {
        "QUOTES": ["'"], "STRING_ESCAPES": ["'"], "IDENTIFIERS": ["`"], "IDENTIFIER_ESCAPES": ["`"],
        "NESTED_COMMENTS": False, "COMMANDS": set(),
        # operators of several signs alone: sqlglot would join words, as GROUP BY
        "KEYWORDS": {word: kind for word, kind in Tokenizer.KEYWORDS.items() if not word[0].isalpha()},
    }  # fmt: skip
    return type(Tokenizer)("FlinkTokenizer", (Tokenizer,), rules)()


def split_statements(script: str) -> Iterator[list[FlinkToken]]:
    """The tokens of each statement; a hint is of the kind HINT. `ValueError` for an unclosed quote."""
    from sqlglot.errors import TokenError

    try:
        found = _build_tokenizer().tokenize(script)
    except TokenError:
        raise ValueError("a quote is open at the end; close it") from None
    tokens: list[FlinkToken] = []
    for token, next_start in zip(found, [*(token.start for token in found[1:]), len(script)], strict=True):
        tokens.append(FlinkToken(token.token_type.name, script[token.start : token.end + 1], token.start, token.end))
        if "/*+" in script[token.end + 1 : next_start]:  # a comment for sqlglot
            tokens.append(FlinkToken("HINT", "/*+", token.end + 1, next_start - 1))
        if token.token_type.name == "SEMICOLON":
            yield tokens[:-1]
            tokens = []
    yield tokens
