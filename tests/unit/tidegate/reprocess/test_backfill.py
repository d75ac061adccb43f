"""backfill: what is applied again never overwrites or brings back anything, whoever publishes or dies meanwhile."""

import json
from collections.abc import Callable

import pytest
from examples import choose_calls
from fakes import Crash, CrashAt, PauseAt, World, build_pipeline, build_table
from fakes.counted import Calls
from tidegate.errors import (
    CommitRefused,
    ConfigurationError,
    GiveUp,
    NothingToDo,
    OutcomeUnknown,
    PositionLost,
    RetryLater,
    SomeTablesFailed,
    TidegateError,
)
from tidegate.flush.flush import flush
from tidegate.model import resource_names
from tidegate.model.backfill import AppliedSlice, Backfill
from tidegate.model.batch import PublishOutcome
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import TableCommit
from tidegate.monitoring.status import read_status
from tidegate.reprocess.backfill import abandon_backfill, apply_backfill, apply_slice, read_open_backfills
from tidegate.reprocess.backfill_plan import BackfillRequest, parse_request, propose_backfill
from tidegate.reprocess.rebase import propose_rebase
from tidegate.reprocess.replay import replay_dead_letters
from tidegate.reprocess.rollback import propose_answer
from tidegate.schema.data_types import Column

NAME = "lake.shop.orders"
PIPELINE = build_pipeline(max_records=2)
ALL = '{"orders": {"0": [0, 5]}}'


@pytest.fixture
def world() -> World:
    """Five records, published: a and b live, c deleted."""
    world = World()
    world.broker.create("orders")
    for key, name in (("a", "1"), ("b", "1"), ("c", "1"), ("c", None), ("a", "2")):
        produce(world, key, name)
    flush_all(world)
    return world


def produce(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name})


def flush_all(world: World, pipeline=PIPELINE) -> None:
    while True:
        try:
            flush(world.open_session(pipeline))
        except NothingToDo:
            return


def run(world: World, ranges: str = ALL, pipeline=PIPELINE, hook=None, **options) -> list[AppliedSlice]:
    session, results = world.open_session(pipeline, hook, **options), []
    apply_backfill(session, propose_backfill(session, parse_request(ranges, None, None)).backfill, results.append)
    return results


def read_names(world: World) -> dict[str, str]:
    return {row["id"]: row["name"] for row in world.read_rows(NAME)}


def damage(world: World, *rows: dict[str, str]) -> None:
    """Another writer leaves only these rows."""
    world.destination.add_snapshot(NAME, "main", rows, {"operation": "overwrite"})


def list_leftovers(world: World) -> list[str]:
    table = world.destination.tables[NAME]
    tables = [name for name in world.destination.tables if "backfill" in name]
    return [*tables, *(r for r in table.refs if "backfill" in r), *(p for p in table.properties if "backfill" in p)]


def test_backfill_of_an_intact_table_changes_nothing(world: World) -> None:
    run(world)
    assert read_names(world) == {"a": "2", "b": "1"}


def test_backfill_restores_what_another_writer_took_away(world: World) -> None:
    damage(world)
    run(world)
    assert read_names(world) == {"a": "2", "b": "1"}


def test_slice_whose_rows_were_rolled_back_is_applied_again_by_the_run_that_goes_on(world: World) -> None:
    damage(world)
    before = world.destination.read_state(NAME, "shop").snapshot_id
    first = world.open_session(PIPELINE)
    planned = propose_backfill(first, parse_request(ALL, None, None)).backfill
    apply_slice(first, planned, 3)
    assert read_names(world) == {"a": "2"}
    world.destination.rollback(NAME, before)
    results = run(world)
    assert next((r.slice, r.outcome) for r in results) == (3, PublishOutcome.PUBLISHED)
    assert read_names(world) == {"a": "2", "b": "1"}


def test_slices_are_applied_newest_first_and_hold_at_most_the_cap(world: World) -> None:
    results = run(world)
    assert [(r.slice, r.ranges.to_dict()) for r in results] == [
        (3, {"orders": {"0": [4, 5]}}),
        (2, {"orders": {"0": [2, 4]}}),
        (1, {"orders": {"0": [0, 2]}}),
    ]


def test_newer_row_is_not_overwritten_by_an_older_record(world: World) -> None:
    damage(world, {"id": "a", "name": "2"})
    run(world, '{"orders": {"0": [0, 2]}}')
    assert read_names(world) == {"a": "2", "b": "1"}


def test_deleted_key_does_not_come_back(world: World) -> None:
    run(world, '{"orders": {"0": [2, 3]}}')
    assert "c" not in read_names(world)


def test_delete_in_the_range_removes_a_row_that_should_not_be_there(world: World) -> None:
    damage(world, {"id": "a", "name": "2"}, {"id": "b", "name": "1"}, {"id": "c", "name": "ghost"})
    [result] = run(world, '{"orders": {"0": [3, 4]}}')
    assert (read_names(world), result.deleted) == ({"a": "2", "b": "1"}, 1)


def test_every_record_is_read_once_and_what_only_decides_without_its_value(world: World) -> None:
    before = len(world.engine.stages)
    run(world, '{"orders": {"0": [0, 3]}}')
    staged = world.engine.stages[before:]
    assert [job.ranges.to_dict()["orders"]["0"] for job in staged] == [[3, 5], [2, 3], [0, 2]]
    assert [job.tables[0].keys_only for job in staged] == [True, False, False]


def test_position_tag_and_batch_number_stay_as_the_flush_left_them(world: World) -> None:
    before = world.destination.read_state(NAME, "shop")
    tagged = world.destination.read_head(NAME, resource_names.name_tag("shop"))
    run(world)
    after = world.destination.read_state(NAME, "shop")
    assert (after.position, after.highest_batch, after.is_rolled_back) == (before.position, before.highest_batch, False)
    assert world.destination.read_head(NAME, resource_names.name_tag("shop")) == tagged


def test_snapshot_of_a_backfill_tells_of_it_and_carries_no_position(world: World) -> None:
    run(world)
    head = world.destination.read_head(NAME, "main")
    report = json.loads(head.summary["tidegate.backfill"])
    assert (report["slice"], report["slices"], report["ranges"]) == (1, 3, {"orders": {"0": [0, 2]}})
    assert resource_names.name_pipeline_property("shop", "position") not in head.summary


def test_flush_goes_on_after_a_backfill(world: World) -> None:
    run(world)
    produce(world, "d", "1")
    flush_all(world)
    assert read_names(world) == {"a": "2", "b": "1", "d": "1"}


def test_table_rolled_back_past_a_backfill_is_noticed_and_rewound_to_the_right_position(world: World) -> None:
    pipeline = build_pipeline(max_records=2, on_rollback="rewind")
    first = next(s for s in world.destination.tables[NAME].ancestors() if s.rows)
    run(world)
    produce(world, "d", "1")
    flush_all(world)
    run(world, '{"orders": {"0": [0, 6]}}')
    world.destination.rollback(NAME, first.id)
    flush_all(world, pipeline)
    assert read_names(world) == {"a": "2", "b": "1", "d": "1"}


def test_rolling_back_the_backfill_alone_is_no_rollback_of_the_pipeline(world: World) -> None:
    before = world.destination.tables[NAME].refs["main"]
    damage(world, {"id": "x", "name": "foreign"})
    run(world)
    world.destination.rollback(NAME, before)
    assert world.destination.read_state(NAME, "shop").is_rolled_back is False


def test_nothing_is_left_behind(world: World) -> None:
    run(world)
    assert list_leftovers(world) == []


def test_flush_leaves_an_open_backfill_alone(world: World) -> None:
    with pytest.raises(Crash):
        run(world, hook=CrashAt(60))
    open_before = list_leftovers(world)
    assert open_before
    produce(world, "d", "1")
    flush_all(world)
    assert list_leftovers(world) == open_before


def test_same_command_goes_on_where_it_stopped(world: World) -> None:
    damage(world)
    session = world.open_session(PIPELINE)
    planned = propose_backfill(session, parse_request(ALL, None, None)).backfill
    slice_results: list[AppliedSlice] = []

    def stop(result: AppliedSlice) -> None:
        slice_results.append(result)
        if len(slice_results) == 2:
            raise Crash

    with pytest.raises(Crash):
        apply_backfill(session, planned, stop)
    backfill = propose_backfill(session, parse_request(ALL, None, None))
    assert (backfill.backfill, backfill.is_resumed) == (planned, True)
    before, results = len(world.engine.stages), run(world)
    assert [(r.slice, r.outcome) for r in results] == [
        (3, "already applied"), (2, "already applied"), (1, "published"),
    ]  # fmt: skip
    assert len(world.engine.stages) == before + 1
    assert read_names(world) == {"a": "2", "b": "1"}


@pytest.mark.parametrize("losses", [1, 99])
def test_backfill_whose_clean_up_lost_every_race_leaves_the_same_command_its_work(world: World, losses: int) -> None:
    """What is applied is known from the backfill's own table alone, and that is gone."""
    forget, calls = world.destination.forget_backfill, []

    def race(*arguments: str) -> None:
        calls.append(arguments)
        if len(calls) <= losses:
            raise CommitRefused("another writer was faster")
        forget(*arguments)

    world.destination.forget_backfill = race
    run(world)
    assert len(calls) > 1
    world.destination.forget_backfill = forget
    damage(world)
    assert [result.outcome for result in run(world)] == ["published"] * 3
    assert (read_names(world), list_leftovers(world)) == ({"a": "2", "b": "1"}, [])


def test_mark_that_an_earlier_version_left_on_the_table_counts_for_nothing(world: World) -> None:
    planned = propose_backfill(world.open_session(PIPELINE), parse_request(ALL, None, None)).backfill
    mark_text = '{"slices":3,"done":[3,2,1],"attempt":"a"}'
    world.destination.tables[NAME].properties[resource_names.name_backfill_property("shop", planned.id)] = mark_text
    damage(world)
    run(world)
    assert (read_names(world), list_leftovers(world)) == ({"a": "2", "b": "1"}, [])


@pytest.mark.guard(
    "slices that were staged under another pipeline file do not count",
    file="plugins/tidegate/reprocess/backfill.py",
    text=" if batch.row_shape == current}",
    off="}",
)
def test_column_that_is_added_during_a_backfill_is_filled_in_all_slices(world: World) -> None:
    """What was staged and applied under the old pipeline file is neither taken for staged nor for applied."""
    for key, age in (("d", 7), ("e", 8), ("f", 9)):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "1", "age": age})
    flush_all(world)
    session, everything = world.open_session(PIPELINE), '{"orders": {"0": [0, 8]}}'
    planned = propose_backfill(session, parse_request(everything, None, None)).backfill
    results: list[AppliedSlice] = []

    def stop(result: AppliedSlice) -> None:
        results.append(result)
        if len(results) == 2:
            raise Crash

    with pytest.raises(Crash):
        apply_backfill(session, planned, stop)
    columns = (Column("id", "STRING"), Column("name", "STRING"), Column("age", "INT"))
    wider = build_pipeline(build_table(columns=columns), max_records=2)
    assert propose_backfill(world.open_session(wider), parse_request(everything, None, None)).is_resumed
    assert [result.outcome for result in run(world, everything, wider)] == ["published"] * 4
    ages = {row["id"]: row.get("age") for row in world.read_rows(NAME)}
    assert ages == {"a": None, "b": None, "d": 7, "e": 8, "f": 9}
    assert list_leftovers(world) == []


def test_slice_whose_mark_was_lost_is_applied_once_more_and_changes_nothing(world: World) -> None:
    def lose(*_: object) -> None:
        raise RetryLater("no answer")

    mark_applied, world.destination.mark_applied = world.destination.mark_applied, lose
    planned = propose_backfill(world.open_session(PIPELINE), parse_request(ALL, None, None)).backfill
    damage(world)
    for _ in range(2):
        with pytest.raises(Crash):
            apply_backfill(world.open_session(PIPELINE), planned, crash)
    assert read_names(world) == {"a": "2"}
    world.destination.mark_applied = mark_applied
    run(world)
    assert (read_names(world), list_leftovers(world)) == ({"a": "2", "b": "1"}, [])


def crash(_: AppliedSlice) -> None:
    raise Crash


@pytest.mark.parametrize("takes_effect", [True, False])
def test_answer_to_a_publish_that_was_lost_is_looked_up(world: World, takes_effect: bool) -> None:
    damage(world)
    publish, lost = world.destination.publish, []

    def lose(table_commit: TableCommit) -> None:
        if lost:
            return publish(table_commit)
        lost.append(table_commit)
        if takes_effect:
            publish(table_commit)
        raise OutcomeUnknown("no answer")

    world.destination.publish = lose
    results = run(world)
    assert (results[0].outcome, results[0].snapshot_id) == ("published", lost[0].head)
    assert (read_names(world), list_leftovers(world)) == ({"a": "2", "b": "1"}, [])


def test_range_of_times_is_gone_on_with_although_it_means_other_offsets_by_now(world: World) -> None:
    session, times = world.open_session(PIPELINE), BackfillRequest(None, 0, 2**50)
    planned = propose_backfill(session, times).backfill
    with pytest.raises(Crash):
        apply_backfill(world.open_session(PIPELINE, CrashAt(60)), planned, print)
    produce(world, "d", "1")
    flush_all(world)
    assert propose_backfill(session, times).backfill == planned


def test_range_of_times_is_clipped_to_the_position(world: World) -> None:
    produce(world, "d", "1")
    first = world.broker.partitions["orders"][0].records[1].timestamp
    backfill = propose_backfill(world.open_session(PIPELINE), BackfillRequest(None, first, 2**50)).backfill
    assert backfill.get_ranges(NAME).to_dict() == {"orders": {"0": [1, 5], "1": [0, 0]}}


def test_given_up_backfill_leaves_what_it_applied_and_nothing_else(world: World) -> None:
    damage(world)
    session = world.open_session(PIPELINE)
    planned = propose_backfill(session, parse_request(ALL, None, None)).backfill

    def stop(_: AppliedSlice) -> None:
        raise Crash

    with pytest.raises(Crash):
        apply_backfill(session, planned, stop)
    assert list(read_open_backfills(session)) == [planned.id]
    assert abandon_backfill(session, planned.id) == [
        resource_names.name_backfill_table(PIPELINE, PIPELINE.tables[0], planned.id)
    ]
    assert (read_names(world), list_leftovers(world)) == ({"a": "2"}, [])
    with pytest.raises(GiveUp, match="no such backfill"):
        abandon_backfill(session, planned.id)


@pytest.mark.parametrize("has_work", [True, False], ids=["with records", "idle"])
def test_branch_that_a_late_job_of_an_abandoned_backfill_makes_again_goes_with_the_next_flush(
    world: World, has_work: bool
) -> None:
    """Its snapshots would be kept for ever. A backfill that is open keeps its branches, also when a flush runs."""
    session = world.open_session(PIPELINE)
    planned = propose_backfill(session, parse_request(ALL, None, None)).backfill
    apply_slice(session, planned, 2)
    late, replayed, foreign = (
        resource_names.name_backfill_branch(pipeline, backfill, number=1, attempt="late")
        for pipeline, backfill in (("shop", planned.id), ("shop", "replay"), ("other", planned.id))
    )

    def write_late(*branches: str) -> None:
        for branch in branches:
            world.destination.tables[NAME].refs[branch] = world.destination.tables[NAME].refs["main"]
            world.destination.add_snapshot(NAME, branch, (), {"tidegate.attempt": "late"})

    def flush_once(key: str) -> set[str]:
        if has_work:
            produce(world, key, "later")
        flush_all(world)
        return {ref for ref in world.destination.tables[NAME].refs if "backfill" in ref}

    write_late(late, replayed, foreign)
    assert flush_once("d") == {late, foreign}, "the backfill is open"
    abandon_backfill(session, planned.id)
    write_late(late)
    assert flush_once("e") == {foreign}
    write_late(late)
    assert flush_once("f") == {foreign}
    assert read_names(world) == {"a": "2", "b": "1"} | (dict.fromkeys("def", "later") if has_work else {})


def test_open_backfill_of_a_table_that_the_file_names_no_more_is_refused_with_both_ways_out(world: World) -> None:
    pipeline = build_pipeline(build_table(NAME), build_table("lake.shop.copy"), max_records=2)
    flush_all(world, pipeline)
    planned = propose_backfill(world.open_session(pipeline), parse_request(ALL, None, None)).backfill
    with pytest.raises(Crash):
        apply_backfill(world.open_session(pipeline), planned, crash)
    message = rf"backfill={planned.id}: it was begun with table=lake\.shop\.copy.* --abandon {planned.id}"
    with pytest.raises(ConfigurationError, match=message):
        run(world)
    assert [result.outcome for result in run(world, pipeline=pipeline)][-1] == PublishOutcome.PUBLISHED
    assert (read_names(world), list_leftovers(world)) == ({"a": "2", "b": "1"}, [])


def test_slice_is_applied_although_the_table_cannot_be_read_for_its_row_of_history(world: World) -> None:
    damage(world, {"id": "a", "name": "2"})
    published: list[str] = []

    def fail_once(call: str, moment: str) -> None:
        if call == "history.mark_applied":
            published.append(call)
        if (call, moment) == ("tables.read_state", "before") and published and "failed" not in published:
            published.append("failed")
            raise RetryLater("table=lake.shop.orders: catalog or files did not answer during read_state")

    applied = run(world, hook=fail_once)
    assert "failed" in published
    assert {batch.outcome for batch in applied} == {PublishOutcome.PUBLISHED}
    assert (read_names(world), list_leftovers(world)) == ({"a": "2", "b": "1"}, [])


def test_status_lists_open_backfills_and_history_tells_of_their_slices(world: World) -> None:
    session = world.open_session(PIPELINE)
    planned = propose_backfill(session, parse_request(ALL, None, None)).backfill

    def stop(_: AppliedSlice) -> None:
        raise Crash

    with pytest.raises(Crash):
        apply_backfill(session, planned, stop)
    status = read_status(session)
    assert status["backfills"] == [{"backfill": planned.id, "tables": [NAME], "slices": 3, "applied": {NAME: [3]}}]
    run(world)
    assert read_status(session)["backfills"] == []
    assert {row["backfill"] for row in read_status(session)["batches"]} == {
        None,
        *(f"{planned.id} {n}/3" for n in (1, 2, 3)),
    }


def test_status_and_page_count_no_slice_that_was_rolled_back(world: World) -> None:
    damage(world)
    session = world.open_session(PIPELINE)
    planned = propose_backfill(session, parse_request(ALL, None, None)).backfill
    apply_slice(session, planned, 3)
    between = world.destination.read_state(NAME, "shop").snapshot_id
    apply_slice(session, planned, 2)
    apply_slice(session, planned, 1)
    assert read_applied_slices(world) == [3, 2, 1]
    world.destination.rollback(NAME, between)
    assert read_applied_slices(world) == [3]
    assert [(r.slice, r.outcome) for r in run(world)] == [
        (3, PublishOutcome.ALREADY_APPLIED), (2, PublishOutcome.PUBLISHED), (1, PublishOutcome.PUBLISHED)
    ]  # fmt: skip
    assert read_names(world) == {"a": "2", "b": "1"}


@pytest.mark.parametrize("mode", ["append", "upsert_delete"])
def test_slice_behind_the_position_of_a_rewound_table_is_left_to_the_flush(mode: str) -> None:
    """The flush will read its records again: a table that is appended to would get them twice."""
    pipeline, world = build_pipeline(build_table(mode=mode), build_table("lake.shop.other"), max_records=2), World()
    world.broker.create("orders", 2)
    for number in range(3):
        for partition in (0, 1):
            key = f"{partition}{number}"
            world.broker.produce("orders", {"id": key}, {"id": key, "name": "1"}, partition)
    flush_all(world, pipeline)
    first = next(s for s in reversed(world.destination.tables[NAME].ancestors()) if s.rows)
    session = world.open_session(pipeline)
    request = parse_request('{"orders": {"0": [0, 3], "1": [0, 3]}}', None, None, (NAME,))
    planned = propose_backfill(session, request).backfill
    apply_slice(session, planned, 3)
    world.destination.rollback(NAME, first.id)
    propose_answer(session, "rewind", NAME).perform("ann")
    with pytest.raises(
        GiveUp,
        match=r"slice=3/3 topic=orders partition=0: position=1 lies before the end=3 .*; run `tidegate flush`",
    ):
        apply_backfill(session, propose_backfill(session, request).backfill, lambda _: None)
    flush_all(world, pipeline)
    apply_backfill(session, propose_backfill(session, request).backfill, lambda _: None)
    assert [row["id"] for row in world.read_rows(NAME)] == ["00", "01", "02", "10", "11", "12"]


def read_applied_slices(world: World) -> list[int]:
    (backfill,) = read_status(world.open_session(PIPELINE))["backfills"]
    return backfill["applied"][NAME]


def interrupt_backfill(
    world: World, target_call: str, interrupt: Callable[[], object], ranges: str
) -> list[AppliedSlice]:
    """Run a backfill; `interrupt` happens once, just before the port call `target_call` of its first slice."""
    happened: list[bool] = []

    def hook(call: str, moment: str) -> None:
        if (call, moment) == (target_call, "before") and not happened:
            happened.append(True)
            interrupt()

    return run(world, ranges, hook=hook)


@pytest.mark.parametrize("target_call", ["engine.run", "commits.start_branch", "commits.read_head", "commits.publish"])
def test_flush_that_publishes_during_a_backfill_decides_about_its_keys(world: World, target_call: str) -> None:
    damage(world)

    def newer() -> None:
        produce(world, "b", "newer")
        produce(world, "a", None)
        flush_all(world)

    interrupt_backfill(world, target_call, newer, '{"orders": {"0": [0, 5]}}')
    assert read_names(world) == {"b": "newer"}


def test_two_runners_of_one_backfill_apply_it_once(world: World) -> None:
    damage(world)
    interrupt_backfill(world, "commits.publish", lambda: run(world), ALL)
    assert read_names(world) == {"a": "2", "b": "1"}
    run(world)
    assert list_leftovers(world) == []


def test_backfill_killed_at_any_call_is_finished_by_the_next(world: World) -> None:
    for number in choose_calls(2000):
        new_world = World()
        new_world.broker.create("orders")
        for key, name in (("a", "1"), ("b", "1"), ("c", "1"), ("c", None), ("a", "2")):
            produce(new_world, key, name)
        flush_all(new_world)
        damage(new_world, {"id": "c", "name": "ghost"})
        crash = CrashAt(number)
        try:
            run(new_world, hook=crash)
        except Crash:
            produce(new_world, "b", "newer")
            flush_all(new_world)
            run(new_world)
            assert read_names(new_world) == {"a": "2", "b": "newer"}, crash.at
            assert list_leftovers(new_world) == [], crash.at
            continue
        break
    assert number > 100


def test_backfill_paused_at_any_call_while_the_flush_goes_on_overwrites_nothing() -> None:
    for number in choose_calls(2000, 2):
        world = World()
        world.broker.create("orders")
        for key, name in (("a", "1"), ("b", "1"), ("c", "1"), ("c", None), ("a", "2")):
            produce(world, key, name)
        flush_all(world)
        damage(world)

        def others(world: World = world) -> None:
            produce(world, "a", "newest")
            produce(world, "b", None)
            flush_all(world)

        pause = PauseAt(number, others)
        try:
            run(world, hook=pause)
        except TidegateError as error:
            raise AssertionError(f"call={number}: {error}") from error
        if pause.calls < number:
            break
        assert read_names(world) == {"a": "newest"}, f"call={number}"
    assert number > 100


# what is refused


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ("not json", "not half-open offset ranges"),
        ("{}", "no topic is named"),
        ('{"orders": {"0": [4, 2]}}', "must run forward"),
        ('{"orders": {"0": 4}}', "not half-open offset ranges"),
        ('{"orders": {"0": [0, 6]}}', "the flush will read what comes after it"),
        ('{"orders": {"7": [0, 1]}}', "has no such partition"),
        ('{"other": {"0": [0, 1]}}', "is not one of its topics; it reads orders"),
        ('{"__debezium-heartbeat.x": {"0": [0, 1]}}', "is not one of its topics"),
    ],
)
def test_wrong_range_is_refused_and_nothing_is_written(world: World, ranges: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run(world, ranges)
    assert list_leftovers(world) == []


def test_ignored_topic_is_refused_as_such() -> None:
    world, pipeline = World(), build_pipeline(source={"topics": ("orders", "__debezium-heartbeat.x")})
    for topic in ("orders", "__debezium-heartbeat.x"):
        world.broker.create(topic)
    with pytest.raises(ConfigurationError, match="carries no rows"):
        propose_backfill(
            world.open_session(pipeline), parse_request('{"__debezium-heartbeat.x": {"0": [0, 1]}}', None, None)
        )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((None, None, None), "name either ranges"),
        (('{"orders": {"0": [0, 1.9]}}', None, None), "offset 1.9 is no whole number"),
        (('{"orders": {"0": [0, 1e999]}}', None, None), "offset Infinity is no whole number"),
        (('{"orders": {"0": "12"}}', None, None), '"12" is no range of two offsets'),
        (('{"orders": {"0": [0, 1], "0": [1, 2]}}', None, None), "0 is named twice"),
        (({"orders": {"0": [-1, 2]}}, None, None), "offset -1 is none that a log can have"),
        (({"orders": {"0": [False, True]}}, None, None), "offset false is no whole number"),
        (({"orders": [0, 1]}, None, None), "a topic holds partitions"),
        ((ALL, "2026-01-01T00:00:00Z", None), "name either ranges"),
        ((None, "2026-01-01T00:00:00Z", None), "name either ranges"),
        ((None, "yesterday", "2026-01-01T00:00:00Z"), "from=yesterday: not a time"),
        ((None, "2026-01-01T00:00:00", "2026-01-02T00:00:00Z"), "without a zone"),
        ((None, "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"), "must be later"),
    ],
)
def test_wrong_words_are_refused(words: tuple, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        parse_request(*words)


def test_range_below_the_logs_start_is_refused_with_the_number_of_lost_offsets(world: World) -> None:
    world.broker.retain_from("orders", 3)
    with pytest.raises(PositionLost, match=r"so \[1, 3\) of what is needed is gone"):
        run(world, '{"orders": {"0": [1, 4]}}')


def test_later_records_that_are_gone_are_named_and_nothing_is_written(world: World) -> None:
    """The topic lost them before they could be read: what they would decide cannot be known."""
    damage(world)

    def flush_and_forget() -> None:
        produce(world, "a", "newer")
        produce(world, "b", "newer")
        flush_all(world)
        damage(world)
        world.broker.retain_from("orders", 6)

    with pytest.raises(PositionLost, match=r"later offsets, .* \[5, 6\) of what is needed is gone"):
        interrupt_backfill(world, "commits.start_branch", flush_and_forget, '{"orders": {"0": [0, 2]}}')
    assert read_names(world) == {}


def test_range_that_the_topic_lost_since_it_was_planned_is_refused(world: World) -> None:
    session = world.open_session(PIPELINE)
    planned = propose_backfill(session, parse_request('{"orders": {"0": [0, 2]}}', None, None)).backfill
    world.broker.retain_from("orders", 4)
    with pytest.raises(PositionLost, match=r"\[0, 2\) of what is needed is gone"):
        apply_backfill(session, planned, print)


def test_table_without_a_key_is_refused() -> None:
    world, pipeline = World(), build_pipeline(build_table(mode="append", keys=()))
    world.broker.create("orders")
    world.broker.produce("orders", None, {"name": "x"})
    flush_all(world, pipeline)
    with pytest.raises(ConfigurationError, match=r"set key\.fields"):
        run(world, '{"orders": {"0": [0, 1]}}', pipeline)


def test_table_without_a_position_is_refused() -> None:
    world = World()
    world.broker.create("orders")
    produce(world, "a", "1")
    with pytest.raises(GiveUp, match="run: tidegate flush "):
        run(world, '{"orders": {"0": [0, 1]}}')


def test_rolled_back_table_waits_for_the_flush(world: World) -> None:
    world.destination.rollback(NAME, world.destination.tables[NAME].ancestors()[-1].id)
    with pytest.raises(PositionLost, match="was rolled back"):
        run(world)
    with pytest.raises(GiveUp, match="no flush has answered"):
        run(world, pipeline=build_pipeline(on_rollback="rewind"))


@pytest.mark.parametrize("policy", ["keep", "rewind"])
def test_rollback_that_no_flush_answers_without_new_records_is_answered_by_the_command_of_the_message(
    world: World, policy: str
) -> None:
    pipeline = build_pipeline(on_rollback=policy)
    session = world.open_session(pipeline)
    head = world.destination.tables[NAME].refs["main"]
    propose_rebase(session, "latest").perform("ann")  # a snapshot of its own, at the same offsets
    damage(world)
    world.destination.rollback(NAME, head)
    with pytest.raises(NothingToDo):
        flush(session)
    for retry in (run, lambda world, pipeline: replay_dead_letters(world.open_session(pipeline))):
        with pytest.raises(GiveUp, match=f"tidegate answer-rollback shop --table {NAME} --{policy}$"):
            retry(world, pipeline=pipeline)
    propose_answer(session, policy, NAME).perform("ann")
    run(world, pipeline=pipeline)
    assert read_names(world) == {"a": "2", "b": "1"}


def test_recreated_topic_is_refused(world: World) -> None:
    world.broker.create("orders")
    with pytest.raises(PositionLost, match="deleted and created again"):
        run(world)


@pytest.mark.parametrize("grown", [2, 4], ids=["to the position", "beyond it"])
def test_log_that_is_cut_while_a_slice_is_read_changes_no_row(world: World, grown: int) -> None:
    """Without its delete key c would come back, and key b would get what the flush has yet to read."""
    damage(world)
    cuts = list[int]()

    def cut_log(call: str, moment: str) -> None:
        if (call, moment) == ("engine.run", "before") and not cuts:
            cuts.append(3)
            world.broker.elect("orders", has=3)
            for _ in range(grown):
                produce(world, "b", "new")

    for _ in range(2):
        with pytest.raises(PositionLost, match="the log was cut at offset=3"):
            run(world, hook=cut_log)
        assert read_names(world) == {}


def test_topic_recreated_between_two_slices_is_noticed_before_its_records_are_applied(world: World) -> None:
    """Nobody has moved the position yet."""
    pipeline = build_pipeline(max_records=3)
    planned = propose_backfill(world.open_session(pipeline), parse_request(ALL, None, None)).backfill
    apply_slice(world.open_session(pipeline), planned, 2)
    before = read_names(world)
    world.broker.create("orders")
    for key in ("x", "b", "y", "z", "v"):
        produce(world, key, "of another topic")
    for _ in range(2):
        with pytest.raises(PositionLost, match=f"created again since this .*--abandon {planned.id}"):
            apply_slice(world.open_session(pipeline), planned, 1)
    assert read_names(world) == before


def test_log_that_was_cut_below_the_position_decides_about_no_backfill(world: World) -> None:
    """The newer row of `a` came from a record that the log has no more."""
    world.broker.elect("orders", has=4)
    for key in ("x", "y", "z"):
        produce(world, key, "1")
    with pytest.raises(PositionLost, match="was cut at offset=4"):
        run(world, '{"orders": {"0": [0, 1]}}')
    assert read_names(world) == {"a": "2", "b": "1"}


def test_topic_recreated_during_a_backfill_is_noticed_and_the_way_out_works(world: World) -> None:
    session = world.open_session(PIPELINE)
    planned = propose_backfill(session, parse_request(ALL, None, None)).backfill
    with pytest.raises(Crash):
        apply_backfill(world.open_session(PIPELINE, CrashAt(60)), planned, print)
    world.broker.create("orders")
    propose_rebase(session, "earliest").perform("ann")
    with pytest.raises(PositionLost, match=f"--abandon {planned.id}"):
        apply_backfill(session, planned, print)
    abandon_backfill(session, planned.id)
    assert list_leftovers(world) == []


def test_replaced_table_is_not_written_to(world: World) -> None:
    def replace_it() -> None:
        world.destination.replace(NAME)

    with pytest.raises(TidegateError):
        interrupt_backfill(world, "commits.publish", replace_it, ALL)
    assert world.read_rows(NAME) == []


def test_empty_range_is_nothing_to_do(world: World) -> None:
    with pytest.raises(NothingToDo):
        run(world, '{"orders": {"0": [2, 2]}}')


def test_unknown_table_is_refused_by_name(world: World) -> None:
    with pytest.raises(ConfigurationError, match=r"no table=lake\.shop\.x"):
        propose_backfill(world.open_session(PIPELINE), parse_request(ALL, None, None, ("lake.shop.x",)))


def test_range_of_too_many_batches_is_refused_before_anything_is_written(world: World) -> None:
    for _ in range(1001):
        produce(world, "a", "x")
    flush_all(world, build_pipeline())
    with pytest.raises(ConfigurationError, match=r"raise merge\.max_records"):
        run(world, '{"orders": {"0": [0, 1001]}}', build_pipeline(max_records=1))


# other modes, several tables


def test_append_table_with_a_key_gets_only_keys_that_have_no_row(world: World) -> None:
    pipeline = build_pipeline(build_table("lake.shop.log", mode="append"), name="log")
    flush_all(world, pipeline)
    before = world.read_rows("lake.shop.log")
    run(world, ALL, pipeline)
    assert world.read_rows("lake.shop.log") == before
    world.destination.add_snapshot("lake.shop.log", "main", ({"id": "b", "name": "kept"},), {})
    before_jobs = len(world.engine.stages)
    run(world, '{"orders": {"0": [0, 3]}}', pipeline)
    assert [(r["id"], r["name"]) for r in world.read_rows("lake.shop.log")] == [("a", "1"), ("b", "kept"), ("c", "1")]
    assert not any(t.keys_only for job in world.engine.stages[before_jobs:] for t in job.tables)


def test_append_table_with_deletes_gets_one_row_for_each_key_that_has_none(world: World) -> None:
    pipeline = build_pipeline(build_table("lake.shop.log", mode="delete"), name="log")
    flush_all(world, pipeline)
    before = world.read_rows("lake.shop.log")
    run(world, ALL, pipeline)
    assert world.read_rows("lake.shop.log") == before
    world.destination.add_snapshot("lake.shop.log", "main", ({"id": "c", "name": "ghost"},), {})
    run(world, ALL, pipeline)
    assert [(r["id"], r["name"]) for r in world.read_rows("lake.shop.log")] == [("a", "2"), ("b", "1")]


def build_two_tables(**options) -> tuple[World, object]:
    world = World()
    world.broker.create("orders")
    world.engine.conditions["name = 'x'"] = lambda row: row["name"] == "x"
    two = build_table("lake.shop.two", when="name = 'x'")
    pipeline = build_pipeline(build_table("lake.shop.one"), two, **options)
    for key, name in (("a", "x"), ("b", "y"), ("a", "y")):
        produce(world, key, name)
    flush_all(world, pipeline)
    return world, pipeline


def test_tables_at_one_position_share_the_read_of_each_slice() -> None:
    world, pipeline = build_two_tables()
    before = len(world.engine.stages)
    run(world, '{"orders": {"0": [0, 2]}}', pipeline)
    assert [(len(job.tables), job.ranges.span) for job in world.engine.stages[before:]] == [(2, 1), (2, 2)]


def test_table_that_was_rolled_back_meanwhile_holds_up_no_other() -> None:
    world, pipeline = build_two_tables()
    request = parse_request('{"orders": {"0": [0, 2]}}', None, None)
    planned = propose_backfill(world.open_session(pipeline), request).backfill
    world.destination.add_snapshot("lake.shop.one", "main", (), {})
    world.destination.rollback("lake.shop.two", world.destination.tables["lake.shop.two"].ancestors()[-1].id)
    for number in planned.numbers:
        with pytest.raises(SomeTablesFailed, match=r"1 table failed:\n.*table=lake\.shop\.two was rolled back"):
            apply_slice(world.open_session(pipeline), planned, number)
    assert [row["id"] for row in world.read_rows("lake.shop.one")] == ["b"], "a was flushed later again"


def test_every_slice_is_applied_to_the_other_table_and_the_failing_one_follows_when_it_is_mended() -> None:
    world, pipeline = build_two_tables(max_records=1)
    request = parse_request('{"orders": {"0": [0, 3]}}', None, None)
    planned = propose_backfill(world.open_session(pipeline), request).backfill
    assert len(planned.numbers) > 1
    world.destination.add_snapshot("lake.shop.one", "main", (), {})
    snapshots = world.destination.tables["lake.shop.two"].ancestors()
    world.destination.rollback("lake.shop.two", snapshots[-1].id)
    for outcome in (PublishOutcome.PUBLISHED, PublishOutcome.ALREADY_APPLIED):
        results = list[AppliedSlice]()
        with pytest.raises(SomeTablesFailed, match=r"table=lake\.shop\.two was rolled back"):
            apply_backfill(world.open_session(pipeline), planned, results.append)
        assert [(part.table, part.slice, part.outcome) for part in results] == [
            ("lake.shop.one", number, outcome) for number in planned.numbers
        ]
        assert sorted((row["id"], row["name"]) for row in world.read_rows("lake.shop.one")) == [("a", "y"), ("b", "y")]
    world.destination.rollback("lake.shop.two", snapshots[0].id)
    results = list[AppliedSlice]()
    apply_backfill(world.open_session(pipeline), planned, results.append)
    assert {part.table for part in results if part.outcome != PublishOutcome.ALREADY_APPLIED} == {"lake.shop.two"}
    assert not read_open_backfills(world.open_session(pipeline))


def test_later_record_that_a_condition_leaves_out_does_not_hold_a_row_back() -> None:
    """For `two` the key's last record is the first one: the later one is not its own."""
    world, pipeline = build_two_tables()
    world.destination.add_snapshot("lake.shop.two", "main", (), {})
    run(world, '{"orders": {"0": [0, 2]}}', pipeline)
    assert world.read_rows("lake.shop.two") == [{"id": "a", "name": "x"}]


def test_chosen_table_alone_is_applied() -> None:
    world, pipeline = build_two_tables()
    for name in ("lake.shop.one", "lake.shop.two"):
        world.destination.add_snapshot(name, "main", (), {})
    session = world.open_session(pipeline)
    backfill = propose_backfill(session, parse_request('{"orders": {"0": [0, 3]}}', None, None, ("lake.shop.two",)))
    apply_backfill(session, backfill.backfill, lambda _: None)
    assert (world.read_rows("lake.shop.one"), len(world.read_rows("lake.shop.two"))) == ([], 1)


def test_proposal_counts_records_batches_and_later_offsets(world: World) -> None:
    backfill = propose_backfill(world.open_session(PIPELINE), parse_request('{"orders": {"0": [0, 3]}}', None, None))
    assert backfill.to_dict()["tables"] == [
        {"table": NAME, "ranges": {"orders": {"0": [0, 3]}}, "records": 3, "batches": 2, "later": 2}
    ]
    assert list_leftovers(world) == []


def test_range_is_cut_into_slices_as_often_for_forty_partitions_as_for_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """To cut costs as much as there are partitions; once for each of them it took half a minute for 2,000."""
    cut, cuts, numbers = Backfill.list_slices, list[str](), list[int]()

    def count(self: Backfill, table: str) -> list[Ranges]:
        cuts.append(table)
        return cut(self, table)

    monkeypatch.setattr(Backfill, "list_slices", count)
    for partitions in (2, 40):
        world, pipeline = World(), build_pipeline()
        world.broker.create("orders", partitions)
        for partition in range(partitions):
            world.broker.produce("orders", {"id": f"k{partition}"}, {"id": f"k{partition}", "name": "1"}, partition)
        flush_all(world, pipeline)
        cuts.clear()
        everything = {"orders": {str(partition): [0, 1] for partition in range(partitions)}}
        assert [result.staged for result in run(world, json.dumps(everything), pipeline)] == [partitions]
        numbers.append(len(cuts))
    assert numbers[0] == numbers[1] > 0


def test_table_that_is_named_twice_is_applied_once(world: World) -> None:
    """By `--table` or in a run's `conf`: it is the backfill of the same words with the table named once."""
    damage(world)
    twice, once = (parse_request(ALL, None, None, tables) for tables in ((NAME, NAME), (NAME,)))
    proposal = propose_backfill(world.open_session(PIPELINE), twice)
    assert [table["table"] for table in proposal.to_dict()["tables"]] == [NAME]
    assert proposal.backfill == propose_backfill(world.open_session(PIPELINE), once).backfill
    results: list[AppliedSlice] = []
    apply_backfill(world.open_session(PIPELINE), proposal.backfill, results.append)
    assert [result.outcome for result in results] == [PublishOutcome.PUBLISHED] * 3


def test_open_backfills_of_many_tables_are_looked_for_in_one_listing(world: World) -> None:
    """Each table's were looked for in a listing of its own: thousands of listings for each look at the page."""
    pipeline = build_pipeline(build_table(), *(build_table(f"lake.shop.t{number}") for number in range(9)))
    backfill = propose_backfill(world.open_session(PIPELINE), parse_request(ALL, None, None)).backfill
    apply_slice(world.open_session(PIPELINE), backfill, 1)
    calls = Calls()
    assert read_open_backfills(world.open_session(pipeline, calls.count_call)) == {backfill.id: backfill}
    assert calls.by_step["flush"] == {"tables.list_tables": 1, "history.list_backfills": 1}
