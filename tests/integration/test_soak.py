"""Many small batches, and kills of the runner at any moment: the table is right, and no leftover exists.

`make soak` runs many more batches than a build does. Both have a seed, which a failure prints.
"""

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from conftest import wait_until
from crash.points import Point
from tidegate.errors import TidegateError
from tidegate.reprocess.verify import verify_table

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
BATCHES = int(os.environ.get("SOAK_BATCHES", "8"))
SEED = int(os.environ.get("SOAK_SEED", "7"))
WITH_A_BRANCH = Point.parse("merge/engine.run:after:1")
LONGEST_LIFE = 12.0  # seconds after which no kill comes any more: a flush in a process of its own is over by then
TABLE, STAGED, CONTROL = "shop.soak", "shop.soak_soak_tmp", "shop.tidegate_soak_batches"


def make_changes(chance: random.Random, number: int, model: dict[int, str]) -> Iterator[tuple[Any, ...]]:
    """A few upserts and deletes, each key in a partition of its own; the model follows."""
    for key in chance.sample(range(40), 6):
        name = None if chance.random() < 0.2 else f"{number}-{key}"
        model.pop(key, None)
        if name is not None:
            model[key] = name
        yield {"id": key}, name and {"id": key, "name": name}, {"partition": key % 2}


def flush_and_perhaps_kill(workbench: Any, chance: random.Random) -> bool:
    """Flush in its own process; return whether it was killed."""
    life = chance.uniform(0.5, LONGEST_LIFE) if chance.random() < 0.5 else 180.0
    runner = subprocess.Popen(
        workbench.build_command("flush", "soak"),
        env=workbench.build_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        runner.wait(life)
    except subprocess.TimeoutExpired:
        runner.kill()
        runner.wait(30)
    return runner.returncode < 0


def is_at_rest(workbench: Any) -> bool:
    """Flush; return whether no leftover of a batch exists. Spark may still work for a runner that is dead."""
    with suppress(TidegateError):
        workbench.drain("soak")
    staged = workbench.load_iceberg(STAGED)
    return (
        workbench.list_data_files(STAGED) == []
        and workbench.read_rows(STAGED) == []
        and set(workbench.load_iceberg(TABLE).metadata.refs) == {"main", "tidegate_soak"}
        and not [name for name in staged.properties if name.startswith(("tidegate.counted.", "tidegate.staged."))]
    )


def list_metadata_files(workbench: Any, table: str) -> list[Path]:
    location = Path(workbench.load_iceberg(table).location().removeprefix("file://"))
    return sorted(path for path in (location / "metadata").iterdir() if path.suffix != ".crc")


@pytest.mark.repeats("integration/test_faults.py::test_flush_killed_by_the_operating_system_is_finished_by_the_next")
def test_batches_with_kills_end_in_the_right_table_and_leave_nothing_behind(workbench, runners) -> None:
    chance, model = random.Random(SEED), dict[int, str]()
    topic = workbench.topic(2)
    workbench.pipeline("soak", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *make_changes(chance, 0, model))
    workbench.drain("soak")
    killed = 0
    for number in range(1, BATCHES):
        workbench.produce(topic, *make_changes(chance, number, model))
        killed += flush_and_perhaps_kill(workbench, chance)
    workbench.produce(topic, *make_changes(chance, BATCHES, model))
    last = runners.run(workbench.build_environment(), "flush", "soak", at=WITH_A_BRANCH, kind="killed")
    assert (last.code, last.fault_happened) == (-signal.SIGKILL, True), last  # so that no soak is without a kill
    killed += 1
    wait_until(lambda: is_at_rest(workbench), f"nothing is left behind: seed={SEED} killed={killed}")
    assert {row["id"]: row["name"] for row in workbench.read_rows(TABLE)} == model, f"seed={SEED} killed={killed}"
    assert workbench.committed("soak") == workbench.read_ends(topic)
    names = {
        ".".join(name) for name in workbench.open_session("soak").tables.catalogs.catalog("lake").list_tables("shop")
    }
    assert names == {TABLE, STAGED, CONTROL}
    found = verify_table(workbench.open_session("soak"), f"lake.{TABLE}")
    assert (found.equal, found.wrong, found.unknowable) == (len(model), 0, 0), f"seed={SEED} killed={killed}"
    assert len(workbench.load_iceberg(STAGED).metadata.snapshots) == 1
    counted = {table: len(list_metadata_files(workbench, table)) for table in (TABLE, STAGED, CONTROL)}
    print(f"batches={BATCHES} killed={killed} seed={SEED} metadata files: {counted}")
    assert counted[STAGED] <= 20 + 3 * killed, counted
