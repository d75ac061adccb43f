"""Which query a table's live view is, and which tables have none; Spark and BigQuery's server show what it gives."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import ConfigurationError
from tidegate.merge.live_view import render_live_view
from tidegate.model.position import Position
from tidegate.model.table_state import TableState
from tidegate.schema.data_types import Column
from tidegate.schema.evolution import to_struct
from tidegate.spec.pipeline import Stage
from tidegate.spec.table import Approve, DeleteMode, History, Table
from tidegate.table.columns import compute_shape
from tidegate.table.session import TableSession

POSITION = Position({"orders": {0: 9}}, batch=7, staged_attempt="0af3")
COLUMNS = (Column("id", "STRING"), Column("name", "STRING"))
FLAG = Column("_deleted", "BOOLEAN")


def open_session(table: Table, *columns: Column, dialect: str = "iceberg", **options: Any) -> TableSession:
    columns = columns or COLUMNS
    session = replace(
        World().open_session(replace(build_pipeline(table), stage=Stage(interval_seconds=60))), sql=SqlFiles(dialect)
    )
    is_there = options.pop("is_staged", True)
    missing = options.pop("missing", "")
    tables = SimpleNamespace(claim=lambda name, _: {} if is_there and name != missing else None)
    session = replace(session, tables=tables, staging=SimpleNamespace(keep_for_readers=lambda _: None))
    state = TableState("u-1", 1, 0, POSITION, 7, columns, **{"recorded_position": POSITION, **options})
    return TableSession(session, table, replace(state, schema=to_struct(columns)))


def describe(text: str) -> str:
    """The first line: what the statement's file says of itself."""
    return text.partition("\n")[0]


@pytest.mark.parametrize("dialect", ["iceberg", "bigquery"])
@pytest.mark.parametrize(
    ("table", "columns", "words"),
    [
        (build_table(), COLUMNS, "a delete hides the row"),
        (build_table(mode="upsert"), COLUMNS, "a delete hides the row"),
        (build_table(mode="append"), COLUMNS, "Each staged record is a row beside those of the table."),
        (build_table(mode="delete"), COLUMNS, "a delete removes its key's earlier rows"),
        (replace(build_table(), deletes=DeleteMode.SOFT), (*COLUMNS, FLAG), "whether the row counts as deleted"),
        (build_table(sequence_by=("name",)), COLUMNS, "if its sequence is not lower"),
        (build_table(partial_updates=True), COLUMNS, "folded column by column"),
        (build_table(unavailable="__held"), COLUMNS, "folded column by column"),
    ],
    ids=str,
)
def test_view_folds_as_the_merge_of_its_table_does(
    dialect: str, table: Table, columns: tuple[Column, ...], words: str
) -> None:
    text = render_live_view(open_session(table, *columns, dialect=dialect))
    assert words in describe(text)
    assert f"'{compute_shape(open_session(table, *columns).resolved)}'" in text
    assert "'u-1'" in text


def test_columns_are_the_tables_own_whatever_the_file_adds_or_leaves_out() -> None:
    wider = build_table(columns=(*COLUMNS, Column("more", "STRING")))
    text = render_live_view(open_session(wider, *COLUMNS, Column("note", "STRING")))
    assert "more" not in text
    assert "  t.`note` AS `note`" in text
    assert "LEFT JOIN (\n  SELECT t.*, true" in text, "a merge leaves the note as it is"
    assert "LEFT JOIN (\n  SELECT t.*" not in render_live_view(open_session(build_table()))


@pytest.mark.parametrize(
    ("table", "state", "words"),
    [
        (build_table(history=History()), {}, "cannot show history: versions are laid out from remembered changes"),
        (build_table(options={"truncate": "apply"}), {}, "cannot show truncate: apply"),
        (build_table(branch="audit"), {}, "cannot show branch=audit"),
        (build_table(approve=Approve(rows_over=10)), {}, "cannot show approve: readers would see what waits for it"),
        (build_table(), {"recorded_position": None}, "nothing was merged into the table yet.*run: tidegate flush shop"),
        (build_table(), {"is_staged": False}, "intermediate=lake.shop.orders_shop_tmp is not there"),
        (
            build_table(sequence_by=("name",)),
            {"missing": "lake.shop.orders_deletes"},
            "table=lake.shop.orders_deletes is not there.*no row was merged yet",
        ),
    ],
    ids=str,
)
def test_table_without_a_view_is_refused_in_words(table: Table, state: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=f"pipeline=shop table=lake.shop.orders: .*{words}"):
        render_live_view(open_session(table, **state))
