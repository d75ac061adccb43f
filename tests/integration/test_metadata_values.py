"""What change events tell beside their rows lands as it was written, or its record is bad, on real Spark."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import decoding
import pytest
from tidegate.schema.data_types import Column
from tidegate.spec.projection import Projection, Selected
from tidegate.spec.source import ValueFormat

BAD, FAR = "bad", "the record's timestamp is outside of the years 1 to 9999"
ROW, ID = {"id": 1}, Column("id", "BIGINT")
AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
LAST_MS, LAST_S = 253_402_300_799_999, 253_402_300_799
LAST = datetime(9999, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)
SOURCE_TIMES = (
    ("-1", datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=UTC)),
    (str(LAST_MS), LAST),
    (str(LAST_MS + 1), BAD),
)
OGG_TIMES = (
    ('"2026-01-02 03:04:05.678901"', AT),
    ('"2026-01-02 03:04:05.678901000"', AT),
    ('"2026-01-02 03:04:05.678901234"', BAD),
    ('"2026-01-02"', datetime(2026, 1, 2, tzinfo=UTC)),
    ('"03:04:05"', BAD),
    ('"yesterday"', BAD),
    ('""', BAD),
    ("null", None),
    ('"9999-12-31 23:59:59.999999"', LAST.replace(microsecond=999999)),
    ('"+10000-01-01 00:00:00"', BAD),
)
# format, word -> what is written there, and what lands
CASES: dict[tuple[str, str], tuple[tuple[str, Any], ...]] = {
    ("ogg-json", "event-timestamp"): OGG_TIMES,
    ("ogg-json", "ingestion-timestamp"): OGG_TIMES,
    ("ogg-json", "pos"): (
        ('"00000000010000000123"', Decimal(10000000123)),
        ('"1.5"', BAD),
        ("7", Decimal(7)),
        ("1.5", BAD),
        ('"' + "9" * 39 + '"', BAD),
        ('"' + "9" * 38 + '"', Decimal("9" * 38)),
    ),
    ("canal-json", "ingestion-timestamp"): (*SOURCE_TIMES, ("1.5", BAD), ("9223372036854775807", BAD), ("null", None)),
    ("canal-json", "event-timestamp"): (*SOURCE_TIMES, ("1e3", BAD), ("9223372036854775808", BAD)),
    ("maxwell-json", "ingestion-timestamp"): (
        (str(LAST_S), LAST.replace(microsecond=0)),
        (str(LAST_S + 1), BAD),
        ("1.5", BAD),
        ("9223372036854775807", BAD),
        ("-1", datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
    ),
    ("debezium-json", "ingestion-timestamp"): (*SOURCE_TIMES, ("1.5", BAD), ("null", None)),
    ("debezium-json", "source.timestamp"): (*SOURCE_TIMES, ("1.5", BAD), ('"x"', BAD), ("null", None)),
    ("debezium-json", "source.lsn"): (
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("9223372036854775808", BAD),
        ("1.5", BAD),
        ('"00000027:00000758:0005"', BAD),
        ('"7"', 7),
        ("null", None),
    ),
    ("debezium-json", "source.ts_ns"): (("1767323045678901234", 1767323045678901234), ("1e18", BAD)),
    ("debezium-json", "source.scn"): (
        ('"123"', Decimal(123)),
        ('"1.5"', BAD),
        ("1.5", BAD),
        ("9" * 38, Decimal("9" * 38)),
        ("9" * 39, BAD),
    ),
    ("debezium-json", "source.txId"): (
        ("1.50", "1.50"),
        ("1e400", "1e400"),
        ("-0", "-0"),
        ('"a"', "a"),
        ("9" * 25, "9" * 25),
    ),
    ("debezium-json", "source.properties"): (
        ('1.50, "a": "Infinity"', {"x": "1.50", "a": "Infinity"}),
        ('1, "x": 2', BAD),
    ),
}
PLACES = {
    ("ogg-json", "event-timestamp"): "op_ts",
    ("ogg-json", "ingestion-timestamp"): "current_ts",
    ("ogg-json", "pos"): "pos",
    ("canal-json", "ingestion-timestamp"): "ts",
    ("canal-json", "event-timestamp"): "es",
    ("maxwell-json", "ingestion-timestamp"): "ts",
    ("debezium-json", "ingestion-timestamp"): "ts_ms",
    ("debezium-json", "source.timestamp"): "source.ts_ms",
    ("debezium-json", "source.properties"): "source.x",
}


def build_message(word: str, place: str, text: str, envelope: bool) -> bytes:
    outer, _, inner = place.rpartition(".")
    member = f'"{outer}": {{"{inner}": {text}}}' if outer else f'"{inner}": {text}'
    row = json.dumps(ROW)
    message = {
        "ogg-json": f'{{"op_type": "I", "after": {row}, {member}}}',
        "canal-json": f'{{"type": "INSERT", "data": [{json.dumps({"id": "1"})}], {member}}}',
        "maxwell-json": f'{{"type": "insert", "data": {row}, {member}}}',
        "debezium-json": f'{{"op": "c", "after": {row}, {member}}}',
    }[word]
    return (f'{{"payload": {message}}}' if envelope else message).encode()


@pytest.mark.repeats(
    "test_metadata_is_what_was_written_or_its_record_is_bad[ogg-json-event-timestamp]",
    "ogg-json-ingestion-timestamp",
    "ogg-json-pos",
    "canal-json-ingestion-timestamp",
    "canal-json-event-timestamp",
    "maxwell-json-ingestion-timestamp",
    "debezium-json-ingestion-timestamp",
    "debezium-json-source.timestamp",
    "debezium-json-source.ts_ns",
    "debezium-json-source.scn",
    "debezium-json-source.txId",
    "debezium-json-source.properties",
)
@pytest.mark.parametrize(("word", "about"), CASES)
def test_metadata_is_what_was_written_or_its_record_is_bad(spark, word: str, about: str) -> None:
    cases = CASES[word, about]
    place = PLACES.get((word, about), about)
    stage = replace(decoding.build_stage_table(ValueFormat(word), (ID,)), metadata={"m": f"value.{about}"})
    envelopes = (False, True) if word == "debezium-json" else (False,)
    values = [build_message(word, place, text, envelope) for envelope in envelopes for text, _ in cases]
    decoded = [BAD if reason else row.m for reason, row in decoding.decode_values(spark, stage, values)]
    decoded = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in decoded]
    texts = [text for text, _ in cases] * len(envelopes)
    assert list(zip(texts, decoded, strict=True)) == list(cases) * len(envelopes)


@pytest.mark.repeats("test_metadata_is_what_was_written_or_its_record_is_bad[ogg-json-event-timestamp]")
def test_record_whose_time_no_table_can_hold_is_bad_where_a_column_has_it(spark) -> None:
    """A producer that gives microseconds for Kafka's milliseconds: a year beyond 50,000."""
    last = 253_402_300_799_999_999
    stage = replace(decoding.build_stage_table(ValueFormat("json"), (ID,)), metadata={"m": "timestamp"})
    bad = "the metadata timestamp is not a TIMESTAMP without loss"
    assert decoding.read_reasons_by_time(spark, stage, b'{"id": 1}', -1, last, last + 1) == [None, None, bad]
    assert decoding.read_reasons_by_time(spark, stage, None, last, last + 1) == [None, None]
    ordered = replace(stage, sequence=("m",))
    assert decoding.read_reasons_by_time(spark, ordered, None, last, last + 1) == [None, bad]
    plain = replace(stage, metadata={})
    assert decoding.read_reasons_by_time(spark, plain, b'{"id": 1}', last + 1) == [None]
    with_history = replace(plain, has_history=True)
    for value in (b'{"id": 1}', None):
        (good, reason) = decoding.read_reasons_by_time(spark, with_history, value, last, last + 1)
        assert (good, (reason or "").partition(",")[0]) == (None, FAR)


@pytest.mark.repeats("test_metadata_is_what_was_written_or_its_record_is_bad[ogg-json-event-timestamp]")
@pytest.mark.parametrize("nanoseconds", ["truncate", {"M": "truncate"}])
def test_parts_of_a_microsecond_are_cut_where_that_is_asked_for(spark, nanoseconds: Any) -> None:
    fmt = ValueFormat("ogg-json", nanoseconds=nanoseconds)
    stage = replace(decoding.build_stage_table(fmt, (ID,)), metadata={"m": "value.event-timestamp"})
    texts = ['"2026-01-02 03:04:05.678901999"', '"+10000-01-01 00:00:00.1234567"', '"03:04:05.1234567"']
    results = decoding.decode_values(spark, stage, [build_message("ogg-json", "op_ts", text, False) for text in texts])
    assert [BAD if reason else row.m.astimezone(UTC) for reason, row in results] == [AT, BAD, BAD]


@pytest.mark.repeats(
    "unit/tidegate_spark/formats/test_ordering_metadata.py::test_delete_needs_metadata_of_which_its_sequence_is_made"
)
def test_delete_needs_only_the_metadata_that_order_it(spark) -> None:
    event = b'{"op_type": "D", "before": {"id": 1}, "op_ts": "2026-01-02 03:04:05.678901234", "pos": "1"}'
    stage = replace(
        decoding.build_stage_table(ValueFormat("ogg-json"), (ID,), (ID,)), metadata={"m": "value.event-timestamp"}
    )
    assert decoding.read_reasons(spark, stage, [event]) == [None]
    ordered = replace(stage, sequence=("m",))
    assert decoding.read_reasons(spark, ordered, [event]) == [
        "the metadata value.event-timestamp is not a TIMESTAMP without loss"
    ]


@pytest.mark.repeats("unit/tidegate_spark/formats/test_ordering_metadata.py::test_file_under_another_name_is_looked_at")
def test_binlog_with_a_number_that_text_does_not_order_is_bad_where_it_orders(spark) -> None:
    """As text `mysql-bin.1000000` comes before `mysql-bin.999999`: its changes would be taken for late ones."""
    rows = ['"op": "u", "before": {"id": 1}, "after": {"id": 1}', '"op": "d", "before": {"id": 1}, "after": null']
    files = ["mysql-bin.000009", "mysql-bin.000010", "mysql-bin.999999", "mysql-bin.1000000", "a.b.12345678", ""]
    events = [f'{{{row}, "source": {{"file": "{file}", "pos": 99}}}}'.encode() for row in rows for file in files]
    metadata = {"f": "value.source.file", "p": "value.source.pos"}
    stage = replace(decoding.build_stage_table(ValueFormat("debezium-json"), (ID,), (ID,)), metadata=metadata)
    keyed = [(b'{"id": 1}', event) for event in events]
    assert decoding.decode(spark, stage, keyed, "reason") == [(None,)] * 12, "it is only told"
    ordered = decoding.decode(spark, replace(stage, sequence=("f", "p")), keyed, "reason", "sequence.p")
    assert [reason and reason.partition(",")[0] for reason, _ in ordered] == [
        *[None] * 3, *["the number in the metadata value.source.file has more than six digits"] * 2, None,
    ] * 2  # fmt: skip
    assert {place for reason, place in ordered if reason is None} == {99}
    selected_columns = (Selected("id", "record.`id`", "INT"), Selected("place", "record.`f`", "STRING", reads=("F",)))
    select = Projection("SELECT id, F AS place FROM record", "record", selected_columns, (("id", "id"),))
    renamed = replace(stage, sequence=("place",), select=select)
    assert decoding.decode(spark, renamed, keyed, "reason") == [(reason,) for reason, _ in ordered]


@pytest.mark.repeats(
    "integration/test_expressions.py::test_time_beyond_the_years_that_readers_have_is_bad_whatever_select_makes_it_of"
)
def test_delete_whose_sequence_select_makes_of_a_time_beyond_the_year_9999_is_bad(spark) -> None:
    """It would be remembered, in a file that is not written anew without its bounds."""
    columns = (ID, Column("ms", "BIGINT"))
    events = [
        f'{{"op": "d", "before": {{"id": 1, "ms": {ms}}}, "after": null}}'.encode()
        for ms in (253_402_300_799_999, 253_402_300_800_000)
    ]
    at = Selected("at", "timestamp_millis(record.`ms`)", "TIMESTAMP", is_computed=True, reads=("ms",))
    select = Projection("SELECT id, …", "record", (Selected("id", "record.`id`", ID.type), at), (("id", "id"),))
    stage = decoding.build_stage_table(ValueFormat("debezium-json"), columns, (ID,), select=select, sequence=("at",))
    results = decoding.decode(spark, stage, [(b'{"id": 1}', event) for event in events], "reason", "op")
    assert results == [(None, "d"), ("select: at is outside of the years 1 to 9999", "d")]


def test_update_of_spanner_without_its_other_columns_is_bad_unless_updates_are_partial(spark) -> None:
    """What such an update leaves out is NULL in it, and would empty the row."""
    capture_types = ("NEW_VALUES", "OLD_AND_NEW_VALUES", "NEW_ROW", "NEW_ROW_AND_OLD_VALUES", None)
    events = [
        {"op": op, "before": None, "after": {"id": 1, "note": "NEW_VALUES"}, "source": {"value_capture_type": kind}}
        for op in ("u", "c")
        for kind in capture_types
    ]
    events += [{"schema": None, "payload": event} for event in events[:5]]
    events += [{**event, "after": {"id": 1, "x": float("nan")}} for event in events[:2]]  # Python writes a bare word
    values = [json.dumps(event).encode() for event in events]
    stage = decoding.build_stage_table(ValueFormat("debezium-json"), (ID,), (ID,))
    reasons = [reason and reason.partition(" (")[0] for reason in decoding.read_reasons(spark, stage, values)]
    sparse = "the update has only the columns that changed"
    assert reasons == [sparse, sparse, *[None] * 8, sparse, sparse, *[None] * 3, sparse, sparse]
    assert decoding.read_reasons(spark, replace(stage, is_partial=True), values) == [None] * 17


def test_schema_beside_a_payload_with_a_bare_word_for_a_number_is_metadata(spark) -> None:
    columns = (ID, Column("x", "DOUBLE"))
    stage = decoding.build_stage_table(ValueFormat("debezium-json"), columns, (ID,))
    texts = [
        f'{{"payload": {{"op": "c", "after": {{"id": 1, "x": {x}}}}}, "schema": {{"type": "struct"}}}}'.encode()
        for x in ("1.5", "NaN", "-Infinity")
    ]
    with_schema = replace(stage, metadata={"Described": "value.schema"})
    records = [(b'{"id": 1}', text) for text in texts]
    results = decoding.decode(spark, with_schema, records, "reason", "value_struct.Described")
    assert results == [(None, '{"type":"struct"}')] * 3
