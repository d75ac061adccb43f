"""A role of PostgreSQL with the rights that docs/security.md lists: they are enough, and a missing one is named."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lake_servers import LakeBench, LakeCatalog, LakeServers
from tidegate.adapters.iceberg.catalog import Catalogs

from local.lake.catalog import VARIABLE

ROLE, PASSWORD = "flusher", "only-for-this-test"
RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")
TABLES = "iceberg_tables, iceberg_namespace_properties"
MISSED = {"SELECT": ("flush", "p"), "UPDATE": ("flush", "p"), "INSERT": ("flush", "new")}
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}


@dataclass
class Lake:
    """A pipeline `p` whose catalog is used by a role that owns nothing; `owner` is who made the catalog's tables."""

    bench: LakeBench
    servers: LakeServers
    address: str
    topic: str

    def run_sql(self, *statements: str) -> None:
        self.servers.run_sql(self.address, *statements)

    def send(self, *changes: tuple[int, str | None]) -> None:
        self.bench.produce(
            self.topic, *(({"id": id}, None if name is None else {"id": id, "name": name}) for id, name in changes)
        )

    def read(self) -> dict[int, str]:
        rows = self.bench.read_rows("shop.p")
        assert len(rows) == len({row["id"] for row in rows})
        return {row["id"]: row["name"] for row in rows}

    def run(self, *words: str) -> None:
        answer = self.bench.run_cli(*words)
        assert answer.returncode == 0, answer.stderr


@pytest.fixture
def lake(workbench, lake_servers: LakeServers, tmp_path) -> Iterator[Lake]:
    owner = lake_servers.make_catalog("postgres", "file", tmp_path)
    Catalogs({"lake": owner.properties}).catalog("lake").list_namespaces()  # makes the two tables
    address = owner.entry["properties"]["uri"]
    lake_servers.run_sql(
        address,
        f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'",
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        f"GRANT {', '.join(RIGHTS)} ON {TABLES} TO {ROLE}",
    )
    connection = {**json.loads(owner.environment[VARIABLE]), "login": ROLE, "password": PASSWORD}
    bench = LakeBench(workbench, LakeCatalog(owner.entry, {VARIABLE: json.dumps(connection)}))
    topic = bench.topic()
    bench.pipeline("p", [topic], key=KEY, value=VALUE)
    try:
        yield Lake(bench, lake_servers, address, topic)
    finally:
        lake_servers.run_sql(address, f"DROP OWNED BY {ROLE}", f"DROP ROLE {ROLE}")


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_errors.py::test_refusal_is_never_taken_for_a_fault_that_passes"
)
def test_documented_rights_are_enough_and_each_that_is_missing_is_named(lake: Lake) -> None:
    lake.send((1, "a"), (2, "b"), (3, "c"))
    lake.bench.flush("p")
    lake.send((1, "d"), (2, None), (4, "e"))
    lake.bench.flush("p")
    expected = {1: "d", 3: "c", 4: "e"}
    assert lake.read() == expected
    lake.bench.run_spark_sql("DELETE FROM lake.shop.p WHERE id = 3")
    ends = lake.bench.read_ends(lake.topic)[lake.topic]
    ranges = {lake.topic: {str(p): [0, end] for p, end in ends.items()}}
    lake.run("backfill", "p", "--range", json.dumps(ranges))
    lake.run("maintain", "p")
    lake.run("status", "p")
    assert lake.read() == expected

    # a table that is there is read and updated; INSERT is for one that is new
    lake.bench.pipeline("new", [lake.topic], key=KEY, value=VALUE)
    for id, (right, command) in enumerate(MISSED.items(), 5):
        lake.send((id, right))
        lake.run_sql(f"REVOKE {right} ON {TABLES} FROM {ROLE}")
        answer = lake.bench.run_cli(*command)
        assert answer.returncode != 0, right
        assert re.search(r"refused .*permission denied for table iceberg_.* rights", answer.stderr), answer.stderr
        assert answer.stderr.count("\n") == 1, answer.stderr
        assert PASSWORD not in answer.stderr
        lake.run_sql(f"GRANT {right} ON {TABLES} TO {ROLE}")
        assert lake.bench.drain("p") == 1
        expected[id] = right
        assert lake.read() == expected
