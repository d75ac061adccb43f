"""Limits of decoders: a record that is deeper or longer than a parser reads is bad, and its reason names the limit."""

from dataclasses import replace
from typing import Any

import decoding
import msgpack
import pytest
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

COLUMNS = (Column("id", "BIGINT"), Column("v", "STRING"), Column("d", "DECIMAL(38,2)"))
DEEP = "the {} is nested deeper than 1,000 levels, which the JSON parser does not read"
LONG = "the {} has a number of more than 1,000 digits, which the JSON parser does not read"
NAME = "the {} has a name of more than 50,000 characters, which the JSON parser does not read"
TEXT = "the {} has a text of more than 20,000,000 characters, which the JSON parser does not read"
# the format, its options, what stands before and behind a row in its values, and how many levels are around its fields
EVENTS: dict[str, tuple[str, dict[str, Any], str, str, int]] = {
    "json": ("json", {}, "", "", 1),
    "json in an envelope": ("json", {"envelope": True}, '{"payload": ', "}", 2),
    "debezium-json": ("debezium-json", {}, '{"op": "c", "after": ', "}", 2),
    "debezium-json in an envelope": ("debezium-json", {}, '{"schema": {}, "payload": {"op": "c", "after": ', "}}", 3),
    "maxwell-json": ("maxwell-json", {}, '{"type": "insert", "data": ', "}", 2),
    "ogg-json": ("ogg-json", {}, '{"op_type": "I", "after": ', "}", 2),
    "canal-json": ("canal-json", {}, '{"type": "INSERT", "data": [', "]}", 3),
}
DIGITS = "7" * 1000


def nest(levels: int) -> str:
    return "[" * levels + "]" * levels


def write(**fields: str) -> str:
    """An object of these fields, each as it is written."""
    return "{" + ", ".join(f'"{name}": {text}' for name, text in fields.items()) + "}"


@pytest.mark.repeats(
    "test_json_beyond_a_limit_of_its_parser_is_bad_and_the_reason_names_the_limit[json]",
    "json in an envelope",
    "debezium-json",
    "debezium-json in an envelope",
    "maxwell-json",
    "ogg-json",
    "canal-json",
)
@pytest.mark.parametrize("word", EVENTS)
def test_json_beyond_a_limit_of_its_parser_is_bad_and_the_reason_names_the_limit(spark, word: str) -> None:
    name, options, before, behind, around = EVENTS[word]
    good = [
        (write(id="1", v=nest(1000 - around)), nest(1000 - around)),
        (write(id="1", v=DIGITS), DIGITS),
        (write(id="1", v=f"0.{DIGITS[1:]}"), f"0.{DIGITS[1:]}"),
        (write(id="1", v='"x"', other=nest(1000 - around)), "x"),
        (write(id="1", v=f'"{"[" * 2000}{DIGITS * 2}"'), "[" * 2000 + DIGITS * 2),
        (write(id="1", v='"x"', **{"n" * 50_000: "5"}), "x"),
    ]
    bad = [
        (write(id="1", v=nest(1001 - around)), DEEP),
        (write(id="1", v='"x"', other=nest(1001 - around)), DEEP),
        (write(id="1", v='"x"', other='{"a":' * 5000 + "1" + "}" * 5000), DEEP),
        (write(id="1", v=f"{DIGITS}7"), LONG),
        (write(id="1", v='"x"', other=f"[1, -{DIGITS}7]"), LONG),
        (write(id="1", v='"x"', d=f"-{DIGITS}7"), LONG),
        (write(id="1", v='"x"', **{"n" * 50_001: "5"}), NAME),
    ]
    stage = decoding.build_stage_table(ValueFormat(name, options=options), COLUMNS)
    values = [f"{before}{text}{behind}".encode() for text, _ in (*good, *bad)]
    results = decoding.decode_values(spark, stage, values)
    good_results = [(reason, row and (row.id, row.v)) for reason, row in results[: len(good)]]
    assert good_results == [(None, (1, v)) for _, v in good]
    assert [reason for reason, _ in results[len(good) :]] == [reason.format("value") for _, reason in bad]


@pytest.mark.repeats("test_json_beyond_a_limit_of_its_parser_is_bad_and_the_reason_names_the_limit[json]")
def test_long_text_within_the_limits_keeps_its_own_reason(spark) -> None:
    texts = [write(id='"x"', v=f'"{DIGITS * 2}"'), write(id="1", v=f'"{"[" * 1500}"') + "}", f'["{DIGITS * 2}"]']
    stage = decoding.build_stage_table(ValueFormat("json"), COLUMNS)
    assert decoding.read_reasons(spark, stage, [text.encode() for text in texts]) == [
        "the value does not fit value.schema, fields: id", "the value is not one JSON object",
        "the value is not a JSON object",
    ]  # fmt: skip


@pytest.mark.repeats("test_json_beyond_a_limit_of_its_parser_is_bad_and_the_reason_names_the_limit[json]")
def test_text_of_more_characters_than_the_parser_reads_is_bad_and_the_reason_names_the_limit(spark) -> None:
    values = [(None, write(id="1", v=f'"{"x" * length}"').encode()) for length in (20_000_000, 20_000_001)]
    stage = decoding.build_stage_table(ValueFormat("json"), COLUMNS)
    good, bad = decoding.decode(spark, stage, values, "reason", "length(value_struct.v)")
    assert (good, bad[0]) == ((None, 20_000_000), TEXT.format("value"))


@pytest.mark.repeats(
    "test_key_beyond_a_limit_of_its_parser_is_bad_and_the_reason_names_the_limit[json]", "debezium-json"
)
@pytest.mark.parametrize("word", ["json", "debezium-json"])
def test_key_beyond_a_limit_of_its_parser_is_bad_and_the_reason_names_the_limit(spark, word: str) -> None:
    stage = decoding.build_stage_table(ValueFormat(word), (Column("x", "INT"),), keys=(Column("id", "STRING"),))
    stage = replace(stage, key=KeyFormat("json", ("id",)))
    good = [(write(id=DIGITS), DIGITS), (DIGITS, DIGITS), (write(payload=write(id=nest(998))), nest(998))]
    bad = [
        (write(id=nest(1000)), DEEP), (write(payload=write(id=nest(999))), DEEP), (write(id=f"{DIGITS}7"), LONG),
        (f"{DIGITS}7", LONG), (write(id="5", **{"n" * 50_001: "1"}), NAME),
    ]  # fmt: skip
    results = decoding.decode_keys(spark, stage, [text.encode() for text, _ in (*good, *bad)])
    assert results[: len(good)] == [(value, None) for _, value in good]
    assert [reason for _, reason in results[len(good) :]] == [reason.format("key") for _, reason in bad]


@pytest.mark.repeats("test_json_beyond_a_limit_of_its_parser_is_bad_and_the_reason_names_the_limit[json]")
def test_record_beyond_a_limit_is_set_aside_alone_with_its_offset(workbench) -> None:
    topic = workbench.topic(2)
    key, value = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, v STRING"}
    source = {"errors": {"tolerance": "all"}}
    workbench.pipeline("limits", [topic], source=source, key=key, value=value)
    beyond = {(0, 1): (nest(100_000), DEEP), (1, 0): (nest(1000), DEEP), (1, 2): (DIGITS * 5, LONG)}
    for place in ((partition, offset) for partition in (0, 1) for offset in range(3)):
        id, text = 10 * place[0] + place[1], beyond.get(place, (DIGITS, ""))[0]
        workbench.produce(topic, ({"id": id}, write(id=str(id), v=text), {"partition": place[0]}))
    workbench.flush("limits")
    assert sorted((row["id"], row["v"]) for row in workbench.read_rows("shop.limits")) == [
        (n, DIGITS) for n in (0, 2, 11)
    ]
    letters = workbench.read_rows("shop.tidegate_limits_dead_letters")
    messages = {(letter["partition"], letter["offset"]): letter["message"] for letter in letters}
    assert messages == {place: reason.format("value") for place, (_, reason) in beyond.items()}


@pytest.mark.repeats("unit/tidegate_spark/formats/test_msgpack.py::test_bytes_that_are_no_row_say_why")
def test_messagepack_is_read_as_deep_as_its_library_reads_it_and_the_reason_names_the_limit(spark) -> None:
    def pack(levels: int) -> bytes:
        return b"\x82" + msgpack.packb("id") + b"\x07" + msgpack.packb("other") + b"\x91" * levels + b"\x01"

    stage = decoding.build_stage_table(ValueFormat("msgpack"), COLUMNS)
    results = decoding.decode_values(spark, stage, [pack(levels) for levels in (1, 1024, 1025, 100_000)])
    deep = "the value field other is nested deeper than 1,024 levels, which MessagePack's library does not read"
    assert [(reason, row and row.id) for reason, row in results] == [(None, 7), (None, 7), (deep, None), (deep, None)]


def test_broker_holds_what_a_batch_expands_to_only_where_the_topic_is_uncompressed(workbench) -> None:
    """A few hundred bytes become megabytes: `max.message.bytes` is about what is sent, unless it is laid out again."""
    from confluent_kafka import KafkaError, Producer

    small = {"max.message.bytes": "100000"}
    packed, plain = workbench.topic(2, **small), workbench.topic(2, **small, **{"compression.type": "uncompressed"})
    settings = {"bootstrap.servers": workbench.stack.kafka_bootstrap, "log_level": 0, "compression.type": "gzip"}
    producer, outcomes = Producer(settings), list[Any]()
    for topic in (packed, plain):
        for partition in (0, 1):
            value = write(id=str(partition), v=f'"{"x" * 900_000}"').encode()
            producer.produce(topic, value, f'{{"id": {partition}}}', partition, lambda error, _: outcomes.append(error))
        assert producer.flush(60) == 0
    assert [error and error.code() for error in outcomes] == [None, None, *[KafkaError.MSG_SIZE_TOO_LARGE] * 2]
    key, schema = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, v STRING"}
    workbench.pipeline("expanded", [packed], key=key, value=schema)
    workbench.flush("expanded")
    assert [(row["id"], len(row["v"])) for row in workbench.read_rows("shop.expanded")] == [(0, 900_000), (1, 900_000)]


@pytest.mark.repeats(
    "unit/tidegate/flush/test_type_limits.py::test_text_that_names_a_folder_is_limited_in_key_and_value_also_of_a_new_table"
)
def test_value_too_long_for_its_partitions_folder_is_bad_before_anything_is_written(workbench: Any) -> None:
    """In the batch that makes the table, and in a later one; a write would fail with `Mkdirs failed`, for ever."""
    topic = workbench.topic()
    create = {"partition_by": ["Country"]}
    tables = [
        {"name": "lake.shop.by_country", "create": create},
        {"name": "lake.shop.by_key", "create": {"partition_by": ["truncate(300, id)"]}},
        {"name": "lake.shop.all", "upsert": False, "delete": False, "create": create},
    ]
    key = {"fields": ["id"], "schema": "id STRING"}
    value = {"schema": "id STRING, Country STRING, n INT"}
    workbench.pipeline("parts", [topic], key=key, value=value, tables=tables, source={"errors": {"tolerance": "all"}})
    fitting = "ä" * 41  # 246 bytes of 247, percent-encoded
    model: dict[str, dict[str, int]] = {name: {} for name in ("by_country", "by_key", "all")}
    for number, rest in enumerate(("", "x", "y")):
        for id, country in (("a" + rest, fitting), ("b" + rest, "ä" * 42), ("k" * 300 + rest, "c")):
            workbench.produce(topic, ({"id": id}, {"id": id, "Country": country, "n": number}))
            for name, rows in model.items():
                if not (name == "by_key" and len(id) > 250) and not (name != "by_key" and country == "ä" * 42):
                    rows[id] = number
        workbench.flush("parts")
    for name, rows in model.items():
        assert {row["id"]: row["n"] for row in workbench.read_rows(f"shop.{name}")} == rows, name
    letters = workbench.read_rows("shop.tidegate_parts_dead_letters")
    why = "its value names the folder of a partition, and is too long for that: limit={} bytes, percent-encoded"
    expected = {"by_country": f"Country: {why.format(247)}", "all": f"Country: {why.format(247)}"}
    expected["by_key"] = f"id: {why.format(246)}"
    told = {(row["table"].rpartition(".")[2], row["message"].rpartition(" is bad: ")[2]) for row in letters}
    assert (told, len(letters)) == (set(expected.items()), 9)
