"""A runner and a server that are killed: the table equals what one undisturbed run gives."""

import os
import signal
import threading

from conftest import wait_until
from crash.points import Point
from tidegate.errors import RetryLater
from tidegate.steps.merge import merge
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage
from tidegate_spark.stage import job as stage_job

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
APPEND = {"upsert": False, "delete": False}


def build_upsert(id, name):
    return {"id": id}, {"id": id, "name": name}


def read_ids(workbench, table: str) -> list[int]:
    return sorted(row["id"] for row in workbench.read_rows(table))


def test_flush_killed_by_the_operating_system_is_finished_by_the_next(workbench, runners) -> None:
    """kill -9 of the whole runner while it stands behind the cut of a branch."""
    topic = workbench.topic(1)
    workbench.pipeline("killed", [topic], key=KEY, value=VALUE, table=APPEND)
    workbench.produce(topic, build_upsert(1, "a"))
    workbench.flush("killed")
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(2, 50)))
    cut = Point.parse("merge/commits.start_branch:after:1")
    runner = runners.start(workbench.build_environment(), "flush", "killed", at=cut, kind="stopped")
    wait_until(runner.stopped, "the runner has cut its branch")
    os.kill(runner.pid, signal.SIGKILL)
    assert runner.wait_for_end().code == -signal.SIGKILL
    assert len(workbench.load_iceberg("shop.killed").metadata.refs) == 3
    assert read_ids(workbench, "shop.killed") == [1]
    workbench.drain("killed")
    assert read_ids(workbench, "shop.killed") == list(range(1, 50))
    assert workbench.committed("killed") == {topic: {0: 49}}
    assert workbench.list_data_files("shop.killed_killed_tmp") == []
    assert set(workbench.load_iceberg("shop.killed").metadata.refs) == {"main", "tidegate_killed"}


def test_counts_that_a_busy_server_dropped_are_counted_again(workbench, monkeypatch) -> None:
    """Spark Connect gives up on a pass's counts after a tenth of a second; its rows are written all the same.

    One record has a name in other letters, so that a plain pass is followed by another: the first of each is dropped.
    """
    topic = workbench.topic()
    workbench.pipeline("dropped", [topic], key=KEY, value=VALUE, table=APPEND)
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(19)), ({"id": 19}, {"ID": 19, "name": "x"}))
    written, passes = stage_job._write_batch, []

    def answered(*asked, is_plain):
        counts = written(*asked, is_plain=is_plain)
        passes.append(is_plain)
        return {} if passes.count(is_plain) == 1 else counts

    monkeypatch.setattr(stage_job, "_write_batch", answered)
    workbench.drain("dropped")
    assert passes == [True, True, False, False]
    assert read_ids(workbench, "shop.dropped") == list(range(20))
    assert workbench.list_data_files("shop.dropped_dropped_tmp") == []


def test_spark_killed_in_the_middle_of_a_merge_is_survived_by_the_retry(own_workbench) -> None:
    """kill -9 of the server once the merge writes files; its supervisor brings it back on the same address."""
    workbench = own_workbench
    topic = workbench.topic()
    workbench.pipeline("spark", [topic], key=KEY, value=VALUE, table=APPEND)
    workbench.produce(topic, build_upsert(-1, "first"))
    workbench.flush("spark")
    rows, interrupted = 0, False
    for _ in range(3):  # a kill may come a moment after the commit on the branch, and then interrupts nothing
        workbench.produce(topic, *(build_upsert(n, "x" * 50) for n in range(rows, rows + 60_000)))
        rows, interrupted = rows + 60_000, interrupt_merge(workbench)
        if interrupted:
            break
    assert interrupted
    workbench.drain("spark")
    assert read_ids(workbench, "shop.spark") == list(range(-1, rows))
    assert workbench.committed("spark") == workbench.read_ends(topic)


def interrupt_merge(workbench) -> bool:
    """Merge the waiting batch into a server that is killed when it writes; whether the merge failed of it."""
    ports = workbench.build_ports("spark")
    (batch,) = stage(ports, plan(ports))
    before, pid = set(workbench.list_data_files("shop.spark")), int(workbench.stack.variables["SPARK_PID"])

    def kill_when_it_writes() -> None:
        wait_until(lambda: set(workbench.list_data_files("shop.spark")) != before, "the merge writes")
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_when_it_writes)
    killer.start()
    failed = False
    try:
        merge(ports, batch)
    except RetryLater:
        failed = True
    killer.join(180)
    assert not killer.is_alive()
    wait_until(lambda: workbench.stack.variables.get("SPARK_PID", str(pid)) != str(pid), "Spark is back")
    return failed
