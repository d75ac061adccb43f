"""The statements that bring a staged batch's rows into a destination: the merge itself, and the memory of deletes."""

from dataclasses import dataclass
from typing import Any

from tidegate.errors import GiveUp
from tidegate.merge.scd2_statements import (
    list_change_columns,
    list_destination_change_columns,
    render_history_statements,
)
from tidegate.merge.write_mode import APPEND, MERGE_UNBOUNDED, WritePlan, is_folded
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.merge_input import KeyPaths, MergeInput
from tidegate.model.ownership import describe_memory
from tidegate.ports.session import Sql
from tidegate.schema.data_types import Column, DataType, Primitive, Struct
from tidegate.schema.evolution import find_own_path, render_aligned, render_aligned_field, to_struct
from tidegate.spec.table import DeleteMode, Table, TableMode
from tidegate.sql.pruning import UNBOUNDED, Bounds
from tidegate.sql.spark import quote
from tidegate.table.columns import (
    build_column_finder,
    find_key_field,
    find_sequences,
    list_deletes_columns,
    list_key_columns,
    list_key_leaves,
    list_sequence_columns,
    list_staged_columns,
    list_unavailable_columns,
    list_value_columns,
    stages_kept_columns,
)
from tidegate.table.session import TableSession


@dataclass(frozen=True)
class _Batch:
    table_session: TableSession
    staged: StagedBatch

    @property
    def table(self) -> Table:
        return self.table_session.resolved

    @property
    def sql(self) -> Sql:
        return self.table_session.sql

    @property
    def is_folded(self) -> bool:
        return is_folded(self.table, self.staged)

    def build_input(self, branch: str) -> MergeInput:
        return build_merge_input(self.table_session, self.staged, branch)


def render_merge_statements(
    table: TableSession, staged_batch: StagedBatch, branch: str, plan: WritePlan = MERGE_UNBOUNDED
) -> tuple[str, ...]:
    """Return the statements of one merge job in order; the last one writes the branch."""
    batch = _Batch(table, staged_batch)
    spec = table.spec
    values = batch.build_input(branch)
    if staged_batch.truncated_at is not None:
        return _render_truncate(batch, values)
    if spec.history is not None:
        return _render_history(batch, values)
    if plan.written_as == APPEND and spec.mode != TableMode.APPEND:
        return (batch.sql.render("merge_new", **values),)
    return _render_statements(batch, _choose_statement(spec), values, bounds=plan.bounds)


def _add_folding(batch: _Batch, values: MergeInput, *, late: bool = False) -> MergeInput:
    # `late` records do not change a group of an equal sequence
    return {
        **values,
        "flag": values.get("flag"),
        "groups": bool(batch.table.sequence_groups),
        "late": late,
    }


def _render_truncate(batch: _Batch, values: MergeInput) -> tuple[str, ...]:
    # without branches, earlier statements remove the rows
    name = "merge_truncate_folded" if batch.is_folded else "merge_truncate"
    bounds = UNBOUNDED
    values = _add_folding(batch, values) if batch.is_folded else values
    if not batch.table_session.has_branches:
        bounds = batch.table_session.find_bounds(values)
    return (*bounds.removals, *_render_bounded_merge(batch.sql, name, {**values}, bounds))


def _render_history(batch: _Batch, values: MergeInput) -> tuple[str, ...]:
    table_session = batch.table_session
    table = batch.table
    bounds = UNBOUNDED
    columns = list_change_columns(table)
    if not table_session.has_branches:
        bounds = table_session.find_bounds({**values, "compared": values["values"]})
        columns = list_destination_change_columns(table)
    bounded = {**values, "bounds": bounds.conditions}
    return (
        *_render_memory_creation(batch, columns, values["branch"]),
        *bounds.guards,
        *render_history_statements(batch.sql, table, batch.staged, bounded),
    )


def render_backfill_statements(
    table: TableSession, staged_batch: StagedBatch, branch: str, source: str
) -> tuple[str, ...]:
    """Return the statements for a slice of a backfill in `source`, without keys that a later record supersedes."""
    batch = _Batch(table, staged_batch)
    if batch.is_folded and not _is_decided_by_groups(batch, branch):
        raise GiveUp(
            f"{table.prefix}: records of this range leave columns of the row as they are, and a backfill, which leaves "
            "out keys that change later, does not know with which values; nothing was merged; read the range again in "
            f"order: tidegate rebase {table.pipeline.name} --to …"
        )
    values: MergeInput = {**batch.build_input(branch), "source": source, **_list_key_paths(table.resolved)}
    # if sequence groups decide each column, the table's rows decide
    if table.spec.mode != TableMode.APPEND and not batch.is_folded:
        values["guarded"] = True
    name = _choose_statement(table.spec) if table.spec.upsert else f"backfill_{table.spec.mode}"
    return _render_statements(batch, name, values, late=True)


def render_replay_statements(
    table: TableSession, staged_batch: StagedBatch, branch: str, source: str
) -> tuple[str, ...]:
    """Return the statements for dead letters: of one key the highest offset decides."""
    batch = _Batch(table, staged_batch)
    values: MergeInput = {**batch.build_input(branch), "source": source}
    # a table that is only appended to gets them all: none of them is in it
    if table.spec.mode != TableMode.APPEND and not _is_decided_by_groups(batch, branch):
        values["guarded"] = values["by_offset"] = True
    return _render_statements(batch, _choose_statement(table.spec), values, late=True)


def _is_decided_by_groups(batch: _Batch, branch: str) -> bool:
    if not batch.table.sequence_groups or batch.table.delete:
        return False
    columns = batch.build_input(branch)["values"]
    return set(columns) <= set(find_sequences(batch.table, columns))


def _render_statements(
    batch: _Batch, name: str, values: MergeInput, *, bounds: Bounds | None = None, late: bool = False
) -> tuple[str, ...]:
    """Return the merge within `bounds`, or those that the destination finds, after the statements that guard them.

    `name` is the statement for records that are not folded. `late` records may lie before those in the table.
    """
    if batch.is_folded:
        name = "merge_folded"
        values = _add_folding(batch, values, late=late)
    bounds = bounds or batch.table_session.find_bounds(values)
    bounded = {**values, "bounds": bounds.conditions}
    if batch.table.sequence_by and not batch.is_folded:
        return (*bounds.guards, *_render_sequenced(batch, bounded, bounds))
    return (*bounds.guards, *_render_bounded_merge(batch.sql, name, bounded, bounds))


def _render_bounded_merge(sql: Sql, name: str, values: dict[str, Any], bounds: Bounds) -> tuple[str, ...]:
    # all rows of one key are in one part
    parts = ({"bounds": part.conditions, "part": part.staged} for part in bounds.parts)
    return tuple(sql.render(name, **{**values, **part}) for part in parts) or (sql.render(name, **values),)


def _render_sequenced(batch: _Batch, values: dict[str, Any], bounds: Bounds) -> tuple[str, ...]:
    sql = batch.sql
    table = batch.table
    staged_batch = batch.staged
    if not table.remembers_deletes:
        return _render_bounded_merge(sql, "merge_sequenced", values, bounds)
    columns = list_deletes_columns(table)
    if not staged_batch.deletes:
        create = _render_memory_creation(batch, columns)
        return (*create, *_render_bounded_merge(sql, "merge_sequenced", values, bounds))
    # A delete without a sequence takes that of the table's row. A soft delete keeps that row, so nothing is asked.
    asks_rows = staged_batch.unsequenced_deletes > 0 and not values["soft"]
    remember = sql.render("remember_deletes", **{k: v for k, v in values.items() if k != "flag"}, asks_rows=asks_rows)
    merges = _render_bounded_merge(sql, "merge_sequenced", {**values, "is_remembered": True}, bounds)
    return (*_render_memory_creation(batch, columns, values["branch"]), remember, *merges)


def _render_memory_creation(batch: _Batch, columns: tuple[Column, ...], branch: str = "") -> tuple[str, ...]:
    table = resource_names.name_memory_table(batch.table)
    create = batch.sql.render("create_deletes", table=table, columns=columns, own=describe_memory(batch.table))
    if not branch or not batch.table_session.has_branches:
        return (create,)
    # the attempt makes it main right before it publishes: what a refused batch remembers is gone with its branch
    return create, batch.sql.render("branch_memory", table=table, branch=branch.removeprefix("branch_"))


def find_written_memory(table: TableSession, staged_batch: StagedBatch) -> str | None:
    """Return the table of remembered deletes or changes that the batch's statements write on their branch, if any."""
    spec = table.resolved
    if not staged_batch.counts.staged or staged_batch.truncated_at is not None:
        return None
    has_deletes = spec.remembers_deletes and staged_batch.deletes > 0 and not is_folded(spec, staged_batch)
    writes_memory = has_deletes or spec.history
    return resource_names.name_memory_table(spec) if writes_memory and table.has_branches else None


def build_merge_input(table_session: TableSession, staged_batch: StagedBatch, branch: str) -> MergeInput:
    table = table_session.resolved
    not_values = {c.name for c in list_key_columns(table)} | set(table.history.columns if table.history else ())
    if table.deletes == DeleteMode.SOFT:
        not_values.add(table.deleted_column)
    values: MergeInput = {
        "target": table.name,
        "branch": f"branch_{branch}",
        "source": table_session.intermediate,
        "snapshot_id": staged_batch.snapshot_id,
        "batch": staged_batch.batch,
        "parts": staged_batch.parts,
        "keys": [(c.name, find_key_field(table, c.name)) for c in list_key_columns(table)],
        "values": [c.name for c in table_session.columns if c.name not in not_values],
        "staged_rows": staged_batch.counts.staged,
        "layout": table.create,
    }
    if staged_batch.truncated_at is not None:
        values["truncated_at"] = staged_batch.truncated_at
    if staged_batch.ahead and table.history is None:  # of changes that are remembered the log's order alone decides
        values["in_turn"] = True
    if table.mode != TableMode.APPEND:
        values = {**values, **_list_key_paths(table)}
    if table.deletes == DeleteMode.SOFT:
        values["flag"] = table.deleted_column
    if table.sequence_by or table.history:
        values["sequence"] = [c.name for c in list_sequence_columns(table)]
        values["deletes"] = resource_names.name_deletes_table(table) if table.remembers_deletes else None
        values["soft"] = table.deletes == DeleteMode.SOFT
        values.setdefault("flag", None)
    if table.target_schema is not None:
        if "sequence" in values:
            values["sequence"] = [*map(table.target_schema.get_own_name, values["sequence"])]
        if values.get("flag"):
            values["flag"] = table.target_schema.get_own_name(table.deleted_column)
        values = _cast_key_to_destination(values, to_struct(list_key_columns(table)), table.target_schema)
        values = _cast_to_destination(values, to_struct(list_staged_columns(table)), table.target_schema)
    if is_folded(table, staged_batch):
        values["kept"] = stages_kept_columns(table)
        values["given"] = _list_given_conditions(table, values["values"])
    return values


def render_hashed(table_session: TableSession, name: str, kind: DataType, *, of: str) -> tuple[str, ...]:
    """Return what is hashed so that two values of a column of `of` are told apart."""
    # a hash passes over NULL, also inside of a struct, where JSON shows it; JSON has no microseconds
    value = table_session.sql.render("_comparable", column=(name, kind), of=of)
    shape = () if isinstance(kind, Primitive) else (f"to_json(struct({value} AS v))",)
    return value, *shape, f"{value} IS NULL"


def _cast_to_destination(values: MergeInput, staged_schema: Struct, target: Struct) -> MergeInput:
    keys = values["keys"]
    columns = dict.fromkeys(map(target.get_own_name, values["values"]))
    fields = {c: render_aligned_field("value", staged_schema, target, c) for c in columns if c not in dict(keys)}
    expressions = {c: sql for c, sql in fields.items() if sql not in (None, f"value.{quote(c)}")}
    return {**values, "values": list(fields), "expressions": expressions, "value_structs": (staged_schema, target)}


def _cast_key_to_destination(values: MergeInput, staged_schema: Struct, target: Struct) -> MergeInput:
    # numbers need no cast to be compared
    types = dict(target.fields)
    expressions = dict[str, str]()
    for column, field in values["keys"]:
        own_name = target.find_name(column)
        kind = dict(staged_schema.fields)[column]
        if own_name is not None and (isinstance(kind, Struct) or kind == Primitive("STRING")):
            expr = "key" if field is None else f"key.{quote(field)}"
            expressions |= {own_name: sql} if (sql := render_aligned(expr, kind, types[own_name])) != expr else {}
    keys = [(target.get_own_name(column), field) for column, field in values["keys"]]
    return {**values, "keys": keys, "key_expressions": expressions, "key_structs": (staged_schema, target)}


def _list_key_paths(table: Table) -> KeyPaths:
    staged_paths = list_key_leaves(table)
    target = table.target_schema
    return {
        "leaves": [find_own_path(target, path) if target else path for path in staged_paths],
        "staged_leaves": [*staged_paths],
    }


def _list_given_conditions(table: Table, columns: list[str]) -> dict[str, tuple[str, list[str]]]:
    """Return what shows for each column that a record gave it a value, and the staged names or the sequence's column.

    not_null, not_kept, always, by_sequence; `first` for a column that updates leave alone.
    """
    staged_columns: dict[str, list[str]] = {}
    for column in list_value_columns(table) if table.select is None else list_staged_columns(table):
        own_name = table.target_schema.get_own_name(column.name) if table.target_schema else column.name
        staged_columns.setdefault(own_name, []).append(column.name)
    unchanged = {name.casefold(): name for name in list_unavailable_columns(table)}  # as rows name them in `kept`
    conditions = dict[str, tuple[str, list[str]]]()
    sequences = find_sequences(table, columns)
    updated_columns = {*map(build_column_finder(table, "update_columns", columns), table.update_columns)}
    for name in columns:
        fields = staged_columns.get(name, [])
        if name in sequences:
            conditions[name] = ("by_sequence", [sequences[name]])
        elif updated_columns and name not in updated_columns:
            conditions[name] = ("first", [])
        elif table.partial_updates:
            conditions[name] = ("not_null" if fields else "always", fields)
        else:
            kept = [unchanged[field.casefold()] for field in fields if field.casefold() in unchanged]
            conditions[name] = ("not_kept", kept) if kept else ("always", fields)
    return conditions


def _choose_statement(table: Table) -> str:
    return "merge_soft_delete" if table.deletes == DeleteMode.SOFT else f"merge_{table.mode}"
