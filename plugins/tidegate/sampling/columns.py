"""Proposes columns for sampled rows: their types, how often each occurred, and what a person has to check."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.model.counts import format_count
from tidegate.sampling.column_types import Guess, Observed, guess_type
from tidegate.sampling.recognition import read_cell
from tidegate.schema.data_types import DataType, format_type
from tidegate.sql.spark import quote_if_needed


@dataclass(frozen=True)
class ProposedColumn:
    """A column with its type as DDL, remarks, and what a person has to check."""

    name: str
    type: str
    remarks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        return f"{quote_if_needed(self.name)} {self.type}"


def render_ddl_type(data_type: DataType) -> str:
    """With backquotes only where they are needed."""
    return format_type(data_type, quote_if_needed)


def propose_columns(
    observed: Observed, stated: Mapping[str, Guess], *, keeps_text: bool, may_lack: bool = False
) -> tuple[list[ProposedColumn], list[str]]:
    """Columns in the order of their first occurrence, and problems of fields without a column.

    A type that the source states takes precedence over the sample. `may_lack`: a missing field is no finding.
    """
    columns = list[ProposedColumn]()
    problems = list[str]()
    names = [*stated, *(name for name in observed.fields if name not in stated)]
    counts = {name: len(observed.fields[name].values) if name in observed.fields else 0 for name in names}
    chosen_names = {name.casefold(): name for name in sorted(names, key=lambda name: counts[name])}
    for name in names:
        if chosen_names[name.casefold()] != name:
            problems.append(f"field {name!r} is left out: it differs from {chosen_names[name.casefold()]} only in case")
        elif not name.strip() or not name.isprintable():
            problems.append(f"field {name!r} is left out: no column can have this name")
        else:
            part = observed.fields.get(name, Observed())
            guess = stated.get(name) or guess_type(part, name, keeps_text=keeps_text)
            remarks = (*guess.remarks, *([] if may_lack else _describe_presence(observed, name, part)))
            columns.append(ProposedColumn(name, render_ddl_type(guess.type), remarks, guess.checks))
    return columns, problems


def _describe_presence(observed: Observed, name: str, part: Observed) -> list[str]:
    if name not in observed.fields:
        return [f"in none of {format_count(observed.objects, 'row')}"]
    missing = observed.count_missing(name)
    nulls = part.nulls
    words = [f"{missing} of {observed.objects} rows lack it"] if missing else []
    words += [f"null in {nulls}"] if nulls and part.present else []
    return words or ([f"in all {observed.objects} rows, never null"] if part.present and observed.objects > 1 else [])


def read_cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Parse rows whose values are always sent as text."""
    return [{name: read_cell(v) if isinstance(v, str) else v for name, v in row.items()} for row in rows]
