"""Apicurio's schema registry as people run it: through Confluent's API, the default, and through its own."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from conftest import Workbench, wait_until
from protobuf_messages import build_classes, build_field, build_file, build_map_entry, build_message
from schema_writer import SchemaWriter

KEY = {"type": "record", "name": "Key", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
OLD = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "int"}, {"name": "name", "type": "string"},
]}  # fmt: skip
NEW = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None},
    {"name": "price", "type": ["null", PRICE], "default": None},
]}  # fmt: skip
AT = datetime(2026, 1, 1, 1, 2, 3, 456789, tzinfo=UTC)


class RegistryBench(Workbench):
    """A workbench whose connection `schema_registry_default` is the registry of a stack."""

    def __init__(self, shared: Workbench, registry: Any) -> None:
        super().__init__(shared.stack, shared.admin, shared._producer, shared.folder / "registered")
        self.registry = registry
        self.url = registry.variables["REGISTRY_URL"]

    def build_environment(self) -> dict[str, str]:
        name = "AIRFLOW_CONN_SCHEMA_REGISTRY_DEFAULT"
        return {**super().build_environment(), name: self.registry.variables[name]}


@pytest.fixture
def bench(workbench: Workbench, registry_stack: Any) -> RegistryBench:
    return RegistryBench(workbench, registry_stack)


Writers = Callable[[RegistryBench, str], SchemaWriter]


@pytest.fixture
def writers() -> Iterator[Writers]:
    """Makes writers of schemas, and ends them after the test."""
    with ExitStack() as open_:
        yield lambda bench, topic: open_.enter_context(SchemaWriter(bench.url, topic))


def write_orders(bench: RegistryBench, topic: str, *numbers: int) -> None:
    """Orders of two versions of the schema, over both partitions; the last one is deleted again."""
    records = []
    with SchemaWriter(bench.url, topic) as written:
        for n in numbers:
            old = n % 4 < 2
            value = {"id": n, "name": f"n{n}"} if old else {"id": n, "name": None, "price": Decimal(n)}
            records.append((written.write_avro(KEY, {"id": n}, "key"), written.write_avro(OLD if old else NEW, value)))
        bench.produce(topic, *records, (written.write_avro(KEY, {"id": numbers[-1]}, "key"), None))


def build_expected_orders(*numbers: int) -> list[dict[str, Any]]:
    rows = [
        {"id": n, "name": f"n{n}", "price": None} if n % 4 < 2 else {"id": n, "name": None, "price": Decimal(n)}
        for n in numbers
    ]
    return sorted(rows, key=lambda row: json.dumps(row, default=repr))


@pytest.mark.repeats(
    "integration/test_avro.py::test_three_schema_versions_in_one_range_are_each_decoded_with_their_own"
)
def test_avro_of_two_schema_ids_in_a_batch_gives_the_rows_that_were_written(bench: RegistryBench) -> None:
    topic = bench.topic()
    write_orders(bench, topic, *range(1, 9))
    bench.pipeline("orders", [topic], key={"format": "avro", "fields": ["id"]}, value={"format": "avro"})
    bench.flush("orders")
    assert bench.read_rows("shop.orders") == build_expected_orders(*range(1, 8))


# the real registry answers what the tests' own does; the one that keeps Protobuf as text is read without servers
@pytest.mark.repeats(
    "integration/test_avro.py::test_three_schema_versions_in_one_range_are_each_decoded_with_their_own"
)
def test_messages_are_read_whether_the_registry_keeps_them_serialized_or_as_text(
    bench: RegistryBench, writers: Writers
) -> None:
    """Register as confluent-kafka's serializer does, and as Java's. Asked for a serialized form, it returns its own."""
    topic = bench.topic()
    written = writers(bench, topic)
    money = build_message("Money", build_field("cents", 1, "int64"))
    old = build_message("Order", build_field("id", 1, "int64"), build_field("name", 2, "string"))
    new = build_message(
        "Order",
        build_field("id", 1, "int64"),
        build_field("name", 2, "string"),
        build_field("at", 3, ".google.protobuf.Timestamp"),
        build_field("lines", 4, ".shop.Money", repeated=True),
        build_field("marks", 5, ".shop.Order.MarksEntry", repeated=True),
        nested=(build_map_entry("MarksEntry", "string", "int32"),),
    )
    text = """syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto";
        message Order { int64 id = 1; string name = 2; google.protobuf.Timestamp at = 3; repeated Money lines = 4;
          map<string, int32> marks = 5; optional int32 more = 6; }
        message Money { int64 cents = 1; }"""
    before, after = (build_classes(build_file(order, money))["shop.Order"] for order in (old, new))
    key = build_classes(build_file(build_message("Key", build_field("id", 1, "int64")), name="key.proto"))["shop.Key"]
    full = {"id": 2, "name": "b", "at": AT, "lines": [{"cents": 5}], "marks": {"a": 1}}
    keys = [written.write_message(key(id=n), "key") for n in range(5)]
    bench.produce(topic, (keys[1], written.write_message(before(id=1, name="a"))),
                  (keys[2], written.write_message(after(**full))))  # fmt: skip
    number = written.register(text, "PROTOBUF")
    body = after(**{**full, "id": 3}).SerializeToString() + b"\x30\x07"
    bench.produce(topic, (keys[3], b"\x00" + number.to_bytes(4, "big") + b"\x00" + body),
                  (keys[4], written.write_message(after(id=4))), (keys[4], None))  # fmt: skip
    bench.pipeline("messages", [topic], key={"format": "protobuf", "fields": ["id"]}, value={"format": "protobuf"})
    bench.flush("messages")
    rows = {row["id"]: row for row in bench.read_rows("shop.messages")}
    assert sorted(rows) == [1, 2, 3]
    assert (rows[1]["name"], rows[1]["at"], rows[1]["more"]) == ("a", None, None)
    for number, more in ((2, None), (3, 7)):
        wanted = {**full, "id": number, "marks": [("a", 1)], "more": more}
        assert rows[number] == wanted


# the real registry answers what the tests' own does; the one that keeps Protobuf as text is read without servers
@pytest.mark.repeats(
    "integration/test_avro.py::test_three_schema_versions_in_one_range_are_each_decoded_with_their_own"
)
def test_objects_of_two_schemas_take_their_columns_from_the_registry(bench: RegistryBench, writers: Writers) -> None:
    topic = bench.topic()
    written = writers(bench, topic)
    key = {"title": "Key", "type": "object", "properties": {"id": {"type": "integer"}}}
    old = {"title": "Order", "type": "object", "properties": {**key["properties"], "name": {"type": "string"}}}
    new = {**old, "properties": {**old["properties"], "at": {"type": "string", "format": "date-time"}}}
    first = (written.write_object(key, {"id": 1}, "key"), written.write_object(old, {"id": 1, "name": "a"}))
    at = {"id": 2, "name": "b", "at": "2026-01-01T01:02:03.456789Z"}
    second = (written.write_object(key, {"id": 2}, "key"), written.write_object(new, at))
    bench.produce(topic, first, second)
    bench.pipeline(
        "objects",
        [topic],
        key={"format": "json", "json": {"registry": "schema_registry_default"}, "fields": ["id"]},
        value={"format": "json", "json": {"registry": "schema_registry_default"}},
    )
    bench.flush("objects")
    assert bench.read_rows("shop.objects") == [{"id": 1, "name": "a", "at": None}, {"id": 2, "name": "b", "at": AT}]


# the real registry answers what the tests' own does; the one that keeps Protobuf as text is read without servers
@pytest.mark.repeats(
    "integration/test_avro.py::test_three_schema_versions_in_one_range_are_each_decoded_with_their_own"
)
def test_file_that_init_writes_flushes_what_was_sent(bench: RegistryBench) -> None:
    topic = bench.topic()
    write_orders(bench, topic, *range(1, 9))
    process = bench.run_cli("init", "--topic", topic, "--to", "lake.shop.proposed", "--yes")
    assert process.returncode == 0, process.stderr
    (file,) = (bench.include / "pipelines").glob("*.yaml")
    assert "format: avro" in file.read_text()
    bench.flush(file.stem)
    assert bench.read_rows("shop.proposed") == build_expected_orders(*range(1, 8))


# the real registry answers what the tests' own does; the one that keeps Protobuf as text is read without servers
@pytest.mark.repeats(
    "integration/test_avro.py::test_three_schema_versions_in_one_range_are_each_decoded_with_their_own"
)
def test_records_of_a_deleted_version_are_still_read(bench: RegistryBench) -> None:
    topic = bench.topic()
    write_orders(bench, topic, 1, 2, 5, 6)
    with SchemaWriter(bench.url, topic) as written:
        written.client.delete_version(f"{topic}-value", 1)
    given = {"format": "avro"}
    bench.pipeline("deleted", [topic], key={**given, "fields": ["id"]}, value=given)
    bench.flush("deleted")
    assert bench.read_rows("shop.deleted") == build_expected_orders(1, 2, 5)


# the real registry answers what the tests' own does; the one that keeps Protobuf as text is read without servers
@pytest.mark.repeats(
    "integration/test_avro.py::test_three_schema_versions_in_one_range_are_each_decoded_with_their_own"
)
def test_own_api_gives_the_same_rows(bench: RegistryBench) -> None:
    topic = bench.topic()
    write_orders(bench, topic, *range(1, 9))
    own = {"registry": bench.url.replace("/apis/ccompat/v7", "/apis/registry/v3"), "use_id": "contentId"}
    bench.pipeline("own", [topic], key={"format": "avro", "avro": own, "fields": ["id"]},
                   value={"format": "avro", "avro": own})  # fmt: skip
    bench.flush("own")
    assert bench.read_rows("shop.own") == build_expected_orders(*range(1, 8))


# the real registry answers what the tests' own does; the one that keeps Protobuf as text is read without servers
@pytest.mark.repeats(
    "integration/test_avro.py::test_three_schema_versions_in_one_range_are_each_decoded_with_their_own"
)
def test_publications_register_what_they_produce_and_extend_it(bench: RegistryBench, writers: Writers) -> None:
    topic = bench.topic()
    client = writers(bench, topic).client
    value = {"schema": "id BIGINT, name STRING"}
    bench.pipeline("source", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value=value)
    bench.produce(topic, *(({"id": n}, {"id": n, "name": f"n{n}"}) for n in (1, 2)))
    bench.flush("source")
    (bench.include / "publications").mkdir(exist_ok=True)

    def publish(name: str, kind: str, sql: str) -> None:
        given = f"{{format: {kind}}}"
        text = f"table: lake.shop.source\ntopic: {topic}.{kind}\nkey: {{format: {kind}, fields: [id]}}\n"
        text += f"value: {given}\nsql: {sql}\n"
        (bench.include / "publications" / f"{name}.yaml").write_text(text)
        process = bench.run_cli("publish", name)
        assert process.returncode == 0, process.stderr

    for kind in ("avro", "protobuf"):
        publish(f"out_{kind}", kind, "SELECT id, name FROM {table}")
    assert client.get_versions(f"{topic}.protobuf-value") == [1]
    text = 'syntax = "proto3"; message Value { int64 id = 1; string name = 2; reserved 3 to 5; }'
    writers(bench, f"{topic}.text").register(text, "PROTOBUF")
    (bench.include / "publications" / "out_text.yaml").write_text(
        f"table: lake.shop.source\ntopic: {topic}.text\nkey: {{fields: [id]}}\nvalue: {{format: protobuf}}\n"
        "sql: SELECT id, name, length(name) AS size FROM {table}\n"
    )
    process = bench.run_cli("publish", "out_text")
    assert process.returncode == 0, process.stderr
    assert len(client.get_versions(f"{topic}.text-value")) == 2, "the registered text was extended"
    for kind in ("avro", "protobuf"):
        name = f"back_{kind}"
        bench.pipeline(name, [f"{topic}.{kind}"], key={"format": kind, "fields": ["id"]}, value={"format": kind})
        bench.flush(name)
        assert bench.read_rows(f"shop.{name}") == [{"id": n, "name": f"n{n}"} for n in (1, 2)]
    bench.pipeline("back_text", [f"{topic}.text"], key={"fields": ["id"]}, value={"format": "protobuf"})
    bench.flush("back_text")
    assert bench.read_rows("shop.back_text") == [{"id": n, "name": f"n{n}", "size": 2} for n in (1, 2)]


# the real registry answers what the tests' own does; the one that keeps Protobuf as text is read without servers
@pytest.mark.repeats(
    "integration/test_avro.py::test_three_schema_versions_in_one_range_are_each_decoded_with_their_own"
)
def test_doctor_finds_the_registry_well_and_a_missing_subject_by_its_name(bench: RegistryBench) -> None:
    topic = bench.topic()
    write_orders(bench, topic, 1, 2)
    bench.pipeline("orders", [topic], key={"format": "avro", "fields": ["id"]}, value={"format": "avro"})
    findings = json.loads(bench.run_cli("doctor", "--json", "--timeout", "120").stdout)["findings"]
    assert not [finding for finding in findings if finding["severity"] == "error"]
    assert "catalog.tables" in {finding["check"] for finding in findings}
    empty = bench.topic()
    bench.pipeline("orders", [empty], key={"format": "avro", "fields": ["id"]}, value={"format": "avro"})
    findings = json.loads(bench.run_cli("doctor", "--json", "--timeout", "120").stdout)["findings"]
    assert [finding["check"] for finding in findings if f"subject={empty}-" in finding["cause"]] == ["registry.schema"]


# the real registry answers what the tests' own does; the one that keeps Protobuf as text is read without servers
@pytest.mark.repeats(
    "integration/test_avro.py::test_three_schema_versions_in_one_range_are_each_decoded_with_their_own"
)
def test_registry_that_dies_is_one_sentence_and_the_next_flush_loses_nothing(bench: RegistryBench) -> None:
    topic = bench.topic()
    write_orders(bench, topic, *range(1, 5))
    bench.pipeline("orders", [topic], key={"format": "avro", "fields": ["id"]}, value={"format": "avro"})
    bench.flush("orders")
    write_orders(bench, topic, *range(5, 9))
    pid = int(bench.registry.variables["REGISTRY_PID"])
    os.kill(pid, signal.SIGKILL)
    process = bench.run_cli("flush", "orders")
    assert process.returncode == 1
    assert len(process.stderr.strip().splitlines()) == 1, process.stderr
    assert "registry=schema_registry_default" in process.stderr
    wait_until(lambda: bench.registry.variables.get("REGISTRY_PID", str(pid)) != str(pid), "the registry is back")
    wait_until(lambda: bench.run_cli("flush", "orders").returncode == 0, "a flush after it")
    assert bench.read_rows("shop.orders") == build_expected_orders(1, 2, 3, 5, 6, 7)
