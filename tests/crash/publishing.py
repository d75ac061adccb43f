"""A publication's runs that are killed or stopped between any two calls of their producers, on a real broker.

``python -m crash.publishing`` gets JSON on its standard input and forks a process for each run, before anything is
connected to. Snapshots stand in memory and Spark's part is a loop; planning, topics, progress and producers are real.
The run behind an interrupted one always leads to another snapshot, and some keys return to the value that they had.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import confluent_kafka
from fakes.publications import Spark, Table, Topic, build_publication
from round_trip import read_committed
from tidegate.adapters.kafka.publication_topics import KafkaTopics
from tidegate.errors import NothingToDo, PublishedElsewhere, RetryLater
from tidegate.ports.publication_session import PublicationSession
from tidegate.publications.publish import publish
from tidegate.spec.publication import KeyOut
from tidegate_spark.publish import producer
from tidegate_spark.publish.job import build_plan, raise_refusal

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join(str(ROOT / part) for part in ("tests", "plugins", "jobs", "."))
CALLS = ("init_transactions", "begin_transaction", "produce", "flush", "commit_transaction")
UNIQUE = ("", "k1", "k2", "k3", "k4", "k5")  # a value of its own in each snapshot
TURNING = {"f1": 2, "f2": 2, "f3": 2, "t1": 3, "t2": 3, "now": 2}  # as many values in turn; the last of now is none
OVERTAKEN, SECOND_PART = "OVERTAKEN", -2


class Counted:
    """A producer that numbers its calls over all parts, and has the `fault` before or after call `at`."""

    passed: ClassVar[list[str]] = []
    at, when, fault = -1, "before", signal.SIGKILL

    producer_count = 0

    def __init__(self, settings: dict[str, Any]) -> None:
        Counted.producer_count += 1
        if (Counted.at, Counted.producer_count) == (SECOND_PART, 2):
            os.kill(os.getpid(), Counted.fault)
        self._real = REAL(settings)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)
        if name not in CALLS:
            return call

        def count_call(*arguments: Any, **options: Any) -> Any:
            number = len(Counted.passed)
            Counted.passed.append(name)
            if (number, "before") == (Counted.at, Counted.when):
                os.kill(os.getpid(), Counted.fault)
            answer = call(*arguments, **options)
            if (number, "after") == (Counted.at, Counted.when):
                self._real.flush(5)  # what was handed over is on its way
                os.kill(os.getpid(), Counted.fault)
            return answer

        return count_call


REAL = confluent_kafka.Producer


class Direct:
    """Spark's part of a run, in this process."""

    def __init__(self, spark: Spark, settings: dict[str, str]) -> None:
        self._spark, self._settings = spark, settings

    def run(self, job: Any) -> None:
        batches = list(producer.build_producer(build_plan(job, self._settings))(iter([self._spark.build_changes(job)])))
        raise_refusal(job, [row["outcome"] for batch in batches for row in batch.to_pylist()])


def compute_value(snapshot: int, key: str) -> str | None:
    if key in UNIQUE:
        return str(snapshot)
    turn = snapshot % TURNING[key]
    return None if key == "now" and turn else str(turn)


def build_table(snapshots: int) -> Table:
    table = Table()
    for number in range(snapshots):
        values = {key: compute_value(number, key) for key in (*UNIQUE, *TURNING)}
        table.commit(**{key: value for key, value in values.items() if value is not None})
    return table


def build_events(snapshots: int) -> Table:
    """Rows without a key: eight more in each snapshot, two of each text, so that each run makes as many calls."""
    table = Table()
    for number in range(snapshots):
        table.commit(**{f"{row}": f"row {row % 4}" for row in range(8 * (number + 1))})
    return table


def open_session(request: dict[str, Any], snapshot: int) -> PublicationSession:
    """The publication at a time when the table stood at that snapshot."""
    settings = request.get("settings", {"bootstrap.servers": request.get("bootstrap")})
    table = build_events(snapshot + 1) if request.get("is_append") else build_table(snapshot + 1)
    options = {"transaction_records": 2, "delivery": request["delivery"], "state_topic": request["state"]}
    options |= {"key": KeyOut(())} if request.get("is_append") else {}
    publication = build_publication(topics=(request["topic"],), **options)
    engine = Direct(Spark(table, Topic()), settings)
    return PublicationSession(publication, KafkaTopics(settings), table, engine, lambda: 0, lambda: os.urandom(8).hex())


def become_run(request: dict[str, Any], snapshot: int, at: int, moment: str, fault: signal.Signals) -> NoReturn:
    """In a new process: one run; its exit code says that it ended by itself, and how many calls it passed is told."""
    Counted.at, Counted.when, Counted.fault = at, moment, fault
    producer.kafka.Producer = Counted  # type: ignore[attr-defined]
    code = 0
    try:
        with suppress(NothingToDo, PublishedElsewhere, RetryLater):
            publish(open_session(request, snapshot))
        Path(request["told"]).write_text(json.dumps(Counted.passed))
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        code = 1
    os._exit(code)


def run(request: dict[str, Any], snapshot: int, at: int = -1, moment: str = "", fault: Any = signal.SIGKILL) -> int:
    pid = os.fork()
    if not pid:
        become_run(request, snapshot, at, moment, fault)
    if fault == signal.SIGSTOP:
        return pid
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def walk(request: dict[str, Any]) -> list[str]:
    """Have the fault at every call of a run; return a sentence for each unexpected result."""
    problems: list[str] = []
    assert run(request, 0, SECOND_PART) == -signal.SIGKILL, "a first run dies between two of its parts"
    assert finish_runs(request, 1) == 0
    snapshot = 3 if request["fault"] == OVERTAKEN else 2
    assert run(request, snapshot) == 0
    calls = json.loads(Path(request["told"]).read_text())
    cases = [
        (at, call_moment)
        for at in range(len(calls))
        for call_moment in ("before", "after")
        if request["every"](at, call_moment)
    ]
    for at, moment in cases:
        label = f"{calls[at]} {at} {moment}"
        actual_code, expected = run_with_fault(request, snapshot + 1, at, moment)
        snapshot += 2
        if actual_code != expected:
            problems.append(f"{label}: met no fault: {actual_code}")
        if finish_runs(request, snapshot):
            problems.append(f"{label}: a run after it failed, or the topic is not the table")
    Path(request["told"]).write_text(json.dumps({"snapshots": snapshot + 1, "cases": len(cases)}))
    return problems


def run_with_fault(request: dict[str, Any], snapshot: int, at: int, call_moment: str) -> tuple[int, int]:
    """Run to `snapshot` with the fault; return the exit code of the next run and the expected one."""
    if request["fault"] == "SIGKILL":
        return run(request, snapshot, at, call_moment), -signal.SIGKILL
    is_overtaken = request["fault"] == OVERTAKEN  # it was planned first, and goes on behind a later run that died
    first = run(request, snapshot, 0 if is_overtaken else at, "before" if is_overtaken else call_moment, signal.SIGSTOP)
    wait_until_stopped(first)
    actual_code = run(request, snapshot + 1, at, call_moment) if is_overtaken else finish_runs(request, snapshot + 1)
    os.kill(first, signal.SIGCONT)
    end_code = os.waitstatus_to_exitcode(os.waitpid(first, 0)[1])
    if is_overtaken:
        return actual_code, -signal.SIGKILL
    return actual_code, 0 if end_code in (0, 1) else end_code  # however it ends, it must have changed nothing


def finish_runs(request: dict[str, Any], snapshot: int) -> int:
    """Runs until one finds nothing to do, and the topic must be the table then; 0 for good."""
    return run_forked(lambda: int(not is_equal_to_table(request, snapshot)))


def is_equal_to_table(request: dict[str, Any], snapshot: int) -> bool:
    outside = open_session(request, snapshot)
    with suppress(NothingToDo):
        for _ in range(3):
            publish(outside)
    produced = read_records(request["bootstrap"], request["topic"])
    if request.get("is_append"):
        return Counter(produced) == Counter(("", text) for text in build_events(snapshot + 1).read_latest().values())
    records = dict(produced)
    return {key: value for key, value in records.items() if value is not None} == build_table(
        snapshot + 1
    ).read_latest()


def run_forked(work: Callable[[], int]) -> int:
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = work()
        except Exception as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def wait_until_stopped(pid: int) -> None:
    """Wait until a process is stopped, or has ended without reaching its point."""
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZ":
        time.sleep(0.02)


def walk_in_process(
    workbench: Any, delivery: str, fault: str, step: int, *, is_append: bool = False
) -> tuple[dict[str, int], list[tuple[str, Any]]]:
    """A walk in a process of its own: how many cases there were, and what a reader with read_committed then sees."""
    topic = f"crash-{workbench.topic()}"
    answer_file = workbench.folder / "told"
    request = {"bootstrap": workbench.stack.kafka_bootstrap, "delivery": delivery, "state": f"{topic}-state"}
    request |= {"topic": topic, "told": str(answer_file), "fault": fault, "step": step, "is_append": is_append}
    process = subprocess.run(
        [sys.executable, "-m", "crash.publishing"],
        input=json.dumps(request),
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert json.loads(process.stdout) == [], f"{process.stdout} {process.stderr}"
    return json.loads(answer_file.read_text()), read_records(workbench.stack.kafka_bootstrap, topic)


def read_records(bootstrap: str, topic: str) -> list[tuple[str, str | None]]:
    return [((m.key() or b"").decode(), m.value() and m.value().decode()) for m in read_committed(bootstrap, topic)]


def judge(records: list[tuple[str, str | None]], snapshots: int) -> None:
    """Each key changed in the order of the snapshots, each change once; it may have skipped snapshots."""
    values: dict[str, list[str | None]] = {}
    for key, value in records:
        values.setdefault(key, []).append(value)
    assert set(values) == {*UNIQUE, *TURNING}
    for key, key_values in values.items():
        assert all(value != two for value, two in pairwise([None, *key_values])), f"{key}: a change twice: {key_values}"
        way = iter([compute_value(snapshot, key) for snapshot in range(snapshots)])
        assert all(value in way for value in key_values), f"{key}: never went so: {key_values}"
        assert key_values[-1] == compute_value(snapshots - 1, key)


if __name__ == "__main__":
    given = json.loads(sys.stdin.read())
    step = given["step"]
    print(json.dumps(walk({**given, "every": lambda at, moment: (2 * at + (moment == "after")) % step == 0})))
