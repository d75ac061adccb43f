"""Jobs come and go, each in a session of its own: the Spark server keeps no connection and no file for any of them.

`make soak` runs as many flushes as it does batches; a build runs one for each catalog, and sessions that only read.
"""

import os
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from conftest import wait_until
from postgres import PostgreSQL

FLUSHES = int(os.environ.get("SOAK_BATCHES", "1"))
SESSIONS = 20
POOL = 2  # connections of one JDBC catalog, by Iceberg's default
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
OF_SPARK = "application_name = 'PostgreSQL JDBC Driver'"
LONG = 100  # flushes after which a server is grown up: its pools of threads, and the consumers that executors keep
GROWTH = 40  # of threads or descriptors from then on, by chance; one for each of as many sessions is far more


@pytest.fixture(scope="module")
def database() -> Iterator[PostgreSQL]:
    server = PostgreSQL()
    try:
        wait_until(server.is_ready, "PostgreSQL takes connections")
        yield server
    finally:
        server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def lake(request: pytest.FixtureRequest, workbench: Any, database: PostgreSQL) -> Iterator[Any]:
    """How many connections to the workbench's catalog the Spark server has open."""
    if request.param == "sqlite":
        yield partial(open_files, workbench, str(workbench.folder / "catalog.db"))
        return
    uri = f"postgresql+psycopg2://{database.user}@127.0.0.1:{database.port}/{database.database}"
    workbench.properties["uri"] = uri
    catalogs = {"lake": {"type": "iceberg", "properties": workbench.properties}}
    (workbench.include / "catalogs.yaml").write_text(yaml.safe_dump(catalogs))
    yield lambda: len(database.rows(f"SELECT pid FROM pg_stat_activity WHERE {OF_SPARK}"))


def server(workbench: Any) -> psutil.Process:
    return psutil.Process(int(workbench.stack.environment()["SPARK_PID"]))


def open_files(workbench: Any, path: str = "") -> int:
    """Descriptors of the server, of those alone that stand for the file where one is named."""
    folder = Path(f"/proc/{server(workbench).pid}/fd")
    targets = Counter(os.path.realpath(entry) for entry in folder.iterdir())
    return targets[path] if path else targets.total()


def flush(workbench: Any, topic: str, number: int) -> None:
    rows = [({"id": key}, {"id": key, "name": f"{number}-{key}"}, {"partition": key % 2}) for key in range(6)]
    workbench.produce(topic, *rows)
    workbench.flush("busy")


def test_server_keeps_no_connection_of_a_session_that_has_ended(workbench: Any, lake: Any) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("busy", [topic], key=KEY, value=VALUE)
    seen = []
    for number in range(FLUSHES):
        flush(workbench, topic, number)
        process = server(workbench)
        seen.append((open_files(workbench), process.num_threads()))
        if number % 20 == 19:
            megabytes = process.memory_info().rss // 1_000_000
            print(f"flushes={number + 1} connections={lake()} files and threads={seen[-1]} megabytes={megabytes}")
    for _ in range(SESSIONS):
        assert workbench.spark_sql("SELECT count(*) AS rows FROM lake.shop.busy")[0].rows == 6
    assert 1 <= lake() <= POOL
    assert {row["name"] for row in workbench.rows("shop.busy")} == {f"{FLUSHES - 1}-{key}" for key in range(6)}
    if FLUSHES >= 2 * LONG:
        files, threads = (max(counts[-LONG:]) - max(counts[:LONG]) for counts in zip(*seen, strict=True))
        assert max(files, threads) <= GROWTH, seen


def test_session_goes_on_after_the_database_has_closed_its_connections(workbench: Any, database: PostgreSQL) -> None:
    workbench.properties["uri"] = f"postgresql+psycopg2://{database.user}@127.0.0.1:{database.port}/postgres"
    workbench.spark_sql("CREATE NAMESPACE lake.again")
    closed = database.rows(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {OF_SPARK}")
    assert closed, "a connection stays open for the next session"
    assert {row.namespace for row in workbench.spark_sql("SHOW NAMESPACES IN lake")} >= {"again"}
