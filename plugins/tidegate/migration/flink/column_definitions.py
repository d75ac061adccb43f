"""The columns of a Flink table: physical ones with their Spark types, metadata, computed ones, and the key."""

from dataclasses import dataclass

from tidegate.migration.flink.tokens import Tokens, unquote_token

SIMPLE_TYPES = {
    "STRING": "STRING", "VARCHAR": "STRING", "CHAR": "STRING", "BOOLEAN": "BOOLEAN", "TINYINT": "TINYINT",
    "SMALLINT": "SMALLINT", "INT": "INT", "INTEGER": "INT", "BIGINT": "BIGINT", "FLOAT": "FLOAT", "DOUBLE": "DOUBLE",
    "DATE": "DATE", "BYTES": "BINARY", "BINARY": "BINARY", "VARBINARY": "BINARY", "TIMESTAMP": "TIMESTAMP_NTZ",
    "TIMESTAMP_LTZ": "TIMESTAMP",
}  # fmt: skip
DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
NESTING = {"(": 1, "<": 1, ")": -1, ">": -1}


@dataclass(frozen=True)
class FlinkColumn:
    """A column: its Spark type, or the metadata key that it shows, or the expression that makes it."""

    name: str
    type: str = ""
    metadata: str = ""
    expression: str = ""
    nullable: bool = True

    @property
    def is_physical(self) -> bool:
        """Whether records hold it."""
        return not self.metadata and not self.expression


def parse_flink_columns(tokens: Tokens) -> tuple[tuple[FlinkColumn, ...], tuple[str, ...], bool]:
    """Columns, the primary key, and whether there is a watermark. ValueError for a type that Spark does not have."""
    columns, keys, watermark = list[FlinkColumn](), tuple[str, ...](), False
    for part in tokens.split(","):
        if part.take("PRIMARY", "KEY"):
            keys = tuple(unquote_token(token.skip()) for token in part.read_group().split(","))
        elif part.take("CONSTRAINT"):
            part.read_name()
            part.take("PRIMARY", "KEY")
            keys = tuple(unquote_token(token.skip()) for token in part.read_group().split(","))
        elif part.take("WATERMARK"):
            watermark = True
        elif part.peek():
            column, is_key = _parse_column(part)
            columns.append(column)
            keys = (column.name,) if is_key else keys
    return tuple(columns), keys, watermark


def _parse_column(tokens: Tokens) -> tuple[FlinkColumn, bool]:
    name = unquote_token(tokens.skip())
    if tokens.take("AS"):
        return FlinkColumn(name, expression=tokens.read_rest()), False
    kind = parse_flink_type(tokens)
    if tokens.take("METADATA"):
        key = unquote_token(tokens.skip()) if tokens.take("FROM") else name
        return FlinkColumn(name, kind, metadata=key), False
    nullable = not tokens.take("NOT", "NULL")
    return FlinkColumn(name, kind, nullable=nullable), tokens.take("PRIMARY", "KEY")


def parse_flink_type(tokens: Tokens) -> str:
    """One type in Spark's words."""
    word = tokens.skip().upper()
    if word in ("ARRAY", "MAP", "ROW"):
        return _parse_nested(word, tokens)
    if word in DECIMALS:
        text = tokens.read_group().join_text().replace(" ", "") if tokens.peek() == "(" else "10,0"
        return f"DECIMAL({text if ',' in text else text + ',0'})"
    if tokens.peek() == "(":
        tokens.read_group()
    tokens.take("PRECISION")
    if tokens.take("WITHOUT", "TIME", "ZONE"):
        word = "TIMESTAMP"
    elif tokens.take("WITH", "LOCAL", "TIME", "ZONE"):
        word = "TIMESTAMP_LTZ"
    if word not in SIMPLE_TYPES:
        raise ValueError(f"type {word} has no counterpart here; use another in the DDL, e.g. STRING or BIGINT")
    return SIMPLE_TYPES[word]


def _parse_nested(word: str, tokens: Tokens) -> str:
    parts = _read_angle_brackets(tokens).split(",")
    if word == "ROW":
        fields = ", ".join(f"`{unquote_token(part.skip())}`: {parse_flink_type(part)}" for part in parts)
        return f"STRUCT<{fields}>"
    return f"{word}<{', '.join(map(parse_flink_type, parts))}>"


def _read_angle_brackets(tokens: Tokens) -> Tokens:
    inner, depth = list[str](), 0
    while tokens.peek():
        token = tokens.texts[tokens._next]
        tokens._next += 1
        depth += NESTING.get(token, 0)
        if depth == 0:
            return Tokens(tokens=inner[1:])
        inner.append(token)
    raise ValueError("> is missing")
