"""Schemas that change under way, on real components: what follows, what is refused, and what a rename keeps."""

import datetime
from typing import Any

import pyarrow
import pytest
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.errors import IncompatibleSchema, SomeTablesFailed
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage

KEY = {"fields": ["id"], "schema": "id BIGINT"}


def read_types(workbench: Any, table: str) -> dict[str, str]:
    return {field.name: str(field.field_type) for field in workbench.load_iceberg(table).schema().fields}


def test_transforms_of_every_kind_partition_a_table_that_is_created(workbench) -> None:
    topic = workbench.topic()
    transforms = ["years(a)", "months(b)", "days(c)", "hours(d)", "bucket(4, id)", "truncate(2, name)", "kind"]
    schema = "id BIGINT, a DATE, b TIMESTAMP, c TIMESTAMP, d TIMESTAMP, name STRING, kind STRING"
    create = {"partition_by": transforms, "cluster_by": ["name", "id"]}
    workbench.pipeline("parted", [topic], key=KEY, value={"schema": schema}, table={"create": create})
    at = "2026-01-02T03:04:05.123456Z"
    row = {"id": 7, "a": "2026-01-02", "b": at, "c": at, "d": at, "name": "abcdef", "kind": "k"}
    workbench.produce(topic, ({"id": 7}, row), ({"id": 8}, {**row, "id": 8, "name": None}))
    workbench.flush("parted")
    table = workbench.load_iceberg("shop.parted")
    names = [str(field.transform) for field in table.spec().fields]
    assert names == ["year", "month", "day", "hour", "bucket[4]", "truncate[2]", "identity"]
    assert len(table.sort_order().fields) == 2
    workbench.produce(topic, ({"id": 7}, {**row, "a": "2025-01-02"}), ({"id": 8}, None))
    workbench.flush("parted")
    assert [(r["id"], r["a"]) for r in workbench.read_rows("shop.parted")] == [(7, datetime.date(2025, 1, 2))]


def test_table_grows_at_every_depth_and_rows_of_before_stay(workbench) -> None:
    topic = workbench.topic()
    first = (
        "id BIGINT, n INT, f FLOAT, d DECIMAL(5,2), s STRUCT<a: INT>, "
        "l ARRAY<STRUCT<a: INT>>, m MAP<STRING, STRUCT<a: INT>>"
    )
    grown = (
        "id BIGINT, n BIGINT, f DOUBLE, d DECIMAL(12,2), s STRUCT<a: BIGINT, b: STRUCT<c: STRING>>, "
        "l ARRAY<STRUCT<a: INT, b: DATE>>, m MAP<STRING, STRUCT<a: INT, b: INT>>, late STRING"
    )
    old = {"n": 1, "f": 1.5, "d": 1.25, "s": {"a": 1}, "l": [{"a": 1}], "m": {"k": {"a": 1}}}
    new = {
        "n": 3_000_000_000, "f": 1e300, "d": 1234567890.25, "s": {"a": 3_000_000_000, "b": {"c": "x"}},
        "l": [{"a": 2, "b": "2026-01-02"}], "m": {"k": {"a": 2, "b": 3}}, "late": "y",
    }  # fmt: skip
    workbench.pipeline("grows", [topic], key=KEY, value={"schema": first})
    workbench.produce(
        topic, ({"id": 1}, {"id": 1, **old}), ({"id": 2}, {"id": 2, "n": 2}), ({"id": 3}, {"id": 3, **old})
    )
    workbench.flush("grows")
    workbench.pipeline("grows", [topic], key=KEY, value={"schema": grown})
    workbench.produce(
        topic, ({"id": 2}, {"id": 2, **new}), ({"id": 3}, {"id": 3, **old}), ({"id": 4}, {"id": 4, "s": None})
    )
    workbench.flush("grows")
    rows = {row["id"]: row for row in workbench.read_rows("shop.grows")}
    untouched = rows[1]
    assert (untouched["n"], untouched["s"], untouched["late"]) == (1, {"a": 1, "b": None}, None)
    assert (untouched["l"], untouched["m"]) == ([{"a": 1, "b": None}], [("k", {"a": 1, "b": None})])
    assert (rows[2]["n"], rows[2]["f"], str(rows[2]["d"])) == (3_000_000_000, 1e300, "1234567890.25")
    assert rows[2]["s"] == {"a": 3_000_000_000, "b": {"c": "x"}}
    assert rows[2]["l"] == [{"a": 2, "b": datetime.date(2026, 1, 2)}]
    assert (rows[3]["s"], rows[4]["s"]) == ({"a": 1, "b": None}, None)
    workbench.pipeline("grows", [topic], key=KEY, value={"schema": first})
    workbench.produce(topic, ({"id": 1}, {"id": 1, **old, "n": 9}), ({"id": 5}, {"id": 5, **old}))
    workbench.flush("grows")
    rows = {row["id"]: row for row in workbench.read_rows("shop.grows")}
    assert (rows[1]["n"], rows[5]["s"], rows[5]["late"]) == (9, {"a": 1, "b": None}, None)


@pytest.mark.repeats(
    "unit/scenarios/test_staged_shape.py::test_batch_staged_before_a_column_was_added_is_staged_again_with_it"
)
def test_widening_while_a_batch_waits_under_the_old_shape_stages_it_again(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("waits", [topic], key=KEY, value={"schema": "id BIGINT, n INT"})
    workbench.produce(topic, ({"id": 1}, {"id": 1, "n": 1}))
    workbench.flush("waits")
    workbench.produce(topic, ({"id": 2}, {"id": 2, "n": 2}))
    session = workbench.open_session("waits")
    stage(session, plan(session))
    workbench.pipeline("waits", [topic], key=KEY, value={"schema": "id BIGINT, n BIGINT"})
    workbench.produce(topic, ({"id": 3}, {"id": 3, "n": 3_000_000_000}))
    workbench.drain("waits")
    assert workbench.read_rows("shop.waits") == [{"id": 1, "n": 1}, {"id": 2, "n": 2}, {"id": 3, "n": 3_000_000_000}]
    assert read_types(workbench, "shop.waits") == {"id": "long", "n": "long"}


# schemas that change: each rule without servers; a table that grows at every depth is flushed
@pytest.mark.repeats(
    "unit/tidegate/table/test_compatibility.py::test_column_renamed_in_the_table_keeps_receiving_the_records_field"
)
def test_column_renamed_between_stage_and_merge_and_later_keeps_receiving_its_field(workbench) -> None:
    topic = workbench.topic()
    schema = "id BIGINT, name STRING, inner STRUCT<a: INT, b: STRING>"
    workbench.pipeline("renamed", [topic], key=KEY, value={"schema": schema})
    row = {"name": "x", "inner": {"a": 1, "b": "y"}}
    workbench.produce(topic, ({"id": 1}, {"id": 1, **row}))
    workbench.flush("renamed")
    workbench.produce(topic, ({"id": 2}, {"id": 2, **row}))
    session = workbench.open_session("renamed")
    stage(session, plan(session))
    for old, new in (("name", "full_name"), ("inner.a", "first"), ("id", "order_id")):
        workbench.run_spark_sql(f"ALTER TABLE lake.shop.renamed RENAME COLUMN {old} TO {new}")
    workbench.flush("renamed")
    workbench.produce(
        topic, ({"id": 1}, {"id": 1, **row, "name": "z"}), ({"id": 2}, None), ({"id": 3}, {"id": 3, **row})
    )
    workbench.drain("renamed")
    inner = {"first": 1, "b": "y"}
    assert workbench.read_rows("shop.renamed") == [
        {"order_id": 1, "full_name": "z", "inner": inner},
        {"order_id": 3, "full_name": "x", "inner": inner},
    ]
    table = {"when": "full_name <> 'gone'"}  # of whichever name the record has
    workbench.pipeline("renamed", [topic], key={"fields": ["id"]}, table=table)  # the schema is the table's own
    later = {"id": 4, "full_name": "new", "inner": {"first": 4, "b": "n"}}
    workbench.produce(topic, ({"id": 1}, {"id": 1, **row}), ({"id": 4}, later))
    workbench.flush("renamed")
    rows = {r["order_id"]: (r["full_name"], r["inner"]["first"]) for r in workbench.read_rows("shop.renamed")}
    assert rows == {1: ("x", 1), 3: ("x", 1), 4: ("new", 4)}


@pytest.mark.repeats(
    "unit/tidegate/schema/test_evolution.py::test_required_column_is_relaxed_where_the_record_may_lack_it"
)
def test_required_columns_are_relaxed_and_a_forced_table_has_none(workbench) -> None:
    topic = workbench.topic()
    create = {"force_optional": True}
    schema = "id BIGINT NOT NULL, name STRING NOT NULL, inner STRUCT<a: INT NOT NULL>"
    workbench.pipeline("forced", [topic], key=KEY, value={"schema": schema}, table={"create": create})
    workbench.produce(topic, ({"id": 1}, {"id": 1, "name": "x", "inner": {"a": 1}}))
    workbench.flush("forced")
    iceberg_schema = workbench.load_iceberg("shop.forced").schema()
    assert [f.name for f in iceberg_schema.fields if f.required] == []
    assert not iceberg_schema.find_field("inner.a").required
    workbench.run_spark_sql(
        "CREATE TABLE lake.shop.strict (ID BIGINT NOT NULL, Name STRING NOT NULL, "
        "inner STRUCT<a: INT NOT NULL, b: INT>) USING iceberg"
    )
    workbench.pipeline("strict", [topic], key=KEY, value={"schema": "id BIGINT, name STRING, inner STRUCT<a: INT>"})
    workbench.produce(topic, ({"id": 2}, {"id": 2, "inner": {}}))
    workbench.flush("strict")
    assert workbench.read_rows("shop.strict") == [
        {"ID": 1, "Name": "x", "inner": {"a": 1, "b": None}},
        {"ID": 2, "Name": None, "inner": {"a": None, "b": None}},
    ]


@pytest.mark.repeats("test_created_table_has_its_required_key_as_identifier_fields_and_keeps_them")
def test_null_for_a_column_that_stays_required_is_told_in_one_sentence_and_the_next_flush_goes_on(workbench) -> None:
    topic = workbench.topic()
    settings = {"evolve": {"relax": False}}
    catalog = Catalogs({"lake": workbench.properties}).catalog("lake")
    catalog.create_namespace("shop")
    schema = pyarrow.schema([("id", pyarrow.int64()), pyarrow.field("name", pyarrow.string(), nullable=False)])
    catalog.create_table("shop.kept", schema).append(pyarrow.Table.from_pylist([{"id": 1, "name": "x"}], schema))
    workbench.pipeline("kept", [topic], key=KEY, value={"schema": "id BIGINT, name STRING"}, table=settings)
    workbench.produce(topic, ({"id": 2}, {"id": 2, "name": "y"}), ({"id": 1}, {"id": 1}))
    with pytest.raises(IncompatibleSchema, match="a record has NULL in a column that the table requires; nothing was"):
        workbench.flush("kept")
    assert workbench.read_rows("shop.kept") == [{"id": 1, "name": "x"}]
    workbench.pipeline("kept", [topic], key=KEY, value={"schema": "id BIGINT, name STRING"})
    workbench.flush("kept")
    assert workbench.read_rows("shop.kept") == [{"id": 1, "name": None}, {"id": 2, "name": "y"}]


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_schema_evolution.py::test_identifier_fields_stay_required_while_all_else_follows_the_pipeline"
)
def test_table_with_identifier_fields_is_written_and_evolved_and_keeps_them(workbench) -> None:
    """As Flink makes a table with a PRIMARY KEY."""
    topic = workbench.topic()
    workbench.run_spark_sql("CREATE NAMESPACE lake.shop")
    workbench.run_spark_sql("CREATE TABLE lake.shop.keyed (id BIGINT NOT NULL, n INT NOT NULL) USING iceberg")
    with workbench.load_iceberg("shop.keyed").update_schema() as change:
        change.set_identifier_fields("id")
    workbench.pipeline("keyed", [topic], key=KEY, value={"schema": "id BIGINT, n BIGINT, note STRING"})
    workbench.produce(topic, ({"id": 1}, {"id": 1, "n": 5}), ({"id": 2}, {"id": 2, "n": None, "note": "b"}))
    workbench.flush("keyed")
    workbench.produce(topic, ({"id": 1}, {"id": 1, "n": 3_000_000_000}), ({"id": 2}, None))
    workbench.flush("keyed")
    assert workbench.read_rows("shop.keyed") == [{"id": 1, "n": 3_000_000_000, "note": None}]
    schema = workbench.load_iceberg("shop.keyed").schema()
    assert schema.identifier_field_names() == {"id"}
    assert [field.required for field in schema.fields] == [True, False, False]


def test_created_table_has_its_required_key_as_identifier_fields_and_keeps_them(workbench) -> None:
    topic = workbench.topic(1)
    key = {"fields": ["id", "order id"], "schema": "id INT NOT NULL, `order id` STRING NOT NULL"}
    value = {"schema": "n INT"}
    create = {"cluster_by": ["n"], "partition_by": ["bucket(2, id)"]}
    workbench.pipeline("made", [topic], key=key, value=value, table={"create": create})

    def build_record(id: int | None, n: int | None = None) -> tuple[Any, Any]:
        return {"id": id, "order id": "x"}, None if n is None else {"n": n}

    def flush_identified() -> list[tuple[int, int]]:
        workbench.flush("made")
        schema = workbench.load_iceberg("shop.made").schema()
        assert schema.identifier_field_names() == {"id", "order id"}
        return [(row["id"], row["n"]) for row in workbench.read_rows("shop.made")]

    workbench.produce(topic, build_record(1, 1), build_record(2, 2))
    assert flush_identified() == [(1, 1), (2, 2)]
    assert workbench.load_iceberg("shop.made").sort_order().fields
    wider = {"fields": key["fields"], "schema": "id BIGINT NOT NULL, `order id` STRING NOT NULL"}
    workbench.pipeline("made", [topic], key=wider, value={"schema": "n BIGINT, note STRING"}, table={"create": create})
    workbench.produce(topic, build_record(1, 3_000_000_000), build_record(2), build_record(3, 3))
    assert flush_identified() == [(1, 3_000_000_000), (3, 3)]
    assert read_types(workbench, "shop.made") == {"id": "long", "order id": "string", "n": "long", "note": "string"}
    relaxed = {"fields": key["fields"], "schema": "id BIGINT, `order id` STRING"}
    workbench.pipeline("made", [topic], key=relaxed, value={"schema": "n BIGINT"}, table={"create": create})
    workbench.produce(topic, build_record(4, 4))
    assert flush_identified() == [(1, 3_000_000_000), (3, 3), (4, 4)], "a key that relaxes stays required in the table"
    workbench.produce(topic, build_record(None, 5))
    with pytest.raises(IncompatibleSchema, match=r"NULL in a column that the table requires; .*identifier fields"):
        workbench.flush("made")
    grown = {"fields": [*key["fields"], "line"], "schema": "id BIGINT, `order id` STRING, line INT"}
    workbench.pipeline("made", [topic], key=grown, value={"schema": "n BIGINT"}, table={"create": create})
    with pytest.raises(IncompatibleSchema, match=r"column=line: .*identifier fields id, order id.*DROP IDENTIFIER"):
        workbench.flush("made")


@pytest.mark.repeats(
    "unit/tidegate/table/test_compatibility.py::test_column_of_another_type_is_refused_with_the_first_offset_before_anything_is_staged"
)
def test_incompatible_change_is_refused_before_anything_is_written(workbench) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("bent", [topic], key=KEY, value={"schema": "id BIGINT, s STRUCT<n: INT>"})
    workbench.produce(topic, ({"id": 1}, {"id": 1, "s": {"n": 1}}))
    workbench.flush("bent")
    before = workbench.load_iceberg("shop.bent").metadata.last_updated_ms
    staged = workbench.load_iceberg("shop.bent_bent_tmp").metadata.last_updated_ms
    workbench.pipeline("bent", [topic], key=KEY, value={"schema": "id BIGINT, more INT, s STRUCT<n: STRING>"})
    workbench.produce(topic, ({"id": 2}, {"id": 2, "s": {"n": "two"}}))
    with pytest.raises(IncompatibleSchema) as error_info:
        workbench.flush("bent")
    for part in ("lake.shop.bent", "column=s.n", "type=INT to type=STRING", "offset=1", "nothing was written"):
        assert part in str(error_info.value)
    assert read_types(workbench, "shop.bent").keys() == {"id", "s"}
    assert workbench.load_iceberg("shop.bent").metadata.last_updated_ms == before
    assert workbench.load_iceberg("shop.bent_bent_tmp").metadata.last_updated_ms == staged


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_lineage.py::test_column_that_was_dropped_and_added_again_is_empty_until_somebody_fills_it"
)
def test_key_that_was_dropped_and_added_again_is_refused_until_it_is_filled(workbench) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("again", [topic], key=KEY, value={"schema": "id BIGINT, name STRING"})
    workbench.produce(topic, ({"id": 1}, {"id": 1, "name": "a"}), ({"id": 2}, {"id": 2, "name": "b"}))
    workbench.flush("again")
    for change in ("DROP COLUMN id", "ADD COLUMN id BIGINT"):
        workbench.run_spark_sql(f"ALTER TABLE lake.shop.again {change}")
    workbench.produce(topic, ({"id": 1}, {"id": 1, "name": "c"}))
    with pytest.raises(IncompatibleSchema, match="column=id: somebody has dropped it and added it again"):
        workbench.flush("again")
    workbench.run_spark_sql("UPDATE lake.shop.again SET id = CASE name WHEN 'a' THEN 1 ELSE 2 END")
    workbench.flush("again")
    assert {row["id"]: row["name"] for row in workbench.read_rows("shop.again")} == {1: "c", 2: "b"}
    assert len(workbench.read_rows("shop.again")) == 2


@pytest.mark.repeats(
    "unit/tidegate/merge/test_statements.py::test_flag_of_deleted_rows_that_was_renamed_in_the_table_is_found_by_its_own_name"
)
def test_flag_of_deleted_rows_is_renamed_and_goes_on_and_is_refused_once_it_is_dropped(workbench) -> None:
    topic = workbench.topic(2)
    value = {"schema": "id BIGINT, version INT"}
    ordered = {"deletes": "soft", "sequence_by": ["version"]}
    tables = [{"name": "lake.shop.flagged", "deletes": "soft"}, {"name": "lake.shop.ordered", **ordered}]
    workbench.pipeline("flagged", [topic], key=KEY, value=value, tables=tables)
    row = {n: ({"id": n}, {"id": n, "version": 5}) for n in range(1, 7)}
    workbench.produce(topic, *row.values())
    workbench.flush("flagged")
    for name in ("flagged", "ordered"):
        with workbench.load_iceberg(f"shop.{name}").update_schema() as update:
            update.rename_column("_deleted", "is_gone")
    workbench.produce(topic, ({"id": 1}, None), ({"id": 2}, None), ({"id": 7}, {"id": 7, "version": 1}))
    workbench.flush("flagged")
    flags = {n: n in (1, 2) for n in range(1, 8)}
    for name in ("flagged", "ordered"):
        assert {r["id"]: r["is_gone"] for r in workbench.read_rows(f"shop.{name}")} == flags, name
    before = {name: workbench.read_rows(f"shop.{name}") for name in ("flagged", "ordered")}

    with workbench.load_iceberg("shop.flagged").update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("is_gone")
    with workbench.load_iceberg("shop.ordered").update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("version")
    workbench.produce(topic, ({"id": 3}, {"id": 3, "version": 1}))  # older than the row that is there
    for _ in range(2):
        with pytest.raises(SomeTablesFailed) as error_info:
            workbench.flush("flagged")
        for column in ("table=lake.shop.flagged column=_deleted", "table=lake.shop.ordered column=version"):
            assert f"{column}: the table has it no more, and existing rows were written with it" in str(
                error_info.value
            )
    assert [r["id"] for r in workbench.read_rows("shop.ordered")] == [r["id"] for r in before["ordered"]]
    assert "version" not in read_types(workbench, "shop.ordered")
