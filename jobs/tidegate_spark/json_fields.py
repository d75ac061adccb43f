"""A JSON text taken apart by a list of columns: parsed once, converted without loss, or told why not."""

from dataclasses import dataclass

from tidegate.datatypes import DataType, parse
from tidegate.pipeline import Column
from tidegate.spark_sql import literal, quoted

from tidegate_spark.strict import lossy, text_type, typed

CORRUPT, ELEMENTS = "_tidegate_corrupt", "e"


@dataclass(frozen=True)
class Fields:
    """Columns as they stand in a JSON object; `unit` reads whole numbers as timestamps, None refuses them."""

    columns: tuple[Column, ...]
    unit: str | None = None

    def _types(self) -> list[tuple[Column, DataType]]:
        return [(column, parse(column.type)) for column in self.columns]

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
        return [f"{typed(f'{parsed}.{quoted(c.name)}', t, self.unit)} AS {quoted(c.name)}" for c, t in self._types()]

    def struct(self, parsed: str) -> str:
        """One struct of all columns."""
        return f"struct({', '.join(self.values(parsed))})"

    def reason(self, parsed: str, what: str) -> str:
        """SQL text: why the object at `parsed` cannot be used, NULL when it can."""
        cases = []
        for column in self.columns:
            name, condition = f"{parsed}.{quoted(column.name)}", self.lost(parsed, column)
            if condition:
                text = f"{what} field {column.name} is not a {column.type} without loss"
                cases.append(f"WHEN {condition} THEN {literal(text)}")
            if not column.nullable:
                text = f"{what} field {column.name} is required and missing"
                cases.append(f"WHEN {name} IS NULL THEN {literal(text)}")
        return f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS STRING)"

    def lost(self, parsed: str, column: Column) -> str | None:
        """A condition: the column's field would lose something; None where it never can."""
        return lossy(f"{parsed}.{quoted(column.name)}", parse(column.type), self.unit)

    def misfits(self, text: str, parsed: str, paths: tuple[str, ...]) -> str:
        """SQL text: the names of fields that hold something and could not be parsed; only for records known bad."""
        cases = []
        for column in self.columns:
            there = " OR ".join(
                f"get_json_object({text}, {literal(f'{path}[{_step(column)}]')}) IS NOT NULL" for path in paths
            )
            cases.append(
                f"CASE WHEN {parsed}.{quoted(column.name)} IS NULL AND ({there}) THEN {literal(column.name)} END"
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


def the_object(parsed: str) -> str:
    """The object in what `parsed_json` made of a text; NULL where the text is not one object."""
    return f"(CASE WHEN size({parsed}.{ELEMENTS}) = 2 THEN get({parsed}.{ELEMENTS}, 0) END)"


def not_an_object(text: str) -> str:
    """A condition: the text is not one JSON object. Spark would take the first element of an array for it."""
    return f"NOT (ltrim({text}) LIKE '{{%' AND rtrim({text}) LIKE '%}}')"
