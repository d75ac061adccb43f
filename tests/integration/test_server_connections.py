"""Jobs come and go, each in its own session: what the Spark server keeps does not grow with them.

`make soak` runs 500 flushes on each catalog; a build runs one, and sessions that only read.
"""

import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow
import pytest
import yaml
from conftest import wait_until
from postgres import PostgreSQL
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField
from spark_counts import SparkServer, find_growth
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate_spark.session import close, connect_session

FLUSHES = int(os.environ.get("SOAK_FLUSHES", "1"))
SESSIONS = 4  # that read, and as many that compact
ABANDONED = 100  # statements that serve.py lets Spark remember
POOL = 2  # connections of one JDBC catalog, by Iceberg's default
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
OF_SPARK = "application_name = 'PostgreSQL JDBC Driver'"
SECONDS_APART = 3  # of looks at the sessions, which go within a minute: each collects garbage
BETWEEN_LOOKS = 20
GROWN_UP = 60  # flushes after which pools of threads and Spark's lists of past jobs are full
LOOKS = 6  # as many at least, from then on, to tell growth from chance
# By chance, from one half of the looks to the other. What is left behind once in a flush is 200 in 500 flushes. In MB
# that would be one megabyte for five flushes; the counts of objects are finer.
GROWTH = {
    "connections": 0,
    "descriptors": 40,
    "threads": 40,
    "entries": 100,
    "sessions": 40,
    "executions": 40,
    "allocators": 100,
    "sorters": 0,
    "live_megabytes": 40,
    "metaspace_megabytes": 40,  # what merges add, until the thousand classes that serve.py allows are there
}


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    server = PostgreSQL()
    try:
        wait_until(server.is_ready, "PostgreSQL takes connections")
        yield server
    finally:
        server.close()


@pytest.fixture
def workbench(own_workbench: Any) -> Any:
    """On a server in which nothing else is counted."""
    return own_workbench


@pytest.fixture
def server(workbench: Any) -> SparkServer:
    return SparkServer(int(workbench.stack.build_environment()["SPARK_PID"]), workbench.stack.run_dir / "spark")


@pytest.fixture(params=["sqlite", "postgresql"])
def connections(
    request: pytest.FixtureRequest, workbench: Any, server: SparkServer, database: PostgreSQL
) -> Callable[[], int]:
    """How many connections to the workbench's catalog the Spark server has open."""
    if request.param == "sqlite":
        return partial(server.open_files, str(workbench.folder / "catalog.db"))
    uri = f"postgresql+psycopg2://{database.user}@127.0.0.1:{database.port}/{database.database}"
    workbench.properties["uri"] = uri
    catalogs = {"lake": {"type": "iceberg", "properties": workbench.properties}}
    (workbench.include / "catalogs.yaml").write_text(yaml.safe_dump(catalogs))
    return lambda: len(database.read_rows(f"SELECT pid FROM pg_stat_activity WHERE {OF_SPARK}"))


def flush(workbench: Any, topic: str, number: int) -> None:
    rows = [({"id": key}, {"id": key, "name": f"{number}-{key}"}, {"partition": key % 2}) for key in range(6)]
    workbench.produce(topic, *rows)
    workbench.flush("busy")


def create_small_files(workbench: Any) -> str:
    """A table of two partitions with two files each, and the statement that rewrites them."""
    catalog = Catalogs({"lake": workbench.properties}).catalog("lake")
    catalog.create_namespace("small")
    fields = [NestedField(number, name, LongType(), required=False) for number, name in ((1, "id"), (2, "part"))]
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "part"))
    table = catalog.create_table("small.files", Schema(*fields), partition_spec=spec)
    for number in range(2):
        table.append(pyarrow.table({"id": [number, number], "part": [0, 1]}))
    options = "map('rewrite-all', 'true', 'partial-progress.enabled', 'true')"
    return f"CALL lake.system.rewrite_data_files(table => 'small.files', options => {options})"


@pytest.mark.repeats("test_server_keeps_nothing_of_sessions_that_have_ended[postgresql]", "sqlite")
def test_server_keeps_nothing_of_sessions_that_have_ended(
    workbench: Any, server: SparkServer, connections: Callable[[], int]
) -> None:
    """Each rewrite registers shutdown hooks, too, and each of these kept the session of its job.

    A sort's pages stayed with the thread that had run its task.
    """
    topic = workbench.topic(2)
    workbench.pipeline("busy", [topic], key=KEY, value=VALUE)
    looks = []
    for number in range(FLUSHES):
        flush(workbench, topic, number)
        if (number + 1) % BETWEEN_LOOKS == 0:
            looks.append(server.count(connections()))
            print(f"flushes={number + 1} {looks[-1]}", flush=True)
    names = {f"{FLUSHES - 1}-{key}" for key in range(6)}
    compact = create_small_files(workbench)
    assert workbench.run_spark_sql(compact)[0].rewritten_data_files_count == 4
    ordered = "SELECT name FROM lake.shop.busy ORDER BY name"
    before = server.count(connections())
    for _ in range(SESSIONS):
        assert {row.name for row in workbench.run_spark_sql(ordered)} == names
        assert workbench.run_spark_sql(compact)[0].rewritten_data_files_count == 2
    after = server.count(connections())
    assert 1 <= after.connections <= POOL
    assert after.sorters == 0, "each of these sessions made some, and each merge"
    assert after.allocators < before.allocators + SESSIONS, "each of these sessions made some"
    assert after.executions < before.executions + SESSIONS, "each of these sessions has had one"
    wait_until(lambda: server.count_entries() < before.entries + SESSIONS, f"what sessions leave on disk goes: {after}")
    wait_until(lambda: server.count_sessions() < before.sessions + SESSIONS - 1, "the sessions go", pause=SECONDS_APART)
    assert sorted((row["id"], row["part"]) for row in workbench.read_rows("small.files")) == [
        (0, 0), (0, 1), (1, 0), (1, 1),
    ]  # fmt: skip
    grown_up = looks[GROWN_UP // BETWEEN_LOOKS :]
    if len(grown_up) >= LOOKS:
        assert find_growth(grown_up, GROWTH) == {}, "\n".join(map(str, grown_up))


def test_server_remembers_few_statements_that_their_sessions_have_left_behind(
    workbench: Any, server: SparkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that is killed, or whose session ends before it has told the server, leaves such statements."""
    spark = connect_session(workbench.stack.spark_remote, {})
    monkeypatch.setattr(spark.client._stub, "ReleaseExecute", lambda *_, **__: None)
    try:
        numbers = [spark.sql(f"SELECT {number} AS n").collect()[0].n for number in range(ABANDONED + 20)]
    finally:
        close(spark)
    assert numbers == list(range(ABANDONED + 20))
    assert 0 < server.count(0).executions <= ABANDONED


@pytest.mark.repeats("test_server_keeps_nothing_of_sessions_that_have_ended[postgresql]")
def test_sessions_have_the_bounds_that_the_server_sets(spark: Any) -> None:
    read = spark.conf.get
    assert read("spark.sql.parser.manageParserCaches") == "true", "else nothing bounds what the parser keeps"
    assert 0 < float(read("spark.sql.parser.parserDfaCacheFlushRatio")) <= 25
    assert read("spark.sql.codegen.cache.maxEntries") == "1000"


def test_session_goes_on_after_the_database_has_closed_its_connections(workbench: Any, database: PostgreSQL) -> None:
    workbench.properties["uri"] = f"postgresql+psycopg2://{database.user}@127.0.0.1:{database.port}/postgres"
    workbench.run_spark_sql("CREATE NAMESPACE lake.again")
    closed = database.read_rows(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OF_SPARK}")
    assert closed, "a connection stays open for the next session"
    assert {row.namespace for row in workbench.run_spark_sql("SHOW NAMESPACES IN lake")} >= {"again"}


@pytest.mark.repeats("test_session_goes_on_after_the_database_has_closed_its_connections")
def test_worker_goes_on_after_the_database_has_closed_its_connections(workbench: Any, database: PostgreSQL) -> None:
    workbench.properties["uri"] = f"postgresql://{database.user}@127.0.0.1:{database.port}/postgres"
    catalog = Catalogs({"lake": workbench.properties}).catalog("lake")
    catalog.create_namespace_if_not_exists("once")
    closed = database.read_rows(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres' AND pid <> pg_backend_pid()"
    )
    assert closed, "a connection stays open for the next question"
    assert ("once",) in catalog.list_namespaces()
