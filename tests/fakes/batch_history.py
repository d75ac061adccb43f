"""The port `BatchHistory` in memory: rows of history, and backfills by their tables."""

from tidegate.model import resource_names
from tidegate.model.ownership import (
    SHAPE_PROPERTY,
    Ownership,
    TableKind,
)

from fakes.tables import Lake, Row


class MemoryBatchHistory(Lake):
    """The history of batches."""

    def list_backfills(self, table: str, pipeline: str) -> list[str]:
        prefix = resource_names.get_backfill_prefix(pipeline, table)
        ownership_mark = Ownership(TableKind.INTERMEDIATE, pipeline, table.split(".", 1)[1]).properties.items()
        property_maps = [t.properties for name, t in sorted(self.tables.items()) if name.startswith(prefix)]
        notes = [p.get(resource_names.BACKFILL_PROPERTY, "") for p in property_maps if ownership_mark <= p.items()]
        return [note for note in notes if note]

    def list_applied_slices(self, intermediate: str, shape: str) -> frozenset[int]:
        properties = self.tables[intermediate].properties if intermediate in self.tables else {}
        if properties.get(SHAPE_PROPERTY) != shape:
            return frozenset()
        return frozenset(
            number for name in properties if (number := resource_names.parse_applied_slice(name)) is not None
        )

    def mark_applied(self, intermediate: str, number: int) -> None:
        self.get_table(intermediate).properties[resource_names.name_applied_property(number)] = "true"

    def forget_backfill(self, table: str, pipeline: str, backfill: str) -> None:
        memory_table = self.tables.get(table)
        if memory_table is not None:
            branches = [
                r for r in memory_table.refs if resource_names.parse_backfill_slice(pipeline, backfill, r) is not None
            ]
            memory_table.refs = {
                name: snapshot_id
                for name, snapshot_id in memory_table.refs.items()
                if name not in set(branches) - memory_table.tags
            }
            memory_table.properties.pop(resource_names.name_backfill_property(pipeline, backfill), None)

    def append_history(self, control: str, *rows: Row) -> None:
        self.control.setdefault(control, []).extend(map(dict, rows))

    def read_history(self, control: str, limit: int) -> list[Row]:
        rows = sorted(self.control.get(control, []), key=lambda r: (r["published_at_ms"], r["batch"]), reverse=True)
        return rows[:limit]
