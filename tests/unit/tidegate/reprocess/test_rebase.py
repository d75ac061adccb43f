"""rebase: the one move by hand; it shows first, moves by the same compare-and-swap, and leaves a mark."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fakes import BusyTable, Crash, PauseAt, World, build_pipeline, build_table
from tidegate.errors import ConfigurationError, GiveUp, NothingToDo, PositionLost, PublishedElsewhere, RetryLater
from tidegate.flush.flush import flush
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.model.position import Position
from tidegate.model.resource_names import name_intermediate_table
from tidegate.model.table_state import NO_TOPIC_ID, TableState
from tidegate.monitoring.status import read_status
from tidegate.ports.session import Session
from tidegate.reprocess.rebase import propose_moves, propose_rebase, rebase_position
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import History

NAME = "lake.shop.orders"
PIPELINE = build_pipeline()


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    for key in ("a", "b", "c"):
        produce(world, key, "1")
    flush(world.open_session(PIPELINE))
    return world


def produce(world: World, key: str, name: str) -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "name": name})


def move_positions(session: Session, to: str) -> None:
    propose_rebase(session, to).perform("ann")


def read_offsets(world: World) -> dict[str, dict[int, int]]:
    state = world.destination.read_state(NAME, "shop")
    assert state is not None
    assert state.position is not None
    return state.position.offsets


def test_preview_counts_what_is_skipped_or_read_again_and_changes_nothing(world: World) -> None:
    produce(world, "d", "1")
    forward, idle = propose_moves(world.open_session(PIPELINE), "latest")[0].moves
    back, _ = propose_moves(world.open_session(PIPELINE), "earliest")[0].moves
    assert (idle.partition, idle.before, idle.after, idle.skipped, idle.read_again) == (1, 0, 0, 0, 0)
    assert (forward.before, forward.after, forward.skipped, forward.read_again) == (3, 4, 1, 0)
    assert (back.before, back.after, back.skipped, back.read_again) == (3, 0, 0, 3)
    assert read_offsets(world) == {"orders": {0: 3, 1: 0}}


def test_preview_says_what_is_staged_and_would_never_be_published(world: World) -> None:
    session = world.open_session(PIPELINE)
    produce(world, "d", "1")
    stage(session, plan(session))
    preview = propose_rebase(session, "latest").preview
    assert f"{NAME}  batch=2 is staged and not published: nothing of it will be, unless you publish it first" in preview
    flush(session)
    assert "staged" not in propose_rebase(session, "latest").preview


def test_preview_is_silent_of_a_batch_that_another_run_has_published_first(world: World) -> None:
    session = world.open_session(PIPELINE)
    produce(world, "d", "1")
    planned = plan(session)
    flush(world.open_session(PIPELINE))
    late = replace(
        planned, tables=tuple(replace(table, batch=3) for table in planned.tables)
    )  # numbered behind the other
    stage(session, late)
    intermediate = name_intermediate_table(session.pipeline, session.pipeline.tables[0])
    assert [batch.batch for batch in session.staging.list_staged(intermediate, NAME)] == [3]
    assert "staged" not in propose_rebase(session, "latest").preview
    produce(world, "e", "1")
    stage(session, plan(session))
    assert f"{NAME}  batch=4 is staged and not published" in propose_rebase(session, "latest").preview


def test_batch_that_nobody_can_read_keeps_nobody_from_moving_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    session = world.open_session(PIPELINE)
    produce(world, "d", "1")
    stage(session, plan(session))

    def refuse(*_: object) -> None:
        raise GiveUp("attempt=x: ranges is missing; drop the intermediate table")

    monkeypatch.setattr(type(session.staging), "list_staged", refuse)
    assert "staged" not in propose_rebase(session, "latest").preview


def test_a_move_back_reads_the_records_again_and_the_table_stays_equal(world: World) -> None:
    move_positions(world.open_session(PIPELINE), '{"orders": {"0": 1}}')
    assert read_offsets(world) == {"orders": {0: 1, 1: 0}}
    flush(world.open_session(PIPELINE))
    assert [row["id"] for row in world.read_rows(NAME)] == ["a", "b", "c"]
    with pytest.raises(NothingToDo):
        flush(world.open_session(PIPELINE))


def test_a_lost_position_is_written_anew_where_it_is_asked_to_stand(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A destination keeps positions beside its tables, and that of this one is gone: only a person knows where."""
    state, seeds = world.destination.read_state, []

    def without_position(table: str, pipeline: str) -> TableState | None:
        table_state = state(table, pipeline)
        if table_state is None or seeds:
            return table_state
        return replace(
            table_state, position=None, recorded_position=None, snapshot_id=None, highest_batch=0, is_position_lost=True
        )

    def seed(table: str, pipeline: str, position: Position) -> None:
        seeds.append(position)
        world.destination.tables[table].properties |= position.to_properties(pipeline)

    monkeypatch.setattr(world.destination, "read_state", without_position)
    monkeypatch.setattr(world.destination, "seed", seed)
    with pytest.raises(PositionLost, match="its position is gone"):
        flush(world.open_session(PIPELINE))
    (move,) = propose_moves(world.open_session(PIPELINE), '{"orders": {"0": 2}}')
    assert [(part.before, part.after) for part in move.moves] == [(None, 2), (None, 0)]

    def die(call: str, moment: str) -> None:
        if (call, moment) == ("commits.start_branch", "before"):
            raise Crash

    with pytest.raises(Crash):
        rebase_position(world.open_session(PIPELINE, die), move, "ann")
    assert read_offsets(world) == {"orders": {0: 2, 1: 0}}  # not the begin of the log, whose rows are there
    rebase_position(world.open_session(PIPELINE), move, "ann")
    assert seeds == [move.after]
    assert read_offsets(world) == {"orders": {0: 2, 1: 0}}


def test_the_move_leaves_a_mark_and_never_reuses_a_batch_number(world: World) -> None:
    move_positions(world.open_session(PIPELINE), "earliest")
    head = world.destination.read_head(NAME, "tidegate_shop")
    assert head is not None
    mark = {"from": {"orders": {"0": 3, "1": 0}}, "to": {"orders": {"0": 0, "1": 0}}}
    assert json.loads(head.summary["tidegate.rebase"]) == mark
    assert plan(world.open_session(PIPELINE)).tables[0].batch == 2


def test_a_batch_staged_before_the_move_is_not_published_after_it(world: World) -> None:
    produce(world, "d", "1")
    session = world.open_session(PIPELINE)
    [batch] = stage(session, plan(session))
    move_positions(session, "earliest")
    with pytest.raises(PublishedElsewhere):
        merge(session, batch)
    assert read_offsets(world) == {"orders": {0: 0, 1: 0}}


@pytest.mark.guard(
    "a batch from before a rebase is not the table's next one",
    file="plugins/tidegate/table/position.py",
    text="    is_old = state is not None and batch <= state.highest_batch\n",
    off="    is_old = False\n",
)
def test_a_batch_staged_before_a_move_to_where_it_starts_is_neither_resumed_nor_published(world: World) -> None:
    """Its offsets may mean other records by now: here of a topic that was created again."""
    produce(world, "old", "1")
    session = world.open_session(PIPELINE)
    [batch] = stage(session, plan(session))
    world.broker.create("orders")
    for key in ("x", "y", "z", "new"):
        produce(world, key, "1")
    move_positions(session, '{"orders": {"0": 3}}')
    with pytest.raises(PublishedElsewhere):
        merge(session, batch)
    planned = plan(session).tables[0]
    assert (planned.is_resumed, planned.batch, planned.ranges.to_dict()) == (
        False,
        3,
        {"orders": {"0": [3, 4], "1": [0, 0]}},
    )
    flush(session)
    assert [row["id"] for row in world.read_rows(NAME)] == ["a", "b", "c", "new"]


def recreate_orders(world: World) -> None:
    world.broker.create("orders")
    for key in ("x", "y", "z", "new"):
        produce(world, key, "1")


def change_cluster(world: World) -> None:
    """Its log is longer, so the offsets of the copied records mean others there."""
    recreate_orders(world)
    world.broker.ids["orders"] = NO_TOPIC_ID  # an old broker's
    world.broker.cluster_id = "cluster-2"


@pytest.mark.guard(
    "a batch of another log than the position's is not the table's next one",
    file="plugins/tidegate/table/position.py",
    text="    is_other = position is not None and is_of_other_log(position, planned)\n",
    off="    is_other = False\n",
)
@pytest.mark.parametrize("change_log", [recreate_orders, change_cluster])
def test_a_batch_whose_job_ends_behind_a_move_to_where_it_starts_in_another_log_is_not_published(
    world: World, change_log: Callable[[World], None]
) -> None:
    """Its worker has compared the topics before, and counts it after the move, which could not see its number."""
    produce(world, "old", "1")
    session = world.open_session(PIPELINE)
    moved = list[str]()

    def move_meanwhile(call: str, moment: str) -> None:
        if (call, moment) == ("staging.complete_attempt", "before") and not moved:
            moved.append(call)
            change_log(world)
            move_positions(session, '{"orders": {"0": 3}}')

    [batch] = stage(world.open_session(PIPELINE, move_meanwhile), plan(session))
    assert moved
    with pytest.raises(PublishedElsewhere, match="moved to another log since it was planned"):
        merge(session, batch)
    assert not plan(session).tables[0].is_resumed
    flush(session)
    assert [row["id"] for row in world.read_rows(NAME)] == ["a", "b", "c", "new"]


def test_what_is_shown_is_what_is_moved_the_log_is_read_once(world: World) -> None:
    calls: list[str] = []
    move_positions(
        world.open_session(PIPELINE, hook=lambda call, moment: calls.append(call) if moment == "before" else None),
        "earliest",
    )
    assert calls.count("broker.read_log") == 1
    assert calls.count("commits.publish") == 1


def test_positions_of_several_tables_move_each_from_where_it_stands() -> None:
    world, pipeline = World(), build_pipeline(build_table("lake.shop.one"), build_table("lake.shop.two"))
    world.broker.create("orders")
    produce(world, "a", "1")
    flush(world.open_session(pipeline))
    moves = [move for table in propose_moves(world.open_session(pipeline), "earliest") for move in table.moves]
    move_counts = [(m.table, m.partition, m.read_again) for m in moves]
    assert move_counts == [
        ("lake.shop.one", 0, 1),
        ("lake.shop.one", 1, 0),
        ("lake.shop.two", 0, 1),
        ("lake.shop.two", 1, 0),
    ]
    move_positions(world.open_session(pipeline), "earliest")
    flush(world.open_session(pipeline))
    assert world.read_rows("lake.shop.one") == world.read_rows("lake.shop.two") == [{"id": "a", "name": "1"}]


def build_two_partitions() -> World:
    """Five records in each partition, flushed, and one more in each that is not."""
    world = World()
    world.broker.create("orders", 2)
    for number in range(5):
        for partition in (0, 1):
            world.broker.produce("orders", {"id": f"{partition}{number}"}, {"id": "x", "name": "1"}, partition)
    flush(world.open_session(PIPELINE))
    for partition in (0, 1):
        world.broker.produce("orders", {"id": f"{partition}5"}, {"id": "x", "name": "1"}, partition)
    return world


def test_partitions_that_are_not_named_stay_where_they_are() -> None:
    world = build_two_partitions()
    move_positions(world.open_session(PIPELINE), '{"orders": {"1": 2}}')
    assert read_offsets(world) == {"orders": {0: 5, 1: 2}}
    move_positions(world.open_session(PIPELINE), '{"orders": {"0": 6}}')
    assert read_offsets(world) == {"orders": {0: 6, 1: 2}}


def test_a_partition_that_came_since_begins_at_its_first_record_whatever_is_named() -> None:
    """Without a place in the position it would stop the next flush: its keys may have moved."""
    world = build_two_partitions()
    world.broker.grow("orders", 3)
    for key in ("new", "newer"):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "1"}, 2)
    world.broker.retain_from("orders", 1, partition=2)
    move_positions(world.open_session(PIPELINE), '{"orders": {"1": 2}}')
    assert read_offsets(world) == {"orders": {0: 5, 1: 2, 2: 1}}
    flush(world.open_session(PIPELINE))
    assert [row["id"] for row in world.read_rows(NAME) if row["id"].startswith("new")] == ["newer"]


@pytest.mark.guard(
    "a rebase to the group begins a partition without an offset at its first record",
    file="plugins/tidegate/table/start_offsets.py",
    text="log, merge_offsets(log.begin, session.broker.read_committed(",
    off="log, merge_offsets(log.end, session.broker.read_committed(",
)
def test_a_partition_that_the_group_has_no_offset_of_begins_at_its_first_record() -> None:
    world = build_two_partitions()
    world.broker.groups["tidegate-shop"] = {"orders": {1: 4}}
    move_positions(world.open_session(PIPELINE), "group")
    assert read_offsets(world) == {"orders": {0: 0, 1: 4}}


@pytest.mark.guard(
    "a rebase to a time skips no open transaction",
    file="plugins/tidegate/table/start_offsets.py",
    text="    return RebaseTarget(find_lowest(log.end, merge_offsets(log.begin, times)))\n",
    off="    return RebaseTarget(times)\n",
)
def test_a_time_behind_an_open_transaction_leaves_its_records_to_be_read() -> None:
    world = build_two_partitions()
    world.broker.transaction("orders", [({"id": "late"}, {"id": "late", "name": "1"})], partition=1, ending="open")
    move_positions(world.open_session(PIPELINE), "2100-01-01T00:00:00Z")
    assert read_offsets(world) == {"orders": {0: 6, 1: 6}}
    partition = world.broker.partitions["orders"][1]
    partition.records = [replace(r, kind="data") if r.kind == "open" else r for r in partition.records]
    flush(world.open_session(PIPELINE))
    assert "late" in [row["id"] for row in world.read_rows(NAME)]
    uncommitted = replace(PIPELINE, source=replace(PIPELINE.source, isolation="read_uncommitted"))
    world.broker.transaction("orders", [({"id": "seen"}, {"id": "seen", "name": "1"})], partition=0, ending="open")
    move_positions(world.open_session(uncommitted), "2100-01-01T00:00:00Z")
    assert read_offsets(world) == {"orders": {0: 7, 1: 7}}


def test_a_time_moves_each_partition_to_its_first_record_from_then_on() -> None:
    world = build_two_partitions()
    middle = world.broker.partitions["orders"][0].records[2].timestamp
    move_positions(world.open_session(PIPELINE), datetime.fromtimestamp(middle / 1000, UTC).isoformat())
    later = [r.offset for r in world.broker.partitions["orders"][1].records if r.timestamp >= middle]
    assert read_offsets(world) == {"orders": {0: 2, 1: later[0]}}


def test_a_foreign_compaction_during_the_move_is_survived(world: World) -> None:
    move_positions(world.open_session(PIPELINE, destination=BusyTable(world.destination)), "earliest")
    assert read_offsets(world) == {"orders": {0: 0, 1: 0}}


def test_a_flush_that_publishes_during_the_move_wins(world: World) -> None:
    produce(world, "d", "1")

    def meanwhile() -> None:
        flush(world.open_session(PIPELINE))

    calls: list[str] = []
    move_positions(
        world.open_session(PIPELINE, hook=lambda call, moment: calls.append(call) if moment == "before" else None),
        "latest",
    )
    at = calls.index("commits.publish") * 2
    produce(world, "e", "1")
    with pytest.raises(RetryLater, match="another writer was faster"):
        move_positions(world.open_session(PIPELINE, hook=PauseAt(at, meanwhile)), "earliest")
    assert read_offsets(world) == {"orders": {0: 5, 1: 0}}


def test_preview_counts_the_offsets_of_a_topic_that_was_created_again_and_none_of_the_old_one(world: World) -> None:
    del world.broker.partitions["orders"]
    world.broker.create("orders")
    for number in range(5):
        produce(world, f"z{number}", "1")
    session = world.open_session(PIPELINE)
    first, other = propose_moves(session, "earliest")[0].moves
    assert (first.before, first.after, first.new_log, first.skipped, first.read_again) == (3, 0, (0, 5), 0, 0)
    assert (other.after, other.new_log, other.skipped, other.read_again) == (0, (0, 0), 0, 0)
    preview = propose_rebase(session, "earliest").preview
    assert f"{NAME}  orders 0: begins at 0 of the new topic, reads 5 of its 5 offsets" in preview
    assert "3 -> 0" not in preview
    assert "reads 2 of its 5 offsets" in propose_rebase(session, '{"orders": {"0": 3}}').preview


def test_a_recreated_topic_is_left_behind_by_a_rebase(world: World) -> None:
    del world.broker.partitions["orders"]
    world.broker.create("orders")
    produce(world, "z", "1")
    with pytest.raises(PositionLost):
        flush(world.open_session(PIPELINE))
    [problem] = [table["problem"] for table in read_status(world.open_session(PIPELINE))["tables"]]
    assert "tidegate rebase" in problem
    move_positions(world.open_session(PIPELINE), "earliest")
    flush(world.open_session(PIPELINE))
    assert [row["id"] for row in world.read_rows(NAME)] == ["a", "b", "c", "z"]


def make_topic_again(world: World) -> None:
    world.broker.create("orders")


def move_to_another_cluster(world: World) -> None:
    make_topic_again(world)
    world.broker.cluster_id = "other"


def cut_log(world: World) -> None:
    """A newer leader lacks all but the first record."""
    world.broker.elect("orders", has=1)


HISTORY_COLUMNS = (Column("id", "STRING"), Column("name", "STRING"), Column("lsn", "INT"))


def build_versions(topic: str = "orders") -> Pipeline:
    options = {"sequence_by": ("lsn",), "history": History(), "topics": (topic,)}
    return build_pipeline(build_table(NAME, columns=HISTORY_COLUMNS, **options))


def list_current_keys(world: World) -> list[str]:
    return [row["id"] for row in world.read_rows(NAME) if row["is_current"]]


@pytest.mark.guard(
    "changes that are remembered by offsets of an old log are not compared with those of a new one",
    file="plugins/tidegate/reprocess/rebase.py",
    text="    if is_ordered and (old_topics or _leads_to_other_log(session, before, after, part)):\n",
    off="    if False:\n",
)
@pytest.mark.parametrize(
    ("change", "topic"),
    [(make_topic_again, "orders"), (move_to_another_cluster, "orders"), (cut_log, "orders"), (make_topic_again, "new")],
)
def test_delete_of_another_log_ends_the_row_though_changes_of_the_old_one_are_remembered(
    change: Callable[[World], None], topic: str
) -> None:
    """A delete without a sequence ends what came before it by offset, and the other log begins again at low ones."""
    world = World()
    world.broker.create("orders")
    world.broker.create("new")
    pipeline = build_versions()
    for number in range(4):
        world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": str(number), "lsn": number})
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "x", "lsn": 9})
    flush(world.open_session(pipeline))
    propose_rebase(world.open_session(pipeline), "earliest").perform("ann")  # the log is the same
    flush(world.open_session(pipeline))
    assert list_current_keys(world) == ["a", "b"]
    change(world)
    pipeline = build_versions(topic)
    world.clock.tick(60_000)
    world.broker.produce(topic, {"id": "a"}, None)
    with pytest.raises(PositionLost):
        flush(world.open_session(pipeline))
    with pytest.raises(GiveUp, match="drop that table, then run the same command"):
        propose_rebase(world.open_session(pipeline), "earliest")
    del world.destination.tables[f"{NAME}_changes"]
    propose_rebase(world.open_session(pipeline), "earliest").perform("ann")
    flush(world.open_session(pipeline))
    assert list_current_keys(world) == ["b"]


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("yesterday", "write earliest, latest, group, a time"),
        ("2026-01-01T00:00:00", "without a zone"),
        ("2026-01-01", "without a zone; write e.g. 2026-01-01T00:00:00Z"),
        ('{"orders": {"0": 99}}', "outside the log"),
        ('{"orders": {"0": 1, "7": 0}}', r"topic=orders partition=7: the topic has no such partition; it has \[0, 1\]"),
        ('{"orders": 3}', "not offsets"),
        ('{"order": {"0": 1}}', "topic=order: the pipeline reads no such topic; its topics are orders"),
        ('{"orders": {"0": 1.9}}', "offset 1.9 is no whole number"),
        ('{"orders": {"0": 1e999}}', "offset Infinity is no whole number"),
        ('{"orders": {"0": true}}', "offset true is no whole number"),
        ('{"orders": {"0": "1.5"}}', 'offset "1.5" is no whole number'),
        ('{"orders": {"0": 1, "0": 2}}', "0 is named twice"),
        ('{"orders": {"0": 1, "00": 2}}', "partition 0 is named twice"),
        ('{"orders": {"0": -1}}', "offset -1 is none that a log can have"),
        ('{"orders": {"-1": 1}}', "partition -1 is no whole number"),
    ],
)
def test_a_wrong_target_is_refused_with_the_way_out(world: World, to: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        move_positions(world.open_session(PIPELINE), to)
    assert read_offsets(world) == {"orders": {0: 3, 1: 0}}


def test_a_table_without_a_position_has_none_to_move() -> None:
    new_world = World()
    new_world.broker.create("orders")
    with pytest.raises(
        ConfigurationError, match="set that instead, and move each other table by its name, with --table"
    ):
        move_positions(new_world.open_session(PIPELINE), "latest")
