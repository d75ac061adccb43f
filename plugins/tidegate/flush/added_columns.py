"""A table's columns follow its records: fields that a stage job has found beside them become columns, before they are
staged.

So the columns stand in the table itself before any row needs them: each retry, and each later batch, decodes by them.
"""

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from tidegate.errors import GiveUp
from tidegate.flush.merge import create_table
from tidegate.jobs.stage_job import StageTable
from tidegate.model.batch import PlannedBatch
from tidegate.model.unknown_fields import UnknownField, UnknownFields
from tidegate.ports.session import Session
from tidegate.schema.data_types import Array, Column, DataType, Map, Struct, format_type, parse_type
from tidegate.schema.inferred_types import is_column_name
from tidegate.sql.spark import unquote
from tidegate.table.columns import list_destination_columns, list_key_columns, list_version_columns
from tidegate.table.session import TableSession, open_table

STEP_PATTERN = re.compile(r"`(?:[^`]|``)*`|[^.`]+")
log = logging.getLogger(__name__)


class Growth(Enum):
    """What became of a table behind a stage job."""

    NONE = auto()  # its columns are enough
    ADDED = auto()  # the batch is to be staged again, with the new columns
    WAITS = auto()  # rows of earlier batches are published first, without them


def add_columns(session: Session, planned: PlannedBatch, stage_table: StageTable) -> Growth:
    """Add columns for the fields that the job of this attempt has found; a table that is missing is made of them.

    Nothing is added for a batch that has a bad record. A repeat call finds the columns there. `GiveUp` for more new
    fields than `value.infer.max_new_columns`.
    """
    if not stage_table.value.adds_columns:
        return Growth.NONE
    outcome = session.staging.read_job_outcome(stage_table.intermediate, planned.batch, stage_table.attempt)
    if outcome is None or outcome.bad or outcome.unknown_fields is None:
        return Growth.NONE
    table = open_table(session, planned.table).refresh()
    columns = _extend_columns(table, planned, outcome.unknown_fields)
    if columns is None:
        return Growth.NONE
    if _has_waiting_rows(table):
        log.info(
            "not staged in this run: %s batch=%s: its records have new fields, and rows of earlier batches are not "
            "published yet; the next flush adds the columns", table.prefix, planned.batch,
        )  # fmt: skip
        return Growth.WAITS
    value = replace(table.resolved.value, columns=columns)
    wider = replace(table.resolved, value=value)
    if table.state is None:
        create_table(replace(table, spec=wider), planned.batch, "create_namespace", "create_table", "order_table")
    else:
        destination_columns = list_destination_columns(wider, table.metadata)
        session.tables.evolve(table.name, destination_columns, add=True, widen=wider.widen, relax=wider.relax)
    return Growth.ADDED


def _has_waiting_rows(table: TableSession) -> bool:
    published = table.state.highest_batch if table.state else 0
    staged_batches = table.session.staging.list_staged(table.intermediate, table.name)
    return any(batch.batch > published and batch.counts.to_write for batch in staged_batches)


def _extend_columns(table: TableSession, planned: PlannedBatch, unknown: UnknownFields) -> tuple[Column, ...] | None:
    """The value's columns with the new ones; None where there are none."""
    before = tuple(table.resolved.value.columns or ())
    grown = _GrownColumns(list(before), _list_taken_names(table))
    for unknown_field in sorted(unknown.fields, key=lambda unknown_field: unknown_field.name):
        grown.add(unknown_field)
    most = table.spec.value.infer.max_new_columns
    if unknown.others or grown.count > most:
        names = ", ".join(unknown_field.name for unknown_field in unknown.fields[:5])
        raise GiveUp(
            f"{table.prefix} batch={planned.batch}: the records have more than value.infer.max_new_columns={most} new "
            f"fields, e.g. {names}; no column was added; declare a MAP or STRING for the object that holds them, or "
            "raise it"
        )
    if tuple(grown.columns) == before:
        return None
    log.info("%s batch=%s: columns of its records: %s", table.prefix, planned.batch, ", ".join(grown.added))
    return tuple(grown.columns)


def _list_taken_names(table: TableSession) -> set[str]:
    """Names, without case, of the columns that no field of the value fills."""
    spec = table.resolved
    columns = (*list_key_columns(spec), *list_version_columns(spec, table.metadata))
    return {name.casefold() for name in (*(c.name for c in columns), *table.metadata, spec.deleted_column)}


@dataclass
class _GrownColumns:
    """Columns to which fields are added; `count` counts them, with the parts of each."""

    columns: list[Column]
    taken: set[str]
    added: list[str] = field(default_factory=list)
    count: int = 0

    def add(self, unknown_field: UnknownField) -> None:
        """Add a field, unless it holds nothing yet, or its name is none of a column's: such a one is only counted."""
        steps = [unquote(step) for step in STEP_PATTERN.findall(unknown_field.name)]
        if not unknown_field.type or not all(map(is_column_name, steps)):
            return
        kind = parse_type(unknown_field.type)
        if len(steps) == 1:
            names = self.taken | {column.name.casefold() for column in self.columns}
            if steps[0].casefold() in names:
                return
            self.columns.append(Column(steps[0], unknown_field.type))
        elif not self._grow(steps, kind):
            return
        self.count += 1 + _count_parts(kind)
        self.added.append(f"{unknown_field.name} {unknown_field.type.replace('`', '')}")

    def _grow(self, steps: Sequence[str], kind: DataType) -> bool:
        for number, column in enumerate(self.columns):
            grown_type = _grow_type(parse_type(column.type), steps[1:], kind) if column.name == steps[0] else None
            if grown_type is not None:
                self.columns[number] = replace(column, type=format_type(grown_type))
                return True
        return False


def _grow_type(data_type: DataType, steps: Sequence[str], kind: DataType) -> DataType | None:
    """The type with a field more at `steps`, through lists and values of maps; None where it can have none there."""
    match data_type:
        case Array(element):
            grown = _grow_type(element, steps, kind)
            return grown and replace(data_type, element=grown)
        case Map(_, value):
            grown = _grow_type(value, steps, kind)
            return grown and replace(data_type, value=grown)
        case Struct(fields) if len(steps) == 1:
            is_taken = steps[0].casefold() in {name.casefold() for name, _ in fields}
            return None if is_taken else replace(data_type, fields=(*fields, (steps[0], kind)))
        case Struct(fields):
            inner_types = [(n, _grow_type(t, steps[1:], kind) if n == steps[0] else None) for n, t in fields]
            if all(grown is None for _, grown in inner_types):
                return None
            pairs: Iterable[tuple[tuple[str, DataType], tuple[str, DataType | None]]]
            pairs = zip(fields, inner_types, strict=True)
            return replace(data_type, fields=tuple((name, grown or own) for (name, own), (_, grown) in pairs))
    return None


def _count_parts(kind: DataType) -> int:
    match kind:
        case Array(inner) | Map(_, inner):
            return _count_parts(inner)
        case Struct(fields):
            return sum(1 + _count_parts(inner) for _, inner in fields)
    return 0
