"""What merge templates are filled with follows the table as it stands, not as the pipeline file names its columns."""

from dataclasses import replace

from fakes import World, a_pipeline, a_table
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.merge.statements import render_backfill_statements
from tidegate.model.batch import Counts, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.schema.data_types import Primitive, Struct

TEXT = Primitive("STRING")


def test_backfill_of_an_append_table_finds_rows_by_the_tables_own_name_of_a_renamed_key() -> None:
    held = Struct((("number", TEXT), ("name", TEXT)), aliases=(("id", "number"),))
    table = a_table(mode="append", target_schema=held)
    ports = replace(World().ports(a_pipeline(table)), sql=SqlFiles("iceberg"))
    ranges = Ranges({"orders": {0: (0, 9)}})
    staged = StagedBatch(table.name, 7, "0af3", 0, ranges, Counts(span=9, read=9, staged=9))
    (statement,) = render_backfill_statements(ports, table, staged, "b", "lake.shop.orders_shop_tmp_bf")
    on = statement.rsplit("\nON ", 1)[1].split("\nWHEN")[0]
    assert "t.`number` <=> s.`number`" in on
    assert "`id`" not in on
