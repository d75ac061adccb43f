"""Keys of an object store, from a connection or from the catalog: both sides use them, and no output shows them."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import ROOT, Workbench
from fault_proxy import run_fault_proxy
from integration.test_security import find_files_with
from lake_servers import LakeBench, LakeCatalog, LakeServers
from tidegate.adapters.iceberg.catalog_conf import build_spark_catalog_conf
from tidegate.spec.pipeline import Catalog
from tidegate_spark.session import close, connect_session

from local.lake.catalog import Secrets, describe_catalog

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
ROWS = [{"id": 1, "name": "A"}, {"id": 3, "name": "c"}]


def flush_twice(bench: LakeBench, **sections: Any) -> list["subprocess.CompletedProcess[str]"]:
    """Flush a pipeline `p` with upserts and a delete, each command in its own process; return the processes."""
    topic = bench.topic()
    bench.pipeline("p", [topic], key=KEY, value=VALUE, **sections)
    bench.produce(topic, *(({"id": id}, {"id": id, "name": name}) for id, name in ((1, "a"), (2, "b"), (3, "c"))))
    processes = [bench.run_process("-v", "flush", "p", "--json")]
    bench.produce(topic, ({"id": 1}, {"id": 1, "name": "A"}), ({"id": 2}, None))
    processes += [
        bench.run_process("-v", *words, "--json") for words in (("plan", "p"), ("flush", "p"), ("status", "p"))
    ]
    assert [process.returncode for process in processes] == [0] * len(processes), processes[-1].stderr[-2000:]
    assert bench.read_rows("shop.p") == ROWS
    return processes


def assert_shown_nowhere(bench: LakeBench, processes: list["subprocess.CompletedProcess[str]"], *folders: Path) -> None:
    """No output of the processes, no file below the folders and no metadata of the table has the keys."""
    names = ("s3.access-key-id", "s3.secret-access-key")
    secrets = [bench.properties[name] for name in names] + [
        json.loads(bench.catalog.environment["AIRFLOW_CONN_LAKE"])["password"]
    ]
    texts = [process.stdout + process.stderr for process in processes] + [
        bench.load_iceberg("shop.p").metadata.model_dump_json()
    ]
    for secret in secrets:
        assert not [text for text in texts if secret in text]
        assert find_files_with(secret, *folders) == []


@pytest.fixture
def bench(own_workbench: Workbench, lake_servers: LakeServers, tmp_path: Path) -> LakeBench:
    """A catalog with a log-in to its database and keys to its store, all from one connection.

    On a Spark server of its own: every file of its folder is read, and a shared one writes and removes files meanwhile.
    """
    return LakeBench(own_workbench, lake_servers.make_catalog("postgres", "s3", tmp_path))


# a setting that hides a secret by its name, of sessions and of applications
@pytest.mark.repeats(
    "unit/tidegate/test_redaction.py::test_secret_of_a_catalog_is_hidden_by_its_name_in_sessions_and_in_applications"
)
def test_keys_of_a_connection_serve_both_sides_and_show_in_no_output_session_or_file(bench: LakeBench) -> None:
    processes = flush_twice(bench)
    assert_shown_nowhere(bench, processes, bench.folder, bench.stack.run_dir)
    conf = build_spark_catalog_conf(Catalog("lake", "iceberg", bench.properties), bench.properties)
    session = connect_session(bench.stack.spark_remote, conf)
    try:
        settings = {row["key"]: row["value"] for row in session.sql("SET").collect()}
    finally:
        close(session)
    hidden_names = {name for name, value in settings.items() if value == "*********(redacted)"}
    assert {
        f"spark.sql.catalog.lake.{name}" for name in ("s3.access-key-id", "s3.secret-access-key", "jdbc.password")
    } <= hidden_names


@contextmanager
def record_command_lines() -> Iterator[set[str]]:
    """Those of all processes that there are meanwhile."""
    command_lines, stop = set[str](), threading.Event()

    def look() -> None:
        while not stop.wait(0.5):
            command_lines.update(
                " ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"])
            )

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield command_lines
    finally:
        stop.set()
        looking.join()


# a setting that hides a secret by its name, of sessions and of applications
@pytest.mark.repeats(
    "unit/tidegate/test_redaction.py::test_secret_of_a_catalog_is_hidden_by_its_name_in_sessions_and_in_applications"
)
def test_keys_show_in_no_event_log_and_on_no_command_line_of_a_submitted_job(bench: LakeBench) -> None:
    events = bench.folder / "events"
    events.mkdir()
    bundle = next((ROOT / ".cache" / "jars" / "s3").glob("*.jar"))
    logged = {
        "spark.eventLog.enabled": True,
        "spark.eventLog.compress": False,
        "spark.eventLog.dir": f"file://{events}",
    }
    place = {"mode": "submit", "master": "local[1]", "conf": {**logged, "spark.driver.extraClassPath": str(bundle)}}
    with record_command_lines() as lines:
        processes = flush_twice(bench, spark=place)
    assert find_files_with("s3.secret-access-key", events), "the event log tells of no such setting"
    assert_shown_nowhere(bench, processes, bench.folder)
    assert [line for line in lines if "spark-submit" in line or "SparkSubmit" in line]
    assert not [line for line in lines if bench.properties["s3.secret-access-key"] in line]


# keys handed out at another place of the answer, for longer, not renewed, or for ever by a server; and log-ins
@pytest.mark.repeats(
    "integration/test_lake_expiry.py::test_merge_outlasts_its_keys_and_asks_for_newer_ones[short-config]"
)
def test_keys_that_the_catalog_hands_out_are_the_only_ones_in_use(workbench, lake_servers, tmp_path: Path) -> None:
    vended = Secrets("", "vended-access-key", "vended-secret-key")
    variables = lake_servers.variables
    with (
        lake_servers.vending_catalog(tmp_path / "vending", vended) as uri,
        run_fault_proxy(uri) as rest,
        run_fault_proxy(variables["S3_ENDPOINT"]) as store,
    ):
        entry = describe_catalog({"REST_CATALOG_URI": rest.address, "S3_ENDPOINT": store.address}, tmp_path)
        bench = LakeBench(workbench, LakeCatalog(entry, {}))
        topic = bench.topic()
        bench.pipeline("p", [topic], key=KEY, value=VALUE)
        bench.produce(topic, *(({"id": id}, {"id": id, "name": name}) for id, name in ((1, "a"), (2, "b"), (3, "c"))))
        bench.flush("p")
        bench.produce(topic, ({"id": 1}, {"id": 1, "name": "A"}), ({"id": 2}, None))
        bench.flush("p")
        assert bench.read_rows("shop.p") == ROWS
        delegations = {
            (r.headers["user-agent"].startswith("PyIceberg"), r.headers.get("x-iceberg-access-delegation"))
            for r in rest.requests
        }
        assert delegations == {(True, "vended-credentials"), (False, "vended-credentials")}
        assert store.access_keys == {vended.access_key}
