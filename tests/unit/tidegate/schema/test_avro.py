"""Avro schemas as columns: what arrives for which type, and what is refused instead of misread."""

import json
from typing import Any

import pytest
from tidegate.adapters.schema_registry.schema_provider import find_row_type
from tidegate.errors import ConfigurationError
from tidegate.schema.avro import (
    BARE_FIELD,
    END_FIELD,
    collect_named_types,
    inline_references,
    to_columns,
    to_spark_type,
)
from tidegate.schema.avro_resolution import append_end_field, find_lost_meaning, plan_decoding, simplify_types
from tidegate.schema.avro_versions import restore_dropped_fields

INNER = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": "int"}]}
TYPES: list[tuple[Any, str]] = [
    ("boolean", "BOOLEAN"),
    ("int", "INT"),
    ("long", "BIGINT"),
    ({"type": "long"}, "BIGINT"),
    (["null", "string"], "STRING"),
    (["string", "null"], "STRING"),
    (["int", "null", "long"], "BIGINT"),
    (["float", "double"], "DOUBLE"),
    (["int", "string"], "STRUCT<`member0`: INT, `member1`: STRING>"),
    ({"type": "enum", "name": "E", "symbols": ["a"]}, "STRING"),
    ({"type": "fixed", "name": "F", "size": 3}, "BINARY"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2}, "DECIMAL(5,2)"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 5}, "DECIMAL(5,0)"),
    ({"type": "int", "logicalType": "date"}, "DATE"),
    ({"type": "long", "logicalType": "timestamp-nanos"}, "TIMESTAMP"),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, "TIMESTAMP_NTZ"),
    ({"type": "long", "connect.name": "io.debezium.time.MicroTime"}, "STRING"),
    ({"type": "string", "logicalType": "uuid"}, "STRING"),
    ({"type": "string", "logicalType": "timestamp-millis"}, "STRING"),
    ({"type": "string", "logicalType": "decimal", "precision": 5, "scale": 2}, "STRING"),
    ({"type": "int", "logicalType": "timestamp-millis"}, "INT"),
    ({"type": "double", "logicalType": "date"}, "DOUBLE"),
    ({"type": "string", "connect.name": "io.debezium.time.MicroTimestamp"}, "STRING"),
    ({"type": "bytes", "logicalType": "decimal"}, "BINARY"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 0}, "BINARY"),
    ({"type": "bytes", "logicalType": "decimal", "precision": "5"}, "BINARY"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "BINARY"),
    ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 10}, "BINARY"),
    ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9}, "DECIMAL(9,0)"),
    (["int", {"type": "long", "logicalType": "date"}], "BIGINT"),
    ({"type": "array", "items": ["null", INNER]}, "ARRAY<STRUCT<`x`: INT>>"),
    ({"type": "map", "values": {"type": "array", "items": "long"}}, "MAP<STRING, ARRAY<BIGINT>>"),
]


def build_record(*fields: tuple[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": n, "type": t} for n, t in fields]}


@pytest.mark.parametrize(("schema", "expected"), TYPES, ids=json.dumps)
def test_type_arrives_as(schema: Any, expected: str) -> None:
    assert to_spark_type(schema, {}) == expected


def test_named_type_that_is_used_again_is_known_by_its_name() -> None:
    record = build_record(("a", INNER), ("b", ["null", "Inner"]), ("c", {"type": "array", "items": "Inner"}))
    assert [c.type for c in to_columns(record)] == ["STRUCT<`x`: INT>", "STRUCT<`x`: INT>", "ARRAY<STRUCT<`x`: INT>>"]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (build_record(("a", ["null", "R"])), "holds itself"),
        (build_record(("a", "Unknown")), "type=Unknown is not known"),
        ("string", "is no record"),
    ],
)
def test_schema_that_no_table_holds_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        to_columns(schema)


def test_references_are_put_in_where_they_are_first_named() -> None:
    known = {"shop.Inner": {**INNER, "namespace": "shop"}}
    whole = inline_references(build_record(("a", "shop.Inner"), ("b", "shop.Inner")), known)
    assert whole["fields"][0]["type"]["name"] == "Inner"
    assert whole["fields"][1]["type"] == "shop.Inner"
    assert [c.type for c in to_columns(whole)] == ["STRUCT<`x`: INT>"] * 2


def test_reference_by_its_short_name_is_one_of_the_namespace_around_it() -> None:
    """Avro's own parsers take `Inner` in the namespace shop for shop.Inner."""
    known = {"shop.Inner": {**INNER, "namespace": "shop"}, "other.Inner": {**INNER, "namespace": "other", "fields": []}}
    record = {**build_record(("a", ["null", "Inner"]), ("b", {"type": "array", "items": "Inner"})), "namespace": "shop"}
    whole = inline_references(record, known)
    assert whole["fields"][0]["type"][1]["namespace"] == "shop"
    assert [c.type for c in to_columns(whole)] == ["STRUCT<`x`: INT>", "ARRAY<STRUCT<`x`: INT>>"]
    named = inline_references({"type": "record", "name": "shop.R", "fields": record["fields"]}, known)
    assert [c.type for c in to_columns(named)] == ["STRUCT<`x`: INT>", "ARRAY<STRUCT<`x`: INT>>"]


def build_time_type(meaning: str) -> dict[str, Any]:
    return {"type": "long", "logicalType": meaning}


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        ("int", "long", False),
        (build_time_type("timestamp-micros"), build_time_type("timestamp-micros"), False),
        (build_time_type("timestamp-millis"), build_time_type("timestamp-micros"), True),
        ("long", build_time_type("timestamp-micros"), True),
        ({"type": "array", "items": build_time_type("time-micros")}, {"type": "array", "items": "long"}, True),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2},
            False,
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3},
            True,
        ),
    ],
)
def test_version_that_counts_something_else_is_not_read_as_the_latest(old: Any, new: Any, lost: bool) -> None:
    for before, after in (
        (old, new),
        (["null", old], new),
        (build_record(("n", old), name="N"), build_record(("n", new), name="N")),
    ):
        reason = find_lost_meaning(build_record(("a", before)), build_record(("a", after)))
        assert bool(reason) == lost
        assert not lost or reason.startswith("field a")


NUMBERS_LOST = [
    # written, read, what the reason says; empty where every value keeps its meaning
    (
        ["string", build_time_type("timestamp-millis")],
        ["string", build_time_type("timestamp-micros")],
        "timestamp-millis",
    ),
    (
        ["null", "string", build_time_type("timestamp-millis")],
        [build_time_type("timestamp-micros"), "null", "string"],
        "timestamp-millis",
    ),
    (build_time_type("timestamp-millis"), ["null", "string", build_time_type("timestamp-micros")], "timestamp-millis"),
    ("long", ["null", "string", build_time_type("timestamp-micros")], "was a plain value and is timestamp-micros"),
    (["null", "string", build_time_type("timestamp-millis")], build_time_type("timestamp-micros"), "timestamp-millis"),
    (["string", build_time_type("timestamp-millis")], ["string", "double"], "timestamp-millis"),
    (["string", build_time_type("timestamp-micros")], [build_time_type("timestamp-micros"), "string", "boolean"], ""),
    (["string", build_time_type("timestamp-micros")], build_time_type("timestamp-micros"), ""),
    ("string", ["null", "string", build_time_type("timestamp-micros")], ""),
    (["string", "boolean"], ["string", build_time_type("timestamp-micros")], ""),
    (["int", "string"], ["string", "long"], ""),
    ("long", "double", "was a long and is a double"),
    ("long", ["null", "float"], "was a long and is a float"),
    (["null", "int"], "float", "was an int and is a float"),
    (["string", "long"], ["string", "double"], "was a long and is a double"),
    ("long", ["double", "long"], ""),
    ("int", "double", ""),
    ("float", "double", ""),
]


@pytest.mark.parametrize(("old", "new", "said"), NUMBERS_LOST, ids=str)
def test_number_in_a_union_or_of_another_type_keeps_its_meaning_or_its_version_is_refused(
    old: Any, new: Any, said: str
) -> None:
    for before, after in ((old, new), ({"type": "array", "items": old}, {"type": "array", "items": new})):
        reason = find_lost_meaning(build_record(("a", before)), build_record(("a", after)))
        assert bool(reason) == bool(said), reason
        assert said in reason


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("string", "int", "was a string and is an int"),
        (["null", "string"], ["null", "int"], "was a string and is an int"),
        ("int", {"type": "array", "items": "int"}, "was an int and is an array"),
        (INNER, "string", "was a record and is a string"),
        ("double", "float", "was a double and is a float"),
        ("int", "long", ""),
        ("long", "int", ""),  # read where it fits
        ("string", "bytes", ""),
        (["null", "string", "int"], ["null", "string"], ""),
    ],
    ids=str,
)
def test_field_whose_type_avro_does_not_read_as_the_newer_one_is_named(old: Any, new: Any, said: str) -> None:
    for before, after in ((old, new), ({"type": "map", "values": old}, {"type": "map", "values": new})):
        versions = {1: build_record(("a", before)), 2: build_record(("a", after))}
        decoding = plan_decoding(versions[2], versions)
        assert decoding.changed == ({"1": f"field a {said}"} if said else {})
        assert (decoding.refused, list(decoding.writers)) == ({}, ["1", "2"])  # a null may be read all the same


def test_named_members_of_a_union_are_compared_by_their_names() -> None:
    def union(first: str, second: str, other: str = "timestamp-micros") -> Any:
        members = {
            "A": build_record(("at", build_time_type("timestamp-micros")), name="A"),
            "B": build_record(("at", build_time_type(other)), name="B"),
        }
        return build_record(("a", ["null", members[first], members[second]]))

    assert find_lost_meaning(union("A", "B"), union("B", "A")) == ""
    lost = find_lost_meaning(union("A", "B", "timestamp-millis"), union("B", "A"))
    assert lost == "field a.at was timestamp-millis and is timestamp-micros"


def test_symbol_that_the_latest_version_dropped_is_read_as_it_was_written() -> None:
    def version(symbols: list[str], *fields: str) -> Any:
        state = {"type": "enum", "name": "State", "symbols": symbols, "default": symbols[0]}
        types: list[Any] = [state, ["null", "shop.State"], {"type": "array", "items": ["string", "State"]}]
        return {**build_record(*zip(fields, types, strict=False), name="Order"), "namespace": "shop"}

    first, second = version(["a", "b"], "y"), version(["c", "a"], "x", "y")
    latest = version(["a", "d"], "x", "y", "z")  # its first field is not in the oldest version
    read = json.loads(plan_decoding(latest, {1: first, 2: second, 3: latest}).reader)
    assert read["fields"][0]["type"]["symbols"] == ["a", "d", "c", "b"]
    assert [f["type"] for f in read["fields"][1:]] == [
        ["null", "shop.State"], {"type": "array", "items": ["string", "shop.State"]}
    ]  # fmt: skip
    latest["fields"][0]["type"] |= {"name": "Condition", "aliases": ["State"]}
    for field in latest["fields"][1:]:
        field["type"] = "Condition"
    renamed = restore_dropped_fields(latest, [first])
    assert renamed["fields"][0]["type"]["symbols"] == ["a", "d", "b"]


def test_refused_version_has_no_writer_and_the_others_do() -> None:
    latest = build_record(("a", build_time_type("timestamp-micros")))
    decoding = plan_decoding(latest, {1: build_record(("a", build_time_type("timestamp-millis"))), 2: latest})
    assert (list(decoding.writers), list(decoding.refused)) == (["2"], ["1"])


def test_decoder_is_told_the_bare_number_of_what_the_product_converts_itself() -> None:
    record = build_record(
        ("a", ["null", build_time_type("timestamp-nanos")]), ("b", build_time_type("timestamp-micros"))
    )
    shown = simplify_types(record)
    assert [f["type"] for f in shown["fields"]] == [["null", {"type": "long"}], build_time_type("timestamp-micros")]


def test_decoder_reads_each_int_as_a_long_so_that_none_is_cut() -> None:
    day = {"type": "int", "logicalType": "date"}
    inner = {"type": "record", "name": "I", "fields": [{"name": "x", "type": "int"}]}
    lists = {"type": "array", "items": {"type": "map", "values": "int"}}
    more = (("d", inner), ("e", ["int", "long"]), ("f", ["string", "int"]))
    record = build_record(("a", "int"), ("b", ["null", day]), ("c", lists), *more)
    assert [f["type"] for f in simplify_types(record)["fields"]] == [
        "long", ["null", {"type": "long"}], {"type": "array", "items": {"type": "map", "values": "long"}},
        {**inner, "fields": [{"name": "x", "type": "long"}]}, ["int", "long"], ["string", "long"],
    ]  # fmt: skip


def test_decoder_reads_all_bytes_of_a_decimal_that_may_be_longer_than_a_long() -> None:
    def decimal(kind: str, **options: Any) -> dict[str, Any]:
        return {"type": kind, "logicalType": "decimal", "scale": 2, **options}

    small = decimal("fixed", precision=10, size=8, name="S")
    record = build_record(
        ("a", decimal("bytes", precision=10)), ("b", ["null", decimal("fixed", precision=18, size=9, name="F")]),
        ("c", small), ("d", decimal("bytes", precision=19)), ("e", decimal("bytes", precision=64)),
    )  # fmt: skip
    assert [f["type"] for f in simplify_types(record)["fields"]] == [
        decimal("bytes", precision=19), ["null", decimal("fixed", precision=19, size=9, name="F")],
        small, decimal("bytes", precision=19), decimal("bytes", precision=38),
    ]  # fmt: skip


def test_name_stands_for_the_type_of_its_namespace() -> None:
    def item(kind: str, **options: str) -> dict[str, Any]:
        return {"type": "record", "name": "Item", "fields": [{"name": "v", "type": kind}], **options}

    fields = (("x", item("int")), ("y", item("string", namespace="b")), ("z", "Item"), ("w", "b.Item"))
    kinds = ["INT", "STRING", "INT", "STRING"]
    for schema in ({**build_record(*fields), "namespace": "a"}, build_record(*fields)):
        decoding = plan_decoding(schema, {1: {**schema, "fields": schema["fields"][:3]}, 2: schema})
        assert [c.type for c in to_columns(schema)] == [f"STRUCT<`v`: {kind}>" for kind in kinds]
        assert to_columns(json.loads(decoding.reader)) == to_columns(schema)
        assert decoding.refused == {}
    plain = {**build_record(("x", item("int")), ("z", "Item")), "namespace": "a"}
    assert json.loads(plan_decoding(plain, {}).reader) == plain


def test_schema_gets_one_field_more_at_its_end_and_a_bare_value_becomes_a_record() -> None:
    ended = append_end_field(build_record(("a", "int")))
    assert [f["name"] for f in ended["fields"]] == ["a", END_FIELD]
    assert append_end_field("long")["fields"][0] == {"name": BARE_FIELD, "type": "long"}


def test_field_found_by_its_alias_counts_in_the_same_unit_or_its_version_is_refused() -> None:
    latest = build_record(("at", build_time_type("timestamp-micros")))
    latest["fields"][0]["aliases"] = ["created"]
    assert find_lost_meaning(build_record(("created", build_time_type("timestamp-micros"))), latest) == ""
    assert find_lost_meaning(build_record(("created", build_time_type("timestamp-millis"))), latest).startswith(
        "field at was "
    )


def list_field_names(schema: Any) -> list[str]:
    return [f["name"] for f in schema["fields"]]


def test_field_that_the_latest_version_dropped_is_read_as_an_optional_one() -> None:
    first = build_record(("id", "int"), ("gone", "string"), ("at", build_time_type("timestamp-micros")))
    second = build_record(("id", "int"), ("gone", ["string", "null"]), ("other", "long"))
    latest = build_record(("id", "int"))
    decoding = plan_decoding(latest, {1: first, 2: second, 3: latest})
    read = json.loads(decoding.reader)
    assert to_columns(read) == to_columns(
        build_record(
            ("id", "int"), ("gone", ["null", "string"]), ("other", "long"), ("at", build_time_type("timestamp-micros"))
        )
    )
    assert [f["default"] for f in read["fields"][1:]] == [None] * 3
    assert [f["type"][0] for f in read["fields"][1:]] == ["null"] * 3
    assert list(decoding.writers) == ["1", "2", "3"]
    assert restore_dropped_fields(latest, [latest]) is latest


def test_field_that_was_renamed_by_an_alias_was_not_dropped() -> None:
    latest = build_record(("name", "string"))
    latest["fields"][0]["aliases"] = ["title"]
    assert list_field_names(restore_dropped_fields(latest, [build_record(("title", "string"))])) == ["name"]
    assert list_field_names(restore_dropped_fields(latest, [build_record(("Title", "string"))])) == ["name", "Title"]


def test_field_that_was_respelled_without_an_alias_is_no_second_column_and_its_old_records_are_bad() -> None:
    """Spark would find neither of two names that differ in case, and Avro reads the old records' field as missing."""
    optional = ["null", "string"]

    def version(name: str, inner: str) -> Any:
        return build_record(("id", "int"), (name, optional), ("http", build_record((inner, optional), name="Http")))

    old, latest = version("Name", "Path"), version("name", "path")
    decoding = plan_decoding(latest, {1: old, 2: latest})
    assert json.loads(decoding.reader) == latest
    said = "field {} is {} in the latest version, without an alias for the other case"
    assert decoding.refused == {"1": said.format("Name", "name")}
    inside = plan_decoding(latest, {1: version("name", "Path"), 2: latest})
    assert inside.refused == {"1": said.format("http.Path", "http.path")}
    assert plan_decoding(latest, {1: old, 2: latest}, (), {"id", "http"}).refused == {"1": inside.refused["1"]}
    assert plan_decoding(latest, {1: old, 2: latest}, (), {"id"}).refused == {}
    latest["fields"][1]["aliases"] = ["Name"]
    latest["fields"][2]["type"]["fields"][0]["aliases"] = ["Path"]
    assert plan_decoding(latest, {1: old, 2: latest}).refused == {}


def test_respelled_field_of_a_change_event_is_found_in_its_row_alone() -> None:
    def event(name: str, source_name: str) -> Any:
        row = build_record(("id", "int"), (name, ["null", "string"]), name="Value")
        source = build_record((source_name, "string"), name="Source")
        return build_record(
            ("before", ["null", row]), ("after", ["null", "Value"]), ("source", source), ("op", "string")
        )

    latest = event("name", "db")
    versions = {1: event("Name", "db"), 2: event("name", "DB"), 3: build_record(("id", "int")), 4: latest}
    decoding = plan_decoding(latest, versions, (), {"id", "name"}, find_row_type)
    assert decoding.refused == {"1": "field Name is name in the latest version, without an alias for the other case"}
    assert plan_decoding(latest, versions, (), {"id"}, find_row_type).refused == {}


def test_older_version_is_read_where_only_a_field_that_no_column_reads_had_another_type_or_unit() -> None:
    """Each of its records was bad for a field that nobody takes."""
    from io import BytesIO

    import fastavro

    def version(kind: Any, *more: tuple[str, Any]) -> Any:
        row = build_record(("id", "int"), ("at", kind), *more, name="Value")
        return build_record(("before", ["null", row]), ("after", ["null", "Value"]), ("op", "string"))

    units = [build_time_type("timestamp-millis"), "string", {"type": "array", "items": "int"}, "long"]
    versions = {n: version(kind, ("AT" if n == 2 else "b", "string")) for n, kind in enumerate(units, 1)}
    versions[5] = version(build_time_type("timestamp-micros"))
    assert list(plan_decoding(versions[5], versions, (), None, find_row_type).refused) == ["1", "2", "3", "4"]
    decoding = plan_decoding(versions[5], versions, (), {"id"}, find_row_type)
    assert (decoding.refused, decoding.changed) == ({}, {})
    reader = json.loads(decoding.reader)
    assert list_field_names(find_row_type(reader)) == ["id"]
    for number, value in enumerate((7, "x", [1], 7, 7), 1):
        row = {"id": number, "at": value, "b": "", "AT": ""}
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, versions[number], {"before": None, "after": row, "op": "c"})
        buffer.seek(0)
        written = json.loads(decoding.writers[str(number)])
        read = fastavro.schemaless_reader(buffer, written, simplify_types(reader))
        assert read == {"before": None, "after": {"id": number}, "op": "c"}


def test_field_that_the_schema_has_in_two_cases_is_read_as_the_declared_column() -> None:
    both = build_record(("id", "int"), ("Name", "string"), ("name", "string"), ("NAME2", "string"))
    decoding = plan_decoding(both, {1: both}, (), frozenset({"id", "name"}))
    assert list_field_names(json.loads(decoding.reader)) == ["id", "name"]
    assert decoding.refused == {}


def test_fields_dropped_inside_of_a_change_event_are_found_in_before_and_after() -> None:
    def event(row: Any) -> Any:
        return {
            **build_record(("before", ["null", row]), ("after", ["null", "shop.Row"]), name="E"),
            "namespace": "shop",
        }

    state = {"type": "enum", "name": "State", "symbols": ["a"]}
    old, new = (
        build_record(("id", "int"), ("state", ["null", state]), name="Row"),
        build_record(("id", "int"), name="Row"),
    )
    read = restore_dropped_fields(event(new), [event(old)])
    assert [c.type for c in to_columns(read)] == ["STRUCT<`id`: INT, `state`: STRING>"] * 2
    assert json.dumps(read).count('"symbols"') == 1  # a type is defined once, or no parser takes the schema
    import fastavro

    fastavro.parse_schema(read)


@pytest.mark.parametrize("names", [("shipping", "billing"), ("billing", "shipping")])
def test_field_that_a_type_dropped_is_read_at_each_use_of_the_type(names: tuple[str, str]) -> None:
    """The older version uses the type once: the new use, if it came first, took the dropped field from the old one."""
    street, dropped = ("street", "string"), ("zip", "string")

    def version(*names: str, fields: list[tuple[str, Any]]) -> Any:
        uses: list[Any] = [build_record(*fields, name="Address"), ["null", "Address"]]
        return build_record(("id", "int"), *zip(names, uses, strict=False))

    old, latest = version("billing", fields=[street, dropped]), version(*names, fields=[street])
    read = restore_dropped_fields(latest, [old])
    assert [c.type for c in to_columns(read)] == ["INT", *["STRUCT<`street`: STRING, `zip`: STRING>"] * 2]
    assert json.dumps(read).count('"zip"') == 1
    import fastavro

    fastavro.parse_schema(read)


def test_dropped_fields_are_found_in_the_records_of_a_union() -> None:
    def version(*fields: tuple[str, Any]) -> Any:
        return build_record(("a", ["null", build_record(("x", "int"), name="A"), build_record(*fields, name="B")]))

    read = restore_dropped_fields(version(("y", "int")), [version(("y", "int"), ("z", "long"))])
    assert to_columns(read)[0].type == "STRUCT<`member0`: STRUCT<`x`: INT>, `member1`: STRUCT<`y`: INT, `z`: BIGINT>>"


def test_dropped_fields_are_found_in_lists_and_maps() -> None:
    def nested(*fields: tuple[str, Any]) -> Any:
        line = build_record(*fields, name="Line")
        return build_record(("a", {"type": "array", "items": line}), ("m", {"type": "map", "values": ["null", "Line"]}))

    read = restore_dropped_fields(nested(("x", "int")), [nested(("x", "int"), ("y", "long"))])
    line = "STRUCT<`x`: INT, `y`: BIGINT>"
    assert [c.type for c in to_columns(read)] == [f"ARRAY<{line}>", f"MAP<STRING, {line}>"]


@pytest.mark.parametrize(
    "numbers", [[build_time_type("timestamp-micros"), "int"], ["long", {"type": "int", "logicalType": "date"}]]
)
def test_union_of_numbers_that_spark_reads_as_one_is_refused_where_they_mean_different_things(numbers: Any) -> None:
    with pytest.raises(ConfigurationError, match="cannot be distinguished"):
        to_columns(build_record(("a", numbers)))


def test_decimal_beyond_a_tables_precision_is_read_with_the_highest_and_one_of_such_a_scale_is_refused() -> None:
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 4}
    assert to_columns(build_record(("a", wide)))[0].type == "DECIMAL(38,4)"
    assert simplify_types(build_record(("a", ["null", wide])))["fields"][0]["type"][1]["precision"] == 38
    with pytest.raises(ConfigurationError, match="beyond a table's"):
        to_columns(build_record(("a", {**wide, "scale": 39})))


def test_names_are_known_in_full_and_short() -> None:
    names = collect_named_types({**build_record(("a", INNER)), "namespace": "shop"})
    assert {"R", "shop.R", "Inner", "shop.Inner"} <= set(names)
