"""A pipeline in one line: what the operator's page, its metrics and its alerts are made of."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes import BAD, World, build_pipeline, build_table
from fakes.faults import UnreadableTable
from tidegate.flush.flush import flush
from tidegate.model import resource_names
from tidegate.monitoring.details import read_batch_history
from tidegate.monitoring.health import Health, ScheduleState, describe_pipeline_state
from tidegate.monitoring.overview import build_overview, read_recent
from tidegate.monitoring.status import find_unpublished, read_status
from tidegate.ports.session import Session
from tidegate.schema.data_types import Column
from tidegate.spec.source import Errors, Start, StartKind
from tidegate.table.history import find_last_advances
from tidegate.table.log import read_log
from tidegate.table.observed_table import observe_tables
from tidegate.table.pipeline_progress import compare_with_log, read_pipeline_progress

TWO = (build_table("lake.shop.left", topics=("left",)), build_table("lake.shop.right", topics=("right",)))


@pytest.fixture
def world() -> World:
    world = World()
    for topic in ("left", "right"):
        world.broker.create(topic, 1)
        world.broker.produce(topic, {"id": "a"}, {"id": "a", "name": "x"})
    return world


def read_overview(session: Session) -> dict[str, Any]:
    return build_overview(read_pipeline_progress(session))


def describe_state(row: dict[str, Any], interval: int = 60, now_ms: int = 0, **schedule: Any) -> tuple[str, str]:
    return describe_pipeline_state(row, ScheduleState(**schedule), interval, now_ms)


def test_lag_is_counted_by_table_and_partition_and_aged_by_its_oldest_record(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    flush(session)
    for name in ("b", "c"):
        world.broker.produce("right", {"id": name}, {"id": name, "name": "y"}, timestamp=world.clock.ms)
        world.clock.tick(10_000)
    row = read_overview(session)
    assert (row["lag"], row["lag_seconds"]) == (2, 20.0)
    assert [(t["table"], t["lag"], t["lag_seconds"]) for t in row["tables"]] == [
        ("lake.shop.left", 0, 0.0), ("lake.shop.right", 2, 20.0),
    ]  # fmt: skip
    assert [(p["topic"], p["published"], p["end"]) for p in row["partitions"]] == [("left", 1, 1), ("right", 1, 3)]


def test_unpublished_names_the_records_whose_age_must_be_known(world: World) -> None:
    progress = read_pipeline_progress(world.open_session(build_pipeline(*TWO)))
    assert find_unpublished(progress) == {("left", 0, 0), ("right", 0, 0)}


def test_age_that_brokers_do_not_tell_is_unknown_and_not_zero(world: World) -> None:
    broker = world.broker
    broker.read_timestamps = lambda places: {}  # type: ignore[method-assign]
    assert read_overview(world.open_session(build_pipeline(*TWO)))["lag_seconds"] is None


def test_topic_that_is_not_there_makes_no_lag_of_zero_seconds(world: World) -> None:
    flush(world.open_session(build_pipeline(*TWO)))
    session = world.open_session(build_pipeline(*TWO, build_table("lake.shop.Gone", topics=("Gone",))))
    row = read_overview(session)
    assert [(table["table"], table["lag"], table["lag_seconds"]) for table in row["tables"]] == [
        ("lake.shop.left", 0, 0.0), ("lake.shop.right", 0, 0.0), ("lake.shop.Gone", 0, None),
    ]  # fmt: skip
    assert (row["lag"], row["lag_seconds"]) == (0, None)
    assert ([table["lag_known"] for table in row["tables"]], row["lag_known"]) == ([True, True, False], False)
    status = read_status(session)
    assert [table["lag_seconds"] for table in status["tables"]] == [0.0, 0.0, None]
    assert ([table["lag_known"] for table in status["tables"]], status["lag_known"]) == ([True, True, False], False)


def test_lag_of_the_other_tables_is_known_beside_a_topic_that_is_not_there(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO, build_table("lake.shop.Gone", topics=("Gone",))))
    for report in (read_overview(session), read_status(session)):
        assert [table["lag_known"] for table in report["tables"]] == [True, True, False]
        assert (report["lag"], report["lag_known"]) == (sum(table["lag"] for table in report["tables"]), True)
        assert report["lag"] > 0


def test_large_numbers_of_a_reason_are_written_as_the_page_writes_them() -> None:
    row = {"tables": [], "lag": 3468, "lag_seconds": 61.0, "published_ms": 0, "open_batches": 0, "starts_at": 5000}
    assert describe_state(row, 0)[1] == "3,468 records wait: fewer than the 5,000 that start a flush"
    assert describe_state({**row, "starts_at": 1}, 0)[1] == "3,468 records wait, the oldest for 1 min 1 s"


def test_connectors_heartbeat_proves_freshness_of_what_has_no_lag(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    flush(session)
    row = build_overview(compare_with_log(session, observe_tables(session), read_log(session), {}, 1_900_000_000_000))
    assert row["freshness"] == "2030-03-17T17:46:40.000Z"


def test_pipeline_is_complete_up_to_no_known_time_while_that_of_one_table_is_unknown(world: World) -> None:
    """The topic of one table has had no record yet."""
    world.broker.create("quiet", 2)
    pipeline = build_pipeline(*TWO, build_table("lake.shop.quiet", topics=("quiet",)))
    session = world.open_session(pipeline)
    flush(session)
    row, status = read_overview(session), read_status(session)
    times = [table["valid_through"] for table in row["tables"]]
    assert [time is None for time in times] == [False, False, True]
    assert times == [table["valid_through"] for table in status["tables"]]
    assert (row["freshness"], status["freshness"]) == (None, None)
    for partition in range(2):
        world.broker.produce("quiet", {"id": "a"}, {"id": "a", "name": "x"}, partition)
    flush(session)
    row, status = read_overview(session), read_status(session)
    assert row["freshness"] == status["freshness"] == min(table["valid_through"] for table in row["tables"])


def test_last_flush_sums_the_tables_of_the_newest_batch(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    assert read_recent(session) == {"last_flush": None, "dead_letters": 0}
    flush(session)
    flush_of = read_recent(session)["last_flush"]
    assert (flush_of["batch"], flush_of["inserted"], flush_of["updated"], flush_of["deleted"]) == (1, 2, 0, 0)


def test_last_flush_sums_all_tables_however_many_there_are(world: World) -> None:
    tables = tuple(build_table(f"lake.shop.t{number}", topics=("left",)) for number in range(25))
    session = world.open_session(build_pipeline(*tables))
    flush(session)
    assert read_recent(session)["last_flush"]["inserted"] == 25


def test_bytes_of_the_last_flush_are_known_if_those_of_all_its_tables_are(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    flush(session)
    first_batch, right = world.destination.control[resource_names.name_control_table(session.pipeline)]
    first_batch["bytes_written"], right["bytes_written"] = 1000, 24
    assert read_recent(session)["last_flush"]["bytes_written"] == 1024
    assert [row["bytes_written"] for row in read_batch_history(session, 9)["batches"]] == [24, 1000]
    right["bytes_written"] = None
    assert read_recent(session)["last_flush"]["bytes_written"] is None
    assert [row["bytes_written"] for row in read_batch_history(session, 9)["batches"]] == [None, 1000]


def test_dead_letters_that_wait_are_counted(world: World) -> None:
    tolerant = replace(TWO[0], errors=Errors("all", 3))
    world.broker.produce("left", {"id": "b"}, BAD)
    session = world.open_session(build_pipeline(tolerant, source={"errors": Errors("all", 3)}))
    flush(session)
    assert read_recent(session)["dead_letters"] == 1


def test_history_tells_when_each_partition_last_moved(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    flush(session)
    first = world.clock.ms
    world.clock.tick(60_000)
    world.broker.produce("right", {"id": "b"}, {"id": "b", "name": "y"})
    flush(session)
    advances = find_last_advances(
        world.destination.read_history(resource_names.name_control_table(session.pipeline), 100)
    )
    assert advances["left", 0] <= first < advances["right", 0]


def build_history(*batches: dict[str, dict[str, list[int]]], table: str = "t") -> list[dict[str, Any]]:
    """Rows of batches with these ranges, newest first; the newest is of the hundredth millisecond."""
    texts = map(json.dumps, batches)
    return [
        {"table": table, "backfill": None, "ranges": text, "published_at_ms": 100 - number}
        for number, text in enumerate(texts)
    ]


def test_newest_batch_that_moved_a_partition_tells_when_and_older_ones_are_not_looked_into() -> None:
    """Of a topic of thousands of partitions each row names all: hundreds of rows took seconds, every few seconds."""
    rows = build_history(
        {"a": {"0": [5, 9], "1": [3, 3]}}, {"a": {"0": [4, 5], "1": [3, 3]}}, {"a": {"0": [1, 4], "1": [2, 3]}}
    )
    older = build_history({"b": {"0": [7, 8]}}, {"b": {"0": [6, 7]}}, table="u")
    broken = [{**row, "ranges": "not read"} for row in (*build_history({}), *build_history({}, table="u"))]
    replayed = [{**row, "backfill": "x 1/1"} for row in build_history({"a": {"1": [0, 9]}})]
    assert find_last_advances([*replayed, *rows, *older[:1], *broken]) == {("a", 0): 100, ("a", 1): 98, ("b", 0): 100}
    assert find_last_advances(rows[:2]) == {("a", 0): 100}
    assert find_last_advances([]) == {}


def test_pipeline_without_lag_is_current(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    flush(session)
    assert describe_state(read_overview(session)) == (Health.CURRENT, "nothing waits")


def test_rolled_back_table_is_stuck_and_the_reason_is_the_way_out(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    flush(session)
    table = world.destination.tables["lake.shop.left"]
    world.destination.rollback("lake.shop.left", table.ancestors()[-1].id)
    state, reason = describe_state(read_overview(session), paused=True)
    assert state == Health.STUCK
    assert "on_rollback" in reason


def test_full_queue_is_stuck_even_while_other_tables_move() -> None:
    table = {"table": "lake.a.b", "problem": None, "open_batches": 10, "max_pending": 10}
    assert describe_state({"tables": [table], "lag": 5})[0] == Health.STUCK


def test_table_whose_catalog_may_answer_again_is_not_stuck(world: World) -> None:
    pipeline = build_pipeline(*TWO)
    flush(world.open_session(pipeline))
    row = read_overview(world.open_session(pipeline, destination=UnreadableTable(world.destination, "lake.shop.left")))
    state, reason = describe_state(row)
    assert (state, "catalog or files did not answer" in reason) == (Health.UNKNOWN, True)
    assert describe_state(row, failed="run 7") == (Health.FAILING, "run 7")
    assert describe_state(row, paused=True) == (Health.PAUSED, reason), "it cannot be resumed before that is mended"


@pytest.mark.parametrize(
    ("changed", "schedule", "state"),
    [
        ({"lag": 5, "lag_seconds": 30.0}, {}, Health.CURRENT),
        ({"lag": 5, "lag_seconds": 400.0}, {}, Health.CATCHING_UP),
        ({"lag": 5, "lag_seconds": 1.0, "open_batches": 3}, {}, Health.CATCHING_UP),
        ({"lag": 5, "lag_seconds": 2000.0}, {}, Health.STUCK),
        ({"lag": 5, "lag_seconds": 2000.0}, {"running": True}, Health.CATCHING_UP),
        ({"lag": 5, "lag_seconds": 2000.0}, {"running": True, "stalled": "task=stage waits"}, Health.STUCK),
        ({"lag": 5, "lag_seconds": 800.0}, {"running": True, "stalled": "task=stage waits"}, Health.CATCHING_UP),
        ({"lag": 5, "lag_seconds": 2000.0, "published_ms": 1_999_000}, {}, Health.CATCHING_UP),
        ({"lag": 5, "lag_seconds": None}, {}, Health.CURRENT),
        ({"lag": 5, "lag_seconds": 2000.0}, {"paused": True}, Health.PAUSED),
        ({"lag": 5, "lag_seconds": 2000.0}, {"failed": "run 7"}, Health.FAILING),
        ({"error": "the brokers do not answer"}, {}, Health.UNKNOWN),
        ({"error": "the brokers do not answer"}, {"failed": "run 7"}, Health.FAILING),
    ],
)
def test_state_in_words(changed: dict[str, Any], schedule: dict[str, Any], state: str) -> None:
    calm = {"lag": 0, "lag_seconds": 0.0, "open_batches": 0, "published_ms": 1, "tables": []}
    row = changed if "error" in changed else {**calm, **changed}
    assert describe_state(row, now_ms=2_000_000, **schedule)[0] == state


def test_position_that_fits_again_is_shown_at_the_next_reading_and_not_after_the_next_run(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    flush(session)
    refusal = {"failed": "plan failed: the log is another one", "refused_at": 100.0}
    row = read_overview(session)
    assert describe_state({**row, "read_at": 99.0}, **refusal)[0] == Health.FAILING
    assert describe_state({**row, "read_at": 101.0}, **refusal) == (Health.CURRENT, "nothing waits")
    assert describe_state({**row, "read_at": 101.0, "error": "no answer"}, **refusal)[0] == Health.FAILING
    assert describe_state({**row, "read_at": 101.0}, failed="stage failed: x")[0] == Health.FAILING


def test_failure_is_over_as_soon_as_what_failed_has_succeeded_but_not_where_a_table_may_be_left_out(
    world: World,
) -> None:
    fixed = {"failed": "stage failed: x", "running": True, "is_fixed": True}
    alone, several = (
        world.open_session(build_pipeline(build_table("lake.shop.alone", topics=("left",)))),
        world.open_session(build_pipeline(*TWO)),
    )
    for session in (alone, several):
        flush(session)
    assert describe_state(read_overview(alone), **fixed) == (Health.CURRENT, "nothing waits")
    assert describe_state({**read_overview(alone), "error": "no answer"}, **fixed) == (Health.UNKNOWN, "no answer")
    assert describe_state(read_overview(several), **fixed) == (Health.FAILING, "stage failed: x")


def test_fewer_records_than_start_a_flush_may_wait_for_ever() -> None:
    row = {"tables": [], "lag": 9, "lag_seconds": 90_000.0, "published_ms": 0, "open_batches": 0, "starts_at": 10}
    assert describe_pipeline_state(row, ScheduleState(), 0, 100_000_000)[0] == Health.CURRENT
    assert describe_pipeline_state({**row, "lag": 10}, ScheduleState(), 0, 100_000_000)[0] == Health.STUCK


@pytest.mark.parametrize(
    ("interval", "lag_seconds", "state"),
    [
        (10, 47.0, (Health.CATCHING_UP, "5 records wait, the oldest for 47 s")),
        (10, 19.0, (Health.CURRENT, "less than two intervals behind")),
        (60, 119.0, (Health.CURRENT, "less than two intervals behind")),
        (0, 59.0, (Health.CURRENT, "5 records wait, the oldest for 59 s")),
        (0, 61.0, (Health.CATCHING_UP, "5 records wait, the oldest for 1 min 1 s")),
        (60, None, (Health.CURRENT, "5 records wait, the brokers do not say since when")),
    ],
)
def test_what_is_less_than_two_intervals_behind_is_counted_by_its_own_interval(
    interval: int, lag_seconds: float | None, state: tuple[Health, str]
) -> None:
    row = {"lag": 5, "lag_seconds": lag_seconds, "open_batches": 0, "published_ms": 1, "tables": []}
    assert describe_state(row, interval) == state


def test_one_record_waits_and_several_wait() -> None:
    row = {"lag": 1, "lag_seconds": 90.0, "open_batches": 0, "published_ms": 1, "tables": []}
    assert describe_state(row, 10)[1] == "1 record waits, the oldest for 1 min 30 s"


def test_rolled_back_table_lacks_the_records_of_the_batches_that_it_lost(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    flush(session)
    known_through = read_overview(session)["tables"][0]["valid_through"]
    for name in ("b", "c"):
        world.clock.tick(10_000)
        world.broker.produce("left", {"id": name}, {"id": name, "name": "y"}, timestamp=world.clock.ms)
    flush(session)
    world.clock.tick(50_000)
    assert read_overview(session)["lag"] == 0
    table = world.destination.tables["lake.shop.left"]
    first = next(snapshot for snapshot in table.ancestors() if snapshot.summary.get("tidegate.shop.batch") == "1")
    world.destination.rollback("lake.shop.left", first.id)
    left, right = read_overview(session)["tables"]
    assert (left["lag"], left["lag_seconds"], left["valid_through"]) == (2, 60.0, known_through)
    assert (right["lag"], right["lag_seconds"]) == (0, 0.0)
    status = read_status(session)
    assert [(t["lag"], t["lag_seconds"]) for t in status["tables"]] == [(2, 60.0), (0, 0.0)]


def test_table_that_was_rolled_back_to_before_its_first_batch_lacks_what_lies_behind_its_start(world: World) -> None:
    for number in range(3):
        world.broker.produce("left", {"id": f"{number}"}, {"id": f"{number}", "name": "y"})
    world.destination.create("lake.shop.left", (Column("id", "STRING"), Column("name", "STRING")))
    foreign = world.destination.append_foreign_rows("lake.shop.left", {"id": "z", "name": "theirs"})
    pipeline = build_pipeline(*TWO)
    start = Start(StartKind.OFFSETS, offsets={"left": {0: 2}})
    session = world.open_session(replace(pipeline, source=replace(pipeline.source, start=start)))
    flush(session)
    assert read_overview(session)["tables"][0]["lag"] == 0
    world.destination.rollback("lake.shop.left", foreign.id)
    assert read_overview(session)["tables"][0]["lag"] == 2


def test_lag_counts_the_records_of_a_topic_that_was_created_again(world: World) -> None:
    session = world.open_session(build_pipeline(*TWO))
    flush(session)
    del world.broker.partitions["left"]
    world.broker.create("left", 2)
    for number in range(5):
        world.broker.produce("left", {"id": f"{number}"}, {"id": f"{number}", "name": "y"}, partition=number % 2)
    row = read_overview(session)
    assert [(t["lag"], t["problem"] is None) for t in row["tables"]] == [(5, False), (0, True)]
    assert [(p["topic"], p["partition"], p["published"], p["end"], p["lag"]) for p in row["partitions"]] == [
        ("left", 0, 0, 3, 3), ("left", 1, 0, 2, 2), ("right", 0, 1, 1, 0),
    ]  # fmt: skip
