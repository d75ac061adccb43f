"""Words, texts and parentheses of Flink SQL."""

import re
from collections.abc import Iterator

TOKEN_PATTERN = re.compile(r"'(?:[^']|'')*'|`(?:[^`]|``)*`|[A-Za-z_$][\w$]*|\d+(?:\.\d+)?|<>|<=|>=|\|\||::|\S")
QUOTED_PATTERN = re.compile(r"('(?:[^']|'')*'|`(?:[^`]|``)*`)|(--[^\n]*|/\*.*?\*/)|(;)", re.DOTALL)
OPENING, CLOSING = "([", ")]"


def split_statements(text: str) -> Iterator[str]:
    """Statements without comments; a semicolon in a text ends none."""
    begin, parts = 0, list[str]()
    for match in QUOTED_PATTERN.finditer(text):
        if match[1]:
            continue
        parts.append(text[begin : match.start()])
        begin = match.end()
        if match[3]:
            statement = " ".join(parts).strip()
            parts = []
            if statement:
                yield statement
    statement = " ".join([*parts, text[begin:]]).strip()
    if statement:
        yield statement


def unquote_token(token: str) -> str:
    """A text or a name without its quotes."""
    if token[:1] in "'`" and token[:1]:
        quote = token[0]
        return token[1:-1].replace(quote * 2, quote)
    return token


class Tokens:
    """Tokens in a row, and how far they are read. ValueError where something else is expected than what comes."""

    def __init__(self, text: str = "", tokens: list[str] | None = None) -> None:
        self.texts = TOKEN_PATTERN.findall(text) if tokens is None else tokens
        self._next = 0

    def peek(self) -> str:
        """The next token; empty at the end."""
        return self.texts[self._next] if self._next < len(self.texts) else ""

    def skip(self) -> str:
        """Go over the next token, with what stands in its parentheses."""
        if self.peek() in OPENING:
            return self.read_group().join_text()
        self._next += 1
        return self.texts[self._next - 1]

    def take(self, *words: str) -> bool:
        """Go over these words if they come next."""
        ahead = [token.upper() for token in self.texts[self._next : self._next + len(words)]]
        if ahead != list(words):
            return False
        self._next += len(words)
        return True

    def read_name(self) -> str:
        """A name of one or more parts, without quotes."""
        parts = [unquote_token(self.skip())]
        while self.take("."):
            parts.append(unquote_token(self.skip()))
        return ".".join(parts)

    def read_group(self) -> "Tokens":
        """What stands in the next parentheses."""
        if self.peek() not in OPENING or not self.peek():
            raise ValueError(f"( is missing before {self.peek() or 'its end'}")
        depth, begin = 0, self._next + 1
        while self._next < len(self.texts):
            token = self.texts[self._next]
            depth += (token in OPENING) - (token in CLOSING)
            self._next += 1
            if depth == 0:
                return Tokens(tokens=self.texts[begin : self._next - 1])
        raise ValueError(") is missing")

    def read_until(self, word: str) -> "Tokens":
        """What comes before a word, outside of parentheses."""
        begin = self._next
        while self.peek() and self.peek().upper() != word:
            self.skip()
        return Tokens(tokens=self.texts[begin : self._next])

    def read_rest(self) -> str:
        """All that is left."""
        remaining_text = Tokens(tokens=self.texts[self._next :]).join_text()
        self._next = len(self.texts)
        return remaining_text

    def read_assignment(self) -> tuple[str, str]:
        """``'name' = 'value'``."""
        name = self.read_name()
        if not self.take("="):
            raise ValueError(f"= is missing behind {name}")
        return name, unquote_token(self.skip()) if self.peek().startswith(("'", "`")) else self.read_rest()

    def read_item(self) -> tuple[str, str]:
        """An expression of a select list, and its alias; empty without one."""
        before = self.read_until("AS")
        return before.join_text(), self.read_name() if self.take("AS") else ""

    def split(self, separator: str) -> list["Tokens"]:
        """The parts between separators, outside of parentheses and angle brackets."""
        parts, depth = [list[str]()], 0
        for token in self.texts[self._next :]:
            depth += (token in (*OPENING, "<")) - (token in (*CLOSING, ">"))
            if token == separator and depth == 0:
                parts.append([])
            else:
                parts[-1].append(token)
        self._next = len(self.texts)
        return [Tokens(tokens=part) for part in parts]

    def join_text(self) -> str:
        """The tokens as SQL again."""
        text = " ".join(self.texts[self._next :])
        text = re.sub(r"\s*\.\s*(?=[A-Za-z_`*])", ".", text)
        return re.sub(r"\s+([,)\]])", r"\1", re.sub(r"(\w) \(", r"\1(", re.sub(r"([(\[]) ", r"\1", text)))
