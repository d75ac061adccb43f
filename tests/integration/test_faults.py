"""Servers killed and runners that meet: the table equals what one undisturbed run gives."""

import os
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from conftest import wait_until
from tidegate.errors import PublishedElsewhere, RetryLater, TidegateError
from tidegate.flush import flush
from tidegate.steps.merge import merge
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
APPEND = {"upsert": False, "delete": False}


def upsert(id, name):
    return {"id": id}, {"id": id, "name": name}


def ids(workbench, table: str) -> list[int]:
    return sorted(row["id"] for row in workbench.rows(table))


def test_two_flushes_at_once_in_processes_give_every_row_once(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("race", [topic], key=KEY, value=VALUE, table=APPEND)
    for part in range(2):
        workbench.produce(topic, *(upsert(part * 100 + n, "x") for n in range(100)))
        runners = [
            subprocess.Popen(
                workbench.command("flush", "race"),
                env=workbench.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        told = [(*runner.communicate(timeout=180), runner.returncode) for runner in runners]
        codes = sorted(code for *_, code in told)
        assert codes[0] == 0, told
        assert codes[1] in (0, 1, 3), told
        losers = [errors.splitlines()[-1] for _, errors, code in told if code]
        assert all(line.startswith("pipeline=race") for line in losers), told
    workbench.drain("race")
    assert ids(workbench, "shop.race") == list(range(200))
    assert workbench.committed("race") == {topic: {0: 200}}


def test_two_merges_at_once_of_two_attempts_publish_one(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("twins", [topic], key=KEY, value=VALUE, table=APPEND)
    workbench.produce(topic, *(upsert(n, "x") for n in range(20)))
    workbench.flush("twins")
    workbench.produce(topic, *(upsert(n, "x") for n in range(20, 40)))
    planned = plan(workbench.ports("twins"))
    batches = [stage(workbench.ports("twins"), planned)[0] for _ in range(2)]

    def merged(batch) -> str:
        try:
            return merge(workbench.ports("twins"), batch).outcome
        except TidegateError as error:
            return type(error).__name__

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(merged, batches))
    assert outcomes == ["PublishedElsewhere", "published"]
    assert ids(workbench, "shop.twins") == list(range(40))


def test_merge_that_sleeps_through_two_newer_batches_changes_nothing(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("sleeper", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, upsert(1, "old"), upsert(2, "old"))
    workbench.flush("sleeper")
    workbench.produce(topic, upsert(1, "middle"))
    ports = workbench.ports("sleeper")
    (batch,) = stage(ports, plan(ports))
    sleeping = ports.destination.publish

    def publish_late(publication) -> None:
        ports.destination.publish = sleeping
        workbench.flush("sleeper")
        workbench.produce(topic, upsert(1, "new"), ({"id": 2}, None))
        workbench.flush("sleeper")
        sleeping(publication)

    ports.destination.publish = publish_late
    with pytest.raises(PublishedElsewhere):
        merge(ports, batch)
    assert workbench.rows("shop.sleeper") == [{"id": 1, "name": "new"}]


def test_foreign_compaction_between_cut_and_publish_is_survived(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("compacted", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *(upsert(n, "x") for n in range(5)))
    workbench.flush("compacted")
    workbench.produce(topic, upsert(1, "y"))
    ports = workbench.ports("compacted")
    publish = ports.destination.publish

    def after_a_rewrite(publication) -> None:
        ports.destination.publish = publish
        workbench.spark_sql(
            "CALL lake.system.rewrite_data_files(table => 'shop.compacted', options => map('rewrite-all', 'true'))"
        )
        publish(publication)

    ports.destination.publish = after_a_rewrite
    (published,) = flush(ports).published
    assert published.outcome == "published"
    assert [(r["id"], r["name"]) for r in workbench.rows("shop.compacted")] == [
        (0, "x"), (1, "y"), (2, "x"), (3, "x"), (4, "x"),
    ]  # fmt: skip


def test_flush_killed_by_the_operating_system_is_finished_by_the_next(workbench) -> None:
    """kill -9 of the whole runner as soon as its merge has cut a branch."""
    topic = workbench.topic()
    workbench.pipeline("killed", [topic], key=KEY, value=VALUE, table=APPEND)
    workbench.produce(topic, upsert(1, "a"))
    workbench.flush("killed")
    workbench.produce(topic, *(upsert(n, "x") for n in range(2, 50)))
    runner = subprocess.Popen(
        workbench.command("flush", "killed"),
        env=workbench.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(workbench.iceberg("shop.killed").metadata.refs) > 2 or runner.poll() is not None, "cut")
    finally:
        runner.kill()
        runner.wait(30)
    workbench.drain("killed")
    assert ids(workbench, "shop.killed") == list(range(1, 50))
    assert workbench.committed("killed") == {topic: {0: 49}}
    assert workbench.data_files("shop.killed_killed_tmp") == []


def test_spark_killed_in_the_middle_of_a_merge_is_survived_by_the_retry(workbench) -> None:
    """kill -9 of the server once the merge writes files; its supervisor brings it back on the same address."""
    topic = workbench.topic()
    workbench.pipeline("spark", [topic], key=KEY, value=VALUE, table=APPEND)
    workbench.produce(topic, upsert(-1, "first"))
    workbench.flush("spark")
    workbench.produce(topic, *(upsert(n, "x" * 50) for n in range(60_000)))
    ports = workbench.ports("spark")
    (batch,) = stage(ports, plan(ports))
    before, pid = set(workbench.data_files("shop.spark")), int(workbench.stack.variables["SPARK_PID"])

    def kill_when_it_writes() -> None:
        wait_until(lambda: set(workbench.data_files("shop.spark")) != before, "the merge writes")
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_it_writes)
    killer.start()
    with suppress(RetryLater):  # the kill may come a moment after the commit on the branch
        merge(ports, batch)
    killer.join(180)
    assert not killer.is_alive()
    wait_until(lambda: workbench.stack.variables.get("SPARK_PID", str(pid)) != str(pid), "Spark is back")
    workbench.drain("spark")
    assert ids(workbench, "shop.spark") == list(range(-1, 60_000))
    assert workbench.committed("spark") == workbench.ends(topic)
