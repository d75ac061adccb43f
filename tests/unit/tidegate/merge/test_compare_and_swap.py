"""swap: rows that landed beside the branch, branches of failed attempts, and mains that others never leave alone."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from fakes import AnswerLostBeforePublish, BusyTable, FailsToMerge, RefusesPublish, World, build_pipeline, build_table
from fakes.faults import WritesBesideTheBranch, WritesNothing
from tidegate.errors import GiveUp, NothingToDo, OutcomeUnknown, RetryLater, TidegateError
from tidegate.flush.flush import flush
from tidegate.merge.attempt import MAX_ROUNDS, RETRY_PAUSES_SECONDS
from tidegate.model.table_state import TableCommit
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline

NAME = "lake.shop.orders"
APPEND = build_pipeline(build_table(mode="append"))
UPSERT = build_pipeline()


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    produce(world, "a", "x")
    return world


def produce(world: World, key: str, name: str | None) -> None:
    world.broker.produce("orders", {"id": key}, None if name is None else {"id": key, "name": name})


def read_offsets(world: World) -> dict:
    state = world.destination.read_state(NAME, "shop")
    assert state is not None
    assert state.position is not None
    return state.position.offsets


@pytest.mark.guard(
    "rows that Spark wrote outside of the branch do not count as no rows",
    file="plugins/tidegate/merge/attempt.py",
    text="    if elsewhere:\n",
    off="    if False:\n",
    case="upsert_delete",
)
@pytest.mark.parametrize("pipeline", [APPEND, UPSERT], ids=["append", "upsert_delete"])
def test_rows_that_landed_beside_the_branch_do_not_move_the_position(world: World, pipeline: Pipeline) -> None:
    flush(world.open_session(pipeline))
    produce(world, "b", "y")
    with pytest.raises(GiveUp, match=r"spark\.wap"):
        flush(world.open_session(pipeline, engine=WritesBesideTheBranch(world.engine)))
    assert read_offsets(world) == {"orders": {0: 1, 1: 0}}
    flush(world.open_session(pipeline))
    assert world.read_rows(NAME) == [{"id": "a", "name": "x"}, {"id": "b", "name": "y"}]


@pytest.mark.guard(
    "missing rows of an append do not count as no rows",
    file="plugins/tidegate/merge/attempt.py",
    text="    if attempt.min_added_rows:\n",
    off="    if False:\n",
)
def test_append_that_writes_nothing_does_not_move_the_position(world: World) -> None:
    flush(world.open_session(APPEND))
    produce(world, "b", "y")
    with pytest.raises(RetryLater, match="staged=1"):
        flush(world.open_session(APPEND, engine=WritesNothing(world.engine)))
    assert read_offsets(world) == {"orders": {0: 1, 1: 0}}


def test_deletes_of_keys_that_are_not_there_write_nothing_and_move_the_position(world: World) -> None:
    flush(world.open_session(UPSERT))
    produce(world, "gone", None)
    flush(world.open_session(UPSERT))
    assert read_offsets(world) == {"orders": {0: 2, 1: 0}}
    assert world.read_rows(NAME) == [{"id": "a", "name": "x"}]


def test_catalog_that_refuses_although_nothing_moved_is_given_time_and_not_asked_for_ever(world: World) -> None:
    flush(world.open_session(UPSERT))
    produce(world, "b", "y")
    refuses, began = RefusesPublish(world.destination, times=99), world.clock.ms
    with pytest.raises(RetryLater, match="refused the publish each time"):
        flush(world.open_session(UPSERT, destination=refuses))
    assert 99 - refuses.remaining == MAX_ROUNDS
    assert sum(RETRY_PAUSES_SECONDS) * 1000 <= world.clock.ms - began < sum(RETRY_PAUSES_SECONDS) * 1000 + 1000


Fault = Callable[[World], dict]
FAULTS: dict[str, Fault] = {
    "Spark fails": lambda world: {"engine": FailsToMerge(world.engine, NAME)},
    "the catalog refuses": lambda world: {"destination": RefusesPublish(world.destination, times=99)},
    "no answer, ever": lambda world: {"destination": AnswerLostBeforePublish(world.destination, times=99)},
    "rows land elsewhere": lambda world: {"engine": WritesBesideTheBranch(world.engine)},
}


@pytest.mark.parametrize("fault", FAULTS)
def test_failed_attempt_leaves_no_branch_behind(world: World, fault: str) -> None:
    flush(world.open_session(UPSERT))
    produce(world, "b", "y")
    before = dict(world.destination.tables[NAME].refs)
    for _ in range(3):
        with pytest.raises(TidegateError):
            flush(world.open_session(UPSERT, **FAULTS[fault](world)))
    assert world.destination.tables[NAME].refs == before
    flush(world.open_session(UPSERT))
    assert world.read_rows(NAME) == [{"id": "a", "name": "x"}, {"id": "b", "name": "y"}]


X, Y, FOREIGN = {"id": "a", "name": "x"}, {"id": "b", "name": "y"}, {"id": "z", "name": "foreign"}
BUSY = {
    "append": APPEND,
    "upsert": build_pipeline(build_table(mode="upsert")),
    "upsert_delete": UPSERT,
    "delete": build_pipeline(build_table(mode="delete")),
}


@pytest.mark.parametrize("mode", BUSY)
def test_writer_that_commits_more_often_than_a_merge_takes_starves_nobody(world: World, mode: str) -> None:
    pipeline = BUSY[mode]
    flush(world.open_session(pipeline))
    produce(world, "b", "y")
    merges, began = len(world.engine.merges), world.clock.ms
    flush(world.open_session(pipeline, destination=BusyTable(world.destination, 9, FOREIGN)))
    assert world.read_rows(NAME) == [X, Y, *[FOREIGN] * 9]
    assert read_offsets(world) == {"orders": {0: 2, 1: 0}}
    assert len(world.engine.merges) == merges + 1
    assert world.clock.ms - began < 1000
    table = world.destination.tables[NAME]
    assert set(table.refs) == {"main", "tidegate_shop"}
    assert table.refs["main"] == table.refs["tidegate_shop"]


def test_row_that_is_replaced_while_others_append_is_there_once(world: World) -> None:
    flush(world.open_session(UPSERT))
    produce(world, "a", "new")
    produce(world, "c", "d")
    merges = len(world.engine.merges)
    flush(world.open_session(UPSERT, destination=BusyTable(world.destination, 3, FOREIGN)))
    assert world.read_rows(NAME) == [{"id": "a", "name": "new"}, {"id": "c", "name": "d"}, *[FOREIGN] * 3]
    assert len(world.engine.merges) == merges + 1


ASKS_ROWS = {
    "a key of the batch was written": (UPSERT, {"id": "b", "name": "foreign"}),
    "sequence_by": (
        build_pipeline(build_table(sequence_by=("offset",), metadata={"offset": "offset"})),
        FOREIGN,
    ),
    "soft deletes": (build_pipeline(build_table(deletes="soft")), FOREIGN),
    "audits": (build_pipeline(build_table(audits=("named",))), FOREIGN),
    "partial updates": (build_pipeline(build_table(partial_updates=True)), FOREIGN),
}


@pytest.mark.guard(
    "a merge that depends on rows of the table is not reattached to a newer main",
    file="plugins/tidegate/merge/write_mode.py",
    text="    return None if asks_rows else Reparenting(values)\n",
    off="    return Reparenting(values)\n",
    case="sequence_by",
)
@pytest.mark.parametrize("case", ASKS_ROWS)
def test_merge_whose_result_depends_on_rows_that_others_may_have_changed_runs_again(world: World, case: str) -> None:
    pipeline, foreign = ASKS_ROWS[case]
    world.engine.conditions["named"] = lambda row: row["name"] is not None
    flush(world.open_session(pipeline))
    produce(world, "b", "y")
    merges = len(world.engine.merges)
    flush(world.open_session(pipeline, destination=BusyTable(world.destination, 1, foreign)))
    assert len(world.engine.merges) == merges + 2
    assert read_offsets(world) == {"orders": {0: 2, 1: 0}}


def test_column_that_only_others_write_is_not_taken_from_a_row_that_may_be_gone(world: World) -> None:
    flush(world.open_session(UPSERT))
    table = world.destination.tables[NAME]
    table.columns, table.schema_id = (*table.columns, Column("note", "STRING")), table.schema_id + 1
    produce(world, "a", "new")
    merges = len(world.engine.merges)
    flush(world.open_session(UPSERT, destination=BusyTable(world.destination, 1, FOREIGN)))
    assert len(world.engine.merges) == merges + 2


def test_rows_are_not_put_onto_a_main_whose_history_left_the_cut(world: World) -> None:
    flush(world.open_session(UPSERT))
    first = world.destination.tables[NAME].refs["main"]
    world.destination.append_foreign_rows(NAME, FOREIGN)
    produce(world, "b", "y")
    merges = len(world.engine.merges)

    class RolledBack(BusyTable):
        def publish(self, table_commit: TableCommit) -> None:
            if self.remaining:
                self.remaining -= 1
                self._port.rollback(NAME, first)
            self._port.publish(table_commit)

    flush(world.open_session(UPSERT, destination=RolledBack(world.destination)))
    assert (world.read_rows(NAME), len(world.engine.merges)) == ([X, Y], merges + 2)


@pytest.mark.parametrize("error", [OutcomeUnknown("no answer"), ValueError("a spec of a column that is gone")])
def test_rows_that_cannot_be_put_onto_a_newer_main_are_merged_again(world: World, error: Exception) -> None:
    flush(world.open_session(UPSERT))
    produce(world, "b", "y")
    merges = len(world.engine.merges)

    class Broken(BusyTable):
        def reparent(self, *args: Any) -> Any:
            self._port.reparent(*args)  # an answer that is lost may have been a success
            raise error

    flush(world.open_session(UPSERT, destination=Broken(world.destination, 1, FOREIGN)))
    assert (world.read_rows(NAME), len(world.engine.merges)) == ([X, Y, FOREIGN], merges + 2)
    assert set(world.destination.tables[NAME].refs) == {"main", "tidegate_shop"}


def test_other_run_that_publishes_while_rows_are_put_onto_its_main_wins(world: World) -> None:
    flush(world.open_session(UPSERT))
    produce(world, "b", "y")

    class OtherRun(BusyTable):
        def reparent(self, *args: Any) -> Any:
            flush(world.open_session(UPSERT))
            return self._port.reparent(*args)

    with suppress(NothingToDo):
        flush(world.open_session(UPSERT, destination=OtherRun(world.destination, 1, FOREIGN)))
    assert world.read_rows(NAME) == [X, Y, FOREIGN]
    assert read_offsets(world) == {"orders": {0: 2, 1: 0}}
    assert set(world.destination.tables[NAME].refs) == {"main", "tidegate_shop"}
