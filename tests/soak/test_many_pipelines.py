"""Fifty pipelines on two catalogs, an object store and three guarded brokers, under a fault each minute.

`SOAK_MINUTES` is its length, two hours where it is run before a release. `SOAK_FAULTS=none` leaves the faults out: then
every server lives through it, and none may keep more from flush to flush.
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from conftest import wait_until
from e2e.executors.verdict import wait_until_clean
from postgres import ALLOWED_WITHOUT
from spark_counts import find_growth

from soak import verdict
from soak.faults import FAULTS
from soak.pipelines import CATALOGS, PIPELINES, list_pipelines
from soak.traffic import Traffic
from soak.world import DEADLINE_SECONDS, Look, World, run_world

MINUTES = float(os.environ.get("SOAK_MINUTES", "3"))
SEED = int(os.environ.get("SOAK_SEED", "11"))
COUNT = int(os.environ.get("SOAK_PIPELINES", str(PIPELINES)))
HAS_FAULTS = os.environ.get("SOAK_FAULTS", "") != "none"
BETWEEN_FAULTS_SECONDS = 60.0
INTERVAL_SECONDS = 20
SHARED = 10  # pipelines that both runners have
LOOKS = 8  # as many at least of one process, to tell growth from chance
# from one half of the looks to the other, by chance
SPARK_GROWTH = {"descriptors": 60, "threads": 60, "sessions": 40, "live_megabytes": 60}
RUNNER_GROWTH = {"runner_descriptors": 40, "runner_threads": 20, "runner_megabytes": 150}
MOST_CONNECTIONS = 40  # of Spark to the catalog's database: a pool of two for each session that is open


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    if os.environ.get(ALLOWED_WITHOUT):
        pytest.skip(f"skipped: {ALLOWED_WITHOUT} is set")
    with run_world(tmp_path) as soak_world:
        yield soak_world


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
def test_every_table_equals_its_topic_after_faults_and_nothing_grows(world: World) -> None:
    chance, pipelines = random.Random(SEED), list_pipelines(COUNT)
    world.write_pipelines(pipelines, INTERVAL_SECONDS)
    traffic = Traffic(world.stack.kafka_admin, pipelines, chance)
    traffic.begin()
    world.start_runners(*(pipeline.name for pipeline in pipelines[:SHARED]))
    wait_until(lambda: len(world.list_flushed()) == COUNT, "the first flush of each pipeline", DEADLINE_SECONDS)
    looks = _live_through(world, chance)
    traffic.end()

    print(f"seed={SEED} sent={traffic.sent} flushes={world.count_flushes()}", flush=True)
    for reason, count in world.count_failures().most_common():
        print(f"failed {count} times: {reason}", flush=True)
    catalogs = {name: world.open_catalog(name) for name in CATALOGS}  # only now: their servers were killed meanwhile
    for pipeline in pipelines:
        catalog = catalogs[pipeline.catalog]
        wait_until_clean(partial(verdict.find_differences, catalog, pipeline, traffic), pipeline.name, DEADLINE_SECONDS)
        wait_until_clean(partial(verdict.find_leftovers, catalog, pipeline), pipeline.name, DEADLINE_SECONDS)
        wait_until_clean(partial(_find_lag, world, pipeline.name), pipeline.name, DEADLINE_SECONDS)
        assert verdict.find_repeats(catalog, pipeline) == []
    for pipeline in pipelines[:SHARED]:
        assert verdict.find_unverified(world.open_session(pipeline.name), pipeline) == []
    assert [runner.stop() for runner in world.runners] == [0, 0]
    for runner in world.runners:
        assert "Traceback" not in runner.log_path.read_text()
    _check_growth(looks)


def _live_through(world: World, chance: random.Random) -> list[Look]:
    """One fault each minute; all faults occur once before one is repeated. Count open resources before each."""
    looks, fault_names, end_time = list[Look](), list[str](), time.monotonic() + 60 * MINUTES
    pause = threading.Event()  # never set
    while time.monotonic() < end_time:
        start_seconds = time.monotonic()
        looks.append(world.look())
        print(f"{time.strftime('%H:%M:%S')} {looks[-1]}", flush=True)
        world.rest.requests.clear()
        world.store.requests.clear()
        if HAS_FAULTS:
            fault_names = fault_names or chance.sample(list(FAULTS), len(FAULTS))
            name = fault_names.pop()
            print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
            FAULTS[name](world)
        pause.wait(max(0.0, BETWEEN_FAULTS_SECONDS - (time.monotonic() - start_seconds)))
    world.rest.revive()
    world.store.revive()
    return looks


def _find_lag(world: World, name: str) -> list[str]:
    committed_offsets, ends = world.read_committed(name), world.read_ends(name)
    return [] if committed_offsets == ends else [f"committed {committed_offsets}, the ends are {ends}"]


def _check_growth(looks: list[Look]) -> None:
    """Nothing that one process has open or keeps grows from the first half of its life to the second."""
    assert max(look.database_connections for look in looks) <= MOST_CONNECTIONS
    last = looks[-1]
    of_spark = [look.spark for look in looks if look.spark_pid == last.spark_pid]
    if len(of_spark) >= LOOKS:
        assert find_growth(of_spark, SPARK_GROWTH) == {}
    of_runner = [look for look in looks if look.runner_pid == last.runner_pid]
    if len(of_runner) >= LOOKS:
        assert find_growth(of_runner, RUNNER_GROWTH) == {}
