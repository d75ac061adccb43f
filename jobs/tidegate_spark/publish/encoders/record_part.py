"""A key or a value that is to be written: its columns, and all that its format has to know of it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark.sql import types as T
from tidegate.errors import ConfigurationError
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.conditions import render_first_reason


@dataclass(frozen=True)
class WrittenColumn:
    """A column of the publication's result, and its name in the record."""

    name: str
    type: T.DataType
    name_in_record: str


@dataclass(frozen=True)
class RecordPart:
    """What an encoder is given.

    `part` is key or value, `options` are the format's own without a secret, `topics` all that a record may go to,
    `columns` those of the result, one at least.
    """

    part: str
    format: str
    options: dict[str, Any]
    topics: tuple[str, ...]
    columns: tuple[WrittenColumn, ...]

    @property
    def typed_fields(self) -> list[tuple[str, T.DataType]]:
        return [(column.name_in_record, column.type) for column in self.columns]

    @property
    def subjects(self) -> list[str]:
        """Where a registry keeps the schema: the given subject, or one for each topic."""
        subject = self.options.get("subject")
        return [subject] if subject else [f"{topic}-{self.part}" for topic in self.topics]

    def build_record_name(self) -> str:
        """Return the schema's name of the record: letters, digits and underscores, as Avro and Protobuf have it."""
        topic = self.topics[0]
        return "_" * (not topic[0].isalpha()) + re.sub(r"[^A-Za-z0-9_]", "_", f"{topic}_{self.part}")

    def render_struct(self) -> str:
        fields = (f"{render_literal(column.name_in_record)}, {quote(column.name)}" for column in self.columns)
        return f"named_struct({', '.join(fields)})"


class Problem(NamedTuple):
    """Rows that make no record: a condition in SQL, and what is wrong with them, as the end of a sentence."""

    condition: str
    reason: str


# what is wrong with a value, by its SQL, type and path, and the name that an element of it would have
Judge = Callable[[str, T.DataType, str, str], list[Problem]]


def put_inside(elements: str, name: str, problems: Sequence[Problem]) -> list[Problem]:
    return [Problem(f"exists({elements}, {name} -> {problem.condition})", problem.reason) for problem in problems]


def list_text_problems(part: RecordPart) -> list[Problem]:
    """Return the rows with a text, at any depth, that is no UTF-8: text formats would write other characters."""
    return list_column_problems(part, _judge_text)


def _judge_text(at: str, kind: T.DataType, path: str, _: str) -> list[Problem]:
    if not isinstance(kind, T.StringType):
        return []
    reason = (
        f"has text that is no UTF-8 in {path}, which readers take for other text; correct it, or write it as bytes "
        "in sql"
    )
    return [Problem(f"NOT is_valid_utf8({at})", reason)]


def list_column_problems(part: RecordPart, judge: Judge) -> list[Problem]:
    """Return what `judge` finds wrong with the columns, and with all values in them."""
    return [problem for c in part.columns for problem in _list_problems(quote(c.name), c.type, c.name, judge, 0)]


def _list_problems(at: str, kind: T.DataType, path: str, judge: Judge, depth: int) -> list[Problem]:
    element = f"_tidegate_{depth}"
    problems = judge(at, kind, path, element)
    if isinstance(kind, T.StructType):
        for f in kind:
            inner_path = f"{path}.{f.name}"
            problems += _list_problems(f"{at}.{quote(f.name)}", f.dataType, inner_path, judge, depth)
    sides = [(at, kind.elementType)] if isinstance(kind, T.ArrayType) else []
    if isinstance(kind, T.MapType):
        sides = [(f"map_keys({at})", kind.keyType), (f"map_values({at})", kind.valueType)]
    for elements, inner in sides:
        inside = _list_problems(element, inner, f"{path}[]", judge, depth + 1)
        problems += put_inside(elements, element, inside)
    return problems


def render_problem(problems: Sequence[Problem]) -> str:
    return render_first_reason(*(f"WHEN {condition} THEN {render_literal(reason)}" for condition, reason in problems))


def render_good(problems: Sequence[Problem], value: str) -> str:
    """Return `value` of the rows without problems; it is not computed for the others."""
    return f"CASE WHEN ({render_problem(problems)}) IS NULL THEN {value} END" if problems else value


def check_has_text(part: RecordPart) -> None:
    """Raise `ConfigurationError` for a column of parts: Spark's text of it may be that of another value, too."""
    for column in part.columns:
        if isinstance(column.type, T.ArrayType | T.MapType | T.StructType):
            raise ConfigurationError(
                f"{part.part}.format={part.format}: column={column.name} is {column.type.simpleString()}, and has no "
                "text of its own; write to_json of it in sql, or use json"
            )


def render_map(options: dict[str, str]) -> str:
    return f"map({', '.join(f'{render_literal(name)}, {render_literal(value)}' for name, value in options.items())})"
