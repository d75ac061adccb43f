"""Tables that Spark cannot open are refused before any job, by flushes and publications, with the way out."""

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StructType, TimeType
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.snapshots import IcebergSnapshots
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.errors import GiveUp

OPENS = ListType(4, StructType(NestedField(5, "at", TimeType())), element_required=False)
COLUMNS = {
    "closes": (NestedField(2, "closes", TimeType()),),
    "opens.element.at": (NestedField(3, "opens", OPENS),),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_table_with_a_time_of_day_is_refused_until_the_column_is_dropped(tmp_path: Path, column: str) -> None:
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalogs = Catalogs({"lake": {"type": "sql", **place}})
    lake = catalogs.catalog("lake")
    lake.create_namespace("shop")
    made = lake.create_table("shop.hours", Schema(NestedField(1, "id", LongType()), *COLUMNS[column]))
    tables, snapshots = build_iceberg_destination(catalogs).tables, IcebergSnapshots(catalogs)
    for look in (lambda: tables.read_state("lake.shop.hours", "p"), lambda: snapshots.table("lake.shop.hours")):
        with pytest.raises(GiveUp, match=rf"column={column} type=time: Spark opens no table .*; drop the column"):
            look()
    with made.update_schema() as change:
        change.delete_column(column.partition(".")[0])
    state, now = tables.read_state("lake.shop.hours", "p"), snapshots.table("lake.shop.hours")
    assert state is not None
    assert now is not None
    assert ([c.name for c in state.columns], now.snapshot_id) == (["id"], None)
