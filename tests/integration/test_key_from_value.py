"""key.from: value. The key's fields come from the value, whatever the record's key is: every format, on real Spark."""

import json
from dataclasses import replace
from typing import Any

import decoding
import pytest
from conftest import build_debezium_event
from fuzz_seeds import encode_avro
from tidegate.errors import BadRecord
from tidegate.schema.avro import to_columns
from tidegate.schema.avro_resolution import plan_decoding as avro_options
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

ROW = (Column("id", "BIGINT"), Column("part", "STRING"), Column("n", "INT"))
KEY = KeyFormat(fields=("id", "part"), from_value=True)
AVRO_ROW = {
    "type": "record", "name": "Row",
    "fields": [{"name": "id", "type": "long"}, {"name": "part", "type": ["null", "string"]},
               {"name": "n", "type": ["null", "int"]}],
}  # fmt: skip
AVRO_EVENT = {
    "type": "record", "name": "Event",
    "fields": [{"name": "before", "type": ["null", AVRO_ROW]}, {"name": "after", "type": ["null", "Row"]},
               {"name": "op", "type": "string"}],
}  # fmt: skip
BAD_KEYS = [None, b"user-7", b"\xff\x00", b'{"id": 99, "part": "other"}']
NOT_SHOWN = "key.from is value, and the record has no value that shows the key"


def build_row(id: Any, part: Any, n: int | None) -> dict[str, Any]:
    return {"id": id, "part": part, "n": n}


def encode_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def build_stage_table(word: str, columns: tuple[Column, ...] = ROW, **options: Any) -> Any:
    fmt = ValueFormat(word, columns, options=options)
    return replace(decoding.build_stage_table(fmt, columns, columns[:2]), key=KEY)


def decode_keys(spark: Any, stage: Any, *records: tuple[bytes | None, bytes | None]) -> list[tuple[Any, ...]]:
    """The key, the operation, and why the record is bad, of each row."""
    rows = decoding.decode(spark, stage, list(records), "key_struct", "op", "fate", "reason")
    return [(None if key is None else tuple(key), op, fate, reason) for key, op, fate, reason in rows]


def test_json_value_has_the_key_whatever_the_records_key_is(spark) -> None:
    values = [encode_json(build_row(1, "a", 1)), encode_json({"ID": 2, "part": None}), None, encode_json({"n": 3}),
              b'{"id": "x", "part": "a"}', b"{"]  # fmt: skip
    every = decode_keys(spark, build_stage_table("json"), *((key, value) for key in BAD_KEYS for value in values))
    for number in range(len(BAD_KEYS)):
        good, other, tombstone, lacking, wrong, broken = every[number * len(values) :][: len(values)]
        assert good == ((1, "a"), "u", "staged", None)
        assert other == ((2, None), "u", "staged", None)
        assert tombstone[1:] == ("d", "bad", NOT_SHOWN)
        assert lacking[2:] == ("bad", "the value has no field id")
        assert wrong[2] == broken[2] == "bad"
        assert "does not fit value.schema, fields: id" in wrong[3]
        assert broken[3] == "the value is not a JSON object"


@pytest.mark.repeats("test_json_value_has_the_key_whatever_the_records_key_is")
def test_delete_that_is_not_taken_is_ignored_before_its_key_is_judged(spark) -> None:
    """An upsert table with `delete: false` goes on behind a tombstone, which has no value to show the key."""
    stage = replace(build_stage_table("json", envelope=True), ignore_deletes=True)
    row = encode_json({"schema": {}, "payload": build_row(1, "a", 1)})
    null = encode_json({"schema": None, "payload": None})
    broken = encode_json({"schema": {}, "payload": {"n": 3}})
    rows = decode_keys(spark, stage, (b"1", row), (b"1", None), (None, None), (b"1", null), (b"1", broken))
    assert [row[1:] for row in rows] == [
        ("u", "staged", None),
        ("d", "ignored", None),
        ("d", "ignored", None),
        ("d", "ignored", None),
        ("u", "bad", "the value has no field id"),
    ]


@pytest.mark.repeats("test_json_value_has_the_key_whatever_the_records_key_is")
def test_payload_of_connects_envelope_has_the_key(spark) -> None:
    stage = build_stage_table("json", envelope=True)
    value = encode_json({"schema": {}, "payload": build_row(1, "a", 1)})
    first, second = decode_keys(
        spark, stage, (b"other", value), (b"other", encode_json({"schema": None, "payload": None}))
    )
    assert first == ((1, "a"), "u", "staged", None)
    assert second[1:] == ("d", "bad", NOT_SHOWN)


@pytest.mark.repeats("test_change_event_deletes_and_moves_by_the_row_before_it[debezium-avro]", "debezium-json")
@pytest.mark.parametrize("word", ["debezium-json", "debezium-avro"])
def test_change_event_deletes_and_moves_by_the_row_before_it(spark, word: str) -> None:
    events = [
        ("c", None, build_row(1, "a", 1)),
        ("u", build_row(1, "a", 1), build_row(1, "a", 2)),
        ("u", build_row(1, "a", 2), build_row(1, "b", 3)),
        ("d", build_row(1, "b", 3), None),
        ("d", None, None),
    ]
    if word == "debezium-json":
        values: list[bytes | None] = [encode_json(build_debezium_event(*event)) for event in events]
        stage = build_stage_table(word)
    else:
        records = [{"op": op, "before": before, "after": after} for op, before, after in events]
        values, made_options = [*encode_avro(AVRO_EVENT, *records)], avro_options(AVRO_EVENT, {})
        stage = build_stage_table(word, to_columns(AVRO_ROW), reader=made_options.reader, writers={})
    every = decode_keys(spark, stage, *((key, value) for key in BAD_KEYS for value in [*values, None]))
    for number in range(len(BAD_KEYS)):
        # two of the update that moves the row
        results = every[number * (len(values) + 2) :][: len(values) + 2]
        assert results == [
            ((1, "a"), "c", "staged", None),
            ((1, "a"), "u", "staged", None),
            ((1, "b"), "u", "staged", None),
            ((1, "a"), "d", "staged", None),  # of the key that the update left
            ((1, "b"), "d", "staged", None),
            (results[5][0], "d", "bad", NOT_SHOWN),
            (results[6][0], "-", "ignored", None),  # the tombstone behind a delete event has the record's key alone
        ]
    assert len(every) == len(BAD_KEYS) * (len(values) + 2)


@pytest.mark.repeats("test_change_event_deletes_and_moves_by_the_row_before_it[debezium-avro]")
@pytest.mark.parametrize("word", ["debezium-json", "canal-json", "maxwell-json", "ogg-json"])
def test_column_whose_name_reads_like_an_alias_moves_its_row_and_orders_it(spark, word: str) -> None:
    key, version = "sold AS `sku", "n AS y"
    columns = (Column("id", "BIGINT"), Column(key, "STRING"), Column(version, "INT"))
    stage = replace(
        decoding.build_stage_table(ValueFormat(word, columns), columns, columns[:2], sequence=(version,)),
        key=KeyFormat(fields=("id", key), from_value=True),
    )
    old, new = ({"id": 1, key: part, version: n} for part, n in (("a", 7), ("b", 8)))
    texts = [{name: str(value) for name, value in row.items()} for row in (old, new)]
    update = {
        "debezium-json": build_debezium_event("u", old, new),
        "canal-json": {"type": "UPDATE", "data": [texts[1]], "old": [{key: "a", version: "7"}]},
        "maxwell-json": {"type": "update", "data": new, "old": {key: "a", version: 7}},
        "ogg-json": {"op_type": "U", "before": old, "after": new},
    }[word]
    rows = decoding.decode(spark, stage, [(b"other", encode_json(update))], "key_struct", "op", "fate", "sequence")
    assert sorted((tuple(key), op, fate) for key, op, fate, _ in rows) == [
        ((1, "a"), "d", "staged"),
        ((1, "b"), "u", "staged"),
    ]
    assert {op: sequence[version] for _, op, _, sequence in rows}["u"] == 8


@pytest.mark.repeats("test_change_event_deletes_and_moves_by_the_row_before_it[debezium-avro]")
def test_avro_record_has_the_key(spark) -> None:
    options = avro_options(AVRO_ROW, {})
    stage = build_stage_table("avro", to_columns(AVRO_ROW), reader=options.reader, writers={})
    values = [*encode_avro(AVRO_ROW, build_row(1, "a", 1), build_row(2, None, None)), None]
    first, second, delete = decode_keys(spark, stage, *((b"\x00other", value) for value in values))
    assert (first, second) == (((1, "a"), "u", "staged", None), ((2, None), "u", "staged", None))
    assert delete[1:] == ("d", "bad", NOT_SHOWN)


@pytest.mark.repeats("test_json_value_has_the_key_whatever_the_records_key_is")
def test_protobuf_message_has_the_key(spark) -> None:
    from fuzz_seeds import build_protobuf_seeds

    value, columns, (full, _) = build_protobuf_seeds()
    keys = tuple(c for c in columns if c.name in ("id", "name"))
    key = KeyFormat(fields=("id", "name"), from_value=True)
    stage = replace(decoding.build_stage_table(value, columns, keys), key=key)
    assert decode_keys(spark, stage, (b"other", full), (b"other", None)) == [
        ((7, "Zoë"), "u", "staged", None),
        ((None, None), "d", "bad", NOT_SHOWN),
    ]


@pytest.mark.repeats(
    "test_value_beyond_the_keys_own_type_is_a_bad_record_where_the_record_has_no_key[avro]", "protobuf"
)
@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_value_beyond_the_keys_own_type_is_a_bad_record_where_the_record_has_no_key(spark, registry, form: str) -> None:
    """Spark's cast of one such number ended the batch, and did so again at each retry."""
    import registered
    from protobuf_messages import build_classes, build_field, build_file, build_message

    message = build_classes(build_file(build_message("Order", build_field("id", 1, "int64"))))["shop.Order"]
    schema = registered.build_record(("id", "long"))
    values = [
        registered.encode_avro(registry, "t-value", schema, {"id": id})
        if form == "avro"
        else registered.encode_message(registry, "t-value", message(id=id))
        for id in (7, 2**40)
    ]
    key = KeyFormat("json", ("id",), columns=(Column("id", "INT"),))
    table = registered.describe(key, ValueFormat(form, options={"registry": registry.url}))
    assert decode_keys(spark, table, *((None, value) for value in values), (b'{"id": 7}', values[1])) == [
        ((7,), "u", "staged", None),
        ((None,), "u", "bad", "the key field id does not fit its column without loss"),
        ((7,), "u", "staged", None),
    ]


@pytest.mark.repeats("test_json_value_has_the_key_whatever_the_records_key_is")
def test_line_of_csv_has_the_key(spark) -> None:
    good, wrong = decode_keys(spark, build_stage_table("csv"), (b"other", b"1,a,7"), (b"other", b"x,a,7"))
    assert good == ((1, "a"), "u", "staged", None)
    assert wrong[2:] == ("bad", "the value column id is not a BIGINT without loss")


@pytest.mark.repeats("test_change_event_deletes_and_moves_by_the_row_before_it[debezium-avro]")
@pytest.mark.parametrize("word", ["canal-json", "maxwell-json", "ogg-json"])
def test_rows_of_a_message_have_their_keys_either_way(spark, word: str) -> None:
    data = {"id": "1" if word == "canal-json" else 1, "part": "a", "n": None}
    message = {
        "canal-json": {"type": "INSERT", "data": [data]},
        "maxwell-json": {"type": "insert", "data": data},
        "ogg-json": {"op_type": "I", "after": data},
    }[word]
    assert decode_keys(spark, build_stage_table(word), (b"other", encode_json(message)), (b"other", None)) == [
        ((1, "a"), "c", "staged", None),
        ((None, None), "-", "ignored", None),
    ]


def test_table_is_keyed_by_the_value_where_records_have_another_key(workbench) -> None:
    topic = workbench.topic()
    key = {"from": "value", "fields": ["id"], "schema": "id BIGINT NOT NULL"}
    value = {"format": "debezium-json", "schema": "id BIGINT, name STRING"}
    workbench.pipeline("others", [topic], key=key, value=value)

    def build_change(customer: int, op: str, before: Any = None, after: Any = None) -> tuple[Any, Any]:
        return {"customer": customer}, build_debezium_event(op, before, after)

    def build_row(id: int, name: str) -> dict[str, Any]:
        return {"id": id, "name": name}

    workbench.produce(topic, *(build_change(n % 2, "c", None, build_row(n, "a")) for n in range(1, 7)))
    workbench.flush("others")
    workbench.produce(
        topic,
        build_change(1, "u", build_row(1, "a"), build_row(1, "b")),
        build_change(0, "u", build_row(2, "a"), build_row(20, "moved")),
        build_change(1, "d", build_row(3, "a")),
        ({"customer": 1}, None),
        build_change(0, "d", build_row(4, "a")),
        build_change(0, "c", None, build_row(4, "again")),
    )
    workbench.flush("others")
    assert sorted((r["id"], r["name"]) for r in workbench.read_rows("shop.others")) == [
        (1, "b"), (4, "again"), (5, "a"), (6, "a"), (20, "moved"),
    ]  # fmt: skip
    workbench.produce(topic, build_change(1, "d", {"id": None, "name": "a"}))
    with pytest.raises(BadRecord, match="field id is required and missing"):
        workbench.flush("others")


@pytest.mark.repeats(
    "unit/scenarios/test_staged_shape.py::test_batch_staged_before_a_column_was_added_is_staged_again_with_it"
)
def test_setting_the_key_aside_for_the_value_stages_what_waits_again(workbench) -> None:
    topic = workbench.topic()
    schema = {"schema": "id BIGINT, name STRING"}
    workbench.pipeline("turned", [topic], key={"fields": ["id"]}, value=schema)
    workbench.produce(topic, ({"id": 1}, {"id": 10, "name": "a"}), ({"id": 2}, {"id": 20, "name": "b"}))
    session = workbench.open_session("turned")
    from tidegate.flush.plan import plan
    from tidegate.flush.stage import stage

    stage(session, plan(session))
    workbench.pipeline("turned", [topic], key={"fields": ["id"], "from": "value"}, value=schema)
    workbench.flush("turned")
    assert sorted((r["id"], r["name"]) for r in workbench.read_rows("shop.turned")) == [(10, "a"), (20, "b")]
