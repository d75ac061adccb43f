"""What a table of BigQuery must be like before anything is merged into it."""

import re
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.bigquery.ports.tables import BigQueryTables
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import GiveUp
from tidegate.model.ownership import Ownership, TableKind
from tidegate.sql.pruning import UNBOUNDED

TABLE = "dwh.shop.orders"
IGNORED_CASE = {"type": "STRING", "collation": "und:ci"}
FIELDS = [
    {"name": "Id", "type": "INTEGER"},
    {"name": "Place", "type": "RECORD", "fields": [{"name": "Code", **IGNORED_CASE}]},
    {"name": "name", **IGNORED_CASE},
    {"name": "score", "type": "FLOAT"},
    {"name": "Point", "type": "RECORD", "fields": [{"name": "x", "type": "FLOAT64"}, {"name": "n", "type": "INTEGER"}]},
]


def find_bounds(*leaves: tuple[str, ...], **options: Any) -> Any:
    table = SimpleNamespace(to_api_repr=lambda: {"schema": {"fields": FIELDS}})
    warehouse: Any = SimpleNamespace(find_table=lambda _: table, query_rows=lambda _: pytest.fail("nothing is asked"))
    values: Any = {**({"leaves": leaves} if leaves else {}), "staged_rows": 5, **options}
    return BigQueryTables({"dwh": warehouse}, SqlFiles("bigquery", {"dwh": "p"})).find_bounds(TABLE, values)


def test_key_that_bigquery_compares_without_case_is_refused() -> None:
    """Records of two keys, `a` and `A`, would be one row."""
    with pytest.raises(GiveUp, match=r"table=dwh.shop.orders column=Place\.Code: .* \(collation=und:ci\).* make"):
        find_bounds(("Id",), ("place", "code"))


def test_text_that_is_no_key_may_be_compared_as_it_likes() -> None:
    assert find_bounds(("Id",)) == UNBOUNDED
    assert find_bounds() == UNBOUNDED


@pytest.mark.parametrize("leaf", [("Score",), ("point", "X")])
def test_key_of_floating_point_is_refused_also_where_only_a_registry_tells_its_type(leaf: tuple[str, ...]) -> None:
    """NaN is not equal to itself, and each batch would add its row once more."""
    with pytest.raises(GiveUp, match=rf"table=dwh.shop.orders column={re.escape('.'.join(leaf))}: .*floating point"):
        find_bounds(("Id",), leaf)
    assert find_bounds(("Id",), ("point", "n")) == UNBOUNDED


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("sequence_by", {"sequence": ["Id", "Score"]}),
        ("sequence_groups", {"given": {"name": ("by_sequence", ["Score"]), "Id": ("always", [])}}),
    ],
)
def test_sequence_of_floating_point_is_refused_as_one_that_the_file_declares(
    word: str, options: dict[str, Any]
) -> None:
    """Nothing is newer than NaN: a row of that sequence would never change again."""
    with pytest.raises(GiveUp, match=rf"table=dwh.shop.orders column=Score: .*floating point.* column for {word}, or"):
        find_bounds(("Id",), **options)
    assert find_bounds(("Id",), sequence=["Id"], given={"name": ("by_sequence", ["Id"])}) == UNBOUNDED


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED_VIEW", "EXTERNAL", "SNAPSHOT"])
def test_what_has_a_tables_name_and_takes_no_rows_is_refused(kind: str) -> None:
    warehouse: Any = SimpleNamespace(find_table=lambda _: SimpleNamespace(table_type=kind))
    tables = BigQueryTables({"dwh": warehouse}, SqlFiles("bigquery", {"dwh": "p"}))
    with pytest.raises(GiveUp, match=rf"table=dwh\.shop\.orders .* type={kind}; nothing was changed; rename it"):
        tables.read_state(TABLE, "shop")


@pytest.mark.parametrize(
    ("pipeline", "table", "has_mark"),
    [("shop", "shop.orders", True), ("shop_x", "shop.orders", False), ("shop", "shop.copy", False)],
)
def test_mark_is_of_one_pipeline_and_one_table(pipeline: str, table: str, has_mark: bool) -> None:
    labels = Ownership(TableKind.INTERMEDIATE, "shop", "shop.orders").labels
    tables_by_name = {
        "dwh.shop.orders_shop_tmp": SimpleNamespace(labels=labels),
        "dwh.shop.plain": SimpleNamespace(labels=None),
    }
    warehouse: Any = SimpleNamespace(find_table=tables_by_name.get)
    tables = BigQueryTables({"dwh": warehouse}, SqlFiles("bigquery", {"dwh": "p"}))
    own = Ownership(TableKind.INTERMEDIATE, pipeline, table)
    assert tables.has_mark("dwh.shop.orders_shop_tmp", own) is has_mark
    assert not tables.has_mark("dwh.shop.plain", own)
    assert not tables.has_mark("dwh.shop.missing", own)
