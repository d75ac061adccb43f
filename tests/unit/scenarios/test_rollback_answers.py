"""A table was rolled back: each way out, what it shows before, what stands after it, and who it says did it."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import (
    CommitRefused,
    ConfigurationError,
    GiveUp,
    NothingToDo,
    OutcomeUnknown,
    PositionLost,
    RetryLater,
    SomeTablesFailed,
)
from tidegate.flush.flush import flush
from tidegate.model.table_state import Rollback
from tidegate.monitoring.status import read_status
from tidegate.reprocess.rebase import propose_rebase
from tidegate.reprocess.rollback import (
    Answer,
    propose_answer,
    propose_answers,
    propose_undo,
    propose_undos,
    undo_rollback,
)
from tidegate.spec.table import History

ORDERS, COPY = "lake.shop.orders", "lake.shop.copy"
PIPELINE = build_pipeline(build_table(ORDERS), build_table(COPY))


@pytest.fixture
def world() -> World:
    """Two tables of three batches over two partitions; `orders` was rolled back to the first."""
    world = World()
    world.broker.create("orders", 2)
    for key, partition in (("a", 0), ("b", 1), ("c", 0)):
        produce(world, key, partition)
    first = world.destination.tables[ORDERS].refs["main"]
    produce(world, "a", 0, "again")
    produce(world, "d", 1)
    assert read_ids(world) == ["a", "b", "c", "d"]
    world.destination.rollback(ORDERS, first)
    return world


def produce(world: World, key: str, partition: int, name: str = "1", *, flushes: bool = True) -> None:
    world.broker.produce("orders", {"id": key}, {"id": key, "name": name}, partition)
    if flushes:
        flush(world.open_session(PIPELINE))


def read_ids(world: World, table: str = ORDERS) -> list[str]:
    return [row["id"] for row in world.read_rows(table)]


def list_actions(world: World, table: str = ORDERS) -> list[tuple[str, str, str]]:
    (table_status,) = [
        table_row for table_row in read_status(world.open_session(PIPELINE))["tables"] if table_row["table"] == table
    ]
    return [(action["action"], action["by"], action["details"]) for action in table_status["actions"]]


def undo(world: World, **options: Any) -> None:
    session = world.open_session(PIPELINE)
    propose_undo(session, **options).perform("ann")


def answer(world: World, choice: Answer) -> None:
    session = world.open_session(PIPELINE)
    propose_answer(session, choice).perform("ann")


def test_undo_shows_what_comes_back_and_changes_nothing_before_it_is_done(world: World) -> None:
    tables = world.destination.tables
    head, tagged = tables[ORDERS].refs["main"], tables[ORDERS].refs["tidegate_shop"]
    (proposal,) = propose_undos(world.open_session(PIPELINE), None)
    assert (proposal.table.name, proposal.rollback.current_snapshot_id, proposal.rollback.tagged_snapshot_id) == (
        ORDERS,
        head,
        tagged,
    )
    assert [(s.pipeline, s.batch, s.rows) for s in proposal.rollback.returning_snapshots] == [
        ("shop", 5, 1),
        ("shop", 4, 2),
    ]
    assert (proposal.rollback.rows_now, proposal.rollback.rows_then, proposal.rollback.discarded_snapshots) == (
        3,
        4,
        (),
    )
    assert tables[ORDERS].refs["main"] == head
    assert list_actions(world) == []


def test_undo_brings_rows_and_position_back_and_says_who_did_it(world: World) -> None:
    copy = world.read_rows(COPY)
    produce(world, "e", 0, flushes=False)
    undo(world)
    assert read_ids(world) == ["a", "b", "c", "d"]
    assert world.read_rows(COPY) == copy
    flush(world.open_session(PIPELINE))
    assert read_ids(world) == ["a", "b", "c", "d", "e"]
    with pytest.raises(NothingToDo):
        flush(world.open_session(PIPELINE))
    ((action, by, details),) = list_actions(world)
    assert (action, by) == ("undo-rollback", "ann")
    assert details.startswith("snapshot=")


def test_undo_refuses_to_lose_what_others_wrote_since_unless_that_is_said(world: World) -> None:
    foreign = world.destination.append_foreign_rows(ORDERS, {"id": "z", "name": "theirs"})
    with pytest.raises(
        GiveUp, match=f"would lose snapshots={foreign.id} with up to rows=1.*--discard-foreign"
    ) as error_info:
        undo(world)
    assert f"tidegate undo-rollback shop --table {ORDERS} --discard-foreign" in str(error_info.value)
    assert read_ids(world) == ["a", "b", "c", "z"]
    undo(world, discard_foreign=True)
    assert read_ids(world) == ["a", "b", "c", "d"]
    assert list_actions(world)[0][2].endswith(f"discarded={foreign.id}")


def test_undo_refuses_to_lose_a_snapshot_whose_writer_counted_nothing(world: World) -> None:
    rows = (*world.destination.tables[ORDERS].read_rows(), {"id": "z", "name": "theirs"})
    foreign = world.destination.add_snapshot(ORDERS, "main", rows, {"operation": "append", "uncounted": "yes"})
    with pytest.raises(GiveUp, match=f"would lose snapshots={foreign.id} with rows that nobody has counted"):
        undo(world)
    assert read_ids(world) == ["a", "b", "c", "z"]
    undo(world, discard_foreign=True)
    assert read_ids(world) == ["a", "b", "c", "d"]


def test_undo_passes_over_a_compaction_since_the_rollback(world: World) -> None:
    rows = tuple(world.destination.tables[ORDERS].read_rows())
    world.destination.add_snapshot(ORDERS, "main", rows, {"operation": "replace"})
    (proposal,) = propose_undos(world.open_session(PIPELINE), None)
    assert [snapshot.rows for snapshot in proposal.rollback.discarded_snapshots] == [0]
    undo(world)
    assert read_ids(world) == ["a", "b", "c", "d"]


def test_undo_gives_way_to_a_writer_who_came_between_the_look_and_the_commit(world: World) -> None:
    session = world.open_session(PIPELINE)
    action = propose_undo(session)
    world.destination.append_foreign_rows(ORDERS, {"id": "z", "name": "theirs"})
    with pytest.raises(RetryLater, match="another writer was faster, nothing was undone"):
        action.perform("ann")
    assert read_ids(world) == ["a", "b", "c", "z"]


class LostAnswer:
    """A destination whose undo takes effect, or not, while its answer is lost the first time."""

    def __init__(self, world: World, takes_effect: bool) -> None:
        self.world, self.takes_effect, self.calls = world, takes_effect, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.world.destination, name)

    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        self.calls += 1
        if self.calls > 1 or self.takes_effect:
            self.world.destination.undo_rollback(table, pipeline, rollback, properties)
        if self.calls == 1:
            raise OutcomeUnknown("no answer") if self.takes_effect else CommitRefused("something else was committed")


@pytest.mark.parametrize("moment", ["before", "after"])
def test_rollback_that_somebody_else_undoes_at_the_same_moment_is_undone_once(world: World, moment: str) -> None:
    (proposal,) = propose_undos(world.open_session(PIPELINE), None)
    calls = list[str]()

    def undo_too(call: str, at: str) -> None:
        if (call, at) == ("commits.find_rollback", moment) and not calls:
            calls.append(call)
            undo(world)

    undo_rollback(world.open_session(PIPELINE, undo_too), proposal, "ben")
    assert (calls, read_ids(world)) == (["commits.find_rollback"], ["a", "b", "c", "d"])
    assert [by for _, by, _ in list_actions(world)] == ["ann"]


def test_rollback_that_somebody_undoes_while_it_is_looked_at_lacks_no_tag(world: World) -> None:
    def undo_first(call: str, moment: str) -> None:
        if (call, moment) == ("commits.find_rollback", "before"):
            undo(world)

    with pytest.raises(RetryLater, match="it is no longer rolled back; see `tidegate status`"):
        propose_undos(world.open_session(PIPELINE, undo_first), None)


@pytest.mark.parametrize(("takes_effect", "calls"), [(True, 1), (False, 2)])
def test_undo_whose_answer_is_lost_is_looked_up_and_done_once(world: World, takes_effect: bool, calls: int) -> None:
    commits = LostAnswer(world, takes_effect)
    session = world.open_session(PIPELINE, commits=commits)
    propose_undo(session).perform("ann")
    assert commits.calls == calls
    assert read_ids(world) == ["a", "b", "c", "d"]
    assert len(list_actions(world)) == 1


def test_undo_whose_answer_is_lost_is_found_done_below_what_others_wrote_since(world: World) -> None:
    """It was said that nothing was undone, and the next try said that nothing was rolled back."""
    commits = LostAnswer(world, takes_effect=True)

    def write(call: str, moment: str) -> None:
        if (call, moment, commits.calls, len(foreign)) == ("commits.find_rollback", "before", 1, 0):
            foreign.append(world.destination.append_foreign_rows(ORDERS, {"id": "z", "name": "theirs"}).id)

    foreign = list[int]()
    session = world.open_session(PIPELINE, write, commits=commits)
    propose_undo(session).perform("ann")
    assert (commits.calls, len(foreign), read_ids(world)) == (1, 1, ["a", "b", "c", "d", "z"])
    assert [by for _, by, _ in list_actions(world)] == ["ann"]


def test_undo_refuses_a_replaced_table(world: World) -> None:
    """CREATE OR REPLACE keeps tag and UUID, and its snapshots begin anew."""
    del world.destination.tables[ORDERS].refs["main"]
    world.destination.add_snapshot(ORDERS, "main", ({"id": "z", "name": "theirs"},), {})
    with pytest.raises(GiveUp, match="share no snapshot that is still there") as error_info:
        propose_undos(world.open_session(PIPELINE), None)
    assert f"tidegate answer-rollback shop --table {ORDERS} --keep" in str(error_info.value)


def test_undo_refuses_what_expiry_hides(world: World) -> None:
    table = world.destination.tables[ORDERS]
    world.destination.rollback(ORDERS, table.refs["tidegate_shop"])
    between = world.destination.append_foreign_rows(ORDERS, {"id": "y", "name": "theirs"})
    world.destination.append_foreign_rows(ORDERS, {"id": "z", "name": "theirs"})
    world.destination.expire(ORDERS, between.id)
    with pytest.raises(PositionLost, match=f"tidegate answer-rollback shop --table {ORDERS} --keep"):
        flush(world.open_session(build_pipeline(build_table(ORDERS))))
    with pytest.raises(GiveUp, match="share no snapshot that is still there"):
        propose_undos(world.open_session(PIPELINE), None)


def test_undo_after_the_origin_of_both_lines_expired(world: World) -> None:
    table = world.destination.tables[ORDERS]
    origin = table.refs["main"]
    world.destination.add_snapshot(ORDERS, "main", tuple(table.read_rows()), {"operation": "replace"})
    world.destination.expire(ORDERS, origin)
    undo(world)
    assert read_ids(world) == ["a", "b", "c", "d"]


def test_undo_without_a_tag_has_nothing_to_go_back_to(world: World) -> None:
    del world.destination.tables[ORDERS].refs["tidegate_shop"]
    with pytest.raises(GiveUp, match="the tag tidegate_shop is gone"):
        propose_undos(world.open_session(PIPELINE), None)


def test_tables_that_were_not_rolled_back_are_left_alone(world: World) -> None:
    for propose in (propose_undos, lambda session, name: propose_answers(session, "keep", name)):
        with pytest.raises(NothingToDo, match=f"tables={COPY}: none was rolled back"):
            propose(world.open_session(PIPELINE), COPY)
        with pytest.raises(ConfigurationError, match=r"has no table=lake\.shop\.other; it has"):
            propose(world.open_session(PIPELINE), "lake.shop.other")


def test_a_destination_without_snapshots_says_what_to_do_there(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.destination, "has_branches", lambda table: False)
    with pytest.raises(GiveUp, match=r"BigQuery keeps no snapshots.*tidegate rebase shop --table \S+ --to 2"):
        propose_undos(world.open_session(PIPELINE), ORDERS)


@pytest.mark.parametrize("choice", ["rewind", "keep"])
def test_answer_shows_the_offsets_that_are_missing_and_is_given_once(world: World, choice: Answer) -> None:
    produce(world, "e", 0, flushes=False)
    (proposal,) = propose_answers(world.open_session(PIPELINE), choice, None)
    assert [(p.partition, p.after, p.before) for p in proposal.undone_moves] == [(0, 2, 3), (1, 1, 2)]
    answer(world, choice)
    expected = {"rewind": ["a", "b", "c", "d", "e"], "keep": ["a", "b", "c", "e"]}[choice]
    flush(world.open_session(PIPELINE))
    assert read_ids(world) == expected
    assert read_ids(world, COPY) == ["a", "b", "c", "d", "e"]
    first = world.destination.tables[ORDERS].ancestors()[-2].id
    world.destination.rollback(ORDERS, first)
    with pytest.raises(PositionLost, match="was rolled back"):  # the next one is asked about again
        flush(world.open_session(build_pipeline(build_table(ORDERS))))


@pytest.mark.parametrize("choice", ["rewind", "keep"])
def test_answer_names_the_table_that_keeps_what_the_records_have_noted(world: World, choice: Answer) -> None:
    assert "noted" not in propose_answer(world.open_session(PIPELINE), choice).preview
    for options, memory in (({"sequence_by": ("name",)}, "deletes"), ({"history": History()}, "changes")):
        session = world.open_session(build_pipeline(build_table(ORDERS, **options)))
        assert f"stays in {ORDERS}_{memory}: see docs/runbook" in propose_answer(session, choice).preview


def test_answer_says_who_gave_it(world: World) -> None:
    answer(world, "rewind")
    assert list_actions(world) == [("rewind", "ann", "orders 0: 3 -> 2, orders 1: 2 -> 1")]


def test_rewind_is_refused_where_the_log_no_longer_holds_the_records(world: World) -> None:
    world.broker.retain_from("orders", 3)
    with pytest.raises(PositionLost, match="1 offset is gone before being read"):
        propose_answers(world.open_session(PIPELINE), "rewind", None)


def test_rewind_is_refused_where_no_snapshot_tells_a_position(world: World) -> None:
    del world.destination.tables[ORDERS].refs["main"]
    world.destination.add_snapshot(ORDERS, "main", (), {})
    with pytest.raises(GiveUp, match=r"has a position to rewind to.*--keep"):
        propose_answers(world.open_session(PIPELINE), "rewind", None)
    answer(world, "keep")
    produce(world, "e", 0)
    assert read_ids(world) == ["e"]


def test_actions_are_kept_in_order_and_bounded(world: World) -> None:
    session = world.open_session(PIPELINE)
    undo(world)
    for number in range(25):
        propose_rebase(session, "latest").perform(f"user{number}")
    actions = list_actions(world)
    assert len(actions) == 20
    assert actions[0] == ("rebase", "user24", "the position stays")
    assert actions[-1][1] == "user5"
    assert list_actions(world, COPY)[0][1] == "user24"


@pytest.mark.parametrize("is_rolled_back", [False, True])
def test_tag_that_somebody_dropped_is_set_again_by_the_way_out_that_is_told(world: World, is_rolled_back: bool) -> None:
    table = world.destination.tables[ORDERS]
    if not is_rolled_back:
        undo(world)
    rows = read_ids(world)
    del table.refs["tidegate_shop"]
    produce(world, "e", 1, flushes=False)
    with pytest.raises(
        SomeTablesFailed, match=f"the tag tidegate_shop .* is gone.*answer-rollback shop --table {ORDERS} --keep"
    ):
        flush(world.open_session(PIPELINE))
    answer(world, "rewind" if is_rolled_back else "keep")
    assert "tidegate_shop" in table.refs
    flush(world.open_session(PIPELINE))
    assert (rows, read_ids(world)) == (["a", "b", "c", "d"][: 3 if is_rolled_back else 4], ["a", "b", "c", "d", "e"])
    assert read_ids(world, COPY) == read_ids(world)


@pytest.mark.parametrize("policy", ["fail", "rewind"])
def test_move_of_a_table_that_was_rolled_back_shows_what_its_rows_lack(world: World, policy: str) -> None:
    """The partition that is not named stays at the recorded offset, and the rows behind the rollback are left out."""
    pipeline = replace(PIPELINE, on_rollback=policy)
    proposed = propose_rebase(world.open_session(pipeline), '{"orders": {"0": 2}}', ORDERS)
    (part,) = proposed.parts
    moves = [(it["partition"], it["before"], it["after"], it["skipped"]) for it in part.facts["partitions"]]
    assert moves == [(0, 2, 2, 0), (1, 1, 2, 1)]
    assert f"{ORDERS}  orders 1: 1 -> 2, skips 1 offset" in proposed.preview
    assert f"{ORDERS}  was rolled back, and stands where these moves begin" in proposed.preview
    assert "was rolled back" not in propose_rebase(world.open_session(pipeline), "earliest", COPY).preview
    proposed.perform("ann")
    with suppress(NothingToDo):
        flush(world.open_session(pipeline))
    assert (read_ids(world), read_ids(world, COPY)) == (["a", "b", "c"], ["a", "b", "c", "d"])


@pytest.mark.parametrize("unclear", [{"cherry_picked_batch": 2}, {"is_untraceable": True}, {"is_untagged": True}])
def test_move_counts_from_the_recorded_position_where_it_is_not_known_what_the_rows_have(
    world: World, monkeypatch: pytest.MonkeyPatch, unclear: dict[str, Any]
) -> None:
    """Counted from none, a move to the begin read again 0 offsets, whose rows may be there."""
    state = world.destination.read_state(ORDERS, "shop")
    assert state is not None
    monkeypatch.setattr(world.destination, "read_state", lambda *_: replace(state, position=None, **unclear))
    preview = propose_rebase(world.open_session(PIPELINE), "earliest", ORDERS).preview
    assert f"{ORDERS}  orders 0: 3 -> 0, reads again 3 offsets" in preview
    assert f"{ORDERS}  orders 1: 2 -> 0, reads again 2 offsets" in preview
    assert "was rolled back" not in preview


def test_move_of_a_table_that_lost_its_tag_alone_tells_of_no_rollback(world: World) -> None:
    undo(world)
    del world.destination.tables[ORDERS].refs["tidegate_shop"]
    preview = propose_rebase(world.open_session(PIPELINE), "earliest", ORDERS).preview
    assert f"{ORDERS}  orders 0: 3 -> 0, reads again 3 offsets" in preview
    assert "was rolled back" not in preview
