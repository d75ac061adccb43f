"""Takes a Flink SQL script apart: tables, catalogs, inserts and settings, without running it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tidegate.errors import ConfigurationError
from tidegate.migration.flink.column_definitions import FlinkColumn, parse_flink_columns
from tidegate.migration.flink.tokens import Tokens, split_statements
from tidegate.sql.spark import quote

MAX_SHOWN_WORDS = 8


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
class FlinkInsert:
    """One INSERT INTO ... SELECT: expressions with their aliases, the one table it reads, and its condition.

    `problem` says what makes it more than that; then nothing else counts.
    """

    target: str
    source: str = ""
    items: tuple[tuple[str, str], ...] = ()
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
        """A table's name with the catalog and the database in use, where it has none of its own."""
        parts = name.split(".")
        before = [self.catalog, self.database][: 3 - len(parts)] if len(parts) < 3 else []
        return ".".join([part for part in before if part] + parts)


def parse_script(text: str) -> FlinkScript:
    """The script's statements. ConfigurationError names one that cannot be read, by its first words."""
    script = FlinkScript()
    for statement in split_statements(text):
        tokens = Tokens(statement)
        try:
            _read_statement(script, tokens)
        except (IndexError, ValueError) as fault:
            words = " ".join(statement.split()[:3])
            raise ConfigurationError(f"statement={words} ...: it cannot be read: {fault}; correct it") from None
    return script


def _read_statement(script: FlinkScript, tokens: Tokens) -> None:
    if tokens.take("CREATE", "TABLE") or tokens.take("CREATE", "TEMPORARY", "TABLE"):
        table = _parse_table(tokens)
        script.tables[script.complete(table.name)] = table
    elif tokens.take("CREATE", "CATALOG"):
        tokens.take("IF", "NOT", "EXISTS")
        name = tokens.read_name()
        script.catalogs[name] = _parse_options(tokens)
    elif tokens.take("USE", "CATALOG"):
        script.catalog, script.database = tokens.read_name(), ""
    elif tokens.take("USE"):
        *catalog, script.database = tokens.read_name().split(".")
        script.catalog = catalog[0] if catalog else script.catalog
    elif tokens.take("SET"):
        name, value = tokens.read_assignment()
        script.settings[name] = value
    elif tokens.take("INSERT", "INTO") or tokens.take("INSERT", "OVERWRITE"):
        script.inserts.append(_parse_insert(tokens))
    elif not (tokens.take("BEGIN") or tokens.take("END")):
        script.others.append(
            " ".join(tokens.texts[:MAX_SHOWN_WORDS]) if tokens.texts[0] == "CREATE" else tokens.texts[0]
        )


def _read_partition(tokens: Tokens) -> str:
    """A column of PARTITIONED BY as `create.partition_by` has it: in backquotes where its name needs them."""
    name = tokens.read_name()
    return name if re.fullmatch(r"\w+", name) else quote(name)


def _parse_table(tokens: Tokens) -> FlinkTable:
    tokens.take("IF", "NOT", "EXISTS")
    name = tokens.read_name()
    columns, keys, watermark = parse_flink_columns(tokens.read_group()) if tokens.peek() == "(" else ((), (), False)
    partitions: tuple[str, ...] = ()
    while tokens.peek() and not tokens.take("WITH"):
        if tokens.take("PARTITIONED", "BY"):
            partitions = tuple(_read_partition(part) for part in tokens.read_group().split(","))
        elif tokens.peek().upper() in ("LIKE", "AS"):
            raise ValueError(f"{tokens.peek().upper()} in CREATE TABLE {name}: write its columns and options out")
        else:
            tokens.skip()
    return FlinkTable(
        name=name,
        columns=columns,
        primary_key=keys,
        partitions=partitions,
        options=dict(_read_options(tokens.read_group())) if tokens.peek() == "(" else {},
        watermark=watermark,
    )


def _parse_options(tokens: Tokens) -> dict[str, str]:
    while tokens.peek() and not tokens.take("WITH"):
        tokens.skip()
    return dict(_read_options(tokens.read_group()))


def _read_options(tokens: Tokens) -> Iterator[tuple[str, str]]:
    for part in tokens.split(","):
        if part.peek():
            yield part.read_assignment()


def _parse_insert(tokens: Tokens) -> FlinkInsert:
    """One table, one select list, at most one condition; hints in comments are skipped."""
    target = tokens.read_name()
    columns = tuple(part.read_name() for part in tokens.read_group().split(",")) if tokens.peek() == "(" else ()
    if not tokens.take("SELECT"):
        return FlinkInsert(target, problem="it does not select from a table")
    items = tokens.read_until("FROM").split(",")
    if not tokens.take("FROM"):
        return FlinkInsert(target, problem="it does not select from a table")
    source = tokens.read_name()
    tokens.take("AS")
    alias = tokens.read_name() if tokens.peek() and tokens.peek().upper() not in ("WHERE", "JOIN", ",") else ""
    condition = tokens.read_rest() if tokens.take("WHERE") else ""
    condition_text = condition or tokens.read_rest()
    match = re.search(
        r"\b(JOIN|UNION|GROUP\s+BY|ORDER\s+BY|LIMIT|OVER|INTERSECT|EXCEPT|HAVING)\b|^,", condition_text, re.IGNORECASE
    )
    if match or (condition_text and not condition) or any(part.peek().upper() == "DISTINCT" for part in items):
        construct = match[1] if match and match[1] else "more than one table or condition"
        return FlinkInsert(target, problem=f"{construct}: a pipeline makes one row of each record")
    pairs = tuple(_strip_alias(*part.read_item(), alias) for part in items)
    return FlinkInsert(
        target=target, source=source, items=pairs, condition=_strip_prefix(condition, alias), columns=columns
    )


def _strip_alias(expression: str, name: str, alias: str) -> tuple[str, str]:
    return _strip_prefix(expression, alias), name


def _strip_prefix(text: str, alias: str) -> str:
    """Columns without the alias of the one table."""
    return re.sub(rf"(?<![\w.`])`?{re.escape(alias)}`?\s*\.\s*", "", text) if alias else text
