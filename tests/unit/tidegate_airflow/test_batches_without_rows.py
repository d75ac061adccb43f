"""Tasks of a pipeline whose newest batches have no rows, and wait for one that has."""

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.model.batch import PublishOutcome
from tidegate.schema.data_types import Column
from tidegate_airflow import tasks

ORDERS = "lake.shop.orders"


@pytest.mark.parametrize("rowless", [1, 2, 4])
@pytest.mark.parametrize("new_field", ["n", "M"])
def test_batch_with_new_fields_behind_batches_without_rows_is_merged_in_its_own_flush(
    monkeypatch: pytest.MonkeyPatch, rowless: int, new_field: str
) -> None:
    """It makes the intermediate table anew, which takes those batches out of it; with a known field nothing is new."""
    world = World()
    world.broker.create("orders", 1)
    world.engine.conditions["id <> 'no'"] = lambda row: row["id"] != "no"
    keys = (Column("id", "STRING"),)
    table = build_table(ORDERS, columns=None, key_columns=keys, unknown_fields="add", when="id <> 'no'")
    monkeypatch.setattr(tasks, "assemble_session", lambda *_: world.open_session(build_pipeline(table)))

    def flush_record(**fields: object) -> list[tuple[int, str]]:
        world.broker.produce("orders", {"id": fields["id"]}, fields, 0)
        results = [tasks.run_merge("shop", queue) for queue in tasks.run_stage("shop", tasks.run_plan("shop"))[0]]
        tasks.run_clean_up("shop")
        return [(result["batch"], result["outcome"]) for result in results]

    assert flush_record(id="a", n=1) == [(1, PublishOutcome.PUBLISHED)]
    for number in range(rowless):
        assert flush_record(id="no") == [(2 + number, PublishOutcome.NO_ROWS)]
    assert flush_record(id="b", **{new_field: 2}) == [(2 + rowless, PublishOutcome.PUBLISHED)]
    assert sorted(row["id"] for row in world.read_rows(ORDERS)) == ["a", "b"]
    (history,) = world.destination.control.values()
    assert sorted(row["batch"] for row in history) == list(range(1, 3 + rowless))
