"""What a BigQuery table is given when it is created, beside its columns."""

import json

import pytest
from tidegate.adapters.bigquery.schema import MAX_DESCRIPTION_CHARACTERS, render_table_options
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import ConfigurationError, GiveUp
from tidegate.model.backfill import Backfill, TableBackfill
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import Ownership, TableKind
from tidegate.schema.data_types import Column

SQL = SqlFiles("bigquery", {"dwh": "my-project"})


def render_intermediate(partitions: int) -> str:
    """The statement that makes the intermediate table of a backfill of two tables, which notes all of its offsets."""
    ranges = Ranges({"orders": dict.fromkeys(range(partitions), (10**9, 2 * 10**9))})
    tables = tuple(TableBackfill(f"dwh.shop.{name}", ranges) for name in ("orders", "lines"))
    content = {"asked": "[]", "max_records": 10**6, "tables": tables, "cluster_id": "c", "topic_ids": {"orders": "t"}}
    backfill = Backfill.build("shop", **content)
    own = Ownership(TableKind.INTERMEDIATE, "shop", "shop.orders")
    return SQL.render(
        "create_intermediate", table="dwh.shop.orders_shop_backfill_tmp", keys=(Column("id", "INT"),),
        values=(Column("n", "INT"),), sequence=(), dead_letters=False, kept=False, shape="0af3", batch=1,
        properties={"note": json.dumps(backfill.to_dict())}, own=own,
    )  # fmt: skip


def test_backfill_whose_offsets_no_description_holds_is_refused_before_anything_is_staged() -> None:
    """BigQuery refused the table, with words that named neither the backfill nor a way out."""
    assert render_intermediate(200).count('"199": [1000000000, 2000000000]') == 2
    with pytest.raises(GiveUp, match=r"characters=\d{5}, .* holds 16384; nothing was staged; .*\(--table, --range\)"):
        render_intermediate(300)


def test_description_that_bigquery_has_no_room_for_is_refused_in_the_file() -> None:
    description = "x" * MAX_DESCRIPTION_CHARACTERS
    assert render_table_options({"description": description}) == [f"description = '{description}'"]
    with pytest.raises(ConfigurationError, match=r"property description=x{60}…: not a value that BigQuery takes"):
        render_table_options({"description": f"{description}x"})
