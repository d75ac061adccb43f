"""What other writers have left in a table: a sink's note of its position in snapshots, and the columns that it made."""

import json
from collections.abc import Iterator
from contextlib import suppress

from pyiceberg.table import Table

from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.adapters.iceberg.table.errors import translate_iceberg_errors
from tidegate.adapters.iceberg.table.format_version import UnknownMetadata
from tidegate.adapters.iceberg.table.lineage import Lineage
from tidegate.adapters.iceberg.table.state import read_summary
from tidegate.adapters.iceberg.table.type_mapping import to_spark_text
from tidegate.errors import GiveUp
from tidegate.schema.data_types import Column
from tidegate.sinks.world import CommitNote, ControlTopic, TableShape

VALID_THROUGH = ("kafka.connect.valid-through-ts", "kafka.connect.vtts")


class ConnectorNotes:
    """Reads tables as another writer has left them; changes nothing."""

    def __init__(self, catalogs: Catalogs) -> None:
        self.catalogs = catalogs

    @translate_iceberg_errors
    def describe(self, name: str) -> TableShape | None:
        """The table's columns and identifier fields; None where it does not exist."""
        table = self.catalogs.table(name)
        if table is None:
            return None
        fields = table.schema().fields
        columns = tuple(Column(f.name, to_spark_text(f.field_type), not f.required) for f in fields)
        return TableShape(columns, tuple(sorted(table.schema().identifier_field_names())))

    @translate_iceberg_errors
    def read_note(self, name: str, control: ControlTopic, branch: str) -> CommitNote | None:
        """The note of the newest snapshot of the branch that has one; None without such a snapshot."""
        table = self.catalogs.table(name)
        return None if table is None else _find_note(table, name, control, branch)

    @translate_iceberg_errors
    def list_noted(self, catalog: str, control: ControlTopic) -> tuple[str, ...]:
        """All tables of a catalog that carry the sink's notes, as ``namespace.table``."""
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
    reference = table.metadata.refs.get(branch)
    head = table.metadata.snapshot_by_id(reference.snapshot_id) if reference else None
    for snapshot in Lineage(table.metadata).iterate_ancestors(head):
        summary = read_summary(snapshot)
        if control.property not in summary:
            continue
        try:
            offsets = {int(p): int(o) for p, o in json.loads(summary[control.property]).items()}
        except (ValueError, AttributeError, TypeError):
            raise GiveUp(
                f"table={name} snapshot={snapshot.snapshot_id} {control.property}: not offsets by partition; "
                "the table was "
                "written by something else under the connector's name"
            ) from None
        return CommitNote(offsets, next((summary[key] for key in VALID_THROUGH if key in summary), ""))
    return None
