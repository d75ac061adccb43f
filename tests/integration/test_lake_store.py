"""A store of another make than the stack's: Spark and PyIceberg write and read the same files there."""

from pathlib import Path
from typing import Any

import pytest
from lake_servers import OTHER_STORE, LakeBench, LakeServers
from tidegate.flush.maintain import list_maintained_tables, maintain


# the same behaviour of the same code, by way of other servers
@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
def test_flushes_and_maintenance_into_another_store_leave_the_rows_and_nothing_else(
    workbench: Any, lake_servers: LakeServers, tmp_path: Path
) -> None:
    bench = LakeBench(workbench, lake_servers.make_catalog("postgres", OTHER_STORE, tmp_path))
    topic = bench.topic()
    eager = {"compact": "always", "keep_snapshots": 1, "keep_snapshots_for": "1s"}
    bench.pipeline(
        "stored",
        [topic],
        key={"fields": ["id"], "schema": "id BIGINT"},
        value={"schema": "id BIGINT, name STRING"},
        table={"create": {"partition_by": ["bucket(4, id)"]}},
        maintenance=eager,
    )
    bench.produce(topic, *(({"id": n}, {"id": n, "name": "a"}) for n in range(20)))
    bench.flush("stored")
    bench.produce(topic, *(({"id": n}, {"id": n, "name": "b"}) for n in range(10)), ({"id": 0}, None))
    bench.flush("stored")
    session = bench.open_session("stored")
    for table in list_maintained_tables(session):
        maintain(session, table)
    wanted = [{"id": n, "name": "b" if n < 10 else "a"} for n in range(1, 20)]
    assert sorted(bench.read_rows("shop.stored"), key=lambda row: row["id"]) == wanted
    assert bench.list_data_files("shop.stored_stored_tmp") == []
