"""Tables that are merged beside each other, and a command that goes on with the healthy ones until they are current."""

import json
from threading import Barrier, Lock

import pytest
from fakes import FailsToMerge, World, build_pipeline, build_table
from tidegate.cli.main import main
from tidegate.errors import SomeTablesDelayed
from tidegate.flush.flush import flush
from tidegate.jobs.statements_job import StatementsJob
from tidegate.monitoring.status import read_status
from tidegate.ports.session import Job

TABLES = tuple(f"lake.shop.{name}" for name in ("orders", "copy", "third", "fourth"))
FOUR = build_pipeline(*(build_table(name) for name in TABLES))
MEETING_SECONDS = 60


class MergesMeet:
    """Spark in which a merge waits until so many are under way; `most` were at once."""

    def __init__(self, engine, parties: int) -> None:
        self._engine, self._meeting, self._lock = engine, Barrier(parties), Lock()
        self._running = self.most = 0

    def run(self, job: Job) -> None:
        if not isinstance(job, StatementsJob) or '"statement": "merge_' not in job.statements[-1]:
            self._engine.run(job)
            return
        with self._lock:
            self._running += 1
            self.most = max(self.most, self._running)
        self._meeting.wait(MEETING_SECONDS)
        with self._lock:
            self._engine.run(job)
            self._running -= 1


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    produce(world, "a", "x")
    return world


def produce(world: World, key: object, name: str) -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "name": name}, 0)


def test_tables_are_merged_beside_each_other_and_told_in_their_order(world: World) -> None:
    flushed = flush(world.open_session(FOUR, engine=MergesMeet(world.engine, 4)), merges_at_once=4)
    assert [batch.table for batch in flushed.published] == list(TABLES)
    assert all(world.read_rows(table) == [{"id": "a", "name": "x"}] for table in TABLES)


def test_no_more_tables_than_asked_for_are_merged_at_once(world: World) -> None:
    engine = MergesMeet(world.engine, 2)
    flush(world.open_session(FOUR, engine=engine), merges_at_once=2)
    assert engine.most == 2
    assert all(world.read_rows(table) == [{"id": "a", "name": "x"}] for table in TABLES)


def test_failing_table_stops_none_of_those_beside_it(world: World) -> None:
    engine = FailsToMerge(world.engine, TABLES[0])
    with pytest.raises(SomeTablesDelayed, match=r"1 table failed:\nSpark failed in merge: table=lake.shop.orders"):
        flush(world.open_session(FOUR, engine=engine), merges_at_once=4)
    assert [len(world.read_rows(table)) for table in TABLES] == [0, 1, 1, 1]


@pytest.fixture
def command(world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Runs `tidegate flush` over the world; its exit code, what it printed, and what it complained of."""

    def run(pipeline, *words: str, **options):
        assemble = "tidegate.cli.session.assemble_checked_pipeline"
        monkeypatch.setattr(assemble, lambda *_: world.open_session(pipeline, **options))
        code = main(["flush", "shop", "--json", "--merges-at-once", "1", *words])
        output = capsys.readouterr()
        return code, [json.loads(line) for line in output.out.splitlines()], output.err

    return run


def roll_back(world: World, table: str) -> None:
    branch_table = world.destination.tables[table]
    branch_table.refs["main"] = branch_table.snapshots[branch_table.refs["main"]].parent


def test_healthy_tables_are_flushed_until_current_while_one_is_refused(world: World, command) -> None:
    pipeline = build_pipeline(*(build_table(name) for name in TABLES[:2]), max_records=1)
    flush(world.open_session(pipeline))
    roll_back(world, TABLES[1])
    for name in ("1", "2", "3"):
        produce(world, "a", name)
    code, published, complaint = command(pipeline, "--until-current")
    assert (code, [batch["table"] for batch in published]) == (1, [TABLES[0]] * 3)
    assert world.read_rows(TABLES[0]) == [{"id": "a", "name": "3"}]
    assert "table=lake.shop.copy was rolled back" in complaint


def test_healthy_tables_are_flushed_until_current_while_one_fails(world: World, command) -> None:
    pipeline = build_pipeline(*(build_table(name) for name in TABLES[:2]), max_records=1)
    for name in ("1", "2", "3"):
        produce(world, "a", name)
    engine = FailsToMerge(world.engine, TABLES[1])
    code, published, complaint = command(pipeline, "--until-current", engine=engine)
    assert (code, {batch["table"] for batch in published}) == (1, {TABLES[0]})
    assert world.read_rows(TABLES[0]) == [{"id": "a", "name": "3"}]
    assert "Spark failed in merge: table=lake.shop.copy" in complaint
    assert {row["table"]: row["lag"] for row in read_status(world.open_session(pipeline))["tables"]} == {
        TABLES[0]: 0,
        TABLES[1]: 4,
    }


@pytest.mark.parametrize("bounds", [("--until-current",), ("--until", "latest")])
def test_bounded_flush_without_work_says_so_to_people_and_prints_no_line_for_programs(
    world: World, command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bounds: tuple[str, ...]
) -> None:
    assert command(FOUR, *bounds)[0] == 0
    assert command(FOUR, *bounds) == (0, [], "")
    assert main(["flush", "shop", *bounds]) == 0
    assert capsys.readouterr().out.startswith("pipeline=shop: every table stands at the end ")
    produce(world, "a", "1")
    assert main(["flush", "shop", *bounds]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == list(TABLES)


def test_failure_that_the_next_flush_fixes_is_none_in_the_end(world: World, command) -> None:
    pipeline = build_pipeline(*(build_table(name) for name in TABLES[:2]), max_records=1)
    produce(world, "a", "1")
    engine = FailsToMerge(world.engine, TABLES[1])

    def fixed(job: Job) -> None:
        try:
            FailsToMerge.run(engine, job)
        except Exception:
            engine.is_broken = False
            raise

    engine.run = fixed
    code, _, _ = command(pipeline, "--until-current", engine=engine)
    assert code == 0
    assert world.read_rows(TABLES[0]) == world.read_rows(TABLES[1]) == [{"id": "a", "name": "1"}]


def test_single_flush_stops_after_one_batch_and_is_red_while_a_table_fails(world: World, command) -> None:
    pipeline = build_pipeline(*(build_table(name) for name in TABLES[:2]), max_records=1)
    produce(world, "a", "1")
    code, published, _ = command(pipeline, engine=FailsToMerge(world.engine, TABLES[1]))
    assert (code, [batch["table"] for batch in published]) == (1, [TABLES[0]])


def test_flush_that_another_run_overtook_exits_with_3_and_has_written_nothing(world: World, command) -> None:
    pipeline, others = build_pipeline(build_table(TABLES[0])), list[str]()

    def publish_first(call: str, moment: str) -> None:
        if (call, moment) == ("engine.run", "before") and not others:
            others.append(call)
            flush(world.open_session(pipeline))

    code, published, complaint = command(pipeline, hook=publish_first)
    assert (code, published) == (3, [])
    assert "another run published first" in complaint
    assert world.read_rows(TABLES[0]) == [{"id": "a", "name": "x"}]
