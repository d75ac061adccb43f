"""A JSON text taken apart by a list of columns: parsed once, converted without loss, or told why not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from tidegate.schema.column import Column
from tidegate.schema.data_types import DataType, Struct, make_lenient, parse
from tidegate.sql.spark import literal, quoted

from tidegate_spark.fields.json.text import UNKEPT, bound, has_fraction, marked, suspect, type_of, unmarked
from tidegate_spark.fields.lossless import is_null, lacks_required, lossy, text_type, typed

CORRUPT, ELEMENTS = "_tidegate_corrupt", "e"
BLANKS = "' \\t\\r\\n'"  # what may stand around a JSON text


Units = str | Mapping[str, str] | None


@dataclass(frozen=True)
class Reading:
    """How numbers are read: what whole ones count in columns that hold a time, and where they may be sent as text:
    `lenient` for all columns, or for each by its name."""

    units: Units
    numbers: str | Mapping[str, str]

    def is_lenient(self, column: Column) -> bool:
        """Whether the column's numbers may be sent as text."""
        if isinstance(self.numbers, str):
            return self.numbers == "lenient"
        return {name.casefold(): word for name, word in self.numbers.items()}.get(column.name.casefold()) == "lenient"


@dataclass(frozen=True)
class Fields:
    """Columns as they stand in a JSON object that was parsed from `text`.

    `units` says what whole numbers count in columns that hold a time: one unit for all, or one for each by its name;
    they are refused where it says nothing. A `Reading` says besides where numbers may be sent as text.
    """

    columns: tuple[Column, ...]
    units: Units | Reading = None
    text: str = "value_text"

    def unit(self, column: Column) -> str | None:
        """The unit of whole numbers in this column; None refuses them."""
        units = self.units.units if isinstance(self.units, Reading) else self.units
        if units is None or isinstance(units, str):
            return units
        return {name.casefold(): unit for name, unit in units.items()}.get(column.name.casefold())

    def kind(self, column: Column) -> DataType:
        """The column's type, with the numbers marked that may be sent as text."""
        found = parse(column.type)
        return make_lenient(found) if isinstance(self.units, Reading) and self.units.is_lenient(column) else found

    def _types(self) -> list[tuple[Column, DataType]]:
        return [(column, self.kind(column)) for column in self.columns]

    @property
    def text_struct(self) -> str:
        """The type to parse the object with."""
        return f"STRUCT<{self.inner}>"

    @property
    def inner(self) -> str:
        """`text_struct` without its brackets: the columns alone."""
        return ", ".join(f"{quoted(c.name)}: {text_type(t)}" for c, t in self._types())

    def picked(self, parsed: str) -> str:
        """A struct of just these columns out of a larger one, still unconverted."""
        return f"struct({', '.join(f'{parsed}.{quoted(c.name)}' for c in self.columns)})"

    def values(self, parsed: str) -> list[str]:
        """`typed AS name` for each column of the object at `parsed`."""
        types = self._types()
        return [f"{typed(f'{parsed}.{quoted(c.name)}', t, self.unit(c))} AS {quoted(c.name)}" for c, t in types]

    def struct(self, parsed: str) -> str:
        """One struct of all columns."""
        return f"struct({', '.join(self.values(parsed))})"

    def reason(self, parsed: str, what: str, made: str | None = None) -> str:
        """SQL text: why the object at `parsed` cannot be used, NULL when it can; `made` is where its `struct` is."""
        cases = []
        for column in self.columns:
            condition = self.lost(parsed, column, f"{made}.{quoted(column.name)}" if made else None)
            if condition:
                text = f"{what} field {column.name} is not a {column.type} without loss"
                cases.append(f"WHEN {condition} THEN {literal(text)}")
            inside = lacks_required(f"{parsed}.{quoted(column.name)}", self.kind(column))
            if inside:
                text = f"{what} field {column.name} lacks a part that is NOT NULL in {column.type}"
                cases.append(f"WHEN {inside} THEN {literal(text)}")
            if not column.nullable:
                text = f"{what} field {column.name} is required and missing"
                cases.append(f"WHEN {self.is_null(parsed, column)} THEN {literal(text)}")
        return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"

    def lost(self, parsed: str, column: Column, made: str | None = None) -> str | None:
        """A condition: the column's field would lose something; None where it never can."""
        return lossy(f"{parsed}.{quoted(column.name)}", self.kind(column), self.unit(column), self.text, made)

    def is_null(self, parsed: str, column: Column) -> str:
        """A condition: the object at `parsed` lacks the column's field, or has null there."""
        return is_null(f"{parsed}.{quoted(column.name)}", self.kind(column))

    def is_empty(self, parsed: str) -> str:
        """A condition: the object at `parsed` has none of the columns, or nothing in them."""
        return " AND ".join(self.is_null(parsed, column) for column in self.columns)

    def suspect(self, parsed: str) -> str | None:
        """A condition: a text in the object at `parsed` may not be what was written; None where there are no texts."""
        whole = Struct(tuple((c.name, t) for c, t in self._types()))
        long, fraction = suspect(parsed, whole), has_fraction(parsed, whole)
        unkept = [f"({fraction}) AND {self.text} RLIKE {literal(UNKEPT)}"] if fraction else []
        return " OR ".join([*([long] if long else []), *unkept]) or None

    def among(self, name: str) -> str:
        """A condition: `name` is a column's, in whatever letters."""
        return f"lower({name}) IN ({', '.join(literal(c.name.lower()) for c in self.columns)})"

    def misfits(self, text: str, parsed: str, paths: tuple[str, ...]) -> str:
        """SQL text: the names of fields that hold something and could not be parsed; only for records known bad."""
        cases = []
        for column, data_type in self._types():
            there = " OR ".join(
                f"get_json_object({text}, {literal(f'{path}[{_step(column)}]')}) IS NOT NULL" for path in paths
            )
            cases.append(
                f"CASE WHEN {is_null(f'{parsed}.{quoted(column.name)}', data_type)} AND ({there}) "
                f"THEN {literal(column.name)} END"
            )
        return f"concat_ws(', ', {', '.join(cases)})"


def _step(column: Column) -> str:
    return "'" + column.name.replace("'", "\\'") + "'"


def parsed_json(text: str, fields: str) -> str:
    """Parse `text` into a struct of which `the_object` is one, and `CORRUPT` filled when anything in it does not fit.

    Spark stops where what it reads is complete, and fields that nobody asked for are passed over. So the text is parsed
    as the first of two elements, the other NULL: of a text that closes what it did not open there are not two.
    """
    schema = literal(f"STRUCT<{ELEMENTS}: ARRAY<STRUCT<{fields}>>, {quoted(CORRUPT)}: STRING>")
    whole = f"concat('{{\"{ELEMENTS}\":[', {text}, ',null]}}')"
    return f"from_json({whole}, {schema}, map('mode', 'PERMISSIVE', 'columnNameOfCorruptRecord', '{CORRUPT}'))"


def read_objects(
    records: DataFrame, name: str, inner: str, places: Sequence[tuple[Fields, str]], when: str | None = None
) -> DataFrame:
    """Add `name`: what `parsed_json` makes of the text, with the texts at `places` as they are written.

    Each place is the fields that are wanted and the path to their object, empty for the object itself; all of them are
    of one text. Where a `when` is given and not true, nothing is parsed.
    """
    text, first = places[0][0].text, f"{name}_first"
    again = _is_doubtful(first, places)
    once = f"CASE WHEN {when} THEN {parsed_json(text, inner)} END" if when else parsed_json(text, inner)
    if not again:
        return records.selectExpr("*", f"{once} AS {name}")
    return records.selectExpr("*", f"{once} AS {first}").selectExpr(
        "*", f"CASE WHEN {again} THEN {as_written(text, inner)} ELSE {first} END AS {name}"
    )


def read_row(records: DataFrame, name: str, row: str, fields: Fields) -> DataFrame:
    """`read_objects` of the text's own object, which is added as `row`; `name` tells what did not fit in it.

    Both in one step: Spark copies the whole record for each.
    """
    parsed = records.selectExpr("*", f"{parsed_json(fields.text, fields.inner)} AS {name}")
    again, own = _is_doubtful(name, [(fields, "")]), the_object(name)
    written = the_object("b")
    once_more = bound(as_written(fields.text, fields.inner), written)
    return parsed.selectExpr("*", f"{f'CASE WHEN {again} THEN {once_more} ELSE {own} END' if again else own} AS {row}")


def _is_doubtful(parsed: str, places: Sequence[tuple[Fields, str]]) -> str:
    """A condition: a text at one of the places may not be what was written; empty where there are no texts."""
    doubts = [fields.suspect(f"{the_object(parsed)}{path}") for fields, path in places]
    doubt = " OR ".join(f"coalesce({one}, false)" for one in doubts if one)
    return f"{parsed}.{CORRUPT} IS NULL AND ({doubt})" if doubt else ""


def as_written(text: str, inner: str) -> str:
    """The same as `parsed_json`, with numbers in texts as they are written."""
    whole = parse(f"STRUCT<{ELEMENTS}: ARRAY<STRUCT<{inner}>>, {quoted(CORRUPT)}: STRING>")
    fields = type_of(parse(f"STRUCT<{inner}>")).removeprefix("STRUCT<").removesuffix(">")
    return bound(parsed_json(marked(text), fields), unmarked("b", whole))


def the_object(parsed: str) -> str:
    """The object in what `parsed_json` made of a text; NULL where the text is not one object."""
    return f"(CASE WHEN size({parsed}.{ELEMENTS}) = 2 THEN get({parsed}.{ELEMENTS}, 0) END)"


def not_an_object(text: str) -> str:
    """A condition: the text is not one JSON object. Spark would take the first element of an array for it."""
    begins = f"({text} LIKE '{{%' OR ltrim({BLANKS}, {text}) LIKE '{{%')"  # a trim copies the text
    return f"NOT ({begins} AND ({text} LIKE '%}}' OR rtrim({BLANKS}, {text}) LIKE '%}}'))"
