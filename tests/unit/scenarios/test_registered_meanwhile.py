"""A schema that is registered while a backfill or a replay runs: its records decide over older ones all the same."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import NothingToDo
from tidegate.flush.flush import flush
from tidegate.ports.session import Session
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.schema.data_types import Column
from tidegate.spec.source import Errors
from tidegate.spec.table import Table

ALL = Errors("all")
PIPELINE = build_pipeline(replace(build_table(), errors=ALL), source={"errors": ALL})


class KnownVersions:
    """What one process knows of a registry; `newest` is the version that the registry has by now."""

    def __init__(self, newest: list[int]) -> None:
        self.newest, self.known = newest, 0

    def describe_table(self, table: Table) -> Table:
        self.known = self.known or self.newest[0]
        return replace(table, value=replace(table.value, options={"newest": self.known}))

    def forget(self) -> None:
        self.known = 0


class RegistryWorld(World):
    """Records of a version are bad for a process that does not know it."""

    def __init__(self) -> None:
        super().__init__()
        self.newest = [1]
        self.broker.create("orders")
        decode = self.engine.decode_record

        def decode_record(table: Any, topic: str, partition: int, record: Any) -> Any:
            if (record.value or {}).get("version", 1) <= table.value.options["newest"]:
                return decode(table, topic, partition, record)
            place = {"topic": topic, "partition": partition, "offset": record.offset}
            return "bad", {**place, "reason": "the value has a schema id that is no version of its subject"}

        self.engine.decode_record = decode_record  # type: ignore[method-assign]

    def open_process(self) -> Session:
        """A process that has asked the registry already."""
        schemas = KnownVersions(self.newest)
        schemas.describe_table(PIPELINE.tables[0])
        return self.open_session(PIPELINE, schemas=schemas)

    def flush_record(self, name: str, version: int) -> None:
        self.broker.produce("orders", {"id": "a"}, {"id": "a", "name": name, "version": version})
        flush(self.open_process())

    def read_names(self) -> list[str]:
        return [row["name"] for row in self.read_rows("lake.shop.orders")]


@pytest.fixture
def world() -> RegistryWorld:
    return RegistryWorld()


def test_backfill_does_not_overwrite_a_row_of_a_version_that_came_meanwhile(world: RegistryWorld) -> None:
    """Its record could not be read, and did not count as the later one: the row went back to what it was before."""
    world.flush_record("old", 1)
    session = world.open_process()
    planned = propose_backfill(session, parse_request('{"orders": {"0": [0, 1]}}', None, None)).backfill
    world.newest[0] = 2
    world.flush_record("new", 2)
    apply_backfill(session, planned, lambda _: None)
    assert world.read_names() == ["new"]
    with pytest.raises(NothingToDo):
        flush(world.open_process())
    assert world.read_names() == ["new"]


def test_replay_does_not_overwrite_a_row_of_a_version_that_came_meanwhile(world: RegistryWorld) -> None:
    world.flush_record("letter", 2)
    assert world.read_names() == []
    world.newest[0] = 2
    session = world.open_process()
    world.newest[0] = 3
    world.flush_record("new", 3)
    replay_dead_letters(session)
    assert world.read_names() == ["new"]


class Described(KnownVersions):
    """The columns are those of the newest version: the second one has a field more."""

    def describe_table(self, table: Table) -> Table:
        table = super().describe_table(table)
        names = ("id", "name", *(("Colour",) if self.known > 1 else ()))
        columns = tuple(Column(name, "STRING") for name in names)
        return replace(table, value=replace(table.value, columns=columns))


def test_replay_adds_the_column_of_a_version_that_no_flush_has_seen(world: RegistryWorld) -> None:
    """The merge left out the field for which the table had no column, and its value was lost without a word."""
    source = build_pipeline(replace(build_table(columns=None), errors=ALL), source={"errors": ALL})

    def open_process() -> Session:
        return world.open_session(source, schemas=Described(world.newest))

    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y", "Colour": "red", "version": 2})
    flush(open_process())
    world.newest[0] = 2
    (result,) = replay_dead_letters(open_process())
    assert (result.replayed, result.inserted) == (1, 1)
    state = world.destination.read_state("lake.shop.orders", "shop")
    assert state is not None
    assert [column.name for column in state.columns] == ["id", "name", "Colour"]
    rows = {row["id"]: (row["name"], row.get("Colour")) for row in world.read_rows("lake.shop.orders")}
    assert rows == {"a": ("x", None), "b": ("y", "red")}
