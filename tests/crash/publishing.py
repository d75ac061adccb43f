"""A publication's runs that are killed or stopped between any two calls of their producers, on a real broker.

``python -m crash.publishing`` gets JSON on its standard input and forks a process for each run, before anything is
connected to. Snapshots stand in memory and Spark's part is a loop; planning, topics, progress and producers are real.
"""

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import confluent_kafka
import pyarrow
from fakes.publications import Table, a_publication
from round_trip import read
from tidegate.adapters.kafka_publications import KafkaTopics
from tidegate.errors import NothingToDo, PublishedElsewhere, RetryLater
from tidegate.publications.job import PublishJob
from tidegate.publications.ports import PublicationPorts
from tidegate.publications.publish import publish
from tidegate_spark import produce
from tidegate_spark.publish import plan_of

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join(str(ROOT / part) for part in ("tests", "plugins", "jobs", "."))
CALLS = ("init_transactions", "begin_transaction", "produce", "flush", "commit_transaction")
KEYS = ("", "k1", "k2", "k3", "k4", "k5")
HEADER = [("part", pyarrow.int32()), ("topic", pyarrow.string()), ("key", pyarrow.binary())]
HEADER += [("value", pyarrow.binary()), ("timestamp", pyarrow.int64()), ("kind", pyarrow.string())]
HEADER += [("headers", pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])))]
SCHEMA = pyarrow.schema(HEADER)


class Counted:
    """A producer that numbers its calls over all parts, and meets `fault` before call `at` and after it."""

    passed: ClassVar[list[str]] = []
    at, when, fault = -1, "before", signal.SIGKILL

    def __init__(self, settings: dict[str, Any]) -> None:
        self._real = REAL(settings)

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._real, name)
        if name not in CALLS:
            return call

        def counted(*given: Any, **named: Any) -> Any:
            number = len(Counted.passed)
            Counted.passed.append(name)
            if (number, "before") == (Counted.at, Counted.when):
                os.kill(os.getpid(), Counted.fault)
            answer = call(*given, **named)
            if (number, "after") == (Counted.at, Counted.when):
                self._real.flush(5)  # what was handed over is on its way
                os.kill(os.getpid(), Counted.fault)
            return answer

        return counted


REAL = confluent_kafka.Producer


class Direct:
    """Spark's part of a run, in this process."""

    def __init__(self, table: Table, settings: dict[str, str]) -> None:
        self._table, self._settings = table, settings

    def run(self, job: Any) -> None:
        for _ in produce.producing(plan_of(job, self._settings))(iter([self._changes(job)])):
            pass

    def _changes(self, job: PublishJob) -> pyarrow.RecordBatch:
        old = self._table.snapshots[job.position.origin] if job.position.origin else {}
        new = self._table.snapshots[job.position.to]
        rows: list[dict[str, Any]] = []
        for part in job.parts:
            rows.append({"part": part.number})
            for key in sorted(old.keys() | new.keys()):
                if old.get(key) == new.get(key) or zlib.crc32(key.encode()) % job.parallelism != part.number:
                    continue
                kind = "deleted" if key not in new else "updated" if key in old else "inserted"
                value = new[key].encode() if key in new else None
                row = {"part": part.number, "topic": job.topics[0], "key": key.encode(), "value": value, "kind": kind}
                rows.append(row)
        return pyarrow.RecordBatch.from_pylist(rows, schema=SCHEMA)


def history(snapshots: int) -> Table:
    """Each snapshot gives every key a value of its own; one key comes and goes."""
    table = Table()
    for number in range(snapshots):
        table.commit(**dict.fromkeys(KEYS, str(number)), **({"now": "x"} if number % 2 else {}))
    return table


def ports(asked: dict[str, Any], snapshot: int) -> PublicationPorts:
    """The publication at a time when the table stood at that snapshot."""
    settings = {"bootstrap.servers": asked["bootstrap"]}
    table = history(snapshot + 1)
    more = {"transaction_records": 2, "delivery": asked["delivery"], "state_topic": asked["state"]}
    publication = a_publication(topics=(asked["topic"],), **more)
    engine = Direct(table, settings)
    return PublicationPorts(publication, KafkaTopics(settings), table, engine, lambda: 0, lambda: os.urandom(8).hex())


def become(asked: dict[str, Any], snapshot: int, at: int, when: str, fault: signal.Signals) -> NoReturn:
    """In a new process: one run; its exit code says that it ended by itself, and how many calls it passed is told."""
    Counted.at, Counted.when, Counted.fault = at, when, fault
    produce.kafka.Producer = Counted  # type: ignore[attr-defined]
    code = 0
    try:
        with suppress(NothingToDo, PublishedElsewhere, RetryLater):
            publish(ports(asked, snapshot))
        Path(asked["told"]).write_text(json.dumps(Counted.passed))
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        code = 1
    os._exit(code)


def run(asked: dict[str, Any], snapshot: int, at: int = -1, when: str = "", fault: Any = signal.SIGKILL) -> int:
    pid = os.fork()
    if not pid:
        become(asked, snapshot, at, when, fault)
    if fault == signal.SIGSTOP:
        return pid
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def walk(asked: dict[str, Any]) -> list[str]:
    """Meet the fault at every call of a run; what went otherwise than it should."""
    fault, wrong, snapshot = signal.Signals[asked["fault"]], [], 1
    assert run(asked, 0) == 0
    assert run(asked, 1) == 0
    calls = json.loads(Path(asked["told"]).read_text())
    cases = [(at, when) for at in range(len(calls)) for when in ("before", "after") if asked["every"](at, when)]
    for at, when in cases:
        snapshot += 1
        met = run(asked, snapshot, at, when, fault)
        if fault == signal.SIGSTOP:
            stopped(met)
        elif met != -fault:
            wrong.append(f"{calls[at]} {at} {when}: met no fault: {met}")
        if any([run(asked, snapshot), run(asked, snapshot)]):  # the second finds nothing to do
            wrong.append(f"{calls[at]} {at} {when}: a run after it failed")
        if fault == signal.SIGSTOP:
            os.kill(met, signal.SIGCONT)
            os.waitpid(met, 0)  # however it ends, it must have changed nothing
    Path(asked["told"]).write_text(json.dumps({"snapshots": snapshot + 1, "cases": len(cases)}))
    return wrong


def stopped(pid: int) -> None:
    """Wait until a process stands still, or is over because it never came to its point."""
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZ":
        time.sleep(0.02)


def walked(workbench: Any, delivery: str, fault: str, step: int) -> tuple[dict[str, int], list[tuple[str, Any]]]:
    """A walk in a process of its own: how many cases there were, and what a reader with read_committed then sees."""
    topic = f"crash-{workbench.topic()}"
    told = workbench.folder / "told"
    asked = {"bootstrap": workbench.stack.kafka_bootstrap, "delivery": delivery, "state": f"{topic}-state"}
    asked |= {"topic": topic, "told": str(told), "fault": fault, "step": step}
    done = subprocess.run(
        [sys.executable, "-m", "crash.publishing"],
        input=json.dumps(asked),
        env={**os.environ, "PYTHONPATH": PATH},
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [], done.stderr
    records = [(m.key().decode(), m.value() and m.value().decode()) for m in read(workbench, topic)]
    return json.loads(told.read_text()), records


def each_once(told: dict[str, int]) -> Counter[tuple[str, str | None]]:
    """Every change of the history, once."""
    snapshots = told["snapshots"]
    numbered = ((key, str(s)) for key in KEYS for s in range(snapshots))
    now = {("now", "x"): snapshots // 2, ("now", None): (snapshots - 1) // 2}
    return Counter[tuple[str, str | None]](numbered) + Counter(now)


if __name__ == "__main__":
    given = json.loads(sys.stdin.read())
    step = given["step"]
    print(json.dumps(walk({**given, "every": lambda at, when: (2 * at + (when == "after")) % step == 0})))
