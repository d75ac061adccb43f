"""`tidegate plan --preview` of several tables: a refused one is named, hides no other, and is exit code 1."""

import json
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.cli.commands import progress
from tidegate.cli.parser import build_parser
from tidegate.errors import NothingToDo, PositionLost
from tidegate.flush.flush import flush
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline

FIRST, SECOND = "lake.shop.First", "lake.shop.second"
TWO = build_pipeline(build_table(FIRST), build_table(SECOND))


@pytest.fixture
def world() -> World:
    """Two tables that hold two batches of two partitions, and a third batch that waits."""
    world = World()
    world.broker.create("orders", 2)
    for name in ("1", "2"):
        produce(world, name)
        flush(world.open_session(TWO))
    produce(world, "3")
    return world


def produce(world: World, name: str) -> None:
    for partition in (0, 1):
        world.broker.produce("orders", {"id": f"k{partition}"}, {"id": f"k{partition}", "name": name}, partition)


def preview(monkeypatch: pytest.MonkeyPatch, world: World, pipeline: Pipeline, *words: str) -> int:
    monkeypatch.setattr(progress, "open_named_pipeline", lambda words: world.open_session(pipeline))
    return progress.run_plan(build_parser().parse_args(["plan", "shop", "--preview", *words]))


def read_answer(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("lost", [FIRST, SECOND])
def test_table_that_was_rolled_back_is_refused_beside_the_others_preview(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: World, lost: str
) -> None:
    other = SECOND if lost == FIRST else FIRST
    world.destination.rollback(lost, world.destination.tables[lost].ancestors()[1].id)
    for _ in range(2):
        assert preview(monkeypatch, world, TWO, "--json") == 1
        answer = read_answer(capsys)
        assert [(table["table"], table["counts"]["updated"]) for table in answer["tables"]] == [(other, 2)]
        assert [(one["table"], one["kind"]) for one in answer["refused"]] == [(lost, "PositionLost")]
    assert preview(monkeypatch, world, TWO) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{other}: batch=3 would change: inserted=0 updated=2")
    assert any(line.startswith(f"{lost}: refused: ") for line in lines)


def test_table_that_cannot_take_its_columns_hides_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: World
) -> None:
    narrow = (Column("id", "STRING"), Column("name", "INT"))
    pipeline = build_pipeline(build_table(FIRST, columns=narrow), build_table(SECOND))
    assert preview(monkeypatch, world, pipeline, "--json") == 1
    answer = read_answer(capsys)
    assert [(table["table"], table["counts"]["updated"]) for table in answer["tables"]] == [(SECOND, 2)]
    assert [(one["table"], one["kind"]) for one in answer["refused"]] == [(FIRST, "IncompatibleSchema")]


def test_where_no_table_has_a_preview_the_reason_is_raised(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    for table in (FIRST, SECOND):
        world.destination.rollback(table, world.destination.tables[table].ancestors()[1].id)
    with pytest.raises(PositionLost):
        preview(monkeypatch, world, TWO)


def test_tables_that_can_go_on_are_shown_as_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], world: World
) -> None:
    assert preview(monkeypatch, world, TWO, "--json") == 0
    answer = read_answer(capsys)
    assert ([table["counts"]["updated"] for table in answer["tables"]], answer["refused"]) == ([2, 2], [])
    flush(world.open_session(TWO))
    with pytest.raises(NothingToDo):
        preview(monkeypatch, world, TWO)
