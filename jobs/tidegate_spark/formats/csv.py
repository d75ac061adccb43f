"""csv: one line as RFC 4180 has it, its columns by position; all is read as text and converted without loss."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class _Line:
    """A key or a value that is one line of so many columns, and those that are read of it."""

    part: str
    columns: tuple[Column, ...]
    options: Mapping[str, Any]
    width: int
    truncated: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        return f"{self.part}_text"

    @property
    def struct(self) -> str:
        return "kc" if self.part == "key" else "c"

    def render_parsed(self) -> str:
        """Return `struct`, all columns of the line as texts."""
        fields = ", ".join(f"{quote(column.name)} STRING" for column in self.columns)
        spelling = to_spark_options(self.options)
        words = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": CORRUPT_COLUMN, "nullValue": NO_TEXT, **spelling}
        if spelling["escape"] == spelling["quote"]:  # else Spark drops the character NUL out of what stands in quotes
            words["charToEscapeQuoteEscaping"] = spelling["quote"]
        pairs = ", ".join(f"{render_literal(name)}, {render_literal(value)}" for name, value in words.items())
        return (
            f"from_csv({_render_without_ending(self.text)}, "
            f"{render_literal(f'{fields}, {quote(CORRUPT_COLUMN)} STRING')}, map({pairs})) AS {self.struct}"
        )

    def render_text(self, column: Column) -> str:
        """Return a column's text, an empty one NULL unless another text is.

        An empty one in quotes is the empty text, in columns that have such a value.
        """
        text = f"{self.struct}.{quote(column.name)}"
        null = self.options.get("null_literal")
        if null is not None:
            return f"nullif(coalesce({text}, ''), {render_literal(null)})"
        return text if column.type.upper() in EMPTY_TYPES else f"nullif({text}, '')"

    def render_values(self) -> dict[str, str]:
        return {c.name: render_conversion(self.render_text(c), c.type, self._find_encoding(c)) for c in self.columns}

    def render_reason(self) -> str:
        return f"coalesce({self.render_loss_reason()}, {self.render_lack_reason()})"

    def render_loss_reason(self) -> str:
        cases = [
            f"WHEN NOT is_valid_utf8({self.text}) THEN 'the {self.part} is not valid UTF-8'",
            f"WHEN {self._render_is_no_line()} THEN 'the {self.part} is not one line of {self.width} columns'",
        ]
        for column in self.columns:
            misfit = f"the {self.part} column {column.name} is not a {column.type} without loss"
            reason = render_misfit_reason(misfit, self.render_text(column), column.type)
            cases.append(f"WHEN {self._render_is_lossy(column)} THEN {reason}")
        return render_first_reason(*cases)

    def render_lack_reason(self) -> str:
        cases = [
            f"WHEN {self.render_text(c)} IS NULL "
            f"THEN {render_literal(f'the {self.part} column {c.name} is required and missing')}"
            for c in self.columns
            if not c.nullable
        ]
        return render_first_reason(*cases)

    def render_doubts(self) -> dict[str, str]:
        unread = f"NOT is_valid_utf8({self.text}) OR {self._render_is_no_line()}"
        return {c.name: f"coalesce({unread} OR {self._render_is_lossy(c)}, false)" for c in self.columns}

    def _find_encoding(self, column: Column) -> str | None:
        return find_word(self.options.get("binary"), column)

    def _render_is_lossy(self, column: Column) -> str:
        truncates = column.name.casefold() in self.truncated
        return render_is_lossy(self.render_text(column), column.type, self._find_encoding(column), truncates)

    def _render_is_no_line(self) -> str:
        """Whether Spark cannot read the line, or would guess what it means: an unclosed quote, or nothing at all."""
        words = to_spark_options(self.options)
        sep, quote, escape = (rf"\x{{{ord(words[name][0]):x}}}" for name in ("sep", "quote", "escape"))
        escape_pattern = quote * 2 if escape == quote else rf"{escape}."
        cell = rf"(?:{quote}(?:[^{quote}{escape}]++|{escape_pattern})*+{quote}|(?!{quote})[^{sep}\r\n]*+)"
        whole = rf"(?s)\A{cell}(?:{sep}{cell})*+\z"
        suspect = rf"[{quote}\r\n]"
        line = _render_without_ending(self.text)
        strange = f"{self.text} RLIKE {render_literal(suspect)} AND NOT {line} RLIKE {render_literal(whole)}"
        # of one column nothing at all is a value that may be NULL; it is no key of NULL
        needs_text = self.width > 1 or (self.part == "key" and not self.options.get("null_literal"))
        is_no_line = f"({strange} OR {line} = '')" if needs_text else f"({strange})"
        return f"{self.struct} IS NULL OR {self.struct}.{CORRUPT_COLUMN} IS NOT NULL OR {is_no_line}"


def decode_key(records: DataFrame, table: StageTable) -> DecodedKey:
    """The key's columns are those of key.fields in their order."""
    columns = list_key_fields(table).columns
    line = _Line("key", columns, table.key.options, len(columns))
    parsed_records = records.selectExpr("*", line.render_parsed())
    return DecodedKey(parsed_records, f"struct({render_columns(line.render_values())})", line.render_reason())


def decode_value(records: DataFrame, table: StageTable) -> DecodedValue:
    """The value's columns are those of value.schema in their order; no value is a delete."""
    columns = table.value_columns
    line = _Line("value", columns, table.value.options, len(columns), truncated=list_truncated_names(table))
    keys = list_key_fields(table).columns
    key_line = replace(line, columns=keys, truncated=frozenset())
    has_keys = {key.name for key in keys} <= {column.name for column in columns}
    return DecodedValue(
        records=records.selectExpr("*", TOMBSTONE_DELETES, line.render_parsed(), f"{NO_REASON} AS located_reason"),
        columns=line.render_values(),
        reason=line.render_loss_reason(),
        null_reason=line.render_lack_reason(),
        key=f"struct({render_columns(key_line.render_values()) if has_keys else render_null_fields(keys)})",
        key_reason=key_line.render_reason() if has_keys else NO_REASON,
        key_presence="c IS NOT NULL" if has_keys else "false",
        doubts=line.render_doubts(),
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
