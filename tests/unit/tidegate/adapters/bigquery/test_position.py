"""The mark by which a BigQuery table tells that a pipeline has written it: a missing position is a lost one then."""

import json
import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from contract_words import PIPELINE, TABLE
from tidegate.adapters.bigquery import position
from tidegate.adapters.bigquery.catalog import Warehouse, get_uuid
from tidegate.adapters.bigquery.destination import build_bigquery_destination
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import GiveUp
from tidegate.model.ownership import FORMAT, FORMAT_LABEL, KIND_LABEL
from tidegate.spec.pipeline import Catalog


class OneTable(Warehouse):
    """A project with one table and no positions."""

    def __init__(self, rows: int | None) -> None:
        super().__init__(Catalog("lake", "bigquery", {"project": "p"}), lambda _: None)
        create_time = datetime(2026, 1, 1, tzinfo=UTC)
        self.found = SimpleNamespace(
            created=create_time, schema=[], num_rows=rows, labels={"team": "a"}, expires=None, table_type="TABLE"
        )
        self.updates: list[tuple[Any, ...]] = []

    def find_table(self, name: str) -> Any:
        return self.found if name == TABLE else None

    def list_rows(self, name: str, check: Any) -> list[dict[str, Any]]:
        return []

    def update_table(self, table: Any, *fields: str) -> None:
        self.updates.append(fields)

    def is_lost(self, pipeline: str = PIPELINE) -> bool:
        state = build_bigquery_destination({"lake": self}, SqlFiles("bigquery")).tables.read_state(TABLE, pipeline)
        assert state is not None
        return state.is_position_lost


@pytest.mark.parametrize(("rows", "lost"), [(5, True), (0, False), (None, False)])
def test_position_is_lost_where_the_pipeline_has_written_rows_that_are_still_there(
    rows: int | None, lost: bool
) -> None:
    warehouse = OneTable(rows)
    assert not warehouse.is_lost()
    position.mark_table(warehouse, TABLE, warehouse.found, PIPELINE)
    assert (warehouse.is_lost(), warehouse.is_lost("another")) == (lost, False)


@pytest.mark.parametrize(
    ("first_pipeline", "second_pipeline"),
    [("shop_" * 12 + "one", "shop_" * 12 + "two"), ("Shop", "shop"), ("shop-a.b", "shop-a_b")],
    ids=["too long for a label", "letters of another size", "a letter that no label has"],
)
def test_pipelines_whose_names_a_label_cannot_tell_apart_have_marks_of_their_own(
    first_pipeline: str, second_pipeline: str
) -> None:
    warehouse = OneTable(5)
    position.mark_table(warehouse, TABLE, warehouse.found, first_pipeline)
    assert (warehouse.is_lost(first_pipeline), warehouse.is_lost(second_pipeline)) == (True, False)
    assert all(re.fullmatch(r"[a-z0-9_-]{1,63}", label) for label in warehouse.found.labels)


def test_users_labels_stay_and_a_table_is_marked_once() -> None:
    warehouse = OneTable(5)
    for _ in range(2):
        position.mark_table(warehouse, TABLE, warehouse.found, "shop")
    assert warehouse.found.labels == {"team": "a", "tidegate_position_shop": get_uuid(warehouse.found)}
    assert warehouse.updates == [("labels",)]


def mark_by_many(warehouse: OneTable, pipelines: int) -> list[str]:
    names = [f"shop{number}" for number in range(pipelines)]
    for name in names:
        position.mark_table(warehouse, TABLE, warehouse.found, name)
    return names


def test_table_of_more_pipelines_than_it_has_room_for_labels_keeps_a_mark_of_each() -> None:
    """BigQuery refuses a 65th label, and with it each publish of that pipeline."""
    warehouse = OneTable(5)
    names = mark_by_many(warehouse, 100)
    assert len(warehouse.found.labels) <= 64
    assert warehouse.found.labels["team"] == "a"
    assert all(map(warehouse.is_lost, names))
    updates = len(warehouse.updates)
    mark_by_many(warehouse, 100)
    assert len(warehouse.updates) == updates


def test_pipeline_that_begins_in_a_table_of_very_many_is_not_taken_for_one_that_has_lost_its_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warehouse = OneTable(5)
    mark_by_many(warehouse, 100)
    properties = json.dumps({"table": get_uuid(warehouse.found)})
    monkeypatch.setattr(warehouse, "list_rows", lambda *_: [{"pipeline": "shop1", "properties": properties}])
    assert (warehouse.is_lost("new"), warehouse.is_lost("shop2")) == (False, True)


def test_labels_of_a_former_table_make_room_for_new_ones() -> None:
    warehouse = OneTable(5)
    mark_by_many(warehouse, 100)
    warehouse.found.created = datetime(2026, 1, 2, tzinfo=UTC)
    position.mark_table(warehouse, TABLE, warehouse.found, "new")
    assert warehouse.found.labels == {"team": "a", "tidegate_position_new": get_uuid(warehouse.found)}


def test_table_whose_labels_are_all_its_owners_is_refused_with_what_to_do() -> None:
    warehouse = OneTable(5)
    warehouse.found.labels = {f"team{number}": "a" for number in range(64)}
    with pytest.raises(GiveUp, match=rf"table={TABLE}: it has labels=64, .*remove one of the table's labels"):
        position.mark_table(warehouse, TABLE, warehouse.found, "shop")
    del warehouse.found.labels["team0"]
    position.mark_table(warehouse, TABLE, warehouse.found, "shop")
    assert (len(warehouse.found.labels), warehouse.is_lost()) == (64, True)


def test_mark_of_another_table_of_that_name_is_none() -> None:
    """A copy may keep the labels, and a table that was made anew under a tool that keeps them."""
    warehouse = OneTable(5)
    position.mark_table(warehouse, TABLE, warehouse.found, PIPELINE)
    warehouse.found.created = datetime(2026, 1, 2, tzinfo=UTC)
    assert not warehouse.is_lost()


class TwoTables(Warehouse):
    """A project with a destination, and beside it a table that has the name of its positions."""

    def __init__(self, labels: dict[str, str], *columns: str) -> None:
        super().__init__(Catalog("lake", "bigquery", {"project": "p"}), lambda _: None)
        create_time = datetime(2026, 1, 1, tzinfo=UTC)
        schema = [SimpleNamespace(name=name) for name in columns]
        self.orders = SimpleNamespace(
            created=create_time, schema=[], num_rows=3, labels={}, expires=None, table_type="TABLE"
        )
        self.positions = SimpleNamespace(schema=schema, labels=labels)
        self.row = dict.fromkeys(columns, "theirs")
        self.client = SimpleNamespace(get_table=lambda *_, **__: self.positions, list_rows=self._list)
        self.has_listed = False

    def find_table(self, name: str) -> Any:
        return self.orders if name == TABLE else self.positions

    def _list(self, *_: Any, **__: Any) -> list[dict[str, Any]]:
        self.has_listed = True
        return [{**self.row, "pipeline": "another", "properties": "{}"}]


COLUMNS = ("pipeline", "version", "attempt", "properties", "changed")


@pytest.mark.parametrize("labels", [{}, {"team": "a"}, {KIND_LABEL: "deletes"}])
@pytest.mark.parametrize("columns", [("id", "name"), COLUMNS[:4]])
def test_table_of_somebody_else_is_not_read_as_positions(labels: dict[str, str], columns: tuple[str, ...]) -> None:
    warehouse = TwoTables(labels, *columns)
    port = build_bigquery_destination({"lake": warehouse}, SqlFiles("bigquery"))
    for ask in (lambda: port.tables.read_state(TABLE, PIPELINE), lambda: port.tables.list_pipelines(TABLE)):
        with pytest.raises(
            GiveUp,
            match=rf"table={TABLE}_tidegate_position is needed as .* (not a table that|marked as kind=deletes)",
        ):
            ask()
    assert not warehouse.has_listed, "it may have any number of rows"


def test_positions_of_another_format_are_not_read() -> None:
    port = build_bigquery_destination(
        {"lake": TwoTables({KIND_LABEL: "positions", FORMAT_LABEL: "2"}, *COLUMNS)}, SqlFiles("bigquery")
    )
    with pytest.raises(GiveUp, match=r"another build of Tidegate wrote it, tidegate-format=2, and this one reads 1; "):
        port.tables.read_state(TABLE, PIPELINE)


def test_positions_are_read_with_their_mark() -> None:
    warehouse = TwoTables({KIND_LABEL: "positions", FORMAT_LABEL: FORMAT}, *COLUMNS)
    state = build_bigquery_destination({"lake": warehouse}, SqlFiles("bigquery")).tables.read_state(TABLE, PIPELINE)
    assert state is not None
    assert (state.position, warehouse.has_listed) == (None, True)
