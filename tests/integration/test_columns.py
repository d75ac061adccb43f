"""Metadata columns, odd column names and conditions, through real Kafka, Spark and Iceberg."""

from datetime import UTC, datetime

import pytest

KEY = {"fields": ["id"], "schema": "id BIGINT"}


@pytest.mark.repeats("integration/test_metadata.py::test_kafka_metadata_lands_typed_and_in_the_stated_order")
def test_metadata_columns_hold_what_kafka_says(workbench) -> None:
    topic = workbench.topic(2)
    metadata = {
        "src_topic": "topic",
        "src_partition": "partition",
        "src_offset": "offset",
        "event_ts": "timestamp",
        "ts_type": "timestamp-type",
        "hdrs": "headers",
    }
    workbench.pipeline(
        "meta", [topic], source={"metadata": metadata}, key=KEY, value={"schema": "id BIGINT, name STRING"}
    )
    headers = [("a", b"first"), ("a", b"last"), ("none", None)]
    more = {"partition": 1, "timestamp": 1_700_000_000_123, "headers": headers}
    workbench.produce(topic, ({"id": 1}, {"id": 1, "name": "x"}, more))
    workbench.produce(topic, ({"id": 2}, {"id": 2, "name": "y"}, {"timestamp": 1_700_000_000_456}))
    workbench.flush("meta")
    first, second = workbench.read_rows("shop.meta")
    at = datetime(2023, 11, 14, 22, 13, 20, 123000, tzinfo=UTC)
    assert (first["src_topic"], first["src_partition"], first["src_offset"], first["event_ts"]) == (topic, 1, 0, at)
    assert first["ts_type"] == "CreateTime"
    assert dict(first["hdrs"]) == {"a": b"last", "none": None}
    assert not second["hdrs"]


def test_column_names_that_need_quoting_work_in_every_statement(workbench) -> None:
    topic = workbench.topic()
    names = ["order id", "select", "a.b", "größe", "it's", "tick`y", "offset", "key"]
    quoted = ["`" + name.replace("`", "``") + "`" for name in names]
    workbench.pipeline(
        "odd",
        [topic],
        key={"fields": names[:2], "schema": ", ".join(f"{name} STRING" for name in quoted[:2])},
        value={"schema": ", ".join(f"{name} STRING" for name in quoted)},
    )

    def build_record(mark):
        row = {name: f"{name}-{mark}" for name in names} | {"order id": "o", "select": mark[0]}
        return {name: row[name] for name in names[:2]}, row

    workbench.produce(topic, build_record("a1"), build_record("b1"), build_record("c1"))
    workbench.flush("odd")
    workbench.produce(topic, build_record("a2"), (build_record("b1")[0], None))
    workbench.flush("odd")
    assert workbench.read_rows("shop.odd") == [build_record("a2")[1], build_record("c1")[1]]


@pytest.mark.repeats("unit/scenarios/test_when_false.py::test_row_leaves_the_table_when_its_condition_no_longer_holds")
def test_conditions_choose_rows_and_deletes(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline(
        "chosen",
        [topic],
        key=KEY,
        value={"schema": "id BIGINT, kind STRING, gone STRING"},
        table={"when": "kind = 'keep'", "delete_when": "gone = 'true'"},
    )

    def build_record(id, kind, gone="false"):
        return {"id": id}, {"id": id, "kind": kind, "gone": gone}

    workbench.produce(
        topic, build_record(1, "keep"), build_record(2, "drop"), build_record(3, "keep"), build_record(4, "keep")
    )
    workbench.flush("chosen")
    workbench.produce(topic, build_record(1, "keep", "true"), ({"id": 3}, None), build_record(5, None))
    (published,) = workbench.flush("chosen").published
    assert [r["id"] for r in workbench.read_rows("shop.chosen")] == [4]
    assert published.deleted == 2
    (row, _) = workbench.open_session("chosen").history.read_history("lake.shop.tidegate_chosen_batches", 2)
    assert (row["read"], row["staged"], row["filtered"]) == (3, 2, 1)


@pytest.mark.repeats("unit/tidegate_spark/fields/test_lossless.py::test_null_struct_does_not_become_a_struct_of_nulls")
def test_nested_values_arrive_unchanged_and_a_value_of_nulls_is_a_row_and_not_a_delete(workbench) -> None:
    topic = workbench.topic()
    schema = "tags ARRAY<STRING>, at STRUCT<lat: DOUBLE, day: DATE>, m MAP<STRING, DECIMAL(5,2)>"
    workbench.pipeline("nested", [topic], key=KEY, value={"schema": schema})
    value = {"tags": ["a", None], "at": {"lat": 1.5, "day": "2026-01-02"}, "m": {"x": 1.25}}
    values = [value, {"tags": [], "at": None, "m": {}}, {"tags": None, "at": None, "m": None}, {}]
    workbench.produce(topic, *(({"id": id}, value) for id, value in enumerate(values, 1)))
    workbench.flush("nested")
    full, empty, of_nulls, without_fields = workbench.read_rows("shop.nested")
    assert (full["tags"], full["at"]["lat"], str(full["at"]["day"])) == (["a", None], 1.5, "2026-01-02")
    assert [(k, str(v)) for k, v in full["m"]] == [("x", "1.25")]
    assert (empty["tags"], empty["at"], empty["m"]) == ([], None, [])
    nothing = {"tags": None, "at": None, "m": None}
    assert (of_nulls, without_fields) == ({"id": 3, **nothing}, {"id": 4, **nothing})
