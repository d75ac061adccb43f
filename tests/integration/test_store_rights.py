"""Keys to a store with exactly the policy of docs/security.md: it is enough, and an action that is missing is named."""

import base64
import json
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from fault_proxy import FaultProxy, Request, refuse, run_fault_proxy
from guarded_store import GuardedStore, list_documented_actions, run_guarded_store
from integration.test_lake import EAGER, KEY, TABLES, VALUE, age_by_days
from lake_servers import LakeBench

LATEST, EVERY = "shop.latest", "shop.every"
# what a flush says without the action, and who says it: PyIceberg names the call, Spark's sentence the action
FLUSHES = {
    "s3:GetObject": r"the log-in or its rights were refused during .*: AWS Error ACCESS_DENIED during HeadObject",
    "s3:PutObject": r"pipeline=p batch=\d+ stage: Spark was refused a right by the object store: s3:PutObject: Access",
    "s3:ListBucket": r"the log-in or its rights were refused during .*: AWS Error ACCESS_DENIED during ListObjectsV2",
}
MAINTENANCES = {
    "s3:GetObject": r"the log-in or its rights were refused during .*: AWS Error ACCESS_DENIED during HeadObject",
    "s3:PutObject": r"pipeline=p batch=0 table=lake\.shop\.\w+ maintain: Spark was refused .*: s3:PutObject: Access",
    "s3:ListBucket": r"table=lake\.shop\.\w+: maintenance: orphans: Spark was refused .*: s3:ListBucket: Access",
}
UNDELETED = r"AWS Error ACCESS_DENIED during DeleteObject operation"
SMALLEST_PART_BYTES, LETTERS, LETTER_BYTES = 5 * 2**20, 14, 600_000  # more than one and a half parts, in one file


@dataclass
class Lake:
    """A pipeline `p` of two tables, whose user has the documented policy below one prefix and nothing else."""

    bench: LakeBench
    store: GuardedStore
    proxy: FaultProxy
    prefix: str
    topic: str
    model: dict[int, str]
    records: list[str]

    def allow(self, *without: str) -> None:
        """Everything that is documented but these actions."""
        self.store.allow(self.prefix, without)

    def send(self, **names: str | None) -> None:
        """Records of keys, over two partitions, and what the tables hold then."""
        for key, name in names.items():
            id = int(key[1:])
            self.model.pop(id, None)
            if name is not None:
                self.model[id] = name
                self.records.append(name)
            self.bench.produce(self.topic, ({"id": id}, name and {"id": id, "name": name}))

    def check(self) -> None:
        """Both tables equal the records that were sent."""
        with self.store.open():
            rows = self.bench.read_rows(LATEST)
            assert len(rows) == len(self.model)
            assert {row["id"]: row["name"] for row in rows} == self.model
            assert sorted(row["name"] for row in self.bench.read_rows(EVERY)) == sorted(self.records)

    def run(self, *words: str) -> None:
        """A command that succeeds."""
        process = self.bench.run_cli(*words)
        assert process.returncode == 0, process.stderr

    def run_refused(self, *words: str) -> list[str]:
        """The lines of a command that fails, without the one that counts the tables."""
        process = self.bench.run_cli(*words)
        assert process.returncode == 1, (words, process.stdout, process.stderr)
        assert self.bench.properties["s3.secret-access-key"] not in process.stderr
        return [line for line in process.stderr.splitlines() if not line.endswith(("table failed:", "tables failed:"))]

    def refuse_flush(self, action: str) -> None:
        """A flush without the action: each of its sentences names what was refused."""
        self.allow(action)
        lines = self.run_refused("flush", "p")
        assert lines
        assert [line for line in lines if not is_match(FLUSHES[action], line)] == []

    def list_findings(self) -> list[str]:
        """The checks of the doctor that find something."""
        findings = json.loads(self.bench.run_cli("doctor", "--json", "--timeout", "120").stdout)["findings"]
        return [finding["check"] for finding in findings if finding["severity"] != "ok"]

    def put_orphan(self, name: str) -> None:
        """A file of a killed merge in the table's place, which the store calls four days old."""
        with self.store.open():
            location = self.bench.load_iceberg(LATEST).location()
        self.store.put_object(f"{location}/data/{name}", b"left by a killed merge")
        self.proxy.rewrite = age_by_days(name, 4)

    def list_files(self, table: str) -> list[str]:
        """The names of the data files in a table's place."""
        with self.store.open():
            return [path.name for path in self.bench.list_data_files(table)]


@pytest.fixture
def lake(workbench: Any, tmp_path: Any) -> Iterator[Lake]:
    with run_guarded_store(tmp_path / "store") as store, run_fault_proxy(store.address) as proxy:
        bench = LakeBench(workbench, store.describe(tmp_path).through(store=proxy.address))
        lake = Lake(bench, store, proxy, tmp_path.name, bench.topic(), {}, [])
        bench.pipeline("p", [lake.topic], key=KEY, value=VALUE, tables=TABLES, maintenance=EAGER)
        lake.allow()
        yield lake


# the same behaviour of the same code, by way of other servers
@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
def test_documented_policy_is_enough(lake: Lake) -> None:
    lake.send(k1="a", k2="b", k3="c", k4="d")
    lake.run("flush", "p")
    lake.send(k1="A", k2=None, k5="e")
    lake.run("flush", "p")
    lake.check()
    lake.put_orphan("old.parquet")
    lake.run("maintain", "p")
    assert "old.parquet" not in lake.list_files(LATEST)
    ends = lake.bench.read_ends(lake.topic)[lake.topic]
    ranges = json.dumps({lake.topic: {str(partition): [0, end] for partition, end in ends.items()}})
    lake.run("backfill", "p", "--range", ranges, "--table", "lake.shop.latest")
    assert lake.list_findings() == []
    lake.check()
    assert lake.store.list_refusals() == []
    listed = lake.store.list_listed_prefixes()
    assert listed
    assert [prefix for prefix in listed if not prefix.startswith(f"{lake.prefix}/")] == []


# by the words of real refusals; then each action alone
@pytest.mark.repeats(
    "unit/tidegate/jobs/test_refused_rights.py::test_action_that_the_store_refused_is_named_by_its_words_or_by_the_call"
)
def test_flush_names_what_it_may_not_write_and_is_finished_where_it_may_not_delete(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    lake.send(k1="a", k2="b")
    lake.run("flush", "p")
    lake.send(k1="refused", k10="refused")
    lake.refuse_flush("s3:PutObject")
    lake.send(k1=None, k20="undeleted")
    lake.allow("s3:DeleteObject")
    with caplog.at_level(logging.WARNING):
        assert lake.bench.drain("p") == 1
    lake.check()
    assert [
        message for message in caplog.messages if message.startswith("clean-up failed") and is_match(UNDELETED, message)
    ]
    assert lake.list_files("shop.latest_p_tmp") != []
    lake.allow()
    lake.send(k21="deleted")
    lake.run("flush", "p")
    lake.check()
    assert lake.list_files("shop.latest_p_tmp") == []


# by the words of real refusals; then each action alone
@pytest.mark.repeats(
    "unit/tidegate/jobs/test_refused_rights.py::test_action_that_the_store_refused_is_named_by_its_words_or_by_the_call"
)
def test_each_action_alone_is_named_by_flush_and_maintenance_and_so_are_files_that_stayed(lake: Lake) -> None:
    assert {*MAINTENANCES, "s3:DeleteObject", "s3:AbortMultipartUpload"} == set(list_documented_actions())
    lake.send(k1="a", k2="b", k3="c", k4="d")
    lake.run("flush", "p")
    lake.send(k1="A", k2=None)
    lake.run("flush", "p")
    for id, (action, pattern) in enumerate(MAINTENANCES.items(), 10):
        lake.send(k1=action, **{f"k{id}": action})
        lake.refuse_flush(action)
        lines = lake.run_refused("maintain", "p")
        assert lines
        assert [line for line in lines if not is_match(pattern, line)] == []
        assert [check for check in lake.list_findings() if check.startswith("catalog.")] != [], action
        lake.allow()
        assert lake.bench.drain("p") == 1
        lake.check()
    lake.put_orphan("old.parquet")
    lake.allow("s3:DeleteObject")
    lines = lake.run_refused("maintain", "p")
    assert [line for line in lines if "table=lake.shop.latest:" not in line] == []
    assert is_match(r"orphans: 1 of 1 files .* are still there, .* \(s3:DeleteObject\)", lines[0])
    assert "old.parquet" in lake.list_files(LATEST)
    assert lake.list_findings() == ["catalog.commit"]
    lake.allow()
    lake.run("maintain", "p")
    assert "old.parquet" not in lake.list_files(LATEST)
    lake.check()


# by the words of real refusals; then each action alone
@pytest.mark.repeats(
    "unit/tidegate/jobs/test_refused_rights.py::test_action_that_the_store_refused_is_named_by_its_words_or_by_the_call"
)
def test_upload_that_failed_in_the_middle_is_given_up_and_a_refusal_of_that_is_named(
    workbench: Any, lake: Lake
) -> None:
    entry = lake.bench.catalog.entry
    entry["properties"]["s3.multipart.part-size-bytes"] = str(SMALLEST_PART_BYTES)
    (lake.bench.include / "catalogs.yaml").write_text(json.dumps({"lake": entry}))
    lake.topic = lake.bench.topic(1)  # one task writes one file
    lake.bench.pipeline("p", [lake.topic], key=KEY, value=VALUE, tables=TABLES)
    refused = "Spark was refused a right by the object store: s3:AbortMultipartUpload: Access Denied"
    for without, status, message in (((), 204, "Status Code: 400"), (("s3:AbortMultipartUpload",), 403, refused)):
        lake.send(**{f"k{id}": base64.b64encode(os.urandom(LETTER_BYTES)).decode() for id in range(LETTERS)})
        lake.allow(*without)
        lake.proxy.on(is_part_of_staged_file, refuse(400))
        lines = lake.run_refused("flush", "p")
        assert len(lines) == 1
        assert message in lines[0]
        assert lake.store.list_aborts()[-1] == status
        assert lake.bench.drain("p") == 1
        lake.check()
    assert len(lake.proxy.faulty_requests) == 2


def is_part_of_staged_file(request: Request) -> bool:
    """Of a file with rows, as Spark writes it."""
    return request.method == "PUT" and "_tmp/data/" in request.path and "partNumber=" in request.path


def is_match(pattern: str, text: str) -> bool:
    return re.search(pattern, text) is not None
