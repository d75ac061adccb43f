"""A pipeline whose catalog is a REST server on PostgreSQL and whose files are in S3, through what may happen to one."""

import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from crash.points import Point
from examples import choose_part
from fault_proxy import LOST_ANSWER, FaultProxy, Request, run_fault_proxy
from guarded_store import find_action, list_documented_actions
from lake_servers import LakeBench, LakeServers, write_file
from tidegate.flush.maintain import list_maintained_tables, maintain
from tidegate.reprocess.backfill import apply_backfill
from tidegate.reprocess.backfill_plan import parse_request, propose_backfill

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
EAGER = {"compact": "always", "keep_snapshots": 1, "keep_snapshots_for": "1s"}
TABLES = [
    {"name": "lake.shop.latest", "create": {"partition_by": ["bucket(4, id)"]}},
    {"name": "lake.shop.every", "upsert": False, "delete": False},
]
WITH_A_BRANCH = Point.parse("merge/engine.run:after:1")


@dataclass
class Lake:
    """A workbench on the servers, and the proxies before its catalog and its store."""

    bench: LakeBench
    rest: FaultProxy
    store: FaultProxy
    tables: list[str]
    model: dict[int, str]
    records: list[str]

    def change(self, topic: str, **names: str | None) -> None:
        """Records of keys, in two partitions, and what tables of them hold then."""
        for key, name in names.items():
            id = int(key[1:])
            self.model.pop(id, None)
            if name is not None:
                self.model[id] = name
                self.records.append(name)
            self.bench.produce(topic, ({"id": id}, name and {"id": id, "name": name}))

    def check(self, name: str) -> None:
        """Every table equals the records, and no leftover of a batch exists."""
        assert {row["id"]: row["name"] for row in self.bench.read_rows("shop.latest")} == self.model
        if "every" in self.tables:
            assert sorted(row["name"] for row in self.bench.read_rows("shop.every")) == sorted(self.records)
        for table in self.tables:
            assert set(self.bench.load_iceberg(f"shop.{table}").metadata.refs) == {"main", f"tidegate_{name}"}
            assert self.bench.read_rows(f"shop.{table}_{name}_tmp") == []
            assert self.bench.list_data_files(f"shop.{table}_{name}_tmp") == []


@pytest.fixture
def lake(workbench: Any, lake_servers: LakeServers, tmp_path: Path) -> Iterator[Lake]:
    variables = lake_servers.variables
    with run_fault_proxy(variables["REST_CATALOG_URI"]) as rest, run_fault_proxy(variables["S3_ENDPOINT"]) as store:
        catalog = lake_servers.make_catalog("rest", "s3", tmp_path).through(rest.address, store.address)
        yield Lake(LakeBench(workbench, catalog), rest, store, choose_part(["latest", "every"], 0, 2), {}, [])


def is_publish(request: Request) -> bool:
    """The commit that moves main and removes the branch of the attempt."""
    return "remove-snapshot-ref" in {update["action"] for update in request.updates}


def age_by_days(name: str, days: int) -> Callable[[bytes], bytes]:
    """Let the store report that one object was written so many days ago."""
    then = (datetime.now(UTC) - timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%S.000Z").encode()
    pattern = re.compile(rb"(<Key>[^<]*" + name.encode() + rb"</Key>\s*<LastModified>)[^<]*")
    return lambda content: pattern.sub(rb"\g<1>" + then, content)


def list_orphans(bench: LakeBench) -> list[str]:
    """Files of the table that a test has put there."""
    return [path.name for path in bench.list_data_files("shop.latest") if path.name in ("old.parquet", "young.parquet")]


def flush_twice(lake: Lake) -> str:
    """A pipeline `p` behind its second flush, with a replaced and a deleted row; its topic."""
    bench = lake.bench
    topic = bench.topic()
    tables = [table for table in TABLES if table["name"].rpartition(".")[2] in lake.tables]
    bench.pipeline("p", [topic], key=KEY, value=VALUE, tables=tables, maintenance=EAGER, on_rollback="rewind")
    lake.change(topic, k1="a", k2="b", k3="c", k4="d")
    bench.flush("p")
    lake.change(topic, k1="A", k2=None, k5="e")
    bench.flush("p")
    lake.check("p")
    return topic


def test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance(lake: Lake) -> None:
    topic, bench = flush_twice(lake), lake.bench
    table = bench.load_iceberg("shop.latest")
    before = table.snapshot_by_id(table.metadata.refs["tidegate_p"].snapshot_id)
    table.manage_snapshots().set_current_snapshot(before.parent_snapshot_id).commit()
    lake.rest.on(is_publish, LOST_ANSWER)
    lake.change(topic, k1=None, k4="D", k6="f")
    bench.drain("p")
    assert len(lake.rest.faulty_requests) == 1
    lake.check("p")

    location = bench.load_iceberg("shop.latest").location()
    for name in ("old", "young"):
        write_file(bench.properties, f"{location}/data/{name}.parquet", b"left by a killed merge")
    lake.store.rewrite = age_by_days("old.parquet", 4)
    latest = maintain(bench.open_session("p"), "lake.shop.latest")
    assert latest.compacted
    assert (latest.orphans_removed, list_orphans(bench)) == (1, ["young.parquet"])
    assert latest.before.delete_files > latest.after.delete_files == 0
    lake.check("p")
    assert lake.store.access_keys == {bench.properties["s3.access-key-id"]}
    assert {find_action(request) for request in lake.store.requests} <= set(list_documented_actions())


# the same behaviour of the same code, by way of other servers
@pytest.mark.repeats("test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
def test_tables_are_right_through_a_backfill_maintenance_of_all_tables_and_a_kill(lake: Lake, runners) -> None:
    topic, bench = flush_twice(lake), lake.bench
    bench.run_spark_sql("DELETE FROM lake.shop.latest WHERE id IN (3, 5)")
    ends = {str(partition): [0, end] for partition, end in bench.read_ends(topic)[topic].items()}
    session = bench.open_session("p")
    request = parse_request({topic: ends}, None, None, ("lake.shop.latest",))
    apply_backfill(session, propose_backfill(session, request).backfill, print)
    lake.check("p")

    reports = {table: maintain(session, table) for table in list_maintained_tables(session)}
    assert reports["lake.shop.latest"].compacted
    lake.check("p")

    lake.change(topic, k3=None, k7="g")
    killed = runners.run(bench.build_environment(), "flush", "p", at=WITH_A_BRANCH, kind="killed")
    assert (killed.code, killed.fault_happened) == (-signal.SIGKILL, True), killed
    bench.drain("p")
    lake.check("p")
