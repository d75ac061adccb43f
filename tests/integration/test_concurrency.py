"""Runners that meet, or wake up late, and other writers of the same table: each record has its effect once."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import DEADLINE_SECONDS, wait_until
from crash.points import Point
from crash.trial import Trial
from tidegate.errors import TidegateError
from tidegate.flush.flush import flush
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
APPEND = {"upsert": False, "delete": False}


def build_upsert(id, name):
    return {"id": id}, {"id": id, "name": name}


def read_ids(workbench, table: str) -> list[int]:
    return sorted(row["id"] for row in workbench.read_rows(table))


# runners that meet at any call in memory; two real ones meet in a merge, and one sleeps before its publish
@pytest.mark.repeats("unit/tidegate/flush/test_flush.py::test_two_runners_at_any_interleaving_publish_once")
def test_two_flushes_at_once_in_processes_give_every_row_once(workbench) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("race", [topic], key=KEY, value=VALUE, table=APPEND)
    for part in range(2):
        workbench.produce(topic, *(build_upsert(part * 100 + n, "x") for n in range(100)))
        runners = [
            subprocess.Popen(
                workbench.build_command("flush", "race"),
                env=workbench.build_environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        outcomes = [(*runner.communicate(timeout=DEADLINE_SECONDS), runner.returncode) for runner in runners]
        codes = sorted(code for *_, code in outcomes)
        assert codes[0] == 0, outcomes
        assert codes[1] in (0, 1, 3), outcomes
        losers = [errors.splitlines()[-1] for _, errors, code in outcomes if code]
        assert all(line.startswith("pipeline=race") for line in losers), outcomes
    workbench.drain("race")
    assert read_ids(workbench, "shop.race") == list(range(200))
    assert workbench.committed("race") == {topic: {0: 200}}


@pytest.mark.repeats("unit/tidegate/flush/test_flush.py::test_two_runners_at_any_interleaving_publish_once")
def test_two_merges_at_once_of_two_attempts_publish_one(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("twins", [topic], key=KEY, value=VALUE, table=APPEND)
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(20)))
    workbench.flush("twins")
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(20, 40)))
    planned = plan(workbench.open_session("twins"))
    batches = [stage(workbench.open_session("twins"), planned)[0] for _ in range(2)]

    def merge_batch(batch) -> str:
        try:
            return merge(workbench.open_session("twins"), batch).outcome
        except TidegateError as error:
            return type(error).__name__

    with ThreadPoolExecutor(2) as pool:
        outcomes = sorted(pool.map(merge_batch, batches))
    assert outcomes == ["PublishedElsewhere", "published"]
    assert read_ids(workbench, "shop.twins") == list(range(40))


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_reparent.py::test_deletes_without_keys_and_rewritten_files_are_merged_again"
)
def test_foreign_compaction_between_cut_and_publish_is_survived(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("compacted", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *(build_upsert(n, "x") for n in range(5)))
    workbench.flush("compacted")
    workbench.produce(topic, build_upsert(1, "y"))
    session = workbench.open_session("compacted")
    publish = session.commits.publish

    def rewrite_before_publish(publication) -> None:
        session.commits.publish = publish
        workbench.run_spark_sql(
            "CALL lake.system.rewrite_data_files(table => 'shop.compacted', options => map('rewrite-all', 'true'))"
        )
        publish(publication)

    session.commits.publish = rewrite_before_publish
    (published,) = flush(session).published
    assert published.outcome == "published"
    assert [(r["id"], r["name"]) for r in workbench.read_rows("shop.compacted")] == [
        (0, "x"), (1, "y"), (2, "x"), (3, "x"), (4, "x"),
    ]  # fmt: skip


def test_rows_and_deletes_that_spark_wrote_are_put_onto_a_main_that_others_moved(workbench) -> None:
    topic = workbench.topic()
    layout = {"create": {"partition_by": ["bucket(2, id)"]}}
    workbench.pipeline("busy", [topic], key=KEY, value=VALUE, table=layout)
    for changes in ([build_upsert(n, "x") for n in range(8)], [build_upsert(n, "y") for n in (1, 2, 3, 4)]):
        workbench.produce(topic, *changes)
        workbench.flush("busy")
    workbench.produce(topic, build_upsert(1, "z"), ({"id": 2}, None), build_upsert(5, "z"), build_upsert(8, "z"))
    session, foreign = workbench.open_session("busy"), [100, 101]
    publish, run, jobs = session.commits.publish, session.engine.run, []

    def insert_before_publish(publication) -> None:
        if foreign:
            workbench.run_spark_sql(f"INSERT INTO lake.shop.busy VALUES ({foreign.pop(0)}, 'foreign')")
        publish(publication)

    def count_job(job) -> None:
        jobs.append(type(job).__name__)
        run(job)

    session.commits.publish, session.engine.run = insert_before_publish, count_job
    (published,) = flush(session).published
    assert (published.inserted, published.updated, published.deleted) == (1, 2, 1)
    assert jobs.count("StatementsJob") == 1
    rows = [
        (0, "x"), (1, "z"), (3, "y"), (4, "y"), (5, "z"), (6, "x"), (7, "x"), (8, "z"),
        (100, "foreign"), (101, "foreign"),
    ]  # fmt: skip
    assert sorted((r["id"], r["name"]) for r in workbench.read_rows("shop.busy")) == rows
    table_rows = workbench.run_spark_sql(
        "CALL lake.system.rewrite_position_delete_files(table => 'shop.busy')",
        "CALL lake.system.expire_snapshots('shop.busy', now())",
        "SELECT id, name FROM lake.shop.busy ORDER BY id",
    )
    assert [tuple(row) for row in table_rows] == rows
    workbench.produce(topic, build_upsert(1, "last"))
    workbench.flush("busy")
    assert sorted((r["id"], r["name"]) for r in workbench.read_rows("shop.busy")) == [rows[0], (1, "last"), *rows[2:]]


# Where a runner stops itself between two steps (SIGSTOP); what it then makes of two batches that others published.
ASLEEP = {
    "after plan": "stage/engine.run:before:1",
    "after stage": "merge/tables.read_state:before:1",
    "after the cut": "merge/commits.start_branch:after:1",
    "after the merge": "merge/engine.run:after:1",
    "before the publish": "merge/commits.publish:before:1",
    "before the commit of offsets": "commit_offsets/broker.commit:before:1",
    "before the clean-up": "clean_up/staging.clean_up:before:1",
}


@pytest.fixture(scope="module")
def sleepers(workbenches, runners, tmp_path_factory):
    """A pipeline that lives through one sleeper after the other."""
    trial = Trial(workbenches(tmp_path_factory.mktemp("sleepers")), runners, "sleepers")
    trial.produce_batch(1)
    trial.workbench.drain(trial.name)
    return trial


def suspend_flush(trial: Trial, at: str):
    """A flush of its own, suspended at that point.

    Its tables are merged one after the other: a thread that is suspended while it commits would keep SQLite's lock.
    """
    words = ("flush", trial.name, "--merges-at-once", "1")
    running = trial.runners.start(trial.workbench.build_environment(), *words, at=Point.parse(at), kind="stopped")
    wait_until(running.is_stopped, f"the runner sleeps at {at}")
    return running


@pytest.mark.repeats(
    "unit/scenarios/test_concurrency.py::test_runner_that_sleeps_at_any_point_changes_nothing_when_it_wakes"
)
@pytest.mark.parametrize("moment", ASLEEP)
def test_runner_that_sleeps_through_two_newer_batches_changes_nothing(sleepers: Trial, moment: str) -> None:
    number = 10 * (1 + list(ASLEEP).index(moment))
    sleepers.produce_batch(number)
    sleeper = suspend_flush(sleepers, ASLEEP[moment])
    for newer in (1, 2):
        sleepers.produce_batch(number + newer)
        sleepers.workbench.drain(sleepers.name)
    rows = sleepers.read_rows("last"), sleepers.read_rows("all")
    sleeper.resume()
    outcome = sleeper.wait_for_end()
    assert (sleepers.read_rows("last"), sleepers.read_rows("all")) == rows
    if moment in ("before the commit of offsets", "before the clean-up"):
        assert outcome.code == 0, outcome  # it had published before it fell asleep
    else:
        assert outcome.code == 3, outcome
        (reason,) = outcome.output.splitlines()
        assert reason.startswith("pipeline=sleepers table=lake.sleepers.last batch=")
        assert "another run published first" in reason
    sleepers.workbench.drain(sleepers.name)
    sleepers.check()


@pytest.mark.repeats("unit/tidegate/flush/test_flush.py::test_heartbeat_corrects_what_a_zombie_committed")
def test_offsets_that_a_runner_commits_late_are_recovered_by_the_next_flush(sleepers: Trial) -> None:
    """They are progress for people; no step reads them."""
    sleepers.produce_batch(100)
    sleeper = suspend_flush(sleepers, "heartbeat/broker.commit:before:1")
    behind = sleepers.workbench.committed(sleepers.name)
    sleepers.produce_batch(101)
    sleepers.workbench.drain(sleepers.name)
    assert sleepers.workbench.committed(sleepers.name) != behind
    sleeper.resume()
    assert sleeper.wait_for_end().code == 0
    assert sleepers.workbench.committed(sleepers.name) == behind
    sleepers.workbench.drain(sleepers.name)
    sleepers.check()
