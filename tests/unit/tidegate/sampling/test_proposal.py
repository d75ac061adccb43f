"""What a sample of one topic becomes: its format, key and mode, and what a person has to check."""

import re
from pathlib import Path
from typing import Any

import pytest
from examples import choose_number
from fuzz_seeds import build_value_seeds, encode_objects
from fuzzing import TOKENS
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_files import CATALOGS
from tidegate.cli.pipeline_text import ProposedPipeline, render_pipeline
from tidegate.config.parsing.yaml_document import render_flow
from tidegate.config.pipeline_file import load_pipeline
from tidegate.errors import GiveUp
from tidegate.model.kafka_log import KafkaRecord
from tidegate.reprocess.record import describe_record, format_record
from tidegate.sampling.proposal import ProposedTable, propose_table, propose_tables
from tidegate.sampling.recognition import look_at
from tidegate.sampling.samples import TopicSample

FORMATS_BY_THEIR_LOOK = (
    "json", "debezium-json", "canal-json", "maxwell-json", "ogg-json", "csv", "string", "msgpack",
)  # fmt: skip


def encode(data: Any) -> bytes | None:
    return (
        data
        if data is None or isinstance(data, bytes)
        else data.encode()
        if isinstance(data, str)
        else encode_objects(data)[0]
    )


def build_sample(*pairs: tuple[Any, Any], span: int = 0, compacted: bool = False) -> TopicSample:
    """Records in two partitions by turns, one a second."""
    records = tuple(
        KafkaRecord("t", n % 2, n // 2, 1_767_225_600_000 + n * 1000, encode(key), encode(value))
        for n, (key, value) in enumerate(pairs)
    )
    end = {0: span or (len(records) + 1) // 2, 1: 0 if span else len(records) // 2}
    return TopicSample("t", records, {0: 0, 1: 0}, end, compacted)


def refuse_registry(*_: Any) -> Any:
    raise AssertionError("no registry is needed")


def propose_from(*pairs: tuple[Any, Any], key: tuple[str, ...] = (), **options: Any) -> ProposedTable:
    return propose_table(build_sample(*pairs, **options), "lake.shop.t", refuse_registry, key)


def join_checks(table: ProposedTable) -> str:
    return "\n".join(map(str, table.checks))


def write_and_load(include: Path, *tables: ProposedTable) -> Any:
    """The pipeline that the written file is, by the product's own check."""
    text = render_pipeline(ProposedPipeline("orders", "kafka_default", tables))
    path = include / "pipelines" / "orders.yaml"
    path.write_text(text)
    return load_pipeline(path)


@pytest.mark.parametrize("name", FORMATS_BY_THEIR_LOOK)
def test_format_is_recognised_and_its_file_is_valid(include, name) -> None:
    _, columns, good = build_value_seeds(name)
    table = propose_from(*((b'{"id": 7}', value) for value in good if value))
    assert table.value.format.name == name
    pipeline = write_and_load(include, table)
    assert pipeline.source.value.format == name
    if name not in {"csv", "string"}:
        assert {c.name for c in pipeline.source.value.columns} >= {c.name for c in columns if c.name not in "raw"}


@pytest.mark.parametrize("name", ["mongodb", "json-schema", "avro", "protobuf"])
def test_other_looks(name) -> None:
    _, _, good = build_value_seeds(name)
    look = look_at(good[0])
    if name == "mongodb":
        assert (look.event.name, look.is_enveloped) == ("debezium-json", False)
    else:
        assert (look.kind, look.schema_id) == ("behind the id of a schema", 1)


@pytest.mark.parametrize(
    ("data", "headers", "wire", "schema_id"),
    [
        (b"\x00\x00\x00\x00\x07x", (), "confluent", 7),
        (b"\x00\x00\x00\x00\x00\x00\x00\x00\x07x", (), "apicurio", 7),
        (b"x", (("__value_schema_id", b"\x01" + bytes(16)),), "confluent-header", "01" + "00" * 16),
        (b"x", (("apicurio.value.globalId", (7).to_bytes(8)),), "apicurio-header", 7),
    ],
)
def test_id_of_a_schema_is_found_wherever_it_lies(data, headers, wire, schema_id) -> None:
    look = look_at(data, headers)
    assert (look.wire, look.schema_id) == (wire, schema_id)


@pytest.mark.parametrize("number", [0, 1, 42, 2**23, 2**60, 2**63 - 1, 2**64 - 1])
def test_number_of_eight_bytes_is_no_schema_id(number) -> None:
    assert look_at(number.to_bytes(8)).wire == ""


@pytest.mark.parametrize(
    "text",
    [
        "family \N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}",
        "soft\xadhyphen",
        "\ufefftitle",
        "\ue000",
        "\u202eright to left",
        "\U0001fae9",
    ],
)
def test_text_that_a_terminal_may_not_show_is_text(text) -> None:
    """Python prints no joiner of emoji, no mark of direction and no letter that is newer than itself."""
    for data in (text, f'{{"id": 1, "note": "{text}"}}'):
        record = KafkaRecord("t", 0, 0, 0, None, data.encode())
        assert look_at(data.encode()).encoding.name in {"TEXT", "OBJECT"}
        assert describe_record(record)["value"] == data
        assert data in format_record(record)
    assert propose_from(*[({"id": 1}, {"id": 1, "note": text})] * 3).value.format.name == "json"


def test_control_characters_are_bytes() -> None:
    assert look_at(b"\x00\x01ab\x7f").kind == "bytes that are no text"
    assert describe_record(KafkaRecord("t", 0, 0, 0, None, b"\x1b[2J"))["value_hex"] == "1b5b324a"


KEYS = [
    # key and value -> fields, format, prefix and type of each key column in the file
    ({"id": 1}, {"id": 1}, ("id",), "json", "", None),
    ({"schema": {"type": "struct"}, "payload": {"id": 1}}, {"id": 1}, ("id",), "json", "", None),
    ({"id": 1, "part": "a"}, {"id": 1}, ("id", "part"), "json", "", ["BIGINT", "STRING"]),
    ({"id": "1"}, {"id": 1}, ("id",), "json", "key_", ["STRING"]),
    ({"ID": 1}, {"id": 1}, ("ID",), "json", "key_", ["BIGINT"]),
    ({"a.b": 1}, {"id": 1}, ("a.b",), "json", "", ["BIGINT"]),
    ({"order": 1}, {"id": 1}, ("order",), "json", "", ["BIGINT"]),
    ("1", {"id": 1}, ("id",), "json", "", None),
    ('"x"', {"id": "x"}, ("id",), "json", "", None),
    ("x", {"id": "x"}, ("id",), "string", "", None),
    ("x", {"id": 1}, ("key",), "string", "", ["STRING"]),
    ("x", {"key": 1}, ("record_key",), "string", "", ["STRING"]),
    ("1", {"id": 5}, ("key",), "string", "", ["STRING"]),
    ((42).to_bytes(8), {"id": 1}, ("key",), "raw", "", ["BIGINT"]),
    ((42).to_bytes(4), {"id": 1}, ("key",), "raw", "", ["INT"]),
    (b"\xff\x00\x01", {"id": 1}, ("key",), "raw", "", ["BINARY"]),
    ({"ids": [1]}, {"id": 1}, (), "", "", None),
    (b"[1]", {"id": [1]}, ("key",), "string", "", ["STRING"]),
    (None, {"id": 1}, (), "", "", None),
]


@pytest.mark.parametrize(("key", "value", "fields", "word", "prefix", "types"), KEYS)
def test_key_by_its_look(include, key, value, fields, word, prefix, types) -> None:  # noqa: PLR0917
    table = propose_from((key, value), (key, value))
    assert (table.key.fields, table.key.format, table.key.prefix) == (fields, word, prefix)
    pipeline = write_and_load(include, table)
    assert (pipeline.tables[0].upsert, pipeline.tables[0].delete) == (bool(fields), bool(fields))
    assert types is None or [c.type for c in pipeline.source.key.columns] == types
    assert fields or "every record is appended" in join_checks(table)


def test_key_that_is_named_is_taken_from_the_value(include) -> None:
    pipeline = write_and_load(include, propose_from((None, {"id": 1}), ("x", {"id": 2}), key=("id",)))
    assert (pipeline.source.key.fields, pipeline.source.key.from_value) == (("id",), True)


def test_mixed_records_are_said_with_counts_and_places() -> None:
    event = {"op": "c", "before": None, "after": {"id": 1}, "source": {"table": "a"}}
    other_event = {**event, "source": {"table": "b"}}
    table = propose_from(
        ({"id": 1}, event),
        ({"id": 1}, other_event),
        ({"id": 2}, event),
        (None, "poison"),
        ({"id": 3}, b"\x00\x00\x00\x00\x09x"),
    )
    checks = join_checks(table)
    assert "1 of 5 values look different: text, not a change event; at t:1:1" in checks
    assert "1 of 5 values look different: behind the id of a schema, not a change event; at t:0:2" in checks
    assert "changes of 2 source tables (a, b) would be mixed" in checks
    assert "1 of 5 records have no key" in checks


def build_maxwell_message(table: str, kind: str = "insert", database: str = "shop", **row: Any) -> tuple[Any, Any]:
    message = {"database": database, "table": table, "type": kind, "ts": 1_700_000_000, "data": row}
    return {"database": database, "table": table, **{f"pk.{name}": row[name] for name in [*row][:1]}}, message


def propose_all(*pairs: tuple[Any, Any], key: tuple[str, ...] = (), **options: Any) -> tuple[ProposedTable, ...]:
    return propose_tables(build_sample(*pairs, **options), "lake.shop.t", refuse_registry, key)


def test_topic_of_a_database_is_a_table_for_each_source_table_with_its_own_columns_and_key(include) -> None:
    """What Maxwell writes of itself is none."""
    tables = propose_all(
        build_maxwell_message("Orders", id=1, status=1, source_table="x"),
        build_maxwell_message("payments", ref="a", status="paid"),
        build_maxwell_message("bootstrap", database="maxwell", id=1, table_name="Orders"),
        build_maxwell_message("Orders", "delete", id=1, status=1, source_table="y"),
        build_maxwell_message("notes", "table-alter"),
        (None, "poison"),
    )
    pipeline = write_and_load(include, *tables)
    assert pipeline.source.topics == ("t",)
    assert pipeline.tables[0].metadata == {"source_table_2": "value.table"}
    columns = [tuple((c.name, c.type) for c in table.value.columns) for table in pipeline.tables]
    routes = [(table.name, table.route.field, table.route.pattern) for table in pipeline.tables]
    assert routes == [
        ("lake.shop.Orders", "source_table_2", "Orders"),
        ("lake.shop.payments", "source_table_2", "payments"),
    ]
    assert columns == [
        (("id", "BIGINT"), ("status", "BIGINT"), ("source_table", "STRING")),
        (("ref", "STRING"), ("status", "STRING")),
    ]
    assert [table.key.fields for table in pipeline.tables] == [("id",), ("ref",)]
    assert "1 of 6 values look different: text" in "\n".join(join_checks(table) for table in tables)


def test_tables_of_one_name_in_two_databases_are_left_to_the_user() -> None:
    (table,) = propose_all(
        build_maxwell_message("orders", id=1),
        build_maxwell_message("orders", database="archive", id=1),
        build_maxwell_message("payments", id=1),
    )
    assert "changes of 2 source tables (orders, payments) would be mixed" in join_checks(table)


def test_compacted_topic_of_several_tables_is_said_to_keep_rows_whose_delete_event_is_gone() -> None:
    def build_event(table: str) -> Any:
        return {"op": "c", "before": None, "after": {"id": 1}, "source": {"table": table, "db": "d"}}

    tables = propose_all(({"id": 1}, build_event("a")), ({"id": 1}, build_event("b")), compacted=True)
    assert [table.source_table for table in tables] == ["a", "b"]
    assert "where only the tombstone of a delete is left" in join_checks(tables[0])


@pytest.mark.parametrize(
    ("ids", "fields", "options"),
    [
        (("1004", '{"$numberLong": "5"}'), ("_id",), {"extended": True}),
        (('"a"', '{"$oid": "596e275826f08b2730779e1f"}'), ("_id",), {"extended": True}),
        (('"596e275826f08b2730779e1f"', '{"$oid": "596e275826f08b2730779e1f"}'), ("id",), {}),
        (("1004", '"1004"'), ("id",), {}),
        (("true", '"true"'), ("id",), {}),
    ],
)
def test_document_keys_of_several_types_are_kept_as_the_texts_that_they_are(
    include: Path, ids: tuple[str, ...], fields: tuple[str, ...], options: dict[str, Any]
) -> None:
    pairs = [
        ({"id": id}, {"op": "c", "before": None, "after": f'{{"_id": {id}}}', "source": {"collection": "c"}})
        for id in ids
    ]
    key = write_and_load(include, propose_from(*pairs)).source.key
    assert (key.fields, {name: value for name, value in key.options.items() if value}) == (fields, options)


def test_records_that_repeat_keys_are_said_unless_the_topic_is_one_of_states() -> None:
    pairs = [({"id": 1}, {"id": 1}), ({"id": 1}, {"id": 1})]
    message = "2 records have 1 key, and upsert keeps the last of each"
    assert message in join_checks(propose_from(*pairs))
    assert message not in join_checks(propose_from(*pairs, compacted=True))
    assert message not in join_checks(propose_from(*pairs, ({"id": 1}, None)))


def test_key_that_most_records_lack_is_none(include) -> None:
    table = propose_from((None, {"id": 1}), (None, {"id": 2}), ("x", {"id": 3}))
    assert write_and_load(include, table).tables[0].upsert is False
    assert "2 of 3 records have no key, so that none is used" in join_checks(table)


def test_flattened_events_delete_by_their_column(include) -> None:
    table = propose_from(*[({"id": n}, {"id": n, "__deleted": "false"}) for n in range(3)])
    assert write_and_load(include, table).tables[0].delete_when == "__deleted = 'true'"
    assert "are taken for deletes" in join_checks(table)


def test_envelope_of_an_object_says_its_types(include) -> None:
    fields = [
        {"field": "id", "type": "int32"},
        {"field": "at", "type": "int64", "name": "org.apache.kafka.connect.data.Timestamp"},
        {"field": "texts", "type": "map", "keys": {"type": "string"}, "values": {"type": "int64"}},
        {"field": "marks", "type": "map", "keys": {"type": "int32"}, "values": {"type": "string"}},
    ]
    payload = {"id": 1, "at": 5, "texts": {"a": 1}, "marks": [[1, "x"]]}
    value = {"schema": {"type": "struct", "fields": fields}, "payload": payload}
    pipeline = write_and_load(include, propose_from((None, value), (None, {"schema": None, "payload": None})))
    assert pipeline.source.value.options["envelope"] is True
    columns = [("id", "INT"), ("at", "TIMESTAMP_NTZ"), ("texts", "MAP<STRING, BIGINT>"), ("marks", "STRING")]
    assert [(c.name, c.type) for c in pipeline.source.value.columns] == columns


def build_envelope(payload: Any, **types: tuple[str, str, dict[str, str]]) -> dict[str, Any]:
    """Kafka Connect's, around a struct with fields of these types, names and parameters."""
    fields = [{"field": f, "type": t, "name": n, "parameters": p} for f, (t, n, p) in types.items()]
    return {"schema": {"type": "struct", "fields": fields}, "payload": payload}


DECIMAL_20 = ("bytes", "org.apache.kafka.connect.data.Decimal", {"scale": "0", "connect.decimal.precision": "20"})
MICROS = ("int64", "io.debezium.time.MicroTimestamp", {})
STATED_KEYS = [
    # type of Id in the key's envelope, what is sent, type in the value's: the key's type, and its prefix
    (DECIMAL_20, "AP//////////", DECIMAL_20, "DECIMAL(20,0)", ""),
    (DECIMAL_20, "AP//////////", None, "DECIMAL(20,0)", "key_"),  # the value's column keeps the letters
    (MICROS, 1_767_225_600_123_456, MICROS, "TIMESTAMP_NTZ", ""),
    (("int32", "io.debezium.time.Date", {}), 20_000, ("int32", "io.debezium.time.Date", {}), "DATE", ""),
    (("int32", None, {}), 7, ("int32", None, {}), "INT", ""),
    (("int32", None, {}), 7, None, "BIGINT", ""),
    (("bytes", None, {}), "AP8=", ("bytes", None, {}), "BINARY", ""),
]


@pytest.mark.parametrize("is_bare", [False, True])
@pytest.mark.parametrize(("key_type", "sent", "value_type", "expected", "prefix"), STATED_KEYS)
def test_envelope_of_a_key_says_its_types(include, key_type, sent, value_type, expected, prefix, is_bare) -> None:  # noqa: PLR0917
    (word, name, parameters), row = key_type, {"Id": sent, "n": 1}
    value = build_envelope(row, Id=value_type, n=("int32", None, {})) if value_type else row
    key = build_envelope({"Id": sent}, Id=key_type)
    if is_bare:
        key = {"schema": {"type": word, "name": name, "parameters": parameters}, "payload": sent}
    pipeline = write_and_load(include, propose_from((key, value), (key, value), (key, None)))
    read_key = pipeline.source.key
    if is_bare and prefix:
        assert [(c.name, c.type) for c in read_key.columns] == [("key", expected)]
        return
    assert (read_key.format, read_key.fields, read_key.prefix) == ("json", ("Id",), prefix)
    types = {c.name: c.type for c in (*pipeline.source.value.columns, *read_key.columns)}
    assert types["Id"] == expected


def test_bare_key_in_an_envelope_is_not_the_envelopes_text(include) -> None:
    key = {"schema": {"type": "string"}, "payload": "a"}
    equal = write_and_load(include, propose_from((key, {"id": "a"}), (key, {"id": "a"}))).source.key
    assert (equal.format, equal.fields) == ("json", ("id",))
    other = write_and_load(include, propose_from((key, {"id": 1}), (key, {"id": 1}))).source.key
    assert (other.format, [(c.name, c.type) for c in other.columns]) == ("json", [("key", "STRING")])


def test_mongodb_documents_are_read_through_their_text(include) -> None:
    document = (
        '{"_id": {"$oid": "5f"}, "total": {"$numberDecimal": "1.50"}, "at": {"$date": 5}, "n": {"$numberLong": "7"}}'
    )
    event = {"op": "c", "after": document, "source": {"collection": "c"}}
    pipeline = write_and_load(include, propose_from(({"id": '{"$oid": "5f"}'}, event)))
    types = {c.name: c.type for c in pipeline.source.value.columns}
    assert types == {"_id": "STRING", "total": "STRING", "at": "TIMESTAMP", "n": "BIGINT"}
    assert (pipeline.source.key.fields, pipeline.source.key.options["extended"]) == (("_id",), True)


def test_document_that_is_no_extended_json_is_no_row() -> None:
    invalid_event = {"op": "c", "after": '{"_id": {"$numberLong": null}}'}
    good = {"op": "c", "after": '{"_id": {"$numberLong": "1"}}'}
    table = propose_from(({"id": "1"}, invalid_event), ({"id": "1"}, good))
    assert [column.ddl for column in table.value.columns] == ["_id BIGINT"]


def test_several_topics_have_a_table_each(include) -> None:
    orders = propose_table(build_sample(({"id": 1}, {"id": 1})), "lake.shop.a", refuse_registry)
    lines = propose_table(build_sample((None, "1,2"), (None, "3,4")), "lake.shop.b", refuse_registry)
    lines = type(lines)(**{**vars(lines), "sample": TopicSample("u", lines.sample.records)})
    pipeline = write_and_load(include, orders, lines)
    assert [(t.name, t.topics, t.value.format) for t in pipeline.tables] == [
        ("lake.shop.a", ("t",), "json"), ("lake.shop.b", ("u",), "csv"),
    ]  # fmt: skip


def test_tombstones_are_no_values_of_another_format() -> None:
    table = propose_from(("1", '{"id": 1}'), ("2", '{"id": 2}'), ("2", None), ("3", "text"))
    assert (table.value.remark, table.tombstones) == ("2 of 3 values: a JSON object", 1)


def test_nothing_but_tombstones_gives_up_with_a_way_out() -> None:
    with pytest.raises(GiveUp, match=r"topic=t: all of 2 records of 2 partitions are tombstones, which show no format"):
        propose_from(("a", None), ("b", None))


def test_no_value_of_a_record_is_written_into_the_file(include) -> None:
    table = propose_from(
        *[({"id": n}, {"id": n, "password": "hunter2", "f": 7.25, "mixed": "x" if n else 1}) for n in (0, 1)]
    )
    text = render_pipeline(ProposedPipeline("orders", "kafka_default", (table,)))
    assert "hunter2" not in text


@pytest.mark.parametrize(
    "text", ["yes", "null", "a: b", "#x", "1.5", "2026-01-01", 'a"b', "ë\n\u2028", "", "*a", "k.e_y-1"]
)
def test_text_in_the_file_is_read_back_as_it_was(text) -> None:
    import yaml

    assert yaml.safe_load(f"text: {render_flow(text)}  # a remark") == {"text": text}


NAMES_OF_KEY = ["id"]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\n b", r'"a\n b"'),
        (["a\nb", "ë"], r'["a\nb", ë]'),
        ({"x\ny": 1, "z": None}, r'{? "x\ny" : 1, z: null}'),
        ([NAMES_OF_KEY, {"k": NAMES_OF_KEY}], "[[id], {k: [id]}]"),
    ],
)
def test_value_in_the_file_is_one_line_and_names_no_other_place(value, expected) -> None:
    assert render_flow(value) == expected


def test_numbers_of_eight_bytes_are_one_kind_whatever_their_size() -> None:
    numbers = [1, 2**24, 2**25, 2**31 + 7]
    table = propose_from(*((number.to_bytes(8), {"n": 1}) for number in numbers))
    assert (table.key.format, table.key.columns[0].type) == ("raw", "BIGINT")
    assert "look different" not in join_checks(table)
    large = propose_from(*(((2**24 * n + 5).to_bytes(8), {"n": 1}) for n in range(1, 9)))
    assert (large.key.format, large.key.columns[0].type) == ("raw", "BIGINT")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\x02\xff\x04", "no format explains these bytes: bare Avro needs avro.schema"),
        (b"\xff" * 8, "all are of one length: a number is declared by its type"),
        (b"[1, 2]", "2 values are JSON lists, of which no format makes rows"),
    ],
)
def test_value_that_stays_as_it_is_is_said(include, value, message) -> None:
    table = propose_from((None, value), (None, value))
    assert message in join_checks(table)
    assert write_and_load(include, table).source.value.columns[0].name == "value"


def test_one_of_a_kind_is_said_in_the_singular() -> None:
    checks = join_checks(propose_from((None, b"[1, 2]"), (None, None)))
    assert "1 value is a JSON list, of which no format makes rows" in checks
    assert "1 tombstone was seen, and there is no key" in checks


def test_every_check_stands_in_the_head_and_at_its_line() -> None:
    event = {"op": "c", "before": None, "after": {"id": 1, "n": None, "seen_at": 1767225600}, "source": {"table": "a"}}
    for table in (
        propose_from(({"id": 1}, event), ({"id": 2}, {**event, "source": {"table": "b"}}), (None, "poison")),
        propose_from((None, "1,a"), (None, "2,b"), ("x", "3")),
        propose_from(("1", {"id": 1}), ("x", {"id": [], "f": 1.5}), ("1", {"id": {}})),
    ):
        text = render_pipeline(ProposedPipeline("orders", "kafka_default", (table,)))
        head, _, body = text.partition("description:")
        flat = [" ".join(re.sub(r"^\s*(#|--)", "", part, flags=re.MULTILINE).split()) for part in (head, body)]
        assert len(table.checks) >= 3
        for check in table.checks:
            assert f"{check.place}: {' '.join(check.text.split())}" in flat[0], check
            assert f"CHECK {' '.join(check.text.split())}" in flat[1], (check, body)


NAMES = st.one_of(
    st.text(max_size=4), st.sampled_from(["id", "ID", "a.b", "order", "`x`", "--", "/*", "'", "value", "$oid"])
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**40), 10**40), st.floats(), NAMES),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=5).map(encode)
GOOD = [value for name in (*FORMATS_BY_THEIR_LOOK, "mongodb") for value in build_value_seeds(name)[2]]
BENT = st.tuples(st.sampled_from(GOOD), st.integers(0, 400), st.sampled_from(TOKENS)).map(
    lambda case: case[0][: case[1]] + case[2] + case[0][case[1] + 3 :]
)
ANY_KEY = st.one_of(st.none(), OBJECTS, JSON.map(lambda value: encode_objects(value)[0]), st.binary(max_size=9))
ANY_VALUE = st.one_of(st.none(), OBJECTS, st.binary(max_size=12), BENT, st.sampled_from(GOOD))


@settings(max_examples=choose_number(60))
@given(st.lists(st.tuples(ANY_KEY, ANY_VALUE), min_size=1, max_size=4))
def test_whatever_records_hold_the_file_is_valid(tmp_path_factory, pairs) -> None:
    include = tmp_path_factory.mktemp("include")
    (include / "pipelines").mkdir()
    (include / "catalogs.yaml").write_text(CATALOGS)
    try:
        table = propose_table(build_sample(*pairs, span=2_000_000), "lake.shop.t", refuse)
    except GiveUp:  # no value, or one that needs a registry
        return
    assert write_and_load(include, table).tables[0].name == "lake.shop.t"


def refuse(*_: Any) -> Any:
    raise GiveUp("no registry")
