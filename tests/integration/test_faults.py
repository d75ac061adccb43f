"""A runner and a server that are killed: the table equals what one undisturbed run gives."""

import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field

import grpc
import pytest
from conftest import wait_until
from crash.points import Point
from pyspark.errors import PySparkException
from pyspark.sql.connect.proto import ConfigRequest
from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub
from tidegate.adapters.spark.connect import ConnectEngine
from tidegate.errors import RetryLater
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate_spark.merge import job as merge_job
from tidegate_spark.stage import job as stage_job

ANSWER_SECONDS = 60.0
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
APPEND = {"upsert": False, "delete": False}


def build_upsert(id, name):
    return {"id": id}, {"id": id, "name": name}


def read_ids(workbench, table: str) -> list[int]:
    return sorted(row["id"] for row in workbench.read_rows(table))


def test_flush_killed_by_the_operating_system_is_finished_by_the_next(workbench, runners) -> None:
    """Kill the whole runner with SIGKILL after it has made a branch."""
    topic = workbench.topic(1)
    workbench.pipeline("killed", [topic], key=KEY, value=VALUE, table=APPEND)
    workbench.produce(topic, build_upsert(1, "a"))
    workbench.flush("killed")
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(2, 50)))
    cut = Point.parse("merge/commits.start_branch:after:1")
    runner = runners.start(workbench.build_environment(), "flush", "killed", at=cut, kind="stopped")
    wait_until(runner.is_stopped, "the runner has cut its branch")
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

    def drop_first_counts(*arguments, is_plain):
        counts = written(*arguments, is_plain=is_plain)
        passes.append(is_plain)
        return {} if passes.count(is_plain) == 1 else counts

    monkeypatch.setattr(stage_job, "_write_batch", drop_first_counts)
    workbench.drain("dropped")
    assert passes == [True, True, False, False]
    assert read_ids(workbench, "shop.dropped") == list(range(20))
    assert workbench.list_data_files("shop.dropped_dropped_tmp") == []


@pytest.mark.repeats(
    "integration/test_servers_down.py::test_spark_that_goes_in_the_middle_and_stays_away_ends_the_flush_and_the_next_recovers"
)
def test_spark_killed_in_the_middle_of_a_merge_is_survived_by_the_retry(own_workbench, monkeypatch) -> None:
    """kill -9 of the server once the merge writes files; its supervisor brings it back on the same address.

    Until the new server can answer, it takes no request; and it does not know the sessions of the old one.
    """
    workbench = own_workbench
    topic = workbench.topic()
    workbench.pipeline("spark", [topic], key=KEY, value=VALUE, table=APPEND)
    workbench.produce(topic, build_upsert(-1, "first"))
    workbench.flush("spark")
    rows, kill = 0, None
    for _ in range(3):  # a kill may come a moment after the commit on the branch, and then interrupts nothing
        workbench.produce(topic, *(build_upsert(n, "x" * 50) for n in range(rows, rows + 60_000)))
        rows, kill = rows + 60_000, interrupt_merge(workbench, monkeypatch)
        if kill.error is not None:
            break
    assert kill is not None
    assert kill.error is not None, "no merge was interrupted"
    assert kill.statuses == {grpc.StatusCode.UNAVAILABLE}
    address = workbench.stack.spark_remote.removeprefix("sc://").rstrip("/")
    assert kill.reasons == {
        f"pipeline=spark batch={kill.batch}: Spark was restarted during merge, or ended its session: Spark "
        f"connection=spark_default address={address}; no incomplete batch was published; the batch will be tried again"
    }
    workbench.drain("spark")
    assert read_ids(workbench, "shop.spark") == list(range(-1, rows))
    assert workbench.committed("spark") == workbench.read_ends(topic)


@dataclass
class Kill:
    """What clients met whose server was killed: the merge, new sessions while it starts, and the merge's session."""

    batch: int | None = None
    error: RetryLater | None = None
    statuses: set[grpc.StatusCode] = field(default_factory=set)
    reasons: set[str] = field(default_factory=set)


def interrupt_merge(workbench, monkeypatch) -> Kill:
    """Merge the waiting batch into a server that is killed when it writes."""
    ports = workbench.open_session("spark")
    (batch,) = stage(ports, plan(ports))
    kill, run_merge = Kill(), merge_job.run
    engine = ConnectEngine(workbench.stack.spark_remote, {}, "connection=spark_default")
    before, pid = set(workbench.list_data_files("shop.spark")), int(workbench.stack.variables["SPARK_PID"])

    def kill_when_it_writes() -> None:
        wait_until(lambda: set(workbench.list_data_files("shop.spark")) != before, "the merge writes")
        os.kill(pid, signal.SIGKILL)
        kill.statuses.update(ask_until_answered(workbench.stack.spark_remote))

    def run_and_ask_again(spark, job) -> None:
        try:
            run_merge(spark, job)
        except Exception:
            killer.join(180)
            kill.batch = job.batch
            for _ in range(2):  # PySpark says another thing the second time
                with pytest.raises(PySparkException) as failure:
                    spark.sql("SELECT 1").collect()
                kill.reasons.add(str(engine._translate_error(job, failure.value)))
            raise

    killer = threading.Thread(target=kill_when_it_writes)
    killer.start()
    with monkeypatch.context() as patch:
        patch.setattr(merge_job, "run", run_and_ask_again)
        try:
            merge(ports, batch)
        except RetryLater as error:
            kill.error = error
    killer.join(180)
    assert not killer.is_alive()
    wait_until(lambda: workbench.stack.variables.get("SPARK_PID", str(pid)) != str(pid), "Spark is back")
    return kill


def ask(remote: str) -> grpc.StatusCode:
    """What a new session is answered to its first question, as every job asks it."""
    option = ConfigRequest.Operation(get_option=ConfigRequest.GetOption(keys=["spark.app.name"]))
    request = ConfigRequest(session_id=str(uuid.uuid4()), operation=option)
    with grpc.insecure_channel(remote.removeprefix("sc://").rstrip("/")) as channel:
        try:
            SparkConnectServiceStub(channel).Config(request, timeout=ANSWER_SECONDS)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def ask_until_answered(remote: str) -> Iterator[grpc.StatusCode]:
    while (status := ask(remote)) is not grpc.StatusCode.OK:
        yield status
        time.sleep(0.1)  # a server that starts needs the processor more than its test
