"""The statements that bring a staged batch's rows into a destination: the merge itself, and the memory of deletes."""

from typing import Any

from tidegate.errors import GiveUp
from tidegate.merge.scd2_statements import changes_columns, held_columns, history_statements
from tidegate.merge.write_mode import ANY_WAY, APPEND, Way, is_folded
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.ownership import own_memory
from tidegate.ports.context import Ports
from tidegate.ports.sql import Sql
from tidegate.schema.data_types import Struct
from tidegate.schema.evolution import aligned_field, struct_of
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.sql.pruning import ANYWHERE, Bounds
from tidegate.sql.spark import quoted
from tidegate.tables.columns import (
    deletes_columns,
    destination_columns,
    key_columns,
    key_leaves,
    part_of_key,
    sequence_columns,
    staged_columns,
    stages_kept,
    unchanged_columns,
    value_columns,
)
from tidegate.tables.partial_updates import find_sequences


def merge_statements(
    ports: Ports, table: Table, staged: StagedBatch, branch: str, way: Way = ANY_WAY
) -> tuple[str, ...]:
    """The statements of one merge job in order; the last one writes the branch. `table` has its columns resolved."""
    values = merge_values(ports.pipeline, table, staged, branch)
    if table.history is not None:
        return _history(ports, table, staged, values)
    if way.written_as == APPEND and table.mode != "append":
        return (ports.sql_for(table.name).render("merge_new", **values),)
    if way.bounds is not None:
        values["known"] = way.bounds
    if not is_folded(table, staged):
        return _statements(ports, table, staged, _unsequenced(table), values)
    return _statements(ports, table, staged, "merge_folded", _folded(ports, table, values))


def _folded(ports: Ports, table: Table, values: dict[str, Any], *, late: bool = False) -> dict[str, Any]:
    """What folds a key's records; `late` ones leave a group of an equal sequence as a newer record may have left it."""
    given = _given(table, _metadata(ports.pipeline), values["values"])
    return {"flag": None, **values, "given": given, "groups": bool(table.sequence_groups), "late": late}


def _history(ports: Ports, table: Table, staged: StagedBatch, values: dict[str, Any]) -> tuple[str, ...]:
    """Remembered changes have the destination's own types where rows go from one to the other as they are."""
    sql, metadata = ports.sql_for(table.name), _metadata(ports.pipeline)
    bounds, columns = ANYWHERE, changes_columns(table, metadata)
    if not ports.destination.has_branches(table.name):
        bounds, columns = ports.destination.bounds(table.name, values), held_columns(table, metadata)
    own = own_memory(table, columns)
    create = sql.render("create_deletes", table=resource_names.changes_table(table), columns=columns, own=own)
    bounded = {**values, "bounds": bounds.found}
    return (create, *bounds.guards, *history_statements(sql, ports.pipeline, table, staged, bounded))


def backfill_statements(ports: Ports, table: Table, staged: StagedBatch, branch: str, source: str) -> tuple[str, ...]:
    """The same for a slice of a backfill, staged in `source`: keys that a later record there supersedes are left out.

    A table without upserts gets one row for each key that has none. One that is only appended to has no guard: there
    the rows that it holds decide. So they do where each column is in a sequence group and nothing is deleted.
    """
    if is_folded(table, staged) and not _is_decided_by_groups(ports, table, staged, branch):
        raise GiveUp(
            f"pipeline={ports.pipeline.name} table={table.name}: records of this range keep values of the row, and a "
            "backfill, which leaves out keys that change later, cannot tell which; nothing was merged; read the range "
            "again in order with rebase"
        )
    values = {"leaves": _leaves(table), **merge_values(ports.pipeline, table, staged, branch), "source": source}
    if is_folded(table, staged):
        return _statements(ports, table, staged, "merge_folded", _folded(ports, table, values, late=True))
    if table.mode != "append":
        values["guarded"] = True
    name = _unsequenced(table) if table.upsert else f"backfill_{table.mode}"
    return _statements(ports, table, staged, name, values)


def replay_statements(ports: Ports, table: Table, staged: StagedBatch, branch: str, source: str) -> tuple[str, ...]:
    """The same for dead letters, among which and after which other records lie: the later is the one by offset.

    A table that is only appended to gets them all: none of them is in it.
    """
    values = {**merge_values(ports.pipeline, table, staged, branch), "source": source}
    decided = _is_decided_by_groups(ports, table, staged, branch)
    if table.mode != "append" and not decided:
        values |= {"guarded": True, "by_offset": True}
    if is_folded(table, staged):
        return _statements(ports, table, staged, "merge_folded", _folded(ports, table, values, late=True))
    return _statements(ports, table, staged, _unsequenced(table), values)


def _is_decided_by_groups(ports: Ports, table: Table, staged: StagedBatch, branch: str) -> bool:
    """Whether the rows alone decide what a record may change, whenever it comes: by the sequences that they hold."""
    if not table.sequence_groups or table.delete:
        return False
    columns = merge_values(ports.pipeline, table, staged, branch)["values"]
    return set(columns) <= set(find_sequences(table, columns))


def _statements(ports: Ports, table: Table, staged: StagedBatch, name: str, values: dict[str, Any]) -> tuple[str, ...]:
    """The merge, within the bounds that are known for it already or to the destination, and what makes them true."""
    sql = ports.sql_for(table.name)
    bounds = values.pop("known", None) or ports.destination.bounds(table.name, values)
    bounded = {**values, "bounds": bounds.found}
    if table.sequence_by and not is_folded(table, staged):
        return (*bounds.guards, *_sequenced(sql, ports.pipeline, table, staged, bounded, bounds))
    return (*bounds.guards, *_rendered(sql, name, bounded, bounds))


def _rendered(sql: Sql, name: str, values: dict[str, Any], bounds: Bounds) -> tuple[str, ...]:
    """The merge, once for each part where a batch has several: every key is in one of them, with all of its rows."""
    parts = ({"bounds": part.found, "part": part.staged} for part in bounds.parts)
    return tuple(sql.render(name, **{**values, **part}) for part in parts) or (sql.render(name, **values),)


def _sequenced(  # noqa: PLR0913, PLR0917 (each is one word of the statements)
    sql: Sql, pipeline: Pipeline, table: Table, staged: StagedBatch, values: dict[str, Any], bounds: Bounds
) -> tuple[str, ...]:
    """What must be remembered of a batch's deletes is written before the rows.

    Both are facts of the log, and the order makes a crash between them harmless.
    """
    merges = _rendered(sql, "merge_sequenced", values, bounds)
    if not table.remembers_deletes:
        return merges
    columns = deletes_columns(table, _metadata(pipeline))
    own = own_memory(table, columns)
    create = sql.render("create_deletes", table=values["deletes"], columns=columns, own=own)
    # only then the rows that are there must be asked how far they had come; soft deletes leave them where they are
    asks_rows = staged.unsequenced_deletes > 0 and not values["soft"]
    remember = sql.render("remember_deletes", **{k: v for k, v in values.items() if k != "flag"}, asks_rows=asks_rows)
    return (create, *((remember,) if staged.deletes else ()), *merges)


def merge_values(pipeline: Pipeline, table: Table, staged: StagedBatch, branch: str) -> dict[str, Any]:
    """What a merge template is filled with. `table` has its columns resolved."""
    metadata = _metadata(pipeline)
    apart = {c.name for c in key_columns(table)} | ({table.deleted_column} if table.deletes == "soft" else set())
    apart |= set(table.history.columns) if table.history else set()
    values: dict[str, Any] = {
        "target": table.name,
        "branch": f"branch_{branch}",
        "source": resource_names.intermediate_table(pipeline, table),
        "snapshot_id": staged.snapshot_id,
        "batch": staged.batch,
        "attempt": staged.attempt,
        "keys": [(c.name, part_of_key(table, c.name)) for c in key_columns(table)],
        "values": [c.name for c in destination_columns(table, metadata) if c.name not in apart],
        "staged_rows": staged.counts.staged,
        "layout": table.create,
    }
    if table.mode != "append":
        values["leaves"] = _leaves(table)
    if table.deletes == "soft":
        values["flag"] = table.deleted_column
    if is_folded(table, staged):
        values["kept"] = stages_kept(table)
    if table.sequence_by or table.history:
        values["sequence"] = [c.name for c in sequence_columns(table, metadata)]
        values["deletes"] = resource_names.deletes_table(table) if table.remembers_deletes else None
        values["soft"] = table.deletes == "soft"
        values.setdefault("flag", None)
    if table.held is None:
        return values
    staged_as = struct_of(staged_columns(table, metadata))
    return {**values, **_as_held(values, staged_as, table.held)}


def _as_held(values: dict[str, Any], staged: Struct, held: Struct) -> dict[str, Any]:
    """Columns by the table's own names, and SQL for those that are staged under another name, or as another type."""
    keys = [(held.named(column) or column, field) for column, field in values["keys"]]
    columns = dict.fromkeys(held.named(column) or column for column in values["values"])
    found = {c: aligned_field("value", staged, held, c) for c in columns if c not in dict(keys)}
    expressions = {c: sql for c, sql in found.items() if sql not in (None, f"value.{quoted(c)}")}
    return {"keys": keys, "values": list(found), "expressions": expressions, "as_held": (staged, held)}


def _leaves(table: Table) -> list[tuple[str, ...]]:
    """The paths that a key is compared by, under the table's own names."""
    named = table.held.named if table.held else lambda _: None
    return [(named(first) or first, *rest) for first, *rest in key_leaves(table)]


def _given(table: Table, metadata: dict[str, str], columns: list[str]) -> dict[str, tuple[str, list[str]]]:
    """What tells for each column that a record gave it a value: not_null, not_kept, always, or its group's sequence.

    Beside it the names under which the column is staged, as the table's own may be another; or the sequence's column.
    """
    staged: dict[str, list[str]] = {}
    for column in value_columns(table) if table.select is None else staged_columns(table, metadata):
        own = table.held.named(column.name) if table.held else None
        staged.setdefault(own or column.name, []).append(column.name)
    unchanged, found = set(unchanged_columns(table)), dict[str, tuple[str, list[str]]]()
    grouped = find_sequences(table, columns)
    for name in columns:
        fields = staged.get(name, [])
        if name in grouped:
            found[name] = ("by_sequence", [grouped[name]])
        elif table.partial_updates:
            found[name] = ("not_null" if fields else "always", fields)
        else:
            found[name] = ("not_kept" if unchanged & set(fields) else "always", fields)
    return found


def _unsequenced(table: Table) -> str:
    return "merge_soft_delete" if table.deletes == "soft" else f"merge_{table.mode}"


def _metadata(pipeline: Pipeline) -> dict[str, str]:
    return pipeline.source.metadata
