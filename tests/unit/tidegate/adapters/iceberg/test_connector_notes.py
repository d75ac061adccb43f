"""What a sink has left in a catalog is found in whatever namespace its tables lie."""

from pathlib import Path

import pyarrow as pa
import pytest
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.leftovers import ConnectorNotes
from tidegate.sinks.world import ControlTopic

CONTROL = ControlTopic("control-iceberg", "cg-orders", "kafka.connect.offsets.control-iceberg.cg-orders", "cg-orders")


def test_noted_tables_are_found_in_namespaces_of_namespaces(tmp_path: Path) -> None:
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalogs = Catalogs({"lake": {"type": "sql", **place}})
    lake, rows = catalogs.catalog("lake"), pa.table({"id": [1, 2]})
    for name, note in {"shop.orders": '{"0": 7}', "shop.eu.west.orders": '{"0": 9}', "shop.eu.lines": ""}.items():
        lake.create_namespace_if_not_exists(name.rpartition(".")[0])
        lake.create_table(name, rows.schema).append(rows, snapshot_properties={CONTROL.property: note} if note else {})
    assert ConnectorNotes(catalogs).list_noted("lake", CONTROL) == ("shop.eu.west.orders", "shop.orders")


@pytest.fixture
def catalogs(tmp_path: Path) -> Catalogs:
    """A sink wrote `Audited` on a branch that was cut before its first commit, and `orders` on main."""
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalogs, rows = Catalogs({"lake": {"type": "sql", **place}}), pa.table({"id": [1, 2]})
    lake = catalogs.catalog("lake")
    lake.create_namespace("shop")
    for name, branch in {"shop.Audited": "audit", "shop.orders": "main", "shop.plain": None}.items():
        table = lake.create_table(name, rows.schema)
        table.append(rows)
        table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
        if branch is not None:
            table.append(rows, snapshot_properties={CONTROL.property: '{"0": 7, "1": 9}'}, branch=branch)
    return catalogs


def test_table_that_a_sink_wrote_on_a_branch_alone_is_found(catalogs: Catalogs) -> None:
    notes = ConnectorNotes(catalogs)
    assert notes.list_noted("lake", CONTROL) == ("shop.Audited", "shop.orders")


def test_note_is_that_of_the_branch_that_was_asked_for(catalogs: Catalogs) -> None:
    def read_offsets(table: str, branch: str) -> dict[int, int] | None:
        note = ConnectorNotes(catalogs).read_note(f"lake.shop.{table}", CONTROL, branch)
        return None if note is None else note.control_offsets

    assert [read_offsets("Audited", branch) for branch in ("audit", "main", "none")] == [{0: 7, 1: 9}, None, None]
    assert [read_offsets("orders", branch) for branch in ("audit", "main")] == [None, {0: 7, 1: 9}]
