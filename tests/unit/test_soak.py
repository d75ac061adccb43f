"""A soak lasts for hours: when its test is killed from outside, the processes that flush for it end with it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from conftest import ROOT, wait_until

NOWHERE = "127.0.0.1:1"
PIPELINE = """
source:
  topics: [t]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables: [{name: lake.soak.t}]
merge: {interval: 1s}
"""
# what stands in the place of the soak's test: two of its runners, which find no broker
STARTER = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from soak.world import Runner

world = SimpleNamespace(folder=Path(sys.argv[1]), environment={**os.environ})
print(*(Runner(world, name).process.pid for name in ("runner", "second")), flush=True)
signal.pause()
"""


@contextmanager
def start_soak(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", list[psutil.Process]]]:
    include = folder / "include"
    (include / "pipelines").mkdir(parents=True)
    (include / "pipelines" / "t.yaml").write_text(PIPELINE)
    lake = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/warehouse"}
    (include / "catalogs.yaml").write_text(json.dumps({"lake": {"type": "iceberg", "properties": lake}}))
    path = os.pathsep.join(str(ROOT / name) for name in (".", "plugins", "jobs", "tests"))
    servers = {"KAFKA_BOOTSTRAP": NOWHERE, "SPARK_REMOTE": f"sc://{NOWHERE}"}
    environment = {**os.environ, **servers, "PYTHONPATH": path, "TIDEGATE_INCLUDE": str(include)}
    command = [sys.executable, "-c", STARTER, str(folder)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        runners = [psutil.Process(int(pid)) for pid in starter.stdout.readline().split()]
        try:
            yield starter, runners
        finally:
            starter.kill()
            for runner in runners:
                if is_alive(runner):
                    runner.kill()


def is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "asked to end"])
def test_runners_of_a_soak_end_with_the_test_that_started_them(tmp_path: Path, signal_number: signal.Signals) -> None:
    """Also one that sleeps, as a fault lets it."""
    with start_soak(tmp_path) as (starter, runners):
        assert len(runners) == 2
        for runner in runners:
            wait_until(lambda runner=runner: runner.cmdline()[1:4] == ["-m", "tidegate", "run"], "a runner")
        runners[1].suspend()
        starter.send_signal(signal_number)
        starter.wait(60)
        wait_until(lambda: not any(map(is_alive, runners)), "the end of both runners")
