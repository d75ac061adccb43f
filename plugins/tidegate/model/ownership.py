"""Which tables are the product's own: the mark that each carries, and how a table of version 0.1 is recognised."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.errors import GiveUp
from tidegate.model import resource_names
from tidegate.schema.column import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.sql.spark import quote_name, render_literal

KIND_PROPERTY = "tidegate.kind"
PIPELINE = "tidegate.pipeline"
TABLE = "tidegate.table"
SHAPE_PROPERTY = "tidegate.shape"  # what version 0.1 already wrote on intermediate tables
# tidegate_<pipeline> are those of destinations
KIND_LABEL = "tidegate-kind"
OWNER_LABEL = "tidegate-owner"
RECORD_ADDRESS_COLUMNS = ("topic", "partition", "offset", "timestamp")
DEAD_LETTER_COLUMNS = frozenset({
    *RECORD_ADDRESS_COLUMNS, "key", "value", "headers", "stage", "error_class", "message", "batch", "attempt",
    "table", "written_at",
    "replayed_at",
})  # fmt: skip
CHANGE_COLUMNS = frozenset(f"_tidegate_{name}" for name in (*RECORD_ADDRESS_COLUMNS, "valid_from", "kind", "i"))
BATCH_COLUMNS = frozenset({"batch", "published_at_ms", "table", "attempt", "ranges", "staged", "snapshot_id"})
POSITION_COLUMNS = frozenset({"pipeline", "version", "attempt", "properties", "changed"})


class TableKind(StrEnum):
    """What a marked table is for."""

    DESTINATION = "destination"  # never the product's own: what a pipeline writes
    INTERMEDIATE = "intermediate"  # staged rows
    NAMES = "names"  # how far a template's names have been looked for
    DELETES = "deletes"  # remembered deletes
    CHANGES = "changes"  # remembered changes
    DEAD_LETTERS = "dead_letters"
    BATCHES = "batches"  # the control table
    POSITIONS = "positions"  # BigQuery's


MEMORY_KINDS = (TableKind.DELETES, TableKind.CHANGES)
STAGING_KINDS = (TableKind.INTERMEDIATE, TableKind.NAMES)  # tables whose batches a clean-up removes


@dataclass(frozen=True, kw_only=True)
class PipelineLeftovers:
    """What a pipeline without a file has left: its own tables, those that it has marked, and what removes both."""

    pipeline: str
    tables: list[str]
    destinations: list[str]
    remove: list[str]


class Mark(StrEnum):
    """What a table's mark says to whoever needs the table."""

    OURS = "ours"
    MISSING = "missing"
    OTHERS = "others"  # of another table of the product's


@dataclass(frozen=True)
class Ownership:
    """What a table of the product's own is for: its kind, and the pipeline, the destination, or both that it serves.

    `needs` are the columns by which a table without a mark is recognised; `is_exact` allows no others.
    """

    kind: TableKind
    pipeline: str = ""
    table: str = ""
    needs: frozenset[str] = field(default=frozenset(), compare=False)
    is_exact: bool = field(default=True, compare=False)

    @property
    def properties(self) -> dict[str, str]:
        """The mark on an Iceberg table."""
        mark = {KIND_PROPERTY: self.kind.value, PIPELINE: self.pipeline, TABLE: self.table}
        return {name: value for name, value in mark.items() if value}

    @property
    def labels(self) -> dict[str, str]:
        """The mark on a BigQuery table, where a label holds few characters: whose the table is stands as a digest."""
        owner = hashlib.sha256(f"{self.pipeline}/{self.table}".encode()).hexdigest()[:40]
        return {KIND_LABEL: self.kind.value, OWNER_LABEL: owner}

    @property
    def words(self) -> str:
        """For messages."""
        owners = (("pipeline", self.pipeline), ("table", self.table))
        return " ".join([f"kind={self.kind}", *(f"{name}={value}" for name, value in owners if value)])


def compare_mark(mark: Mapping[str, str], present: Mapping[str, str]) -> Mark:
    """Whose mark is `present` on a table, as properties or labels, for the one whose `mark` it should be."""
    if not any(present.get(key) for key in mark):
        return Mark.MISSING
    return Mark.OURS if all(present.get(key, "") == value for key, value in mark.items()) else Mark.OTHERS


def refuse_other_mark(name: str, owner: Ownership, mark: Mapping[str, str], present: Mapping[str, str]) -> None:
    """`GiveUp` where the table `name` is marked as another table of the product's."""
    if compare_mark(mark, present) is not Mark.OTHERS:
        return
    mark_text = " ".join(f"{key.removeprefix('tidegate')[1:]}={present[key]}" for key in mark if present.get(key))
    raise GiveUp(
        f"table={name} is needed as {owner.words}, and it is marked as {mark_text}; nothing was changed; "
        "rename one of the pipelines or destinations whose tables would have this name"
        f"{_propose_new_mark(name, mark, present)}"
    )


def _propose_new_mark(name: str, mark: Mapping[str, str], present: Mapping[str, str]) -> str:
    """The other way out where only the destination's name differs: a person may have renamed both tables."""
    if [key for key, value in mark.items() if present.get(key) != value] != [TABLE] or not present.get(TABLE):
        return ""
    assigned = f"{render_literal(TABLE)} = {render_literal(mark[TABLE])}"
    return (
        f"; or, if {present[TABLE]} was renamed to {mark[TABLE]} and this table with it: "
        f"ALTER TABLE {quote_name(name)} SET TBLPROPERTIES ({assigned})"
    )


def check_recognised(name: str, owner: Ownership, columns: Collection[str], shape: str | None) -> None:
    """`GiveUp` unless a table without a mark is one that version 0.1 made for this purpose."""
    column_names = {column.casefold() for column in columns}
    if owner.kind in STAGING_KINDS and shape is not None:
        return
    if owner.needs and owner.needs <= column_names and (not owner.is_exact or column_names <= owner.needs):
        return
    raise GiveUp(
        f"table={name} is needed as {owner.words}, and it is not a table that Tidegate made; nothing was changed; "
        "rename that table, or the pipeline, or its destination"
    )


def check_kind(name: str, kind: str | None, shape: str | None, kinds: Collection[str]) -> None:
    """`GiveUp` before something is removed from a table that is not of these kinds, and was not by version 0.1."""
    if kind in kinds or (not kind and shape is not None and TableKind.INTERMEDIATE in kinds):
        return
    raise GiveUp(
        f"table={name} kind={kind or 'none'}: it is not one of Tidegate's own ({', '.join(kinds)}), so nothing was "
        "removed from it; rename that table, or the pipeline"
    )


def describe_intermediate(pipeline: Pipeline, table: Table) -> Ownership:
    """The intermediate tables of a destination: the flush's, and those of backfills and replays."""
    return Ownership(TableKind.INTERMEDIATE, pipeline.name, table.identifier)


def describe_memory(table: Table, columns: Collection[Column]) -> Ownership:
    """What remembers deletes or changes of a destination, for all pipelines that write it; `columns` are its own."""
    branch = "" if table.branch == "main" else f" branch={table.branch}"
    if table.history is not None:
        return Ownership(TableKind.CHANGES, "", table.identifier + branch, CHANGE_COLUMNS, is_exact=False)
    needs = frozenset(column.name.casefold() for column in columns)
    return Ownership(TableKind.DELETES, "", table.identifier + branch, needs)


def describe_dead_letters(pipeline: Pipeline) -> Ownership:
    """The dead letters of a pipeline."""
    return Ownership(TableKind.DEAD_LETTERS, pipeline.name, "", DEAD_LETTER_COLUMNS)


def describe_control(control: str) -> Ownership:
    """The control table of the pipeline whose name is in its own."""
    pipeline = control.rpartition(".")[2].removeprefix("tidegate_").removesuffix("_batches")
    return Ownership(TableKind.BATCHES, pipeline, "", BATCH_COLUMNS, is_exact=False)


def describe_name_registry(pipeline: Pipeline) -> Ownership:
    """The table that says how far a template's names have been looked for."""
    return Ownership(TableKind.NAMES, pipeline.name, "", frozenset({"name"}))


def describe_positions(table: str) -> Ownership:
    """The table of positions of a BigQuery destination, given by its full name."""
    return Ownership(TableKind.POSITIONS, "", table.split(".", 1)[1], POSITION_COLUMNS)


def list_product_tables(pipeline: Pipeline) -> dict[str, Ownership]:
    """Full names of the tables that a pipeline makes beside its destinations, but for what records name."""
    owners: dict[str, Ownership] = {
        resource_names.name_control_table(pipeline): describe_control(resource_names.name_control_table(pipeline))
    }
    owners[resource_names.name_dead_letter_table(pipeline)] = describe_dead_letters(pipeline)
    if pipeline.template is not None:
        owners[resource_names.name_registry_table(pipeline)] = describe_name_registry(pipeline)
    for table in pipeline.tables:
        if table.naming is None:
            owners[resource_names.name_intermediate_table(pipeline, table)] = describe_intermediate(pipeline, table)
            owners[resource_names.name_positions_table(table.name)] = describe_positions(table.name)
            if table.remembers:
                owners[resource_names.name_memory_table(table)] = describe_memory(table, ())
    return owners
