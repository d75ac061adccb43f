"""csv: one line as RFC 4180 has it, its columns by position; all is read as text and converted without loss."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.column import Column
from tidegate.sql.spark import literal, quoted

from tidegate_spark.fields.text import converted, unfit
from tidegate_spark.formats.decoded import DELETE, UPSERT, FoundKey, FoundValue
from tidegate_spark.formats.json import key_fields

CORRUPT = "_tidegate_corrupt"
DELIMITER, QUOTE, ENDING = ",", '"', r"\r?\n\z"
Cells = tuple[tuple[Column, str], ...]


@dataclass(frozen=True)
class _Line:
    """How many columns a line has, and how it is spelled."""

    columns: int
    options: Mapping[str, str | None]

    def is_none(self, text: str) -> str:
        """A condition: Spark would take the text for a line, and guess what it means.

        It keeps a quote that is neither opened nor closed, and makes a row of NULLs of nothing at all.
        """
        words = spelling(self.options)
        sep, quote, escape = (rf"\x{{{ord(words[name]):x}}}" for name in ("sep", "quote", "escape"))
        kept = quote * 2 if escape == quote else rf"{escape}."
        cell = rf"(?:{quote}(?:[^{quote}{escape}]++|{kept})*+{quote}|(?!{quote})[^{sep}\r\n]*+)"
        whole, suspect, line = rf"(?s)\A{cell}(?:{sep}{cell})*+\z", rf"[{quote}\r\n]", _unended(text)
        strange = f"{text} RLIKE {literal(suspect)} AND NOT {line} RLIKE {literal(whole)}"
        return f"({strange} OR {line} = '')" if self.columns > 1 else f"({strange})"


def read(records: DataFrame, table: StageTable) -> FoundKey:
    """A key: the columns of key.fields in their order."""
    columns = key_fields(table).columns
    parsed = records.selectExpr("*", f"{_parsed('key_text', columns, table.key.options)} AS kc")
    cells = _cells("kc", columns, table.key.options)
    reason = _reason("key", "kc", cells, _Line(len(columns), table.key.options))
    return FoundKey(parsed, f"struct({', '.join(_values(cells))})", reason)


def located(records: DataFrame, table: StageTable) -> FoundValue:
    """A value: the columns of value.schema in their order; no value is a delete."""
    columns, keys, told = table.value_columns, key_fields(table).columns, table.value.options
    parsed = records.selectExpr(
        "*",
        f"CASE WHEN value IS NULL THEN '{DELETE}' ELSE '{UPSERT}' END AS change",
        f"{_parsed('value_text', columns, told)} AS c",
        "CAST(NULL AS STRING) AS located_reason",
    )
    cells, names = _cells("c", columns, told), {column.name for column in columns}
    key_cells, there = _cells("c", keys, told), all(key.name in names for key in keys)
    line = _Line(len(columns), told)
    missing = ", ".join(f"CAST(NULL AS {key.type}) AS {quoted(key.name)}" for key in keys)
    return FoundValue(
        records=parsed,
        columns=tuple(_values(cells)),
        reason=_reason("value", "c", cells, line),
        key=f"struct({', '.join(_values(key_cells)) if there else missing})",
        key_reason=_reason("value", "c", key_cells, line) if there else "CAST(NULL AS STRING)",
        key_there="c IS NOT NULL" if there else "false",
    )


def spelling(options: Mapping[str, str | None]) -> dict[str, str]:
    """Spark's options for lines that are spelled by the format's, to read and to write them."""
    delimiter, quote = options.get("delimiter") or DELIMITER, options.get("quote") or QUOTE
    return {"sep": delimiter, "quote": quote, "escape": options.get("escape") or quote}


def _unended(text: str) -> str:
    """The text without the end of its line."""
    return f"CASE WHEN endswith({text}, '\\n') THEN regexp_replace({text}, {literal(ENDING)}, '') ELSE {text} END"


def _parsed(text: str, columns: tuple[Column, ...], options: dict[str, str]) -> str:
    fields = ", ".join(f"{quoted(column.name)} STRING" for column in columns)
    words = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT, **spelling(options)}
    pairs = ", ".join(f"{literal(name)}, {literal(value)}" for name, value in words.items())
    return f"from_csv({_unended(text)}, {literal(f'{fields}, {quoted(CORRUPT)} STRING')}, map({pairs}))"


def _cells(parsed: str, columns: tuple[Column, ...], options: dict[str, str]) -> Cells:
    """Each column with its text; an empty one is NULL, unless another text is."""
    texts = (f"{parsed}.{quoted(column.name)}" for column in columns)
    null = options.get("null_literal")
    made = texts if null is None else (f"nullif(coalesce({text}, ''), {literal(null)})" for text in texts)
    return tuple(zip(columns, made, strict=True))


def _values(cells: Cells) -> list[str]:
    return [f"{converted(text, column.type)} AS {quoted(column.name)}" for column, text in cells]


def _reason(what: str, parsed: str, cells: Cells, line: _Line) -> str:
    cases = [
        f"WHEN NOT is_valid_utf8({what}_text) THEN 'the {what} is not valid UTF-8'",
        f"WHEN {parsed} IS NULL OR {parsed}.{CORRUPT} IS NOT NULL OR {line.is_none(f'{what}_text')} "
        f"THEN 'the {what} is not one line of {line.columns} columns'",
    ]
    for column, name in cells:
        told = literal(f"the {what} column {column.name} is not a {column.type} without loss")
        cases.append(f"WHEN {unfit(name, column.type)} THEN {told}")
        if not column.nullable:
            cases.append(
                f"WHEN {name} IS NULL THEN {literal(f'the {what} column {column.name} is required and missing')}"
            )
    return f"CASE {' '.join(cases)} END"
