"""Keys in every form that a topic has them, through real Kafka, Spark and Iceberg."""

import pytest
from tidegate.errors import BadRecord

VALUE = {"schema": "id BIGINT, part STRING, name STRING"}


@pytest.mark.guard(
    "keys are compared null-safe", file="include/sql/iceberg/_on_key.sql", text='else "<=>" }}', off='else "=" }}'
)
def test_null_in_a_composite_key_matches_itself_in_later_batches(workbench) -> None:
    topic = workbench.topic()
    key = {"fields": ["id", "part"], "schema": "id BIGINT, part STRING"}
    workbench.pipeline("composite", [topic], key=key, value=VALUE)

    def build_change(id, part, name):
        return {"id": id, "part": part}, name and {"id": id, "part": part, "name": name}

    workbench.produce(
        topic,
        build_change(1, None, "a"),
        build_change(1, "x", "b"),
        build_change(None, None, "c"),
        build_change(2, None, "d"),
    )
    workbench.flush("composite")
    workbench.produce(topic, build_change(1, None, "a2"), build_change(None, None, "c2"), build_change(2, None, None))
    workbench.flush("composite")
    assert [(r["id"], r["part"], r["name"]) for r in workbench.read_rows("shop.composite")] == [
        (1, "x", "b"),
        (1, None, "a2"),
        (None, None, "c2"),
    ]


@pytest.mark.repeats("integration/test_text_formats.py::test_raw_bytes_and_text_land_as_they_are")
def test_string_key_is_the_key_column_and_beats_the_value_for_a_delete(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline(
        "words",
        [topic],
        key={"format": "string", "fields": ["code"], "schema": "code STRING"},
        value={"schema": "name STRING"},
    )
    workbench.produce(topic, ("ä 'b'", {"name": "1"}), ("", {"name": "2"}), ("x", {"name": "3"}), ("x", None))
    workbench.flush("words")
    assert workbench.read_rows("shop.words") == [{"code": "", "name": "2"}, {"code": "ä 'b'", "name": "1"}]


@pytest.mark.repeats("integration/test_msgpack.py::test_key_of_a_record_without_one_is_taken_from_the_value[False]")
def test_keyless_topic_takes_the_key_from_the_value(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("keyless", [topic], key={"fields": ["id"]}, value=VALUE)
    workbench.produce(topic, (None, {"id": 1, "name": "a"}), (None, {"id": 2, "name": "b"}))
    workbench.flush("keyless")
    workbench.produce(topic, (None, {"id": 1, "name": "a2"}))
    workbench.flush("keyless")
    assert [(r["id"], r["name"]) for r in workbench.read_rows("shop.keyless")] == [(1, "a2"), (2, "b")]


@pytest.mark.repeats(
    "integration/test_plain_keys.py::test_usual_spelling_is_read_off_and_any_text_is_what_the_parser_makes_of_it[id-BIGINT]"
)
def test_bare_value_as_key_is_the_one_key_column(workbench) -> None:
    topic = workbench.topic()
    workbench.pipeline("bare", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value=VALUE)
    workbench.produce(topic, ("42", {"id": 42, "name": "a"}), ("43", {"id": 43, "name": "b"}), ("42", None))
    workbench.flush("bare")
    assert [r["id"] for r in workbench.read_rows("shop.bare")] == [43]


@pytest.mark.repeats("unit/scenarios/test_key_in_value.py::test_record_whose_key_and_value_differ_is_bad")
def test_prefix_keeps_key_and_value_columns_of_one_name_apart(workbench) -> None:
    topic = workbench.topic()
    key = {"fields": ["id"], "schema": "id BIGINT", "prefix": "k_"}
    workbench.pipeline("prefixed", [topic], key=key, value={"schema": "id STRING, name STRING"})
    workbench.produce(topic, ({"id": 1}, {"id": "other", "name": "a"}), ({"id": 2}, {"id": "o2", "name": "b"}))
    workbench.flush("prefixed")
    workbench.produce(topic, ({"id": 2}, None), ({"id": 1}, {"id": "newer", "name": "a2"}))
    workbench.flush("prefixed")
    assert workbench.read_rows("shop.prefixed") == [{"k_id": 1, "id": "newer", "name": "a2"}]


@pytest.mark.repeats("unit/scenarios/test_key_in_value.py::test_key_in_one_struct_stands_beside_the_values_columns")
def test_except_key_takes_the_key_column_from_the_key_alone(workbench) -> None:
    topic = workbench.topic()
    value = {"schema": "id BIGINT, name STRING", "fields_include": "EXCEPT_KEY"}
    workbench.pipeline("apart", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value=value)
    workbench.produce(topic, ({"id": 1}, {"name": "a"}), ({"id": 2}, {"id": 99, "name": "b"}))
    workbench.flush("apart")
    assert workbench.read_rows("shop.apart") == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


# keys of all types in later batches
@pytest.mark.repeats("integration/test_row_semantics.py::test_key_of_any_type_finds_its_row")
def test_key_columns_of_other_types_than_text_match_in_later_batches(workbench) -> None:
    topic = workbench.topic()
    schema = "day DATE, at TIMESTAMP, amount DECIMAL(12,2), flag BOOLEAN"
    workbench.pipeline(
        "typed",
        [topic],
        key={"fields": ["day", "at", "amount", "flag"], "schema": schema},
        value={"schema": f"{schema}, n INT"},
    )
    key = {"day": "2026-02-28", "at": "2026-02-28T10:00:00.123456Z", "amount": "12.30", "flag": True}
    workbench.produce(topic, (key, {**key, "n": 1}))
    workbench.flush("typed")
    workbench.produce(topic, ({**key, "amount": 12.3, "at": "2026-02-28T11:00:00.123456+01:00"}, {**key, "n": 2}))
    workbench.flush("typed")
    assert [row["n"] for row in workbench.read_rows("shop.typed")] == [2]


@pytest.mark.repeats("unit/scenarios/test_key_in_value.py::test_rows_are_found_by_the_leaves_of_the_struct")
def test_whole_key_in_one_struct_column(workbench) -> None:
    topic = workbench.topic()
    key = {"fields": ["id", "part"], "schema": "id BIGINT, part STRING", "into": "the key"}
    value = {"schema": "id STRING, name STRING"}
    workbench.pipeline("held", [topic], key=key, value=value, table={"create": {"cluster_by": ["name"]}})

    def build_change(id, part, name):
        return {"id": id, "part": part}, name and {"id": "of the value", "name": name}

    workbench.produce(topic, build_change(1, None, "a"), build_change(1, "x", "b"), build_change(2, None, "c"))
    workbench.flush("held")
    workbench.produce(topic, build_change(1, None, "a2"), build_change(2, None, None), build_change(None, None, "d"))
    workbench.flush("held")
    rows = {(r["the key"]["id"], r["the key"]["part"]): r["name"] for r in workbench.read_rows("shop.held")}
    assert rows == {(None, None): "d", (1, None): "a2", (1, "x"): "b"}
    assert {r["id"] for r in workbench.read_rows("shop.held")} == {"of the value"}


@pytest.mark.repeats("unit/scenarios/test_key_in_value.py::test_record_whose_key_and_value_differ_is_bad")
@pytest.mark.parametrize("field", ["id", "ID"])
def test_record_whose_key_and_value_differ_is_bad(workbench, field: str) -> None:
    topic = workbench.topic(1)
    key = {"fields": [field], "schema": f"{field} BIGINT", "prefix": "k_"}
    workbench.pipeline("equal", [topic], key=key, value=VALUE, source={"verify_integrity": True})
    last = {field: 2, "id": 2, "name": "b"}
    workbench.produce(topic, ({field: 1}, {"id": 1, "name": "a"}), ({field: 1}, None), (None, last))
    workbench.flush("equal")
    assert [(r[f"k_{field}"], r["id"]) for r in workbench.read_rows("shop.equal")] == [(2, 2)]
    workbench.produce(topic, ({field: 3}, {"id": 4, "name": "c"}), ({field: 3}, {"id": 3, "name": "d"}))
    with pytest.raises(BadRecord, match="offset=3 reason=the key and the value differ in field id"):
        workbench.flush("equal")
