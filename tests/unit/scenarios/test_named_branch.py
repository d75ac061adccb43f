"""Writing to a named branch: the position is the branch's, main is left alone, and what follows when it is promoted."""

from typing import Any

import pytest
import yaml
from fakes import CrashAt, World, build_pipeline, build_table
from fakes.clock import Crash
from tidegate.config.pipeline_file import load_pipeline
from tidegate.errors import ConfigurationError, HeldForApproval, NothingToDo, PositionLost, RetryLater
from tidegate.flush.flush import flush
from tidegate.flush.maintain import maintain
from tidegate.flush.preview import preview_batches
from tidegate.model import resource_names
from tidegate.reprocess.approve import propose_decision
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Catalog
from tidegate.spec.table import Approve
from tidegate.table.approval import DecisionKind

NAME = "lake.shop.orders"
OTHER_ROW = {"id": "theirs", "name": "x"}


def build_branch_pipeline(branch: str = "staging", **options: Any):
    return build_pipeline(build_table(NAME, branch=branch), **options)


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    world.destination.branches[NAME] = "staging"
    return world


def produce(world: World, *ids: str) -> None:
    for id in ids:
        world.broker.produce("orders", {"id": id}, {"id": id, "name": "ours"})


def read_ids(world: World, ref: str) -> list[str]:
    return sorted(row["id"] for row in world.destination.tables[NAME].read_rows(ref))


def fill_main(world: World) -> None:
    world.destination.create(NAME, (Column("id", "STRING"), Column("name", "STRING")))
    world.destination.append_foreign_rows(NAME, OTHER_ROW)


def test_branch_begins_at_main_and_main_is_left_alone(world: World) -> None:
    fill_main(world)
    main = world.destination.tables[NAME].refs["main"]
    produce(world, "a")
    flush(world.open_session(build_branch_pipeline()))
    world.destination.append_foreign_rows(NAME, {"id": "later", "name": "x"})
    produce(world, "b")
    flush(world.open_session(build_branch_pipeline()))
    assert read_ids(world, "staging") == ["a", "b", "theirs"]
    assert read_ids(world, "main") == ["later", "theirs"]
    assert [s.id for s in world.destination.tables[NAME].ancestors()][1] == main


def test_table_that_is_made_for_a_branch_shows_nothing_on_main(world: World) -> None:
    produce(world, "a")
    flush(world.open_session(build_branch_pipeline()))
    assert read_ids(world, "staging") == ["a"]
    assert read_ids(world, "main") == []


def test_killed_at_any_call_the_branch_ends_as_an_uninterrupted_run_leaves_it(world: World) -> None:
    fill_main(world)
    at = 0
    while True:
        at += 5
        produce(world, str(at))
        try:
            flush(world.open_session(build_branch_pipeline(), CrashAt(at)))
            break
        except (Crash, RetryLater, NothingToDo):
            continue
    assert read_ids(world, "main") == ["theirs"]
    assert read_ids(world, "staging") == sorted(["theirs", *(str(n) for n in range(5, at + 1, 5))])


def test_promoted_branch_is_gone_on_with_on_main(world: World) -> None:
    fill_main(world)
    produce(world, "a")
    flush(world.open_session(build_branch_pipeline()))
    refs = world.destination.tables[NAME].refs
    refs["main"] = refs["staging"]  # CALL fast_forward
    world.destination.branches.clear()
    produce(world, "b")
    flush(world.open_session(build_branch_pipeline("main")))
    assert read_ids(world, "main") == ["a", "b", "theirs"]


def test_other_branch_without_the_position_is_refused_like_a_rollback(world: World) -> None:
    fill_main(world)
    produce(world, "a")
    flush(world.open_session(build_branch_pipeline()))
    world.destination.branches[NAME] = "other"
    produce(world, "b")
    with pytest.raises(PositionLost, match="no longer part of other"):
        flush(world.open_session(build_branch_pipeline("other")))
    flush(world.open_session(build_branch_pipeline("other", on_rollback="keep")))
    assert read_ids(world, "other") == ["b", "theirs"]


def test_batch_of_a_branch_that_is_not_there_yet_is_compared_with_main(world: World) -> None:
    fill_main(world)
    produce(world, "a")
    pipeline = build_pipeline(build_table(NAME, branch="staging", approve=Approve(rows_over=0)))
    (preview,) = preview_batches(world.open_session(pipeline)).previews
    assert preview.counts == {"inserted": 1, "updated": 0, "deleted": 0, "rows": 1, "table_rows": 1}
    for key in ("a", "b"):
        with pytest.raises(HeldForApproval, match=f"inserted=1 .* table_rows={1 if key == 'a' else 2}"):
            flush(world.open_session(pipeline))
        propose_decision(world.open_session(pipeline), DecisionKind.APPROVE).perform("ann")
        flush(world.open_session(pipeline))
        produce(world, "b")
    assert read_ids(world, "staging") == ["a", "b", "theirs"]
    assert read_ids(world, "main") == ["theirs"]


def test_deletes_of_a_branch_are_remembered_apart_from_those_of_main() -> None:
    table = build_table(NAME, branch="to-check.1", sequence_by=("name",))
    assert resource_names.name_deletes_table(table) == f"{NAME}_to_check_1_deletes"
    assert resource_names.name_changes_table(build_table(NAME)) == f"{NAME}_changes"


def test_maintenance_does_not_rewrite_main_of_a_table_whose_branch_is_written(world: World) -> None:
    from dataclasses import replace

    fill_main(world)
    produce(world, "a")
    flush(world.open_session(build_branch_pipeline()))
    pipeline = build_branch_pipeline()
    pipeline = replace(pipeline, maintenance=replace(pipeline.maintenance, compact="always"))
    assert not maintain(world.open_session(pipeline), NAME).compacted


@pytest.mark.parametrize(("table", "message"), [
    ({"branch": "tidegate_x"}, "Tidegate's own"),
    ({"branch": "a b"}, "branch=a b: not a branch's name; write letters"),
    ({"name": "dwh.shop.orders", "branch": "staging"}, "branch=staging: not available for a bigquery catalog"),
    ({"name": "lake.shop.{v}", "branch": "staging"}, "not for a name that records fill in"),
])  # fmt: skip
def test_branch_that_cannot_be_written_is_refused_with_the_file(tmp_path, table: dict, message: str) -> None:
    source = {"topics": ["t"], "key": {"fields": ["id"]}, "value": {"schema": "id INT, v STRING"}}
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump({"source": source, "tables": [{"name": NAME, **table}]}))
    catalogs = {"lake": Catalog("lake", "iceberg"), "dwh": Catalog("dwh", "bigquery")}
    with pytest.raises(ConfigurationError, match=message):
        load_pipeline(file, catalogs)
