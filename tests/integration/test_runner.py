"""`tidegate run`: pipelines and a publication in one process that stays, beside a failing one, until it is stopped."""

import json
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from background_server import tie_to_test
from conftest import wait_until
from round_trip import read
from tidegate.monitoring.status import read_status

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
DEADLINE_SECONDS = 600
PIN = "tidegate-publication-"  # of the snapshot that the next run of a publication begins at


class Run:
    """The command in its own process, and its output so far."""

    def __init__(self, workbench: Any, *words: str) -> None:
        self._workbench, self.out, self.errors = workbench, workbench.folder / "out", workbench.folder / "errors"
        with self.out.open("w") as out, self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                tie_to_test(workbench.build_command("run", "--json", *words)),
                env=workbench.build_environment(),
                stdout=out,
                stderr=errors,
            )

    def read_events(self, kind: str, work: str) -> list[dict[str, Any]]:
        events = [json.loads(line) for line in self.out.read_text().splitlines()]
        return [event for event in events if event["event"] == kind and event["work"] == work]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(DEADLINE_SECONDS)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)


@pytest.fixture
def started() -> Iterator[list[Run]]:
    """Runs that a test has started."""
    runs: list[Run] = []
    yield runs
    for run in runs:
        run.end()


def produce(workbench: Any, topic: str, **names: str | None) -> None:
    records = []
    for key, name in names.items():
        number = int(key[1:])
        records.append(({"id": number}, name and {"id": number, "name": name}, {"partition": number % 2}))
    workbench.produce(topic, *records)


def read_table(workbench: Any, name: str) -> dict[int, str]:
    rows = workbench.read_rows(f"shop.{name}") if workbench.exists(f"shop.{name}") else []
    return {row["id"]: row["name"] for row in rows}


def publish(workbench: Any, name: str, topic: str) -> None:
    (workbench.include / "publications").mkdir()
    text = f"{{table: lake.shop.{name}, topic: {topic}, key: {{fields: [id]}}, state_topic: {topic}-state}}"
    (workbench.include / "publications" / f"{name}_out.yaml").write_text(text)


def read_latest_values(workbench: Any, topic: str) -> dict[str, str]:
    values = {m.key(): m.value() for m in read(workbench, topic)}
    return {key.decode(): json.loads(value)["name"] for key, value in values.items() if value is not None}


# pipelines that come, change, break beside another and go; calls and failures look by look in unit tests
@pytest.mark.repeats("test_files_that_come_change_and_go_are_followed")
def test_pipelines_flush_on_their_own_and_a_failing_one_stops_none_of_them(workbench: Any, started: list[Run]) -> None:
    timed, counted, poisoned = (workbench.topic(2) for _ in range(3))
    out = f"out-{timed}"
    workbench.pipeline("timed", [timed], key=KEY, value=VALUE, merge={"interval": "1s"})
    merge = {"interval": -1, "records_threshold": 4}
    workbench.pipeline("counted", [counted], key=KEY, value=VALUE, merge=merge)
    workbench.pipeline("poisoned", [poisoned], key=KEY, value=VALUE, merge={"interval": "1s"})
    publish(workbench, "timed", out)
    produce(workbench, timed, k1="a", k2="b", k3="c")
    produce(workbench, counted, k1="a", k2="b", k3="c")
    produce(workbench, poisoned, k1="a", k2="b")
    workbench.produce(poisoned, ({"id": 3}, "not JSON", {"partition": 1}))

    started.append(run := Run(workbench))
    wait_until(
        lambda: read_table(workbench, "timed") == {1: "a", 2: "b", 3: "c"}, "the first rows are there", DEADLINE_SECONDS
    )
    wait_until(lambda: len(read_latest_values(workbench, out)) == 3, "they are published", DEADLINE_SECONDS)
    wait_until(lambda: run.read_events("failed", "pipeline=poisoned"), "the bad record is told", DEADLINE_SECONDS)
    produce(workbench, timed, k1="a2", k2=None)
    produce(workbench, counted, k4="d")
    wait_until(lambda: read_table(workbench, "timed") == {1: "a2", 3: "c"}, "an update and a delete", DEADLINE_SECONDS)
    wait_until(
        lambda: read_table(workbench, "counted") == {1: "a", 2: "b", 3: "c", 4: "d"},
        "four records wait",
        DEADLINE_SECONDS,
    )
    wait_until(
        lambda: read_latest_values(workbench, out) == {'{"id":1}': "a2", '{"id":3}': "c"},
        "changes go out",
        DEADLINE_SECONDS,
    )
    assert read_table(workbench, "poisoned") == {}
    assert [event["runs"] for event in run.read_events("failed", "pipeline=poisoned")][:2] in ([1], [1, 2])

    skipped = workbench.run_cli("skip", "poisoned", "--at", f"{poisoned}:1:1", "--yes")
    assert skipped.returncode == 0, skipped
    wait_until(
        lambda: read_table(workbench, "poisoned") == {1: "a", 2: "b"},
        "the others' rows, skipped by hand",
        DEADLINE_SECONDS,
    )
    wait_until(lambda: run.read_events("recovered", "pipeline=poisoned"), "that is told too", DEADLINE_SECONDS)

    assert run.stop() == 0, run.errors.read_text()
    assert run.read_events("failed", "pipeline=timed") == run.read_events("failed", "pipeline=counted") == []
    for name, topic in (("timed", timed), ("counted", counted), ("poisoned", poisoned)):
        assert workbench.committed(name) == workbench.read_ends(topic)
        refs = workbench.load_iceberg(f"shop.{name}").metadata.refs
        assert {ref for ref in refs if not ref.startswith(PIN)} == {"main", f"tidegate_{name}"}
        assert workbench.list_data_files(f"shop.{name}_{name}_tmp") == []


def test_files_that_come_change_and_go_are_followed(workbench: Any, started: list[Run]) -> None:
    first, later = workbench.topic(2), workbench.topic(2)
    workbench.pipeline("first", [first], key=KEY, value=VALUE, merge={"interval": "1h"})
    produce(workbench, first, k1="a", k2="b")
    started.append(run := Run(workbench))
    wait_until(
        lambda: read_table(workbench, "first") == {1: "a", 2: "b"}, "what is there is flushed at once", DEADLINE_SECONDS
    )
    produce(workbench, first, k3="c")
    produce(workbench, later, k1="x", k2="y")
    workbench.pipeline("later", [later], key=KEY, value=VALUE, merge={"interval": "1s"})
    wait_until(
        lambda: read_table(workbench, "later") == {1: "x", 2: "y"}, "a file that is added begins", DEADLINE_SECONDS
    )
    workbench.pipeline("first", [first], key=KEY, value=VALUE, merge={"interval": "2h"})
    wait_until(
        lambda: read_table(workbench, "first") == {1: "a", 2: "b", 3: "c"},
        "a changed file is due at once",
        DEADLINE_SECONDS,
    )
    file = Path(workbench.include / "pipelines" / "first.yaml")
    text = file.read_text()
    file.write_text("source: [")
    wait_until(lambda: run.read_events("failed", "pipeline=first"), "a broken file is told", DEADLINE_SECONDS)
    produce(workbench, first, k4="d")
    file.write_text(text)
    wait_until(lambda: len(read_table(workbench, "first")) == 4, "the fixed file goes on", DEADLINE_SECONDS)
    file.unlink()
    produce(workbench, later, k3="z")
    wait_until(lambda: len(read_table(workbench, "later")) == 3, "the other goes on", DEADLINE_SECONDS)
    assert run.stop() == 0, run.errors.read_text()


@pytest.mark.repeats("unit/tidegate/cli/test_main.py::test_pipeline_that_has_no_file_exits_with_1_and_names_it")
def test_names_that_are_unknown_or_wrong_are_refused_before_anything_begins(workbench: Any) -> None:
    unknown = workbench.run_cli("run", "nobody")
    refusal = (
        f"pipeline=nobody: no such pipeline; there are: none in {workbench.include}/pipelines; write its file there, "
        "or set TIDEGATE_INCLUDE to the folder that has it\n"
    )
    assert (unknown.returncode, unknown.stderr) == (1, refusal)
    workbench.pipeline("wrong", [workbench.topic(2)], key=KEY, value={"schema": "id WHAT"})
    wrong = workbench.run_cli("run", "wrong")
    assert wrong.returncode == 1
    assert "WHAT" in wrong.stderr


@pytest.mark.repeats(
    "unit/tidegate/runner/test_work.py::test_daily_pipeline_beats_at_the_interval_of_its_heartbeat_and_a_quick_one_at_its_flushes_alone"
)
def test_daily_pipeline_beats_at_its_heartbeats_interval_and_flushes_once(workbench: Any, started: list[Run]) -> None:
    topic = workbench.topic(2)
    beats = f"beats-{topic}"
    heartbeat = {"interval": "2s", "produce": True, "topic": beats}
    workbench.pipeline("daily", [topic], key=KEY, value=VALUE, merge={"interval": "1d"}, heartbeat=heartbeat)
    produce(workbench, topic, k1="a", k2="b")
    started.append(run := Run(workbench))
    wait_until(lambda: read_table(workbench, "daily") == {1: "a", 2: "b"}, "it is flushed once", DEADLINE_SECONDS)
    produce(workbench, topic, k3="c")
    wait_until(lambda: len(read(workbench, beats)) >= 3, "it beats without a flush", DEADLINE_SECONDS)
    last = json.loads(read(workbench, beats)[-1].value())
    assert (last["lag"], read_table(workbench, "daily")) == (1, {1: "a", 2: "b"})
    assert run.stop() == 0, run.errors.read_text()
    assert run.read_events("failed", "pipeline=daily") == run.read_events("failed", "pipeline=daily heartbeat") == []


def has_staged_since(run: Run, before: int) -> bool:
    return len(run.read_events("staged", "pipeline=timed stage")) > before


@pytest.mark.repeats(
    "unit/tidegate/runner/test_work.py::test_pipeline_with_two_clocks_stages_and_merges_each_at_its_own_time"
)
def test_runner_stages_while_merges_wait_for_their_time_or_for_enough_rows(workbench: Any, started: list[Run]) -> None:
    timed, counted = (workbench.topic(2) for _ in range(2))
    stage = {"interval": "1s"}
    workbench.pipeline("timed", [timed], key=KEY, value=VALUE, stage=stage, merge={"interval": "20s"})
    merge = {"interval": -1, "records_threshold": 4}
    workbench.pipeline("counted", [counted], key=KEY, value=VALUE, stage=stage, merge=merge)
    produce(workbench, timed, k1="a", k2="b")
    produce(workbench, counted, k1="a", k2="b", k3="c")

    started.append(run := Run(workbench))
    wait_until(
        lambda: read_table(workbench, "timed") == {1: "a", 2: "b"}, "the first rows are merged", DEADLINE_SECONDS
    )
    for key in ("k3", "k4"):
        before = len(run.read_events("staged", "pipeline=timed stage"))
        produce(workbench, timed, **{key: "c"})
        wait_until(partial(has_staged_since, run, before), "a batch is staged", DEADLINE_SECONDS)
    wait_until(lambda: run.read_events("staged", "pipeline=counted stage"), "three rows are staged", DEADLINE_SECONDS)
    assert read_table(workbench, "counted") == {}
    (status,) = read_status(workbench.open_session("counted"))["tables"]
    assert (status["batch"], status["open_batches"]) == (None, [1])
    produce(workbench, counted, k4="d")
    wait_until(lambda: len(read_table(workbench, "counted")) == 4, "the fourth row calls the merge", DEADLINE_SECONDS)
    wait_until(lambda: len(read_table(workbench, "timed")) == 4, "the next merge takes both batches", DEADLINE_SECONDS)
    assert run.stop() == 0
    assert run.errors.read_text().count("failed") == 0
    assert workbench.committed("counted") == workbench.read_ends(counted)
