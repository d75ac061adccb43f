"""Keys and rows of tables that somebody else has made or changed, through real Kafka, Spark and Iceberg."""

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import FixedType, LongType, NestedField, StringType, UUIDType
from tidegate.adapters.iceberg import pruning
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.errors import GiveUp

ON_READ = "TBLPROPERTIES ('format-version' = '2', 'write.merge.mode' = 'merge-on-read')"
UPPER, LOWER = "F0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "10eebc99-9c0b-4ef8-bb6d-6bb9bd380a12"


def make(workbench: Any, columns: str, name: str) -> None:
    for statement in (
        "CREATE NAMESPACE IF NOT EXISTS lake.shop",
        f"CREATE TABLE lake.shop.{name} ({columns}) {ON_READ}",
    ):
        workbench.run_spark_sql(statement.replace(") TBL", ") USING iceberg TBL"))


@pytest.mark.repeats(
    "unit/tidegate/merge/test_statements.py::test_parts_of_a_key_in_one_column_are_written_in_the_tables_order"
)
def test_key_in_one_column_is_found_whatever_the_order_and_the_names_of_its_parts_in_the_table(workbench) -> None:
    topic = workbench.topic()
    make(workbench, "k STRUCT<b: STRING, a: STRING>, name STRING", "parts")
    key = {"fields": ["a", "b"], "schema": "a STRING, b STRING", "into": "k"}
    workbench.pipeline("parts", [topic], key=key, value={"schema": "name STRING"})

    def build_change(number: int, name: str | None) -> tuple[Any, Any]:
        return {"a": f"a{number}", "b": f"b{number}"}, name and {"name": name}

    workbench.produce(topic, *(build_change(number, "x") for number in range(4)))
    workbench.flush("parts")
    workbench.run_spark_sql("ALTER TABLE lake.shop.parts RENAME COLUMN k.a TO first")
    workbench.produce(topic, build_change(0, "z"), build_change(1, None), build_change(2, None), build_change(7, "new"))
    workbench.flush("parts")
    assert workbench.read_rows("shop.parts") == [
        {"k": {"b": f"b{number}", "first": f"a{number}"}, "name": name}
        for number, name in ((0, "z"), (3, "x"), (7, "new"))
    ]


def test_uuid_and_bytes_of_one_length_are_keys_and_values_or_bad(workbench, monkeypatch) -> None:
    monkeypatch.setattr(pruning, "MIN_TABLE_ROWS", 0)  # as of a large table
    monkeypatch.setattr(pruning, "MIN_ROW_RATIO", 0)
    catalog = Catalogs({"lake": workbench.properties}).catalog("lake")
    catalog.create_namespace("shop")
    columns = (NestedField(1, "n", LongType()), NestedField(2, "id", UUIDType()), NestedField(3, "f", FixedType(4)))
    schema, on_read = Schema(*columns, NestedField(4, "name", StringType())), {"write.merge.mode": "merge-on-read"}
    catalog.create_table("shop.held", schema, properties={"format-version": "2", **on_read})
    topic = workbench.topic()
    key, value = {"fields": ["n", "id"], "schema": "n BIGINT, id STRING"}, "n BIGINT, id STRING, f BINARY, name STRING"
    workbench.pipeline("held", [topic], key=key, value={"schema": value}, source={"errors": {"tolerance": "all"}})

    def build_change(number: int, text: str, **row: Any) -> tuple[Any, Any]:
        return {"n": number, "id": text}, {"n": number, "id": text, **row} if row else None

    workbench.produce(
        topic,
        build_change(1, UPPER, name="x", f="AAECAw=="),
        build_change(2, LOWER, name="x"),
        build_change(3, LOWER, name="x"),
    )
    workbench.flush("held")
    workbench.produce(
        topic, build_change(1, UPPER, name="y"), build_change(2, LOWER.upper(), name="y"), build_change(3, LOWER)
    )
    workbench.produce(topic, build_change(4, "1-1-1-1-1", name="z"), build_change(5, LOWER, f="AAEC"))
    workbench.flush("held")
    assert [(row["n"], str(row["id"]), row["name"]) for row in workbench.read_rows("shop.held")] == [
        (1, UPPER.lower(), "y"), (2, LOWER, "y")
    ]  # fmt: skip
    reasons = [row["message"] for row in workbench.read_rows("shop.tidegate_held_dead_letters")]
    assert [sum(part in reason for reason in reasons) for part in ("f: not 4 b", "id: not a UUID")] == [1, 1]


@pytest.mark.repeats(
    "unit/tidegate/merge/test_statements.py::test_parts_of_a_key_in_one_column_are_written_in_the_tables_order"
)
def test_closed_version_keeps_its_values_where_its_parts_stand_in_another_order(workbench) -> None:
    topic = workbench.topic()
    times = "valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN"
    make(workbench, f"id BIGINT, s STRUCT<b: STRING, a: STRING>, {times}", "versions")
    value = {"schema": "id BIGINT, s STRUCT<a: STRING, b: STRING>"}
    key = {"fields": ["id"], "schema": "id BIGINT"}
    workbench.pipeline("versions", [topic], key=key, value=value, table={"history": "scd2"})
    for number in range(2):
        workbench.produce(topic, *(({"id": i}, {"id": i, "s": {"a": f"a{number}", "b": f"b{number}"}}) for i in (1, 2)))
        workbench.flush("versions")
        workbench.run_spark_sql("DELETE FROM lake.shop.versions_changes")  # as when they are forgotten
    versions = [(row["id"], row["s"], row["is_current"]) for row in workbench.read_rows("shop.versions")]
    parts = [{"b": f"b{number}", "a": f"a{number}"} for number in range(2)]
    assert sorted(versions, key=repr) == [(i, parts[number], number == 1) for i in (1, 2) for number in range(2)]


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_older_specs.py::test_partition_whose_column_is_gone_is_told_and_one_that_was_taken_away_is_not"
)
def test_table_whose_partitions_column_was_dropped_is_merged_into_by_the_way_that_is_told(workbench) -> None:
    topic, key = workbench.topic(), {"fields": ["id"], "schema": "id BIGINT"}
    create = {"create": {"partition_by": ["part"]}}
    workbench.pipeline("lost", [topic], key=key, value={"schema": "id BIGINT, part STRING"}, table=create)
    workbench.produce(topic, *(({"id": i}, {"id": i, "part": f"p{i % 2}"}) for i in range(4)))
    workbench.flush("lost")
    for change in ("DROP PARTITION FIELD part", "DROP COLUMN part"):
        workbench.run_spark_sql(f"ALTER TABLE lake.shop.lost {change}")
    workbench.pipeline("lost", [topic], key=key, value={"schema": "id BIGINT, name STRING"})
    workbench.produce(topic, ({"id": 0}, {"id": 0, "name": "x"}), ({"id": 1}, None))
    with pytest.raises(GiveUp, match=r"partition=part: .*; set write.merge.mode of the table to copy-on-write"):
        workbench.flush("lost")
    workbench.run_spark_sql("ALTER TABLE lake.shop.lost SET TBLPROPERTIES ('write.merge.mode' = 'copy-on-write')")
    workbench.flush("lost")
    assert [tuple(row.values()) for row in workbench.read_rows("shop.lost")] == [(0, "x"), (2, None), (3, None)]
