"""merge: one publish per batch, whatever is retried, refused, lost, moved or replaced meanwhile."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from examples import choose_calls
from fakes import (
    AnswerLostAfterPublish,
    AnswerLostBeforePublish,
    BusyTable,
    PauseAt,
    RefusesPublish,
    World,
    build_pipeline,
    build_table,
)
from fakes.clock import Crash
from fakes.faults import DiesBetweenStatements
from tidegate.errors import GiveUp, NothingToDo, OutcomeUnknown, PositionLost, PublishedElsewhere, RetryLater
from tidegate.flush.clean_up import clean_up
from tidegate.flush.flush import flush
from tidegate.flush.merge import merge
from tidegate.flush.merge_queue import merge_queue
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.merge.attempt import MAX_ROUNDS, RETRY_PAUSES_SECONDS
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.position import Position
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Heartbeat
from tidegate.spec.table import Create

NAME, INTERMEDIATE = "lake.shop.orders", "lake.shop.orders_shop_tmp"
PIPELINE = build_pipeline()
A, B = {"id": "a", "name": "x"}, {"id": "b", "name": "y"}


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    produce(world, "a", "x")
    return world


def produce(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name})


def stage_batch(world: World, pipeline=PIPELINE) -> StagedBatch:
    session = world.open_session(pipeline)
    (batch,) = stage(session, plan(session))
    return batch


def read_position(world: World, name: str = NAME) -> Position:
    state = world.destination.read_state(name, "shop")
    assert state is not None
    assert state.position is not None
    return state.position


def interrupt_merge(
    world: World, target_call: str, interrupt: Callable[[], object], pipeline=PIPELINE, **options
) -> object:
    """Merge the open batch; `interrupt` runs once just before the port call `target_call`."""
    batch, calls = stage_batch(world, pipeline), []

    def hook(call: str, moment: str) -> None:
        if (call, moment) == (target_call, "before") and not calls:
            calls.append(True)
            interrupt()

    return merge(world.open_session(pipeline, hook, **options), batch)


def test_first_batch_creates_the_table_and_publishes(world: World) -> None:
    published = merge(world.open_session(PIPELINE), stage_batch(world))
    assert world.read_rows(NAME) == [A]
    assert (published.outcome, published.inserted, published.batch) == ("published", 1, 1)
    assert read_position(world).offsets == {"orders": {0: 1, 1: 0}}


def test_missing_table_with_creation_switched_off_names_both_ways_out(world: World) -> None:
    pipeline = build_pipeline(build_table(create=Create(enabled=False)))
    with pytest.raises(GiveUp, match=r"create.enabled=false; create it"):
        merge(world.open_session(pipeline), stage_batch(world, pipeline))


@pytest.mark.parametrize("after", [1, 2, 3])
def test_table_whose_creation_was_killed_gets_its_order_all_the_same(world: World, after: int) -> None:
    pipeline = build_pipeline(build_table(create=Create(cluster_by=("name", "id"))))
    batch = stage_batch(world, pipeline)
    with pytest.raises(Crash):
        merge(world.open_session(pipeline, engine=DiesBetweenStatements(world.engine, after)), batch)
    merge(world.open_session(pipeline), batch)
    assert (world.read_rows(NAME), world.destination.tables[NAME].ordered_by) == ([A], ("name", "id"))


@pytest.mark.guard(
    "only the pipeline that created a table sets its sort order",
    file="plugins/tidegate/flush/merge.py",
    text="    return creator == table.pipeline.name\n",
    off="    return True\n",
)
@pytest.mark.parametrize("created_by", ["", "another"])
def test_empty_table_that_somebody_else_created_keeps_its_order(world: World, created_by: str) -> None:
    table = world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    table.properties["tidegate.created-by"], table.ordered_by = created_by, ("id",)
    pipeline = build_pipeline(build_table(create=Create(cluster_by=("name",))))
    merge(world.open_session(pipeline), stage_batch(world, pipeline))
    assert (world.read_rows(NAME), table.ordered_by) == ([A], ("id",))


def test_position_main_and_tag_move_together(world: World) -> None:
    published = merge(world.open_session(PIPELINE), stage_batch(world))
    table = world.destination.tables[NAME]
    assert table.refs == {"main": published.snapshot_id, "tidegate_shop": published.snapshot_id}
    snapshot = table.snapshots[table.refs["main"]]
    assert Position.from_properties("shop", snapshot.summary) == Position.from_properties("shop", table.properties)


def test_position_carries_cluster_topic_ids_and_time(world: World) -> None:
    world.broker.produce("orders", B, B, partition=1)
    batch = stage_batch(world)
    published = merge(world.open_session(PIPELINE), batch)
    position = read_position(world)
    assert (position.cluster_id, position.topic_ids) == ("cluster-1", {"orders": world.broker.ids["orders"]})
    assert position.valid_through_ms == published.valid_through_ms == min(batch.timestamps["orders"].values())
    assert batch.timestamps["orders"].keys() == {0, 1}


def test_valid_through_never_goes_back(world: World) -> None:
    world.broker.produce("orders", B, B, partition=1)
    merge(world.open_session(PIPELINE), stage_batch(world))
    before = read_position(world).valid_through_ms
    for partition in (0, 1):
        world.broker.produce("orders", {"id": "late"}, {"id": "late", "name": "x"}, partition, timestamp=1)
        merge(world.open_session(PIPELINE), stage_batch(world))
        assert (
            read_position(world).valid_through_ms == before == world.broker.partitions["orders"][0].records[0].timestamp
        )


def test_valid_through_is_not_known_before_each_partition_has_shown_a_record(world: World) -> None:
    merge(world.open_session(PIPELINE), stage_batch(world))
    assert read_position(world).valid_through_ms is None


def test_retry_after_publish_does_not_publish_twice(world: World) -> None:
    batch = stage_batch(world)
    first = merge(world.open_session(PIPELINE), batch)
    snapshots = len(world.destination.tables[NAME].snapshots)
    result = merge(world.open_session(PIPELINE), batch)
    assert (result.outcome, result.snapshot_id, result.inserted) == ("already published", first.snapshot_id, 1)
    assert len(world.destination.tables[NAME].snapshots) == snapshots
    assert len(world.engine.merges) == 1


def test_retry_after_publish_of_an_append_does_not_append_twice(world: World) -> None:
    pipeline = build_pipeline(build_table(mode="append"))
    batch = stage_batch(world, pipeline)
    merge(world.open_session(pipeline), batch)
    merge(world.open_session(pipeline), batch)
    assert world.read_rows(NAME) == [A]


def test_retry_after_clean_up_does_not_publish_twice(world: World) -> None:
    batch = stage_batch(world)
    merge(world.open_session(PIPELINE), batch)
    clean_up(world.open_session(PIPELINE))
    assert merge(world.open_session(PIPELINE), batch).outcome == "already published"


def test_stale_batch_is_told_that_another_run_published_first(world: World) -> None:
    batch = stage_batch(world)
    merge(world.open_session(PIPELINE), batch)
    produce(world, "b", "y")
    flush(world.open_session(PIPELINE))
    with pytest.raises(PublishedElsewhere, match="nothing was changed and nothing needs repair"):
        merge(world.open_session(PIPELINE), batch)
    assert world.read_rows(NAME) == [A, B]


def test_second_attempt_at_the_same_ranges_loses_without_a_trace(world: World) -> None:
    session = world.open_session(PIPELINE)
    planned = plan(session)
    (first,), (second,) = stage(session, planned), stage(session, planned)
    merge(world.open_session(PIPELINE), second)
    with pytest.raises(PublishedElsewhere):
        merge(world.open_session(PIPELINE), first)
    assert world.read_rows(NAME) == [A]


def test_main_moved_before_the_publish_is_cut_and_merged_again(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    busy = BusyTable(world.destination, 1, {"id": "b", "name": "foreign"})
    published = merge(world.open_session(PIPELINE, destination=busy), stage_batch(world))
    assert published.outcome == "published"
    assert world.read_rows(NAME) == [A, B]
    assert len(world.engine.merges) == 3
    assert read_position(world).offsets == {"orders": {0: 2, 1: 0}}


def test_rows_that_another_writer_added_meanwhile_survive(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    foreign = {"id": "f", "name": "foreign"}
    interrupt_merge(world, "commits.publish", lambda: world.destination.append_foreign_rows(NAME, foreign))
    assert world.read_rows(NAME) == [A, B, foreign]


def test_main_moved_before_the_cut_is_noticed(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    foreign = {"id": "f", "name": "foreign"}
    interrupt_merge(world, "commits.start_branch", lambda: world.destination.append_foreign_rows(NAME, foreign))
    assert world.read_rows(NAME) == [A, B, foreign]


def test_table_that_never_rests_is_left_to_the_tasks_own_retry(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    busy, began = BusyTable(world.destination, MAX_ROUNDS, {"id": "b", "name": "foreign"}), world.clock.ms
    with pytest.raises(RetryLater, match=f"moved main {MAX_ROUNDS} times"):
        merge(world.open_session(PIPELINE, destination=busy), stage_batch(world))
    assert world.read_rows(NAME) == [A, *[{"id": "b", "name": "foreign"}] * MAX_ROUNDS]
    assert world.clock.ms - began >= sum(RETRY_PAUSES_SECONDS) * 1000  # others' bursts are waited out


def test_position_moved_during_the_merge_changes_nothing(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")

    def another_run() -> None:
        flush(world.open_session(PIPELINE))
        produce(world, "b", "newer")
        flush(world.open_session(PIPELINE))

    with pytest.raises(PublishedElsewhere):
        interrupt_merge(world, "commits.publish", another_run)
    assert world.read_rows(NAME) == [A, {"id": "b", "name": "newer"}]


def test_same_attempt_published_by_a_twin_is_a_success(world: World) -> None:
    batch = stage_batch(world)
    calls = []

    def twin(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before") and not calls:
            calls.append(merge(world.open_session(PIPELINE), batch))

    result = merge(world.open_session(PIPELINE, twin), batch)
    main = world.destination.tables[NAME].refs["main"]
    assert (calls[0].snapshot_id, result.snapshot_id) == (main, main)  # not a snapshot of our own that nobody sees
    assert world.read_rows(NAME) == [A]


@pytest.mark.guard(
    "the table is the one that the batch was staged for",
    file="plugins/tidegate/flush/merge.py",
    text="if staged_for is not None and staged_for != current_uuid:",
    off="if False:",
)
def test_replaced_table_is_not_merged_into(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    batch = stage_batch(world)
    world.destination.replace(NAME)
    with pytest.raises(PositionLost, match="replaced by another of the same name"):
        merge(world.open_session(PIPELINE), batch)
    assert world.read_rows(NAME) == []


def test_table_replaced_during_the_merge_is_not_published_into(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    with pytest.raises((PositionLost, RetryLater)):
        interrupt_merge(world, "commits.publish", lambda: world.destination.replace(NAME))
    assert world.read_rows(NAME) == []


def test_flush_after_a_replacement_plans_anew_as_its_message_promises(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    batch = stage_batch(world)
    world.destination.replace(NAME)
    with pytest.raises(PositionLost, match="the next flush plans again"):
        merge(world.open_session(PIPELINE), batch)
    flush(world.open_session(PIPELINE))
    assert world.read_rows(NAME) == [A, B]


def test_table_dropped_with_a_batch_staged_is_filled_again_from_the_start(world: World) -> None:
    """A batch from the middle of the log must not become a new table's first: earlier rows would be skipped."""
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    stage_batch(world)
    del world.destination.tables[NAME]
    for _ in range(2):
        try:
            flush(world.open_session(PIPELINE))
            break
        except PositionLost:
            pass
    assert world.read_rows(NAME) == [A, B]


@pytest.mark.guard(
    "a lost answer is looked up",
    file="plugins/tidegate/merge/attempt.py",
    text="            with suppress(OutcomeUnknown):\n",
    off="            with suppress():\n",
)
def test_answer_lost_after_the_publish_is_found_in_the_position(world: World) -> None:
    published = merge(
        world.open_session(PIPELINE, destination=AnswerLostAfterPublish(world.destination)), stage_batch(world)
    )
    assert published.outcome == "published"
    assert (world.read_rows(NAME), len(world.engine.merges)) == ([A], 1)


def test_answer_lost_before_the_publish_is_published_after_all(world: World) -> None:
    merge(world.open_session(PIPELINE, destination=AnswerLostBeforePublish(world.destination)), stage_batch(world))
    assert (world.read_rows(NAME), len(world.engine.merges)) == ([A], 1)
    assert read_position(world).offsets == {"orders": {0: 1, 1: 0}}


def test_answer_lost_and_then_another_run_published_is_not_repeated(world: World) -> None:
    class LostAndOvertaken(AnswerLostAfterPublish):
        def publish(self, publication) -> None:
            try:
                super().publish(publication)
            except OutcomeUnknown:
                produce(world, "a", "newer")
                flush(world.open_session(PIPELINE))
                raise

    with pytest.raises(PublishedElsewhere):
        merge(world.open_session(PIPELINE, destination=LostAndOvertaken(world.destination)), stage_batch(world))
    assert world.read_rows(NAME) == [{"id": "a", "name": "newer"}]


def test_foreign_metadata_change_publishes_again_without_merging_again(world: World) -> None:
    merge(world.open_session(PIPELINE, destination=RefusesPublish(world.destination)), stage_batch(world))
    assert (world.read_rows(NAME), len(world.engine.merges)) == ([A], 1)


def test_catalog_that_refuses_for_ever_is_left_to_the_tasks_own_retry(world: World) -> None:
    with pytest.raises(RetryLater, match="refused the publish"):
        merge(world.open_session(PIPELINE, destination=RefusesPublish(world.destination, 99)), stage_batch(world))
    assert world.read_rows(NAME) == []


def test_schema_changed_during_the_merge_is_merged_again(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    added = (Column("id", "STRING"), Column("name", "STRING"), Column("more", "INT"))
    interrupt_merge(
        world,
        "commits.publish",
        lambda: world.destination.evolve(NAME, added, add=True, widen=True, relax=True),
    )
    assert [r["id"] for r in world.read_rows(NAME)] == ["a", "b"]
    assert len(world.engine.merges) == 3


def test_branch_that_somebody_else_wrote_to_is_not_published(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")

    def meddle() -> None:
        table = world.destination.tables[NAME]
        branch = next(ref for ref in table.refs if resource_names.parse_branch_batch("shop", ref))
        world.destination.add_snapshot(NAME, branch, (), {"operation": "overwrite"})

    with pytest.raises(RetryLater, match="not as this attempt left it"):
        interrupt_merge(world, "commits.read_head", meddle)
    assert world.read_rows(NAME) == [A]


@pytest.mark.guard(
    "the head is the one snapshot above the cut",
    file="plugins/tidegate/merge/attempt.py",
    text=" and head.parent_id == parent_id",
    off="",
)
def test_snapshot_that_somebody_put_below_ours_on_the_branch_is_not_published(world: World) -> None:
    """The head is ours, but what it stands on is not the cut: foreign rows would be published with it."""
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")

    def meddle() -> None:
        table = world.destination.tables[NAME]
        branch = next(ref for ref in table.refs if resource_names.parse_branch_batch("shop", ref))
        world.destination.add_snapshot(NAME, branch, ({"id": "foreign", "name": "f"},), {"operation": "append"})

    with pytest.raises(RetryLater, match="not as this attempt left it"):
        interrupt_merge(world, "engine.run", meddle)
    assert world.read_rows(NAME) == [A]


def test_merge_that_changes_nothing_still_moves_the_position(world: World) -> None:
    """A tombstone for a row that is not there: Spark makes no snapshot, the position needs one."""
    world.broker.create("orders")
    produce(world, "never-there", None)
    merge(world.open_session(PIPELINE), stage_batch(world))
    assert (world.read_rows(NAME), read_position(world).offsets) == ([], {"orders": {0: 1, 1: 0}})


def test_every_change_of_a_position_makes_a_snapshot(world: World) -> None:
    merge(world.open_session(PIPELINE), stage_batch(world))
    before = world.destination.tables[NAME].refs["main"]
    produce(world, "never-there", None)
    merge(world.open_session(PIPELINE), stage_batch(world))
    assert world.destination.tables[NAME].refs["main"] != before


def stage_aborted_batch(world: World) -> StagedBatch:
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    return stage_batch(world)


def test_batch_without_rows_makes_no_snapshot_before_a_heartbeat_is_due(world: World) -> None:
    flush(world.open_session(PIPELINE))
    before = world.destination.tables[NAME].refs["main"]
    published = merge(world.open_session(PIPELINE), stage_aborted_batch(world))
    assert (published.outcome, published.snapshot_id) == ("no rows", None)
    assert world.destination.tables[NAME].refs["main"] == before
    assert read_position(world).offsets == {"orders": {0: 1, 1: 0}}


def test_batch_without_rows_moves_the_position_once_a_heartbeat_is_due(world: World) -> None:
    flush(world.open_session(PIPELINE))
    batch = stage_aborted_batch(world)
    world.clock.tick(600_000)
    assert merge(world.open_session(PIPELINE), batch).outcome == "published"
    assert read_position(world).offsets == {"orders": {0: 3, 1: 0}}
    assert world.read_rows(NAME) == [A]


def test_disabled_heartbeat_never_makes_a_snapshot_without_rows(world: World) -> None:
    """`heartbeat.interval: 0` is documented as disabled, not as always due."""
    pipeline = build_pipeline(heartbeat=Heartbeat(interval_seconds=0))
    flush(world.open_session(pipeline))
    before = world.destination.tables[NAME].refs["main"]
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    assert merge(world.open_session(pipeline), stage_batch(world, pipeline)).snapshot_id is None
    assert world.destination.tables[NAME].refs["main"] == before


def test_rows_behind_an_empty_batch_are_not_lost(world: World) -> None:
    flush(world.open_session(PIPELINE))
    merge(world.open_session(PIPELINE), stage_aborted_batch(world))
    produce(world, "b", "y")
    flush(world.open_session(PIPELINE))
    assert world.read_rows(NAME) == [A, B]


def test_column_missing_in_the_table_is_added_before_the_merge(world: World) -> None:
    flush(world.open_session(PIPELINE))
    wider = build_pipeline(
        build_table(columns=(Column("id", "STRING"), Column("name", "STRING"), Column("city", "STRING")))
    )
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y", "city": "Oslo"})
    flush(world.open_session(wider))
    assert {r["id"]: r.get("city") for r in world.read_rows(NAME)} == {"a": None, "b": "Oslo"}


def test_incompatible_column_gives_up_and_merges_nothing(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    pipeline = build_pipeline(build_table(columns=(Column("id", "STRING"), Column("name", "DOUBLE"))))
    with pytest.raises(GiveUp, match="incompatible"):
        merge(world.open_session(pipeline), stage_batch(world, pipeline))
    assert world.read_rows(NAME) == [A]


def test_table_made_by_hand_without_a_snapshot_is_seeded_at_the_batchs_start(world: World) -> None:
    world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    merge(world.open_session(PIPELINE), stage_batch(world))
    seeded = world.destination.tables[NAME].ancestors()[-1]
    properties = Position.from_properties("shop", seeded.summary)
    assert properties is not None
    assert (properties.offsets, seeded.rows) == ({"orders": {0: 0, 1: 0}}, ())


def test_table_with_rows_of_others_and_no_position_is_merged_into(world: World) -> None:
    world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    world.destination.append_foreign_rows(NAME, {"id": "a", "name": "old"}, {"id": "z", "name": "old"})
    merge(world.open_session(PIPELINE), stage_batch(world))
    assert world.read_rows(NAME) == [A, {"id": "z", "name": "old"}]


def test_two_first_runs_that_both_create_the_table_publish_once(world: World) -> None:
    pipeline = build_pipeline(build_table(mode="append"))
    batch, twin_done = stage_batch(world, pipeline), []

    def twin(call: str, moment: str) -> None:
        if (call, moment) == ("commits.seed", "before") and not twin_done:
            twin_done.append(merge(world.open_session(pipeline), batch))

    try:
        merge(world.open_session(pipeline, twin), batch)
    except RetryLater:
        merge(world.open_session(pipeline), batch)
    assert world.read_rows(NAME) == [A]


def test_merge_paused_at_any_call_while_newer_batches_are_published_changes_nothing() -> None:
    """Protocol, what must hold: 3. A runner paused between any two steps that wakes later changes nothing."""
    for number in choose_calls(500):
        world = World()
        world.broker.create("orders")
        produce(world, "a", "old")
        batch = stage_batch(world)

        def others(world: World = world) -> None:
            for name in ("newer", "newest"):
                produce(world, "a", name)
                flush(world.open_session(PIPELINE))

        pause = PauseAt(number, others)
        try:
            outcome = merge(world.open_session(PIPELINE, pause), batch).outcome
        except (PublishedElsewhere, RetryLater) as error:
            outcome = type(error).__name__
        if pause.calls < number:
            break
        flush_the_rest(world)
        assert world.read_rows(NAME) == [{"id": "a", "name": "newest"}], f"call={number} outcome={outcome}"
        assert read_position(world).offsets == {"orders": {0: 3, 1: 0}}, f"call={number} outcome={outcome}"
    assert number > 15


def flush_the_rest(world: World) -> None:
    """The open batch was resumed first, so that the newest records may wait for one more flush."""
    for _ in range(2):
        with suppress(NothingToDo):
            flush(world.open_session(PIPELINE))


def test_batch_staged_before_a_rollback_touches_nothing_in_the_table(world: World) -> None:
    flush(world.open_session(PIPELINE))
    seeded = world.destination.tables[NAME].ancestors()[-1].id
    produce(world, "b", "y")
    batch = stage_batch(world)
    world.destination.rollback(NAME, seeded)
    before = dict(world.destination.tables[NAME].refs)
    with pytest.raises(PositionLost, match="was rolled back"):
        merge(world.open_session(PIPELINE), batch)
    assert world.destination.tables[NAME].refs == before


def test_table_emptied_of_every_snapshot_is_not_seeded_as_if_it_were_new(world: World) -> None:
    flush(world.open_session(PIPELINE))
    produce(world, "b", "y")
    batch = stage_batch(world)
    del world.destination.tables[NAME].refs["main"]  # CREATE OR REPLACE TABLE: the same table, its tag and properties
    with pytest.raises(PositionLost, match="rolled back or replaced"):
        merge(world.open_session(PIPELINE), batch)
    pipeline = build_pipeline(on_rollback="keep")
    merge(world.open_session(pipeline), batch)
    assert world.read_rows(NAME) == [B]
    assert (read_position(world).offsets, read_position(world).batch) == ({"orders": {0: 2, 1: 0}}, 2)


def test_staged_rows_that_somebody_dropped_are_told_and_staged_again(world: World) -> None:
    batch = stage_batch(world)
    del world.destination.tables[INTERMEDIATE]
    with pytest.raises(GiveUp, match="the staged rows are gone"):
        merge(world.open_session(PIPELINE), batch)
    flush(world.open_session(PIPELINE))
    assert world.read_rows(NAME) == [A]


def test_published_batch_that_was_rolled_back_is_read_again_under_a_new_number(world: World) -> None:
    """Even where its staged rows were never cleaned up and would fit."""
    session = world.open_session(PIPELINE)
    merge(session, stage_batch(world))
    seeded = world.destination.tables[NAME].ancestors()[-1].id
    world.destination.rollback(NAME, seeded)
    rewinding = build_pipeline(on_rollback="rewind")
    (resumed_batch,) = plan(world.open_session(rewinding)).tables
    assert (resumed_batch.batch, resumed_batch.is_resumed) == (2, False)
    flush(world.open_session(rewinding))
    assert world.read_rows(NAME) == [A]


def test_history_says_from_which_staged_snapshot_and_into_which_of_the_table_a_batch_went(world: World) -> None:
    """By the first of them the rows of a batch are found again; two batches, as both are alike in the first."""
    for number in (1, 2):
        produce(world, "b", str(number))
        batch = stage_batch(world)
        published = merge_queue(world.open_session(PIPELINE), [batch]).total
        history_row = world.destination.read_history(resource_names.name_control_table(PIPELINE), 1)[0]
        found = (history_row["batch"], history_row["staged_snapshot_id"], history_row["snapshot_id"])
        assert found == (number, batch.snapshot_id, published.snapshot_id)
        assert batch.snapshot_id != published.snapshot_id
