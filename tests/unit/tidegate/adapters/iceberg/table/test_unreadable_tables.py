"""Tables that Spark cannot open are refused before any job, by flushes and publications, with the way out."""

from pathlib import Path

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType, TimeType
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.snapshots import IcebergSnapshots
from tidegate.adapters.iceberg.table.catalogs import Catalogs
from tidegate.errors import GiveUp

OPENS = ListType(4, StructType(NestedField(5, "at", TimeType())), element_required=False)
ALIKE = StructType(NestedField(4, "city", StringType()), NestedField(5, "City", StringType()))
TIME = "type=time: Spark opens no table with a column of this type"
CASES = "Spark tells no cases apart"
COLUMNS = {
    f"column=closes {TIME}": NestedField(2, "closes", TimeType()),
    f"column=opens.element.at {TIME}": NestedField(3, "opens", OPENS),
    f"columns=id, ID: {CASES}": NestedField(2, "ID", StringType()),
    f"columns=at.city, at.City: {CASES}": NestedField(3, "at", ALIKE),
}


@pytest.mark.parametrize("reason", COLUMNS)
def test_table_that_spark_does_not_open_is_refused_until_the_column_is_dropped(tmp_path: Path, reason: str) -> None:
    place = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    catalogs = Catalogs({"lake": {"type": "sql", **place}})
    lake = catalogs.catalog("lake")
    lake.create_namespace("shop")
    made = lake.create_table("shop.hours", Schema(NestedField(1, "id", LongType()), COLUMNS[reason]))
    tables, snapshots = build_iceberg_destination(catalogs).tables, IcebergSnapshots(catalogs)
    for look in (lambda: tables.read_state("lake.shop.hours", "p"), lambda: snapshots.table("lake.shop.hours")):
        with pytest.raises(GiveUp) as raised:
            look()
        assert str(raised.value).startswith(f"table=lake.shop.hours {reason}")
        assert "drop" in str(raised.value)
    with made.update_schema() as change:
        change.delete_column(COLUMNS[reason].name)
    state, now = tables.read_state("lake.shop.hours", "p"), snapshots.table("lake.shop.hours")
    assert state is not None
    assert now is not None
    assert ([c.name for c in state.columns], now.snapshot_id) == (["id"], None)
