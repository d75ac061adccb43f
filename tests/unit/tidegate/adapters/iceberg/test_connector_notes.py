"""What a sink has left in a catalog is found in whatever namespace its tables lie."""

from pathlib import Path

import pyarrow as pa
from tidegate.adapters.iceberg.connector_notes import ConnectorNotes
from tidegate.adapters.iceberg.table.catalogs import Catalogs
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
