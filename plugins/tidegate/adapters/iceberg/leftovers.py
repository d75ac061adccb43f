"""What others have left in a catalog: tables and marks of pipelines without a file, and the notes of other sinks."""

import json
import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from pyiceberg.table import Table

from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.errors import judge_error, translate_iceberg_errors
from tidegate.adapters.iceberg.format_version import UnknownMetadata
from tidegate.adapters.iceberg.lineage import Lineage, read_summary
from tidegate.adapters.iceberg.table_state import POSITION_PATTERN, list_branches, read_ref_head
from tidegate.adapters.iceberg.types import to_columns
from tidegate.adapters.port_errors import to_unexpected_error
from tidegate.errors import GiveUp, TidegateError
from tidegate.model import resource_names as names
from tidegate.model.ownership import KIND_PROPERTY, PIPELINE, Ownership, PipelineLeftovers, TableKind
from tidegate.sinks.world import CommitNote, ControlTopic, TableShape
from tidegate.sql.spark import quote_name, render_literal

log = logging.getLogger(__name__)
VALID_THROUGH = ("kafka.connect.valid-through-ts", "kafka.connect.vtts")


def find_leftovers(
    catalogs: Catalogs, catalog: str, configured_pipelines: Collection[str]
) -> tuple[list[PipelineLeftovers], list[TidegateError]]:
    """For each pipeline without a file: its tables, the destinations that it marked, and commands that remove both.

    A mark makes a table a pipeline's own, never its name alone. `configured_pipelines` have a file, right or broken.
    Nothing is changed. Second in the answer are the errors of what cannot be read.
    """
    tables, failures = _read_tables(catalogs, catalog)
    owners = {name: table.owner for name, table in tables.items() if table.owner is not None}
    pipelines = {owner.pipeline for owner in owners.values() if owner.kind is TableKind.BATCHES}
    # a tag on a destination keeps its snapshot, and all later ones, for ever
    positions = {name for key, table in tables.items() if key not in owners for name in table.publishers}
    orphaned_pipelines = (pipelines | positions) - set(configured_pipelines)
    return [_list_pipeline_commands(pipeline, tables, owners) for pipeline in sorted(orphaned_pipelines)], failures


@dataclass(frozen=True)
class _MarkedTable:
    """What one table tells of pipelines; the rest of its metadata, which may take megabytes, is not kept.

    - `owner`: None for a table that no pipeline made, or that several share.
    - `properties`: names of the product's. `tagged`: pipelines whose tag is on a snapshot of theirs.
    - `branches`: those that attempts of pipelines may have left, or that wait for an approval.
    """

    owner: Ownership | None
    properties: tuple[str, ...]
    tagged: frozenset[str]
    branches: tuple[str, ...]

    @classmethod
    def from_table(cls, table: Table) -> "_MarkedTable":
        properties = table.metadata.properties
        mark = properties.get(KIND_PROPERTY, "")
        is_known = mark in set(TableKind)  # another build may make more kinds
        tags = (names.parse_tag_pipeline(ref) for ref in table.metadata.refs if names.is_ours(ref))
        return cls(
            owner=Ownership(TableKind(mark), properties.get(PIPELINE, "")) if is_known else None,
            properties=tuple(sorted(key for key in properties if key.startswith("tidegate."))),
            tagged=frozenset(pipeline for pipeline in tags if _has_tag(table, pipeline)),
            branches=tuple(sorted(name for name in list_branches(table) if names.is_ours(name))),
        )

    @property
    def publishers(self) -> frozenset[str]:
        return self.tagged | {match[1] for name in self.properties if (match := POSITION_PATTERN.fullmatch(name))}

    def list_properties(self, pipeline: str) -> list[str]:
        prefix = names.name_pipeline_property(pipeline, "")
        return [name for name in self.properties if name.startswith(prefix)]

    def list_branches(self, pipeline: str) -> list[str]:
        parse_functions = (names.parse_branch_batch, names.parse_branch_backfill)
        return [name for name in self.branches if any(parse(pipeline, name) is not None for parse in parse_functions)]


def _read_tables(catalogs: Catalogs, catalog: str) -> tuple[dict[str, _MarkedTable], list[TidegateError]]:
    spaces = list[str]()
    names = list[str]()
    tables = dict[str, _MarkedTable]()
    pending_namespaces = [tuple[str, ...]()]
    failures = list[TidegateError]()
    while pending_namespaces:
        above = pending_namespaces.pop()
        with _keep_apart(catalogs, ".".join((catalog, *above, "*")), failures):
            below = catalogs.list_namespaces(catalog, above)
            pending_namespaces += below
            spaces += (".".join((catalog, *namespace)) for namespace in below)
    for space in spaces:
        with _keep_apart(catalogs, f"{space}.*", failures):
            names += (f"{space}.{name}" for name in catalogs.list_table_names(space))
    for name in sorted(names):
        with _keep_apart(catalogs, name, failures):
            if (table := catalogs.table(name)) is not None:
                tables[name] = _MarkedTable.from_table(table)
    return tables, failures


@contextmanager
def _keep_apart(catalogs: Catalogs, table: str, failures: list[TidegateError]) -> Iterator[None]:
    try:
        yield
    except UnknownMetadata as error:
        log.warning("table=%s: PyIceberg cannot read it: %s; no pipeline writes it; it was passed over", table, error)
    except TidegateError as error:
        failures.append(error)
    except Exception as error:
        failure = judge_error(catalogs, "leftovers", table, error)
        failures.append(failure or to_unexpected_error("leftovers", f"table={table}", error))


def _has_tag(table: Table, pipeline: str) -> bool:
    head = read_ref_head(table, names.name_tag(pipeline))
    # another pipeline's tag may have the name
    return head is not None and names.name_pipeline_property(pipeline, "position") in head.summary


def _list_pipeline_commands(
    pipeline: str, tables: Mapping[str, _MarkedTable], owners: Mapping[str, Ownership]
) -> PipelineLeftovers:
    own_tables = sorted(name for name, owner in owners.items() if owner.pipeline == pipeline)
    other_tables = {name: table for name, table in sorted(tables.items()) if name not in own_tables}
    commands = [f"DROP TABLE {quote_name(name)} PURGE" for name in own_tables]
    destinations = list[str]()
    for name, table in other_tables.items():
        properties = table.list_properties(pipeline)
        # each keeps its snapshots for ever
        branches = map(quote_name, table.list_branches(pipeline))
        commands += [f"ALTER TABLE {quote_name(name)} DROP BRANCH IF EXISTS {branch}" for branch in branches]
        if not properties and pipeline not in table.tagged:
            continue
        destinations.append(name)
        commands.append(f"ALTER TABLE {quote_name(name)} DROP TAG IF EXISTS {quote_name(names.name_tag(pipeline))}")
        if properties:
            listed = ", ".join(map(render_literal, properties))
            commands.append(f"ALTER TABLE {quote_name(name)} UNSET TBLPROPERTIES ({listed})")
    commands.append(f"kafka-consumer-groups.sh --delete --group tidegate-{pipeline}")
    return PipelineLeftovers(pipeline=pipeline, tables=own_tables, destinations=destinations, remove=commands)


class ConnectorNotes:
    """Reads tables as another writer has left them; changes nothing."""

    def __init__(self, catalogs: Catalogs) -> None:
        self.catalogs = catalogs

    @translate_iceberg_errors
    def describe(self, name: str) -> TableShape | None:
        """The table's columns and identifier fields; None without a table."""
        table = self.catalogs.table(name)
        if table is None:
            return None
        return TableShape(to_columns(table.schema()), tuple(sorted(table.schema().identifier_field_names())))

    @translate_iceberg_errors
    def read_note(self, name: str, control: ControlTopic, branch: str) -> CommitNote | None:
        """From the branch's newest snapshot that has one; None without such a snapshot."""
        table = self.catalogs.table(name)
        return None if table is None else _find_note(table, name, control, branch)

    @translate_iceberg_errors
    def list_noted(self, catalog: str, control: ControlTopic) -> tuple[str, ...]:
        """As ``namespace.table``."""
        iceberg_catalog = self.catalogs.catalog(catalog)
        table_names = []
        for namespace in self._iterate_namespaces(catalog):
            for identifier in iceberg_catalog.list_tables(namespace):
                name = ".".join(identifier)
                with suppress(UnknownMetadata):  # no sink's table
                    table = self.catalogs.table(f"{catalog}.{name}")
                    if table is not None and any(
                        _find_note(table, name, control, branch) for branch in ("main", *table.metadata.refs)
                    ):
                        table_names.append(name)
        return tuple(sorted(table_names))

    def _iterate_namespaces(self, catalog: str, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
        for namespace in self.catalogs.list_namespaces(catalog, above):
            yield namespace
            yield from self._iterate_namespaces(catalog, namespace)


def _find_note(table: Table, name: str, control: ControlTopic, branch: str) -> CommitNote | None:
    for snapshot in Lineage(table.metadata).iterate_ancestors(table.snapshot_by_name(branch)):
        summary = read_summary(snapshot)
        if control.property not in summary:
            continue
        try:
            offsets = {int(p): int(o) for p, o in json.loads(summary[control.property]).items()}
        except (ValueError, AttributeError, TypeError):
            raise GiveUp(
                f"table={name} snapshot={snapshot.snapshot_id} {control.property}: not offsets by partition; "
                "the table was written by something else under the connector's name"
            ) from None
        return CommitNote(offsets, next((summary[key] for key in VALID_THROUGH if key in summary), ""))
    return None
