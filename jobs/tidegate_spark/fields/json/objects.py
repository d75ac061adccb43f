"""A JSON text taken apart by a list of columns and by rules of reading: parsed once, converted without loss."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from tidegate.schema.data_types import (
    Column,
    DataType,
    Primitive,
    Struct,
    make_counted,
    make_encoded,
    make_lenient,
    make_truncated,
    parse_type,
)
from tidegate.sql.spark import quote, render_columns, render_literal, render_once

from tidegate_spark.fields.conditions import render_any, render_first_reason
from tidegate_spark.fields.json.text import (
    NEGATIVE_ZERO_PATTERN,
    UNKEPT,
    format_marked_type,
    has_binary_fraction,
    has_fraction,
    has_zero,
    render_any_number,
    render_has_overflow,
    render_is_reprinted,
    render_marked_text,
    render_part,
    render_unmarked_value,
)
from tidegate_spark.fields.lossless import (
    format_parsed_type,
    render_conversion,
    render_is_infinite,
    render_is_lossy,
    render_is_null,
    render_lacking_part_case,
    render_may_overflow,
)
from tidegate_spark.fields.written_values import BASE64, BINARY_FRACTIONS, render_misfit_reason

Words = str | Mapping[str, str] | None  # for all columns, or for each by its name


@dataclass(frozen=True)
class ReadingRules:
    """How values are read: the unit of times, whether numbers may be text (lenient), how bytes are written."""

    units: Words = None  # what whole numbers count in columns that hold a time; else they are refused
    numbers: Words = None
    binary: Words = None
    truncated: frozenset[str] = frozenset()  # columns, case-folded, whose times are cut
    counts_days: bool = False

    def mark_type(self, data_type: DataType, column: Column) -> DataType:
        marked_type = make_lenient(data_type) if find_word(self.numbers, column) == "lenient" else data_type
        encoding = find_word(self.binary, column)
        marked_type = make_encoded(marked_type, encoding) if encoding and encoding != BASE64 else marked_type
        marked_type = make_counted(marked_type) if self.counts_days else marked_type
        return make_truncated(marked_type) if column.name.casefold() in self.truncated else marked_type


def find_word(words: Words, column: Column) -> str | None:
    if words is None or isinstance(words, str):
        return words
    return {name.casefold(): word for name, word in words.items()}.get(column.name.casefold())


CORRUPT_COLUMN = "_tidegate_corrupt"
ELEMENTS_FIELD = "e"
OVERFLOW_PROBLEM = "a number is too large"
MAX_DEPTH = 1_000  # of a text: the parser's own limit
BLANK_CHARACTERS = "' \\t\\r\\n'"  # what may stand around a JSON text


@dataclass(frozen=True)
class Fields:
    """Columns as they stand in a JSON object that was parsed from `text`; empty if another format parsed it."""

    columns: tuple[Column, ...]
    rules: ReadingRules = ReadingRules()
    text: str = "value_text"
    # columns, case-folded, that records made: an object in them may have new fields alone
    growing: frozenset[str] = frozenset()

    def get_unit(self, column: Column) -> str | None:
        return find_word(self.rules.units, column)

    def get_type(self, column: Column) -> DataType:
        return self.rules.mark_type(parse_type(column.type), column)

    def _list_types(self) -> list[tuple[Column, DataType]]:
        return [(column, self.get_type(column)) for column in self.columns]

    @property
    def text_struct(self) -> str:
        return f"STRUCT<{self.inner}>"

    @property
    def inner(self) -> str:
        return ", ".join(f"{quote(c.name)}: {format_parsed_type(t)}" for c, t in self._list_types())

    def render_parsed_struct(self, struct: str) -> str:
        """Return a struct of just these columns out of a larger one, still unconverted."""
        return f"struct({', '.join(f'{struct}.{quote(c.name)}' for c in self.columns)})"

    def render_values(self, struct: str) -> dict[str, str]:
        """Return the value of each column in the object at `struct`, by its name."""
        return {
            c.name: render_conversion(f"{struct}.{quote(c.name)}", t, self.get_unit(c)) for c, t in self._list_types()
        }

    def render_struct(self, struct: str) -> str:
        return f"struct({render_columns(self.render_values(struct))})"

    def render_reason(self, struct: str, subject: str) -> str:
        """Return why the object at `struct` cannot be used, NULL if it can."""
        cases: list[str] = []
        for column in self.columns:
            cases.append(self._render_loss_case(struct, subject, column, None))
            cases.append(self._render_lack_cases(struct, subject, column))
        return render_first_reason(*cases)

    def render_loss_reason(self, struct: str, subject: str, conversion: str) -> str:
        """Return the part of `render_reason` about fields that hold what their columns cannot.

        Converted the object is at `conversion`.
        """
        return render_first_reason(
            *(self._render_loss_case(struct, subject, column, conversion) for column in self.columns)
        )

    def render_lack_reason(self, struct: str, subject: str) -> str:
        """Return the part of `render_reason` about fields, or parts of them, that are NULL and must not be."""
        return render_first_reason(*(self._render_lack_cases(struct, subject, column) for column in self.columns))

    def render_doubts(self, struct: str, conversion: str | None = None) -> dict[str, str]:
        """Return for each column the condition that the object at `struct` may hold something else in its field.

        Of an object that does not fit its columns, only values without parts, fractions or anew printed text are
        trusted.
        """
        doubts = {}
        for column, kind in self._list_types():
            at = f"{struct}.{quote(column.name)}"
            lossy = self.render_is_lossy(struct, column, conversion)
            is_exact = isinstance(kind, Primitive) and kind.name not in BINARY_FRACTIONS
            reprinted = (render_is_reprinted(at, kind) or has_fraction(at, kind) or "false") if is_exact else "true"
            unread = f"located_reason IS NOT NULL AND coalesce({reprinted}, false)"
            doubts[column.name] = f"coalesce({lossy or 'false'}, false) OR {unread}"
        return doubts

    def _render_loss_case(self, struct: str, subject: str, column: Column, conversion: str | None) -> str:
        condition = self.render_is_lossy(struct, column, conversion)
        text = f"{subject} field {column.name} is not a {column.type} without loss"
        reason = render_misfit_reason(text, f"{struct}.{quote(column.name)}", column.type)
        return f"WHEN {condition} THEN {reason}" if condition else ""

    def _render_lack_cases(self, struct: str, subject: str, column: Column) -> str:
        inside = render_lacking_part_case(subject, column, f"{struct}.{quote(column.name)}", self.get_type(column))
        reason = render_literal(f"{subject} field {column.name} is required and missing")
        null_case = "" if column.nullable else f"WHEN {self.render_is_null(struct, column)} THEN {reason}"
        return f"{inside} {null_case}".strip()

    def render_is_lossy(self, struct: str, column: Column, conversion: str | None = None) -> str | None:
        """Whether the column's field would lose something; None if it never can.

        Converted the object is at `conversion`, if it was computed.
        """
        at = f"{struct}.{quote(column.name)}"
        value = f"{conversion}.{quote(column.name)}" if conversion else None
        return render_is_lossy(at, self.get_type(column), self.get_unit(column), self.text or None, value)

    def render_is_null(self, struct: str, column: Column) -> str:
        return render_is_null(f"{struct}.{quote(column.name)}", self.get_type(column))

    def render_is_empty(self, struct: str) -> str:
        """Whether the object at `struct` has none of the columns, or nothing in them."""
        return " AND ".join(self.render_is_null(struct, column) for column in self.columns)

    def render_is_reprinted(self, struct: str, *, is_flat: bool = False) -> str | None:
        """Whether a text in the object at `struct` may not be what was written; None if there are no texts.

        With `is_flat`, numbers are asked for infinity before the text is searched for a word for it.
        """
        whole = Struct(tuple((c.name, t) for c, t in self._list_types()))
        long = render_is_reprinted(struct, whole)
        fraction = has_fraction(struct, whole)
        zero = has_zero(struct, whole)
        unkept = [f"({fraction}) AND {self.text} RLIKE {render_literal(UNKEPT)}"] if fraction else []
        unkept += [f"({zero}) AND {self.text} RLIKE {render_literal(NEGATIVE_ZERO_PATTERN)}"] if zero else []
        # by the text alone: Spark looks at each number inside of a row for half as much again as decoding costs
        too_large = [render_may_overflow(self.text)] if has_binary_fraction(whole) else []
        infinite = render_any_number(struct, whole, lambda at, _: render_is_infinite(at)) if is_flat else None
        too_large = [f"({infinite}) AND {number}" for number in too_large] if infinite else too_large
        return " OR ".join([*([long] if long else []), *unkept, *too_large]) or None

    def render_is_column_name(self, name: str) -> str:
        return f"lower({name}) IN ({', '.join(render_literal(c.name.lower()) for c in self.columns)})"

    def render_misfit_cases(self, text: str, struct: str, condition: str) -> str:
        """Return `WHEN … THEN …` for each field in the object `text` that could not be parsed, if `condition` holds."""
        cases = []
        for column in self.columns:
            reason = render_literal(f"the key field {column.name} is not a {column.type}")
            has_field = _render_is_there(text, "$", column)
            cases.append(f"WHEN {condition} AND {self.render_is_null(struct, column)} AND {has_field} THEN {reason}")
        return " ".join(cases)

    def render_misfits(self, struct: str, paths: tuple[str, ...]) -> str:
        """Return the names of the value's fields that hold something and could not be parsed; only for bad records."""
        cases = []
        for column, data_type in self._list_types():
            has_field = " OR ".join(_render_is_there("value_text", path, column) for path in paths)
            cases.append(
                f"CASE WHEN {render_is_null(f'{struct}.{quote(column.name)}', data_type)} AND ({has_field}) "
                f"THEN {render_literal(column.name)} END"
            )
        empty = f"concat_ws(', ', {', '.join(cases)})"
        structs = [column.name for column, data_type in self._list_types() if isinstance(data_type, Struct)]
        # what the parser has read of a struct stays, so that it is not empty
        part = render_literal(f"a part of {' or '.join(structs)}")
        return f"coalesce(nullif({empty}, ''), {part})" if structs else empty


def _render_is_there(text: str, path: str, column: Column) -> str:
    step = "'" + column.name.replace("'", "\\'") + "'"
    return f"{render_part(text, f'{path}[{step}]')} IS NOT NULL"


def render_from_json(text: str, fields: str) -> str:
    """Parse `text` into a struct of which `render_object` is one; `CORRUPT_COLUMN` says if anything does not fit.

    Parsed as the first of two elements: Spark stops where what it reads is complete, and a text that closes what it did
    not open does not give two.
    """
    schema = render_literal(f"STRUCT<{ELEMENTS_FIELD}: ARRAY<STRUCT<{fields}>>, {quote(CORRUPT_COLUMN)}: STRING>")
    options = (
        f"'mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT_COLUMN}', 'maxNestingDepth', '{MAX_DEPTH + 2}'"
    )
    return f"from_json({render_elements(text)}, {schema}, map({options}))"


def render_elements(text: str) -> str:
    return f"concat('{{\"{ELEMENTS_FIELD}\":[', {text}, ',null]}}')"


def read_objects(
    records: DataFrame, name: str, inner: str, places: Sequence[tuple[Fields, str]], condition: str | None = None
) -> DataFrame:
    """Add `name`: what `render_from_json` makes of the text, with the texts at `places` as they are written.

    Each place is the wanted fields and the path to their object, empty for the object itself. Nothing is parsed unless
    the `condition` is true.
    """
    text = places[0][0].text
    first = f"{name}_first"
    is_reprinted = _render_is_reprinted(first, places)
    object_sql = render_from_json(text, inner)
    object_sql = f"CASE WHEN {condition} THEN {object_sql} END" if condition else object_sql
    if not is_reprinted:
        return records.selectExpr("*", f"{object_sql} AS {name}")
    return records.selectExpr("*", f"{object_sql} AS {first}").selectExpr(
        "*", f"CASE WHEN {is_reprinted} THEN {render_exact_from_json(text, inner)} ELSE {first} END AS {name}"
    )


def read_row_object(records: DataFrame, fields: Fields) -> DataFrame:
    """Read the text's own object and add it as `row`; `j` shows what did not fit in it.

    Both in one step: Spark copies the whole record for each. A row that is NULL although `j` has an object holds a
    number that is too large.
    """
    parsed_records = records.selectExpr("*", f"{render_from_json(fields.text, fields.inner)} AS j")
    is_reprinted = _render_is_reprinted("j", [(fields, "")])
    object_sql = render_object("j")
    written_object = f"CASE WHEN b.{CORRUPT_COLUMN} IS NULL THEN {render_object('b')} END"
    once_more = render_once(render_exact_from_json(fields.text, fields.inner), written_object)
    object_sql = f"CASE WHEN {is_reprinted} THEN {once_more} ELSE {object_sql} END" if is_reprinted else object_sql
    return parsed_records.selectExpr("*", f"{object_sql} AS row")


def _render_is_reprinted(struct: str, places: Sequence[tuple[Fields, str]]) -> str:
    doubt = render_any(fields.render_is_reprinted(f"{render_object(struct)}{path}") for fields, path in places)
    return f"{struct}.{CORRUPT_COLUMN} IS NULL AND ({doubt})" if doubt else ""


def render_exact_from_json(text: str, inner: str) -> str:
    """Parse as `render_from_json` does, with numbers in texts as they are written; one beyond its type does not fit."""
    elements = parse_type(f"ARRAY<STRUCT<{inner}>>")
    fields = format_marked_type(parse_type(f"STRUCT<{inner}>")).removeprefix("STRUCT<").removesuffix(">")
    elements_sql = f"b.{ELEMENTS_FIELD}"
    problem = f"b.{quote(CORRUPT_COLUMN)}"
    overflow = render_has_overflow(elements_sql, elements)
    if overflow:
        problem = f"CASE WHEN {overflow} THEN '{OVERFLOW_PROBLEM}' ELSE {problem} END"
    value_sql = render_unmarked_value(elements_sql, elements)
    whole = f"named_struct('{ELEMENTS_FIELD}', {value_sql}, '{CORRUPT_COLUMN}', {problem})"
    return render_once(render_from_json(render_marked_text(text), fields), f"CASE WHEN b IS NOT NULL THEN {whole} END")


def render_object(struct: str) -> str:
    """Return the object out of `render_from_json`; NULL if the text is not one object."""
    return f"(CASE WHEN size({struct}.{ELEMENTS_FIELD}) = 2 THEN get({struct}.{ELEMENTS_FIELD}, 0) END)"


def render_is_not_object(text: str) -> str:
    """Whether the text is not one JSON object. Spark would take the first element of an array for it."""
    begins = f"({text} LIKE '{{%' OR ltrim({BLANK_CHARACTERS}, {text}) LIKE '{{%')"  # a trim copies the text
    return f"NOT ({begins} AND ({text} LIKE '%}}' OR rtrim({BLANK_CHARACTERS}, {text}) LIKE '%}}'))"
