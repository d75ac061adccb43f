"""Which tables are the product's own, and in which format: the mark that each carries."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tidegate.errors import GiveUp
from tidegate.model import resource_names
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Table
from tidegate.sql.spark import quote_name, render_literal

KIND_PROPERTY = "tidegate.kind"
PIPELINE = "tidegate.pipeline"
TABLE = "tidegate.table"
FORMAT_PROPERTY = "tidegate.format"
FORMAT = "1"  # of what is stored in tables; one more where another build could not read it
SHAPE_PROPERTY = "tidegate.shape"  # of an intermediate table: what its rows look like
# tidegate_<pipeline> are those of destinations
FORMAT_LABEL = "tidegate-format"
KIND_LABEL = "tidegate-kind"
OWNER_LABEL = "tidegate-owner"


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


@dataclass(frozen=True)
class Ownership:
    """What a table of the product's own is for: its kind, and the pipeline, the destination, or both that it serves."""

    kind: TableKind
    pipeline: str = ""
    table: str = ""

    @property
    def properties(self) -> dict[str, str]:
        mark = {
            KIND_PROPERTY: self.kind.value,
            PIPELINE: self.pipeline,
            TABLE: self.table,
            FORMAT_PROPERTY: FORMAT,
        }
        return {name: value for name, value in mark.items() if value}

    @property
    def labels(self) -> dict[str, str]:
        """The mark on a BigQuery table: a label holds few characters, so the owner is a digest."""
        owner = hashlib.sha256(f"{self.pipeline}/{self.table}".encode()).hexdigest()[:40]
        return {KIND_LABEL: self.kind.value, OWNER_LABEL: owner, FORMAT_LABEL: FORMAT}

    @property
    def words(self) -> str:
        owners = (("pipeline", self.pipeline), ("table", self.table))
        return " ".join([f"kind={self.kind}", *(f"{name}={value}" for name, value in owners if value)])


def check_mark(name: str, owner: Ownership, mark: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Raise `GiveUp` unless the table `name` carries `mark`; `present` are its properties, or labels."""
    *identity, format_key = mark
    if not any(present.get(key) for key in identity):
        raise GiveUp(
            f"table={name} is needed as {owner.words}, and it is not a table that Tidegate made; nothing was changed; "
            "rename that table, or the pipeline, or its destination"
        )
    if any(present.get(key, "") != mark[key] for key in identity):
        named = [key for key in identity if present.get(key)]
        mark_text = " ".join(f"{key.removeprefix('tidegate')[1:]}={present[key]}" for key in named)
        raise GiveUp(
            f"table={name} is needed as {owner.words}, and it is marked as {mark_text}; nothing was changed; "
            "rename one of the pipelines or destinations whose tables would have this name"
            f"{_propose_new_mark(name, mark, present)}"
        )
    refuse_other_format(f"table={name}", format_key, present)


def refuse_other_format(place: str, key: str, present: Mapping[str, str]) -> None:
    """Raise `GiveUp` if another build of Tidegate has written what lies at `place`."""
    if (found := present.get(key)) != FORMAT:
        raise GiveUp(
            f"{place}: another build of Tidegate wrote it, {key}={found or 'none'}, and this one reads {FORMAT}; "
            "nothing was changed; run the build that wrote it, or begin with new tables (docs/operations.md#upgrades)"
        )


def _propose_new_mark(name: str, mark: Mapping[str, str], present: Mapping[str, str]) -> str:
    # a person may have renamed both tables
    if [key for key, value in mark.items() if present.get(key) != value] != [TABLE] or not present.get(TABLE):
        return ""
    assigned = f"{render_literal(TABLE)} = {render_literal(mark[TABLE])}"
    return (
        f"; or, if {present[TABLE]} was renamed to {mark[TABLE]} and this table with it: "
        f"ALTER TABLE {quote_name(name)} SET TBLPROPERTIES ({assigned})"
    )


def check_kind(name: str, kind: str | None, kinds: Collection[str]) -> None:
    """Raise `GiveUp` before something is removed from a table that is not of these kinds."""
    if kind not in kinds:
        raise GiveUp(
            f"table={name} kind={kind or 'none'}: it is not one of Tidegate's own ({', '.join(kinds)}), so nothing was "
            "removed from it; rename that table, or the pipeline"
        )


def describe_intermediate(pipeline: Pipeline, table: Table) -> Ownership:
    return Ownership(TableKind.INTERMEDIATE, pipeline.name, table.identifier)


def describe_memory(table: Table) -> Ownership:
    branch = "" if table.branch == "main" else f" branch={table.branch}"
    kind = TableKind.DELETES if table.history is None else TableKind.CHANGES
    return Ownership(kind, "", table.identifier + branch)


def describe_dead_letters(pipeline: Pipeline) -> Ownership:
    return Ownership(TableKind.DEAD_LETTERS, pipeline.name)


def describe_control(control: str) -> Ownership:
    pipeline = control.rpartition(".")[2].removeprefix("tidegate_").removesuffix("_batches")
    return Ownership(TableKind.BATCHES, pipeline)


def describe_name_registry(pipeline: Pipeline) -> Ownership:
    return Ownership(TableKind.NAMES, pipeline.name)


def describe_positions(table: str) -> Ownership:
    return Ownership(TableKind.POSITIONS, "", table.split(".", 1)[1])


def list_product_tables(pipeline: Pipeline) -> dict[str, Ownership]:
    """Return the tables (full names) that a pipeline makes beside its destinations, but for those that records name."""
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
                owners[resource_names.name_memory_table(table)] = describe_memory(table)
    return owners
