"""merge: one publish per batch, whatever is retried, refused, lost, moved or replaced meanwhile."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from fakes import (
    AnswerLostAfterPublish,
    AnswerLostBeforePublish,
    BusyTable,
    PauseAt,
    RefusesPublish,
    World,
    a_pipeline,
    a_table,
)
from fakes.clock import Crash
from fakes.faults import DiesBetweenStatements
from tidegate.errors import GiveUp, NothingToDo, OutcomeUnknown, PositionLost, PublishedElsewhere, RetryLater
from tidegate.merge.compare_and_swap import MAX_ROUNDS, RETRY_PAUSES_SECONDS
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.position import Position
from tidegate.schema.column import Column
from tidegate.spec.pipeline import Heartbeat
from tidegate.spec.table import Create
from tidegate.steps.clean_up import clean_up
from tidegate.steps.flush import flush
from tidegate.steps.merge import merge
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage

NAME, INTERMEDIATE = "lake.shop.orders", "lake.shop.orders_shop_tmp"
PIPELINE = a_pipeline()
A, B = {"id": "a", "name": "x"}, {"id": "b", "name": "y"}


@pytest.fixture
def world() -> World:
    made = World()
    made.broker.create("orders")
    produce(made, "a", "x")
    return made


def produce(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name})


def staged(world: World, pipeline=PIPELINE) -> StagedBatch:
    ports = world.ports(pipeline)
    (batch,) = stage(ports, plan(ports))
    return batch


def position(world: World, name: str = NAME) -> Position:
    state = world.destination.read_state(name, "shop")
    assert state is not None
    assert state.position is not None
    return state.position


def interrupted(world: World, when: str, meanwhile: Callable[[], object], pipeline=PIPELINE, **instead) -> object:
    """Merge the open batch; `meanwhile` runs once just before the port call `when`."""
    batch, done = staged(world, pipeline), []

    def hook(call: str, moment: str) -> None:
        if (call, moment) == (when, "before") and not done:
            done.append(True)
            meanwhile()

    return merge(world.ports(pipeline, hook, **instead), batch)


def test_first_batch_creates_the_table_and_publishes(world: World) -> None:
    published = merge(world.ports(PIPELINE), staged(world))
    assert world.rows(NAME) == [A]
    assert (published.outcome, published.inserted, published.batch) == ("published", 1, 1)
    assert position(world).offsets == {"orders": {0: 1, 1: 0}}


def test_missing_table_with_creation_switched_off_names_both_ways_out(world: World) -> None:
    pipeline = a_pipeline(a_table(create=Create(enabled=False)))
    with pytest.raises(GiveUp, match=r"create.enabled=false; create it"):
        merge(world.ports(pipeline), staged(world, pipeline))


@pytest.mark.parametrize("after", [1, 2, 3])
def test_table_whose_creation_was_killed_gets_its_order_all_the_same(world: World, after: int) -> None:
    pipeline = a_pipeline(a_table(create=Create(cluster_by=("name", "id"))))
    batch = staged(world, pipeline)
    with pytest.raises(Crash):
        merge(world.ports(pipeline, engine=DiesBetweenStatements(world.engine, after)), batch)
    merge(world.ports(pipeline), batch)
    assert (world.rows(NAME), world.destination.tables[NAME].ordered_by) == ([A], ("name", "id"))


@pytest.mark.parametrize("created_by", ["", "another"])
def test_empty_table_that_somebody_else_created_keeps_its_order(world: World, created_by: str) -> None:
    table = world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    table.properties["tidegate.created-by"], table.ordered_by = created_by, ("id",)
    pipeline = a_pipeline(a_table(create=Create(cluster_by=("name",))))
    merge(world.ports(pipeline), staged(world, pipeline))
    assert (world.rows(NAME), table.ordered_by) == ([A], ("id",))


def test_position_main_and_tag_move_together(world: World) -> None:
    published = merge(world.ports(PIPELINE), staged(world))
    table = world.destination.tables[NAME]
    assert table.refs == {"main": published.snapshot_id, "tidegate_shop": published.snapshot_id}
    snapshot = table.snapshots[table.refs["main"]]
    assert Position.from_properties("shop", snapshot.summary) == Position.from_properties("shop", table.properties)


def test_position_carries_cluster_topic_ids_and_time(world: World) -> None:
    world.broker.produce("orders", B, B, partition=1)
    batch = staged(world)
    published = merge(world.ports(PIPELINE), batch)
    found = position(world)
    assert (found.cluster_id, found.topic_ids) == ("cluster-1", {"orders": world.broker.ids["orders"]})
    assert found.valid_through_ms == published.valid_through_ms == min(batch.timestamps["orders"].values())
    assert batch.timestamps["orders"].keys() == {0, 1}


def test_valid_through_never_goes_back(world: World) -> None:
    world.broker.produce("orders", B, B, partition=1)
    merge(world.ports(PIPELINE), staged(world))
    before = position(world).valid_through_ms
    for partition in (0, 1):
        world.broker.produce("orders", {"id": "late"}, {"id": "late", "name": "x"}, partition, timestamp=1)
        merge(world.ports(PIPELINE), staged(world))
        assert position(world).valid_through_ms == before == world.broker.partitions["orders"][0].records[0].timestamp


def test_valid_through_is_not_known_before_each_partition_has_shown_a_record(world: World) -> None:
    merge(world.ports(PIPELINE), staged(world))
    assert position(world).valid_through_ms is None


def test_retry_after_publish_does_not_publish_twice(world: World) -> None:
    batch = staged(world)
    first = merge(world.ports(PIPELINE), batch)
    snapshots = len(world.destination.tables[NAME].snapshots)
    again = merge(world.ports(PIPELINE), batch)
    assert (again.outcome, again.snapshot_id, again.inserted) == ("already published", first.snapshot_id, 1)
    assert len(world.destination.tables[NAME].snapshots) == snapshots
    assert len(world.engine.merges) == 1


def test_retry_after_publish_of_an_append_does_not_append_twice(world: World) -> None:
    pipeline = a_pipeline(a_table(mode="append"))
    batch = staged(world, pipeline)
    merge(world.ports(pipeline), batch)
    merge(world.ports(pipeline), batch)
    assert world.rows(NAME) == [A]


def test_retry_after_clean_up_does_not_publish_twice(world: World) -> None:
    batch = staged(world)
    merge(world.ports(PIPELINE), batch)
    clean_up(world.ports(PIPELINE))
    assert merge(world.ports(PIPELINE), batch).outcome == "already published"


def test_stale_batch_is_told_that_another_run_published_first(world: World) -> None:
    batch = staged(world)
    merge(world.ports(PIPELINE), batch)
    produce(world, "b", "y")
    flush(world.ports(PIPELINE))
    with pytest.raises(PublishedElsewhere, match="nothing was changed and nothing needs repair"):
        merge(world.ports(PIPELINE), batch)
    assert world.rows(NAME) == [A, B]


def test_second_attempt_at_the_same_ranges_loses_without_a_trace(world: World) -> None:
    ports = world.ports(PIPELINE)
    planned = plan(ports)
    (first,), (second,) = stage(ports, planned), stage(ports, planned)
    merge(world.ports(PIPELINE), second)
    with pytest.raises(PublishedElsewhere):
        merge(world.ports(PIPELINE), first)
    assert world.rows(NAME) == [A]


def test_main_moved_before_the_publish_is_cut_and_merged_again(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    busy = BusyTable(world.destination, 1, {"id": "b", "name": "foreign"})
    published = merge(world.ports(PIPELINE, destination=busy), staged(world))
    assert published.outcome == "published"
    assert world.rows(NAME) == [A, B]
    assert len(world.engine.merges) == 3
    assert position(world).offsets == {"orders": {0: 2, 1: 0}}


def test_rows_that_another_writer_added_meanwhile_survive(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    foreign = {"id": "f", "name": "foreign"}
    interrupted(world, "commits.publish", lambda: world.destination.foreign_append(NAME, foreign))
    assert world.rows(NAME) == [A, B, foreign]


def test_main_moved_before_the_cut_is_noticed(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    foreign = {"id": "f", "name": "foreign"}
    interrupted(world, "commits.start_branch", lambda: world.destination.foreign_append(NAME, foreign))
    assert world.rows(NAME) == [A, B, foreign]


def test_table_that_never_rests_is_left_to_the_tasks_own_retry(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    busy, began = BusyTable(world.destination, MAX_ROUNDS, {"id": "b", "name": "foreign"}), world.clock.ms
    with pytest.raises(RetryLater, match=f"moved main {MAX_ROUNDS} times"):
        merge(world.ports(PIPELINE, destination=busy), staged(world))
    assert world.rows(NAME) == [A, *[{"id": "b", "name": "foreign"}] * MAX_ROUNDS]
    assert world.clock.ms - began >= sum(RETRY_PAUSES_SECONDS) * 1000  # others' bursts are waited out


def test_position_moved_during_the_merge_changes_nothing(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")

    def another_run() -> None:
        flush(world.ports(PIPELINE))
        produce(world, "b", "newer")
        flush(world.ports(PIPELINE))

    with pytest.raises(PublishedElsewhere):
        interrupted(world, "commits.publish", another_run)
    assert world.rows(NAME) == [A, {"id": "b", "name": "newer"}]


def test_same_attempt_published_by_a_twin_is_a_success(world: World) -> None:
    batch = staged(world)
    done = []

    def twin(call: str, moment: str) -> None:
        if (call, moment) == ("commits.publish", "before") and not done:
            done.append(merge(world.ports(PIPELINE), batch))

    ours = merge(world.ports(PIPELINE, twin), batch)
    main = world.destination.tables[NAME].refs["main"]
    assert (done[0].snapshot_id, ours.snapshot_id) == (main, main)  # not a snapshot of our own that nobody sees
    assert world.rows(NAME) == [A]


def test_replaced_table_is_not_merged_into(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    batch = staged(world)
    world.destination.replace(NAME)
    with pytest.raises(PositionLost, match="replaced by another of the same name"):
        merge(world.ports(PIPELINE), batch)
    assert world.rows(NAME) == []


def test_table_replaced_during_the_merge_is_not_published_into(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    with pytest.raises((PositionLost, RetryLater)):
        interrupted(world, "commits.publish", lambda: world.destination.replace(NAME))
    assert world.rows(NAME) == []


def test_flush_after_a_replacement_plans_anew_as_its_message_promises(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    batch = staged(world)
    world.destination.replace(NAME)
    with pytest.raises(PositionLost, match="the next flush plans anew"):
        merge(world.ports(PIPELINE), batch)
    flush(world.ports(PIPELINE))
    assert world.rows(NAME) == [A, B]


def test_table_dropped_with_a_batch_staged_is_filled_again_from_the_start(world: World) -> None:
    """A batch from the middle of the log must not become a new table's first: earlier rows would be skipped."""
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    staged(world)
    del world.destination.tables[NAME]
    for _ in range(2):
        try:
            flush(world.ports(PIPELINE))
            break
        except PositionLost:
            pass
    assert world.rows(NAME) == [A, B]


def test_answer_lost_after_the_publish_is_found_in_the_position(world: World) -> None:
    published = merge(world.ports(PIPELINE, destination=AnswerLostAfterPublish(world.destination)), staged(world))
    assert published.outcome == "published"
    assert (world.rows(NAME), len(world.engine.merges)) == ([A], 1)


def test_answer_lost_before_the_publish_is_published_after_all(world: World) -> None:
    merge(world.ports(PIPELINE, destination=AnswerLostBeforePublish(world.destination)), staged(world))
    assert (world.rows(NAME), len(world.engine.merges)) == ([A], 1)
    assert position(world).offsets == {"orders": {0: 1, 1: 0}}


def test_answer_lost_and_then_another_run_published_is_not_repeated(world: World) -> None:
    class LostAndOvertaken(AnswerLostAfterPublish):
        def publish(self, publication) -> None:
            try:
                super().publish(publication)
            except OutcomeUnknown:
                produce(world, "a", "newer")
                flush(world.ports(PIPELINE))
                raise

    with pytest.raises(PublishedElsewhere):
        merge(world.ports(PIPELINE, destination=LostAndOvertaken(world.destination)), staged(world))
    assert world.rows(NAME) == [{"id": "a", "name": "newer"}]


def test_foreign_metadata_change_publishes_again_without_merging_again(world: World) -> None:
    merge(world.ports(PIPELINE, destination=RefusesPublish(world.destination)), staged(world))
    assert (world.rows(NAME), len(world.engine.merges)) == ([A], 1)


def test_catalog_that_refuses_for_ever_is_left_to_the_tasks_own_retry(world: World) -> None:
    with pytest.raises(RetryLater, match="refused the publish"):
        merge(world.ports(PIPELINE, destination=RefusesPublish(world.destination, 99)), staged(world))
    assert world.rows(NAME) == []


def test_schema_changed_during_the_merge_is_merged_again(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    added = (Column("id", "STRING"), Column("name", "STRING"), Column("more", "INT"))
    interrupted(
        world,
        "commits.publish",
        lambda: world.destination.evolve(NAME, added, add=True, widen=True, relax=True),
    )
    assert [r["id"] for r in world.rows(NAME)] == ["a", "b"]
    assert len(world.engine.merges) == 3


def test_branch_that_somebody_else_wrote_to_is_not_published(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")

    def meddle() -> None:
        table = world.destination.tables[NAME]
        branch = next(ref for ref in table.refs if resource_names.parse_branch_batch("shop", ref))
        world.destination.add_snapshot(NAME, branch, (), {"operation": "overwrite"})

    with pytest.raises(RetryLater, match="not as this attempt left it"):
        interrupted(world, "commits.read_head", meddle)
    assert world.rows(NAME) == [A]


def test_snapshot_that_somebody_put_below_ours_on_the_branch_is_not_published(world: World) -> None:
    """The head is ours, but what it stands on is not the cut: foreign rows would be published with it."""
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")

    def meddle() -> None:
        table = world.destination.tables[NAME]
        branch = next(ref for ref in table.refs if resource_names.parse_branch_batch("shop", ref))
        world.destination.add_snapshot(NAME, branch, ({"id": "foreign", "name": "f"},), {"operation": "append"})

    with pytest.raises(RetryLater, match="not as this attempt left it"):
        interrupted(world, "engine.run", meddle)
    assert world.rows(NAME) == [A]


def test_merge_that_changes_nothing_still_moves_the_position(world: World) -> None:
    """A tombstone for a row that is not there: Spark makes no snapshot, the position needs one."""
    world.broker.create("orders")
    produce(world, "never-there", None)
    merge(world.ports(PIPELINE), staged(world))
    assert (world.rows(NAME), position(world).offsets) == ([], {"orders": {0: 1, 1: 0}})


def test_every_change_of_a_position_makes_a_snapshot(world: World) -> None:
    merge(world.ports(PIPELINE), staged(world))
    before = world.destination.tables[NAME].refs["main"]
    produce(world, "never-there", None)
    merge(world.ports(PIPELINE), staged(world))
    assert world.destination.tables[NAME].refs["main"] != before


def aborted(world: World) -> StagedBatch:
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    return staged(world)


def test_batch_without_rows_makes_no_snapshot_before_a_heartbeat_is_due(world: World) -> None:
    flush(world.ports(PIPELINE))
    before = world.destination.tables[NAME].refs["main"]
    published = merge(world.ports(PIPELINE), aborted(world))
    assert (published.outcome, published.snapshot_id) == ("no rows", None)
    assert world.destination.tables[NAME].refs["main"] == before
    assert position(world).offsets == {"orders": {0: 1, 1: 0}}


def test_batch_without_rows_moves_the_position_once_a_heartbeat_is_due(world: World) -> None:
    flush(world.ports(PIPELINE))
    batch = aborted(world)
    world.clock.tick(600_000)
    assert merge(world.ports(PIPELINE), batch).outcome == "published"
    assert position(world).offsets == {"orders": {0: 3, 1: 0}}
    assert world.rows(NAME) == [A]


def test_disabled_heartbeat_never_makes_a_snapshot_without_rows(world: World) -> None:
    """`heartbeat.interval: 0` is documented as disabled, not as always due."""
    pipeline = a_pipeline(heartbeat=Heartbeat(interval_seconds=0))
    flush(world.ports(pipeline))
    before = world.destination.tables[NAME].refs["main"]
    world.broker.transaction("orders", [({"id": "t"}, {"id": "t", "name": "z"})], ending="abort")
    assert merge(world.ports(pipeline), staged(world, pipeline)).snapshot_id is None
    assert world.destination.tables[NAME].refs["main"] == before


def test_rows_behind_an_empty_batch_are_not_lost(world: World) -> None:
    flush(world.ports(PIPELINE))
    merge(world.ports(PIPELINE), aborted(world))
    produce(world, "b", "y")
    flush(world.ports(PIPELINE))
    assert world.rows(NAME) == [A, B]


def test_column_missing_in_the_table_is_added_before_the_merge(world: World) -> None:
    flush(world.ports(PIPELINE))
    wider = a_pipeline(a_table(columns=(Column("id", "STRING"), Column("name", "STRING"), Column("city", "STRING"))))
    world.broker.produce("orders", {"id": "b"}, {"id": "b", "name": "y", "city": "Oslo"})
    flush(world.ports(wider))
    assert {r["id"]: r.get("city") for r in world.rows(NAME)} == {"a": None, "b": "Oslo"}


def test_incompatible_column_gives_up_and_merges_nothing(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    other = a_pipeline(a_table(columns=(Column("id", "STRING"), Column("name", "DOUBLE"))))
    with pytest.raises(GiveUp, match="incompatible"):
        merge(world.ports(other), staged(world, other))
    assert world.rows(NAME) == [A]


def test_table_made_by_hand_without_a_snapshot_is_seeded_at_the_batchs_start(world: World) -> None:
    world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    merge(world.ports(PIPELINE), staged(world))
    seeded = world.destination.tables[NAME].ancestors()[-1]
    found = Position.from_properties("shop", seeded.summary)
    assert found is not None
    assert (found.offsets, seeded.rows) == ({"orders": {0: 0, 1: 0}}, ())


def test_table_with_rows_of_others_and_no_position_is_merged_into(world: World) -> None:
    world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    world.destination.foreign_append(NAME, {"id": "a", "name": "old"}, {"id": "z", "name": "old"})
    merge(world.ports(PIPELINE), staged(world))
    assert world.rows(NAME) == [A, {"id": "z", "name": "old"}]


def test_two_first_runs_that_both_create_the_table_publish_once(world: World) -> None:
    pipeline = a_pipeline(a_table(mode="append"))
    batch, twin_done = staged(world, pipeline), []

    def twin(call: str, moment: str) -> None:
        if (call, moment) == ("commits.seed", "before") and not twin_done:
            twin_done.append(merge(world.ports(pipeline), batch))

    try:
        merge(world.ports(pipeline, twin), batch)
    except RetryLater:
        merge(world.ports(pipeline), batch)
    assert world.rows(NAME) == [A]


def test_merge_paused_at_any_call_while_newer_batches_are_published_changes_nothing() -> None:
    """Protocol, what must hold: 3. A runner paused between any two steps that wakes later changes nothing."""
    for number in range(1, 500):
        world = World()
        world.broker.create("orders")
        produce(world, "a", "old")
        batch = staged(world)

        def others(world: World = world) -> None:
            for name in ("newer", "newest"):
                produce(world, "a", name)
                flush(world.ports(PIPELINE))

        pause = PauseAt(number, others)
        try:
            outcome = merge(world.ports(PIPELINE, pause), batch).outcome
        except (PublishedElsewhere, RetryLater) as error:
            outcome = type(error).__name__
        if pause.calls < number:
            break
        flush_the_rest(world)
        assert world.rows(NAME) == [{"id": "a", "name": "newest"}], f"call={number} outcome={outcome}"
        assert position(world).offsets == {"orders": {0: 3, 1: 0}}, f"call={number} outcome={outcome}"
    assert number > 15


def flush_the_rest(world: World) -> None:
    """The open batch was resumed first, so that the newest records may wait for one more flush."""
    for _ in range(2):
        with suppress(NothingToDo):
            flush(world.ports(PIPELINE))


def test_batch_staged_before_a_rollback_touches_nothing_in_the_table(world: World) -> None:
    flush(world.ports(PIPELINE))
    seeded = world.destination.tables[NAME].ancestors()[-1].id
    produce(world, "b", "y")
    batch = staged(world)
    world.destination.rollback(NAME, seeded)
    before = dict(world.destination.tables[NAME].refs)
    with pytest.raises(PositionLost, match="was rolled back"):
        merge(world.ports(PIPELINE), batch)
    assert world.destination.tables[NAME].refs == before


def test_table_emptied_of_every_snapshot_is_not_seeded_as_if_it_were_new(world: World) -> None:
    flush(world.ports(PIPELINE))
    produce(world, "b", "y")
    batch = staged(world)
    del world.destination.tables[NAME].refs["main"]  # CREATE OR REPLACE TABLE: the same table, its tag and properties
    with pytest.raises(PositionLost, match="rolled back or replaced"):
        merge(world.ports(PIPELINE), batch)
    keeping = a_pipeline(on_rollback="keep")
    merge(world.ports(keeping), batch)
    assert world.rows(NAME) == [B]
    assert (position(world).offsets, position(world).batch) == ({"orders": {0: 2, 1: 0}}, 2)


def test_staged_rows_that_somebody_dropped_are_told_and_staged_again(world: World) -> None:
    batch = staged(world)
    del world.destination.tables[INTERMEDIATE]
    with pytest.raises(GiveUp, match="the staged rows are gone"):
        merge(world.ports(PIPELINE), batch)
    flush(world.ports(PIPELINE))
    assert world.rows(NAME) == [A]


def test_published_batch_that_was_rolled_back_is_read_again_under_a_new_number(world: World) -> None:
    """Even where its staged rows were never cleaned up and would fit."""
    ports = world.ports(PIPELINE)
    merge(ports, staged(world))
    seeded = world.destination.tables[NAME].ancestors()[-1].id
    world.destination.rollback(NAME, seeded)
    rewinding = a_pipeline(on_rollback="rewind")
    (again,) = plan(world.ports(rewinding)).tables
    assert (again.batch, again.resumed) == (2, False)
    flush(world.ports(rewinding))
    assert world.rows(NAME) == [A]
