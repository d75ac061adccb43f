"""csv: one line as RFC 4180 has it, its columns by position; all is read as text and converted without loss."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Column
from tidegate.sql.spark import quote, render_columns, render_literal

from tidegate_spark.fields.conditions import NO_REASON, render_first_reason
from tidegate_spark.fields.json.objects import CORRUPT_COLUMN, find_word
from tidegate_spark.fields.text import render_conversion, render_is_lossy
from tidegate_spark.fields.written_values import render_misfit_reason
from tidegate_spark.formats.decoded import TOMBSTONE_DELETES, DecodedKey, DecodedValue, render_null_fields
from tidegate_spark.formats.json import list_key_fields, list_truncated_names

DEFAULT_DELIMITER = ","
DEFAULT_QUOTE = '"'
LINE_ENDING_PATTERN = r"\r?\n\z"
BACKSLASH = "\\"
EMPTY_TYPES = ("STRING", "BINARY")
# what the parser gives for a column of nothing, not even quotes; no text is that
NO_TEXT = "tidegate-no-text-5d0f3c1e9b7a48d2a6c4e8b0f1937562"
Cells = tuple[tuple[Column, str, str | None], ...]  # with the encoding of bytes


@dataclass(frozen=True)
class _LineShape:
    columns: int
    options: Mapping[str, Any]

    def render_is_no_line(self, text: str, part_name: str) -> str:
        """Whether Spark would guess what the text means: an unclosed quote, or nothing at all."""
        words = to_spark_options(self.options)
        sep, quote, escape = (rf"\x{{{ord(words[name][0]):x}}}" for name in ("sep", "quote", "escape"))
        escape_pattern = quote * 2 if escape == quote else rf"{escape}."
        cell = rf"(?:{quote}(?:[^{quote}{escape}]++|{escape_pattern})*+{quote}|(?!{quote})[^{sep}\r\n]*+)"
        whole = rf"(?s)\A{cell}(?:{sep}{cell})*+\z"
        suspect = rf"[{quote}\r\n]"
        line = _render_without_ending(text)
        strange = f"{text} RLIKE {render_literal(suspect)} AND NOT {line} RLIKE {render_literal(whole)}"
        # of one column nothing at all is a value that may be NULL; it is no key of NULL
        needs_text = self.columns > 1 or (part_name == "key" and not self.options.get("null_literal"))
        return f"({strange} OR {line} = '')" if needs_text else f"({strange})"


def decode_key(records: DataFrame, table: StageTable) -> DecodedKey:
    """The key's columns are those of key.fields in their order."""
    columns = list_key_fields(table).columns
    parsed_records = records.selectExpr("*", f"{_render_from_csv('key_text', columns, table.key.options)} AS kc")
    cells = _list_cells("kc", columns, table.key.options)
    reason = _render_reason("key", "kc", cells, _LineShape(len(columns), table.key.options))
    return DecodedKey(parsed_records, f"struct({render_columns(_render_values(cells))})", reason)


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    """The value's columns are those of value.schema in their order; no value is a delete."""
    columns = table.value_columns
    keys = list_key_fields(table).columns
    options = table.value.options
    parsed_records = records.selectExpr(
        "*",
        TOMBSTONE_DELETES,
        f"{_render_from_csv('value_text', columns, options)} AS c",
        f"{NO_REASON} AS located_reason",
    )
    cells = _list_cells("c", columns, options)
    names = {column.name for column in columns}
    key_cells = _list_cells("c", keys, options)
    has_keys = all(key.name in names for key in keys)
    line = _LineShape(len(columns), options)
    return DecodedValue(
        records=parsed_records,
        columns=_render_values(cells),
        reason=_render_loss_reason("value", "c", cells, line, list_truncated_names(table)),
        null_reason=_render_lack_reason("value", cells),
        key=f"struct({render_columns(_render_values(key_cells)) if has_keys else render_null_fields(keys)})",
        key_reason=_render_reason("value", "c", key_cells, line) if has_keys else NO_REASON,
        key_presence="c IS NOT NULL" if has_keys else "false",
        doubts=_render_doubts(cells, line, list_truncated_names(table)),
    )


def to_spark_options(options: Mapping[str, str | None]) -> dict[str, str]:
    delimiter = options.get("delimiter") or DEFAULT_DELIMITER
    quote = options.get("quote") or DEFAULT_QUOTE
    sep = BACKSLASH * 2 if delimiter == BACKSLASH else delimiter  # alone it begins the name of another character
    return {"sep": sep, "quote": quote, "escape": options.get("escape") or quote}


def _render_without_ending(text: str) -> str:
    return (
        f"CASE WHEN endswith({text}, '\\n') THEN regexp_replace({text}, {render_literal(LINE_ENDING_PATTERN)}, '') "
        f"ELSE {text} END"
    )


def _render_from_csv(text: str, columns: tuple[Column, ...], options: dict[str, str]) -> str:
    fields = ", ".join(f"{quote(column.name)} STRING" for column in columns)
    spelling = to_spark_options(options)
    words = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_COLUMN, "nullValue": NO_TEXT, **spelling}
    if spelling["escape"] == spelling["quote"]:  # else Spark drops the character NUL out of what stands in quotes
        words["charToEscapeQuoteEscaping"] = spelling["quote"]
    pairs = ", ".join(f"{render_literal(name)}, {render_literal(value)}" for name, value in words.items())
    return (
        f"from_csv({_render_without_ending(text)}, {render_literal(f'{fields}, {quote(CORRUPT_COLUMN)} STRING')}, "
        f"map({pairs}))"
    )


def _list_cells(struct: str, columns: tuple[Column, ...], options: dict[str, Any]) -> Cells:
    """Return each column with its text, an empty one NULL unless another text is, and how its bytes are written.

    An empty one in quotes is the empty text, in columns that have such a value.
    """
    null = options.get("null_literal")
    cells = []
    for column in columns:
        text = f"{struct}.{quote(column.name)}"
        if null is not None:
            text = f"nullif(coalesce({text}, ''), {render_literal(null)})"
        elif column.type.upper() not in EMPTY_TYPES:
            text = f"nullif({text}, '')"
        cells.append((column, text, find_word(options.get("binary"), column)))
    return tuple(cells)


def _render_values(cells: Cells) -> dict[str, str]:
    return {column.name: render_conversion(text, column.type, encoding) for column, text, encoding in cells}


def _render_reason(subject: str, struct: str, cells: Cells, line: _LineShape) -> str:
    loss = _render_loss_reason(subject, struct, cells, line)
    return f"coalesce({loss}, {_render_lack_reason(subject, cells)})"


def _render_loss_reason(
    part_name: str, struct: str, cells: Cells, line: _LineShape, truncated: frozenset[str] = frozenset()
) -> str:
    is_no_line = line.render_is_no_line(f"{part_name}_text", part_name)
    cases = [
        f"WHEN NOT is_valid_utf8({part_name}_text) THEN 'the {part_name} is not valid UTF-8'",
        f"WHEN {struct} IS NULL OR {struct}.{CORRUPT_COLUMN} IS NOT NULL OR {is_no_line} "
        f"THEN 'the {part_name} is not one line of {line.columns} columns'",
    ]
    for column, text, encoding in cells:
        is_lossy = render_is_lossy(text, column.type, encoding, column.name.casefold() in truncated)
        misfit = f"the {part_name} column {column.name} is not a {column.type} without loss"
        cases.append(f"WHEN {is_lossy} THEN {render_misfit_reason(misfit, text, column.type)}")
    return render_first_reason(*cases)


def _render_doubts(cells: Cells, line: _LineShape, truncated: frozenset[str]) -> dict[str, str]:
    no_line = f"NOT is_valid_utf8(value_text) OR c IS NULL OR c.{CORRUPT_COLUMN} IS NOT NULL"
    no_line += f" OR {line.render_is_no_line('value_text', 'value')}"
    doubts = {}
    for column, text, encoding in cells:
        is_lossy = render_is_lossy(text, column.type, encoding, column.name.casefold() in truncated)
        doubts[column.name] = f"coalesce({no_line} OR {is_lossy}, false)"
    return doubts


def _render_lack_reason(part_name: str, cells: Cells) -> str:
    required_texts = ((column.name, text) for column, text, _ in cells if not column.nullable)
    reasons = (
        (text, render_literal(f"the {part_name} column {name} is required and missing"))
        for name, text in required_texts
    )
    return render_first_reason(*(f"WHEN {text} IS NULL THEN {reason}" for text, reason in reasons))
