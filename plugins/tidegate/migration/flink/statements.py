"""Takes a Flink SQL script apart: tables, catalogs, inserts and settings, without running it.

sqlglot finds the tokens. The user's text is cut out by their places: every name, number and text stays as it is. A
statement that cannot be read with certainty is refused.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.config.parsing.flink_tokens import FlinkToken, split_statements
from tidegate.errors import ConfigurationError
from tidegate.sql.spark import quote

MAX_SHOWN_WORDS = 8
BRACKETS = {"(": ")", "[": "]", "{": "}"}
NESTED_TYPES = ("ARRAY", "MAP", "ROW")
SIMPLE_TYPES = {
    "STRING": "STRING", "VARCHAR": "STRING", "CHAR": "STRING", "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT", "INT": "INT", "INTEGER": "INT", "BIGINT": "BIGINT", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE",
    "DATE": "DATE", "BYTES": "BINARY", "BINARY": "BINARY", "VARBINARY": "BINARY", "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}  # fmt: skip
DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
NO_COLUMNS = ("NULL", "TRUE", "FALSE", "UNKNOWN", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP", "LOCALTIME",
              "LOCALTIMESTAMP", "CURRENT_ROW_TIMESTAMP")  # fmt: skip
# with these words a row is made of more than one record
ANYWHERE = ("JOIN", "UNION", "GROUP", "ORDER", "LIMIT", "OVER", "INTERSECT", "EXCEPT", "HAVING", "SELECT",
            "MATCH_RECOGNIZE")  # fmt: skip
BEHIND_A_TABLE = (*ANYWHERE, "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "FOR", "FETCH", "OFFSET", "WINDOW",
                  "TABLESAMPLE", ",", "(")  # fmt: skip
ONE_ROW = "a pipeline makes one row of each record"


class Tokens:
    """A row of tokens; reading removes them. `ValueError` where something else is expected."""

    def __init__(self, tokens: list[FlinkToken]) -> None:
        self.rest = tokens

    def peek(self) -> str:
        """The next token as a word; empty at the end."""
        return self.rest[0].word if self.rest else ""

    def read(self) -> str:
        """The next name, text or word, without quotes."""
        if not self.rest:
            raise ValueError("it ends too early")
        return self.rest.pop(0).text

    def take(self, *words: str) -> bool:
        """Go over these words if they come next."""
        comes_next = [token.word for token in self.rest[: len(words)]] == list(words)
        del self.rest[: len(words) if comes_next else 0]
        return comes_next

    def read_name(self) -> str:
        """A name of one or more parts, without quotes."""
        parts = [self.read()]
        while self.take("."):
            parts.append(self.read())
        return ".".join(parts)

    def read_group(self, opening: str = "(") -> "Tokens":
        """The content of the next brackets."""
        if self.peek() != opening:
            raise ValueError(f"{opening} is missing before {self.peek() or 'its end'}")
        end = self._find_end(0, {**BRACKETS, "<": ">"}[opening])
        inner = Tokens(self.rest[1:end])
        del self.rest[: end + 1]
        return inner

    def read_until(self, word: str) -> "Tokens":
        """The tokens before a word, outside of brackets. `IS DISTINCT FROM` is no FROM."""
        index = 0
        while index < len(self.rest):
            if self.rest[index].word == word and not (index and self.rest[index - 1].word == "DISTINCT"):
                break
            index = self._skip(index)
        before = Tokens(self.rest[:index])
        del self.rest[:index]
        return before

    def split(self) -> Iterator["Tokens"]:
        """The parts between commas, outside of brackets."""
        while self.rest:
            yield self.read_until(",")
            self.take(",")

    def cut(self, table: str = "") -> str:
        """The user's own text; a comment or a line's end is a blank, and a column loses the prefix `table.`."""
        parts: list[str] = []
        needs_blank = False
        for index, token in enumerate(self.rest):
            needs_blank = needs_blank or (index > 0 and token.start > self.rest[index - 1].end + 1)
            if self._is_prefix(index, table) or self._is_prefix(index - 1, table):
                continue
            parts.append(f" {token.render()}" if needs_blank and parts else token.render())
            needs_blank = False
        return "".join(parts)

    def _is_prefix(self, index: int, table: str) -> bool:
        if index < 0 or index + 2 >= len(self.rest) or self.rest[index].kind == "STRING":
            return False
        is_first = index == 0 or self.rest[index - 1].raw != "."
        return is_first and self.rest[index].text == table and self.rest[index + 1].raw == "."

    def _skip(self, index: int) -> int:
        word = self.rest[index].word
        is_type = word == "<" and index > 0 and self.rest[index - 1].word in NESTED_TYPES
        closing = ">" if is_type else BRACKETS.get(word)
        return self._find_end(index, closing) + 1 if closing else index + 1

    def _find_end(self, index: int, closing: str) -> int:
        index += 1
        while index < len(self.rest) and self.rest[index].word != closing:
            index = self._skip(index)
        if index >= len(self.rest):
            raise ValueError(f"{closing} is missing")
        return index


@dataclass(frozen=True)
class FlinkColumn:
    """A column: its Spark type, or the metadata key that it shows, or whether an expression makes it."""

    name: str
    type: str = ""
    metadata: str = ""
    is_computed: bool = False
    nullable: bool = True


@dataclass(frozen=True)
class FlinkTable:
    """One CREATE TABLE: its columns, key, partitions and options."""

    name: str
    columns: tuple[FlinkColumn, ...] = ()
    primary_key: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict, repr=False)
    watermark: bool = False


@dataclass(frozen=True)
class FlinkItem:
    """One expression of a select list; `column` is the plain column that it is, or empty."""

    sql: str
    alias: str = ""
    column: str = ""


@dataclass(frozen=True)
class FlinkInsert:
    """One INSERT INTO ... SELECT from one table.

    `problem`: what makes it more than that, or what Spark would read otherwise; then the other fields do not count.
    """

    target: str
    source: str = ""
    items: tuple[FlinkItem, ...] = ()
    condition: str = ""
    columns: tuple[str, ...] = ()
    problem: str = ""


@dataclass
class FlinkScript:
    """What a script declares; names are complete as far as USE says them. `others` have no part in a pipeline."""

    tables: dict[str, FlinkTable] = field(default_factory=dict)
    catalogs: dict[str, dict[str, str]] = field(default_factory=dict)
    inserts: list[FlinkInsert] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    catalog: str = ""
    database: str = ""

    def complete(self, name: str) -> str:
        """A table's name, completed by the catalog and database in use."""
        parts = name.split(".")
        before = [self.catalog, self.database][: 3 - len(parts)] if len(parts) < 3 else []
        return ".".join([part for part in before if part] + parts)


def parse_script(text: str) -> FlinkScript:
    """`ConfigurationError` names a statement that cannot be read, by its first words."""
    script = FlinkScript()
    try:
        statements = list(split_statements(text))
    except ValueError:
        raise ConfigurationError("statements: a text or a name has no closing quote; correct the script") from None
    for statement in statements:
        words = " ".join(token.raw for token in statement[:3])
        try:
            _read_statement(script, Tokens(statement))
        except ValueError as fault:
            raise ConfigurationError(f"statement={words} ...: it cannot be read: {fault}; correct it") from None
    return script


def _read_statement(script: FlinkScript, tokens: Tokens) -> None:
    if any(token.raw == '"' for token in tokens.rest):
        raise ValueError("a double quote: Flink writes names in ` and texts in '")
    tokens.take("EXECUTE", "STATEMENT", "SET")
    tokens.take("BEGIN", "STATEMENT", "SET")
    tokens.take("BEGIN")
    if tokens.take("CREATE", "TABLE") or tokens.take("CREATE", "TEMPORARY", "TABLE"):
        table = _parse_table(tokens)
        script.tables[script.complete(table.name)] = table
    elif tokens.take("CREATE", "CATALOG"):
        tokens.take("IF", "NOT", "EXISTS")
        name = tokens.read_name()
        tokens.read_until("WITH")
        script.catalogs[name] = _parse_options(tokens)
    elif tokens.take("USE", "CATALOG"):
        script.catalog = tokens.read_name()
        script.database = ""
    elif tokens.take("USE"):
        *catalog, script.database = tokens.read_name().split(".")
        script.catalog = catalog[0] if catalog else script.catalog
    elif tokens.take("SET") and tokens.rest:
        name, value = _read_assignment(tokens)
        script.settings[name] = value
    elif tokens.take("INSERT", "INTO") or tokens.take("INSERT", "OVERWRITE"):
        script.inserts.append(_parse_insert(tokens))
    elif tokens.rest and not tokens.take("END"):
        shown = tokens.rest[: MAX_SHOWN_WORDS if tokens.peek() == "CREATE" else 1]
        script.others.append(" ".join(token.raw for token in shown))


def _parse_table(tokens: Tokens) -> FlinkTable:
    tokens.take("IF", "NOT", "EXISTS")
    name = tokens.read_name()
    columns, keys, watermark = _parse_columns(tokens.read_group()) if tokens.peek() == "(" else ((), (), False)
    partitions: list[str] = []
    while tokens.rest and tokens.peek() != "WITH":
        if tokens.take("PARTITIONED", "BY"):
            partitions = [part.read() for part in tokens.read_group().split()]
        elif tokens.peek() in ("LIKE", "AS"):
            raise ValueError(f"{tokens.peek()} in CREATE TABLE {name}: write its columns and options out")
        else:
            tokens.read()
    quoted = tuple(part if re.fullmatch(r"\w+", part) else quote(part) for part in partitions)
    return FlinkTable(
        name=name, columns=columns, primary_key=keys, partitions=quoted, options=_parse_options(tokens),
        watermark=watermark,
    )  # fmt: skip


def _parse_options(tokens: Tokens) -> dict[str, str]:
    if not tokens.take("WITH"):
        return {}
    options = dict(_read_assignment(part) for part in tokens.read_group().split() if part.rest)
    if tokens.rest:
        raise ValueError(f"{tokens.peek()} behind WITH (...): write columns and options out")
    return options


def _read_assignment(tokens: Tokens) -> tuple[str, str]:
    left = tokens.read_until("=")
    name = left.read() if len(left.rest) == 1 else left.cut()
    if not tokens.take("="):
        raise ValueError(f"= is missing behind {name}")
    return name, tokens.read() if len(tokens.rest) == 1 else tokens.cut()


def _parse_columns(tokens: Tokens) -> tuple[tuple[FlinkColumn, ...], tuple[str, ...], bool]:
    columns: list[FlinkColumn] = []
    keys: tuple[str, ...] = ()
    watermark = False
    for part in tokens.split():
        if part.take("CONSTRAINT"):
            part.read()
        if part.take("PRIMARY", "KEY"):
            keys = tuple(name.read() for name in part.read_group().split())
        elif part.take("WATERMARK"):
            watermark = True
        elif part.rest:
            column, is_key = _parse_column(part)
            columns.append(column)
            keys = (column.name,) if is_key else keys
    return tuple(columns), keys, watermark


def _parse_column(tokens: Tokens) -> tuple[FlinkColumn, bool]:
    name = tokens.read()
    if tokens.take("AS"):
        return FlinkColumn(name, is_computed=True), False
    kind = _parse_type(tokens)
    metadata = ""
    nullable = True
    is_key = False
    while tokens.rest:
        if tokens.take("METADATA"):
            metadata = tokens.read() if tokens.take("FROM") else name
        elif tokens.take("NOT", "NULL"):
            nullable = False
        elif tokens.take("PRIMARY", "KEY"):
            is_key = True
        elif tokens.take("COMMENT"):
            tokens.read()
        elif not (tokens.take("NULL") or tokens.take("VIRTUAL") or tokens.take("NOT", "ENFORCED")):
            raise ValueError(f"{tokens.peek()} behind the type of {name}")
    return FlinkColumn(name, kind, metadata=metadata, nullable=nullable), is_key


def _parse_type(tokens: Tokens) -> str:
    word = tokens.read().upper()
    if word in NESTED_TYPES:
        parts = [_parse_inner_type(part, is_field=word == "ROW") for part in tokens.read_group("<").split()]
        return f"{'STRUCT' if word == 'ROW' else word}<{', '.join(parts)}>"
    size = tokens.read_group().cut().replace(" ", "") if tokens.peek() == "(" else ""
    if word in DECIMALS:
        return f"DECIMAL({size if ',' in size else f'{size or 10},0'})"
    tokens.take("PRECISION")
    tokens.take("WITHOUT", "TIME", "ZONE")
    if tokens.take("WITH", "LOCAL", "TIME", "ZONE"):
        word = "TIMESTAMP_LTZ"
    if word not in SIMPLE_TYPES:
        raise ValueError(f"type {word} has no counterpart here; use another in the DDL, e.g. STRING or BIGINT")
    return SIMPLE_TYPES[word]


def _parse_inner_type(tokens: Tokens, *, is_field: bool) -> str:
    name = f"{quote(tokens.read())}: " if is_field else ""
    kind = _parse_type(tokens)
    tokens.take("NOT")
    tokens.take("NULL")
    if len(tokens.rest) > 1 or (tokens.rest and tokens.rest[0].kind != "STRING"):  # a field's comment
        raise ValueError(f"{tokens.peek()} behind the type {kind}")
    return name + kind


def _parse_insert(tokens: Tokens) -> FlinkInsert:
    has_hint = any(token.kind == "HINT" for token in tokens.rest)
    names = [token.text for token in tokens.rest]
    target = tokens.read_name()
    if any("." in name and name != "." for name in names[: len(names) - len(tokens.rest)]):
        return FlinkInsert(target, problem="a name with a dot would be read as two names")
    if has_hint:
        return FlinkInsert(target, problem="a hint: write its options into CREATE TABLE")
    columns = tuple(part.read() for part in tokens.read_group().split()) if tokens.peek() == "(" else ()
    selects = tokens.take("SELECT")
    items = tokens.read_until("FROM")
    if not selects or not tokens.take("FROM"):
        return FlinkInsert(target, problem="it does not select from a table")
    source = tokens.read_name()
    table = source.rpartition(".")[2]
    if tokens.take("AS") or (tokens.rest and tokens.peek() not in (*BEHIND_A_TABLE, "WHERE")):
        table = tokens.read()
    if tokens.rest and not tokens.take("WHERE"):
        return FlinkInsert(target, problem=f"{tokens.peek()}: {ONE_ROW}")
    problem = _find_problem(items.rest) or _find_problem(tokens.rest)
    if problem:
        return FlinkInsert(target, problem=problem)
    return FlinkInsert(
        target=target, source=source, items=tuple(_read_item(item, table) for item in items.split()),
        condition=tokens.cut(table), columns=columns,
    )  # fmt: skip


def _find_problem(tokens: list[FlinkToken]) -> str:
    """What makes a row of several records, or what Spark reads in another way; empty where there is nothing."""
    for token, after in zip(tokens, [*tokens[1:], *tokens[-1:]], strict=True):
        if token.word in ANYWHERE or (token is tokens[0] and token.word == "DISTINCT"):
            return f"{token.word}: {ONE_ROW}"
        if token.word == "/":
            return "/: Flink divides whole numbers into whole numbers, and Spark does not"
        if token.word == "SIMILAR" or (token.word == "LIKE" and "\\" in after.text):
            return f"{token.word}: its pattern has another meaning in Spark"
        if token.word == "U" and after.raw == "&":
            return "U&'...': write the letters themselves"
    return ""


def _read_item(tokens: Tokens, table: str) -> FlinkItem:
    expression = tokens.read_until("AS")
    alias = tokens.read() if tokens.take("AS") else ""
    sql = expression.cut(table)
    last = expression.rest[-1]
    is_name = sql == last.raw and last.kind in ("VAR", "IDENTIFIER") and last.word not in NO_COLUMNS
    return FlinkItem(sql, alias, last.text if is_name else "")
