"""Proposes columns for sampled rows: their types, how often each occurred, and what a person has to check."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.sampling.column_types import Guess, guess_type
from tidegate.sampling.observations import Observed
from tidegate.sampling.rows import read_cell
from tidegate.sampling.samples import count
from tidegate.schema.data_types import DataType, format_type
from tidegate.sql.spark import quote

PLAIN_NAME_PATTERN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Words that SQL's grammar keeps for itself: a column of such a name needs backquotes.
_RESERVED = """
    all alter and anti any array as asc at authorization backup begin between bigint binary boolean both by
    cascade case cast char check cluster collate column comment commit constraint create cross cube current
    current_date current_time current_timestamp current_user database date decimal declare default delete desc
    describe distinct double drop else end escape except exists explain external false fetch filter first
    float for foreign format from full function grant group grouping having if in index inner insert int
    integer intersect interval into is join key language last lateral left like limit local lock map match
    merge minus natural no not null nulls of offset on only option or order outer over overlaps partition
    percent pivot position primary procedure range real references rename replace restrict revoke right
    rollback row rows schema select semi session_user set show some start struct table tablesample temporary
    then time timestamp to trailing transaction trigger true truncate union unique unknown unpivot update use
    user using values varchar view when where window with within without year zone
"""
RESERVED = frozenset(_RESERVED.split())


@dataclass(frozen=True)
class ProposedColumn:
    """A column with its type as DDL, remarks, and what a person has to check."""

    name: str
    type: str
    remarks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        """As it stands in a schema."""
        return f"{quote_if_needed(self.name)} {self.type}"


def quote_if_needed(name: str) -> str:
    """The name as DDL, in backquotes if it is no plain word, or a word of the grammar."""
    is_plain = PLAIN_NAME_PATTERN.fullmatch(name) and name.casefold() not in RESERVED
    return name if is_plain else quote(name)


def render_ddl_type(data_type: DataType) -> str:
    """The type as DDL, with backquotes only where they are needed."""
    return format_type(data_type, quote_if_needed)


def observe(rows: Iterable[Mapping[str, Any]]) -> Observed:
    """Observe the values of rows, field by field."""
    observed = Observed()
    for row in rows:
        observed.add(dict(row))
    return observed


def propose_columns(
    observed: Observed, stated: Mapping[str, Guess], *, keeps_text: bool, may_lack: bool = False
) -> tuple[list[ProposedColumn], list[str]]:
    """Propose the columns of rows, in the order in which they first occur, and list problems of fields that have no
    column.

    A type that the source states takes precedence over the sample. `may_lack`: a missing field is no finding.
    """
    columns = list[ProposedColumn]()
    problems = list[str]()
    names = [*stated, *(name for name in observed.fields if name not in stated)]
    chosen_names = {name.casefold(): name for name in sorted(names, key=lambda name: _count(observed, name))}
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


def _count(observed: Observed, name: str) -> int:
    return observed.fields[name].count if name in observed.fields else 0


def _describe_presence(observed: Observed, name: str, part: Observed) -> list[str]:
    if name not in observed.fields:
        return [f"in none of {count(observed.objects, 'row')}"]
    missing = observed.count_missing(name)
    nulls = part.nulls
    words = [f"{missing} of {observed.objects} rows lack it"] if missing else []
    words += [f"null in {nulls}"] if nulls and part.present else []
    return words or ([f"in all {observed.objects} rows, never null"] if part.present and observed.objects > 1 else [])


def read_cells(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Parse rows whose values are always sent as text into the values that the texts mean."""
    return [{name: read_cell(v) if isinstance(v, str) else v for name, v in row.items()} for row in rows]
