"""What one flush asks of the real catalog and of the Spark server: bounded, and no more for a later batch."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from conftest import DEADLINE_SECONDS
from fakes.counted import Calls
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql.connect.client.core import SparkConnectClient
from tidegate.flush.flush import flush

ROUNDS = 3
# loads of a table's metadata and commits, beside those that Spark makes itself
MOST = {
    "plan": {"load_table": 3},
    "stage": {"load_table": 5, "commit_table": 1},  # by which the attempt counts, once the topics' ids are compared
    "flush": {"load_table": 1},
    "merge": {"load_table": 11, "commit_table": 2},  # each commit loads the table once more
    "record_history": {"load_table": 2, "commit_table": 1},
    "commit_offsets": {"load_table": 2},
    "clean_up": {"load_table": 5, "commit_table": 1},
    "heartbeat": {"load_table": 2},
}
# requests to the Spark server: a session's settings are one, and a plan that is run is not analysed beforehand
MOST_REQUESTS = {"stage": {"config": 5, "execute": 2}, "merge": {"config": 4, "execute": 1}}
REQUESTS = {"config": "config", "_analyze": "analyze", "_execute_and_fetch": "execute"}
PROCESS_EVENTS = """<?xml version="1.0" encoding="UTF-8"?>
<configuration version="2.0">
<event name="jdk.ProcessStart"><setting name="enabled">true</setting></event>
</configuration>
"""


@pytest.fixture
def workbench(own_workbench):
    """Runs on its own server, where requests of other tests neither add processes nor delay any."""
    return own_workbench


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    counted = Calls()
    for verb in ("load_table", "commit_table", "list_tables", "list_namespaces"):
        original = getattr(SqlCatalog, verb)

        def note_call(self, *given, _verb=verb, _original=original, **named):
            counted.note(_verb)
            return _original(self, *given, **named)

        monkeypatch.setattr(SqlCatalog, verb, note_call)
    return counted


@pytest.mark.repeats(
    "unit/scenarios/test_catalog_round_trips.py::test_flush_asks_a_fixed_number_of_times_for_each_table"
)
def test_flush_loads_and_commits_a_fixed_number_of_times(workbench, calls: Calls) -> None:
    topic = workbench.topic()
    workbench.pipeline("counted", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value={"schema": "id BIGINT"})
    calls_by_flush: list[dict[str, Counter[str]]] = []
    for number in range(ROUNDS):
        workbench.produce(topic, ({"id": number}, {"id": number}))
        calls.by_step = {}
        with calls.watch_calls():
            flush(workbench.open_session("counted"))
        calls_by_flush.append(calls.by_step)
    steady = calls_by_flush[-1]
    assert {step: dict(counts) for step, counts in steady.items() if counts - Counter(MOST.get(step, {}))} == {}
    assert calls_by_flush[-1] == calls_by_flush[-2]


def test_flush_sends_few_requests_to_the_spark_server_and_starts_no_process_for_its_files(
    workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first flush, which creates all folders, shows the processes, and the second one the requests.

    A new server asks once for the system that it runs on: another pipeline's flush lets it.
    """
    topic = workbench.topic()
    workbench.produce(topic, *(({"id": number}, {"id": number}) for number in range(2)))
    for name in ("other", "asked"):
        workbench.pipeline(name, [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value={"schema": "id BIGINT"})
    workbench.flush("other")
    with record_processes(workbench, tmp_path) as commands:
        workbench.flush("asked")
    assert {command.split()[0] for command in commands} <= {"rm"}  # Spark's own, for the folder of a session
    modes = {oct(path.stat().st_mode & 0o777) for path in workbench.list_data_files("shop.asked")}
    assert modes == {oct(0o644)}

    requests = count_requests(monkeypatch)
    workbench.produce(topic, ({"id": 1}, {"id": 1}))
    with requests.watch_calls():
        flush(workbench.open_session("asked"))
    assert set(requests.by_step) == set(MOST_REQUESTS)
    more = {step: counts - Counter(MOST_REQUESTS[step]) for step, counts in requests.by_step.items()}
    assert {step: dict(counts) for step, counts in more.items() if counts} == {}


def count_requests(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Counts the requests of this process to the Spark server from now on."""
    requests = Calls()
    for method, verb in REQUESTS.items():
        original = getattr(SparkConnectClient, method)

        def note_call(self, *given, _verb=verb, _original=original, **named):
            requests.note(_verb)
            return _original(self, *given, **named)

        monkeypatch.setattr(SparkConnectClient, method, note_call)
    return requests


@contextmanager
def record_processes(workbench, folder: Path) -> Iterator[list[str]]:
    """The commands that the Spark server's JVM starts meanwhile, by its own flight recorder."""
    commands, recording, settings = [], folder / "processes.jfr", folder / "processes.jfc"
    settings.write_text(PROCESS_EVENTS)
    pid = workbench.stack.build_environment()["SPARK_PID"]
    tools = Path(psutil.Process(int(pid)).exe()).parent
    run(tools / "jcmd", pid, "JFR.start", "name=processes", f"settings={settings}")
    try:
        yield commands
    finally:
        run(tools / "jcmd", pid, "JFR.stop", "name=processes", f"filename={recording}")
    printed = run(tools / "jfr", "print", "--json", "--events", "jdk.ProcessStart", recording)
    commands += [event["values"]["command"] for event in json.loads(printed)["recording"]["events"]]


def run(*words: object) -> str:
    return subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=True
    ).stdout
