"""From a topic to a table: `init` writes a file that `validate` accepts, and a flush with it equals what was sent."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pytest
from fuzz_seeds import encode_avro
from protobuf_messages import build_classes, build_file, build_message
from protobuf_messages import build_field as proto_field
from schema_registry import SchemaRegistry

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
NTZ = AT.replace(tzinfo=None)
MICROS = int(AT.timestamp()) * 10**6 + AT.microsecond


@dataclass
class Case:
    """Records of one topic, each with its partition, and the rows that the table must hold."""

    records: list[tuple[Any, Any, int]]
    rows: list[dict[str, Any]]
    says: tuple[str, ...] = ()  # what the summary must not leave out
    words: tuple[str, ...] = ()
    columns: tuple[str, ...] = field(default=())


def dump(data: Any) -> bytes:
    return json.dumps(data).encode()


def make_json_case() -> Case:
    def build_row(n: int) -> dict[str, Any]:
        return {
            "id": n, "name": f"Zoë {n}", "score": n + 0.5, "at": "2026-01-02T03:04:05.678901Z", "day": "2026-01-02",
            "part": {"a.b": n, "Order": None}, "tags": ["x", None], "none": None, "mixed": "x" if n % 2 else n,
            "big": 2**63 + n, "price": f"{n}.50", "on": n % 2 == 0, "seen_ms": 1767323045000,
        }  # fmt: skip

    def build_stored_row(n: int) -> dict[str, Any]:
        more = {"at": AT, "day": date(2026, 1, 2), "big": Decimal(2**63 + n), "mixed": "x" if n % 2 else str(n)}
        return {**build_row(n), **more}

    records = [({"id": n}, build_row(n), n % 2) for n in range(1, 7)] + [({"id": 2}, None, 0)]
    messages = (
        "value.schema none: only null was seen",
        "value.schema mixed: integers and texts",
        "seen_ms: may be a time",
    )
    return Case(records, [build_stored_row(n) for n in (1, 3, 4, 5, 6)], (*messages, "only 7 records"))


def build_event(op: str, n: int, **row: Any) -> dict[str, Any]:
    image = {"id": n, **row}
    state = {"before": image, "after": None} if op == "d" else {"before": None, "after": image}
    return {**state, "op": op, "ts_ms": 1, "source": {"table": "orders"}}


def make_debezium_case() -> Case:
    changes = [("c", 1, "a"), ("c", 2, "b"), ("u", 1, "c"), ("c", 3, "d"), ("d", 2, "b")]
    records = [({"id": n}, build_event(op, n, name=name), n % 2) for op, n, name in changes]
    return Case([*records, ({"id": 2}, None, 0)], [{"id": 1, "name": "c"}, {"id": 3, "name": "d"}])


def make_debezium_schema_case() -> Case:
    def describe_field(name: str, kind: str, logical: str = "", **more: str) -> dict[str, Any]:
        return {"field": name, "type": kind, "optional": True, **({"name": logical} if logical else {}),
                **({"parameters": more} if more else {})}  # fmt: skip

    row = [
        describe_field("id", "int64"), describe_field("day", "int32", "io.debezium.time.Date"),
        describe_field("at", "int64", "io.debezium.time.MicroTimestamp"),
        describe_field("zoned", "string", "io.debezium.time.ZonedTimestamp"),
        describe_field("amount", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2",
            **{"connect.decimal.precision": "12"}),
    ]  # fmt: skip
    schema = {"type": "struct", "fields": [
        {"field": "before", "type": "struct", "fields": row}, {"field": "after", "type": "struct", "fields": row},
    ]}  # fmt: skip
    key_schema = {"type": "struct", "fields": [describe_field("id", "int64")]}

    def build_record(op: str, n: int) -> tuple[Any, Any, int]:
        values = {"day": 20455, "at": MICROS, "zoned": "2026-01-02T03:04:05.678901Z", "amount": "MDk="}
        return (
            {"schema": key_schema, "payload": {"id": n}},
            {"schema": schema, "payload": build_event(op, n, **values)},
            n % 2,
        )

    stored = {"day": date(2026, 1, 2), "at": NTZ, "zoned": AT, "amount": Decimal("123.45")}
    return Case([build_record("c", 1), build_record("r", 2), build_record("d", 1)], [{"id": 2, **stored}])


def make_canal_case() -> Case:
    types = {"id": "bigint unsigned", "name": "varchar(9)", "amount": "decimal(12,2)", "at": "datetime(6)"}

    def build_record(kind: str, *ids: int) -> tuple[Any, Any, int]:
        rows = [{"id": str(n), "name": f"n{n}", "amount": "7.50", "at": "2026-01-02 03:04:05.678901"} for n in ids]
        envelope = {"type": kind, "isDdl": False, "pkNames": ["id"], "mysqlType": types, "table": "t", "database": "d"}
        return None, {"data": rows, "old": None, "es": 1, "ts": 1, **envelope}, ids[0] % 2

    stored = {"name": "n1", "amount": Decimal("7.50"), "at": NTZ}
    large = {"id": Decimal(2**64 - 1), "name": f"n{2**64 - 1}", "amount": Decimal("7.50"), "at": NTZ}
    records = [build_record("INSERT", 1, 3), build_record("INSERT", 2**64 - 1), build_record("DELETE", 3)]
    return Case(records, [{"id": Decimal(1), **stored}, large])


def make_maxwell_case() -> Case:
    def build_record(kind: str, n: int, name: str) -> tuple[Any, Any, int]:
        key = {"database": "d", "table": "t", "pk.id": n}
        envelope = {"database": "d", "table": "t", "type": kind, "ts": 1_700_000_000, "xid": 1, "commit": True}
        return key, {**envelope, "data": {"id": n, "name": name}}, n % 2

    records = [
        build_record("insert", 1, "a"),
        build_record("insert", 2, "b"),
        build_record("update", 2, "c"),
        build_record("delete", 1, "a"),
    ]
    return Case(records, [{"id": 2, "name": "c"}])


def make_golden_gate_case() -> Case:
    envelope = {"table": "S.T", "op_ts": "2026-01-02 03:04:05.678901", "pos": "1", "primary_keys": ["ID"]}

    def build_record(op: str, n: int, before: Any, after: Any) -> tuple[Any, Any, int]:
        return f"k{n}", {**envelope, "op_type": op, "before": before, "after": after}, n % 2

    row = {"ID": 1, "NAME": "a", "AT": "2026-01-02 03:04:05.678901"}
    records = [
        build_record("I", 1, None, row), build_record("I", 2, None, {**row, "ID": 2}),
        build_record("U", 1, row, {**row, "NAME": "b"}), build_record("D", 2, {"ID": 2}, None),
    ]  # fmt: skip
    return Case(records, [{"ID": 1, "NAME": "b", "AT": NTZ}])


def make_csv_case() -> Case:
    records = [(str(n), f'{n},"a, {n}",{n}.5,2026-01-02,true', n % 2) for n in (1, 2, 3)] + [("3", None, 1)]
    rows = [{"c1": n, "c2": f"a, {n}", "c3": n + 0.5, "c4": date(2026, 1, 2), "c5": True} for n in (1, 2)]
    return Case(records, rows, ("taken for CSV without names",))


def make_msgpack_case() -> Case:
    def build_record(n: int) -> tuple[Any, Any, int]:
        row = {"id": n, "at": msgpack.Timestamp(MICROS // 10**6, AT.microsecond * 1000), "raw": b"\x00\xff", "f": 0.1}
        return msgpack.packb({"id": n}), msgpack.packb(row), n % 2

    rows = [{"id": n, "at": AT, "raw": b"\x00\xff", "f": 0.1} for n in (1, 2)]
    return Case([build_record(1), build_record(2)], rows)


def make_text_case() -> Case:
    records = [("k-1", "Hello, wörld", 0), ("k-2", "another", 1), ("k-1", "again", 0)]
    rows = [{"key": "k-1", "value": "again"}, {"key": "k-2", "value": "another"}]
    return Case(records, rows, ("a bare value without a name", "3 records have 2 keys"))


def make_raw_case() -> Case:
    records = [((n).to_bytes(8), b"\xff\x00" * n, n % 2) for n in (1, 2)]
    return Case(records, [{"key": n, "value": b"\xff\x00" * n} for n in (1, 2)], ("taken for a number",))


def make_keyless_case() -> Case:
    records = [(None, {"id": n % 2, "what": "x"}, n % 2) for n in range(4)]
    return Case(records, [{"id": n % 2, "what": "x"} for n in (0, 2, 1, 3)], ("no key in",))


def make_key_in_value_case() -> Case:
    records = [(None, {"id": n % 2, "what": n}, n % 2) for n in range(4)]
    return Case(records, [{"id": 0, "what": 2}, {"id": 1, "what": 3}], words=("--key", "id"))


def make_clashing_key_case() -> Case:
    records = [({"id": f"{n}", "Other": 1}, {"id": n, "other": 2}, n % 2) for n in (1, 2)]
    rows = [{"key_id": f"{n}", "key_Other": 1, "id": n, "other": 2} for n in (1, 2)]
    return Case(records, rows, ("the key's columns are called key_",))


PLAIN: dict[str, Callable[[], Case]] = {
    make_case.__name__.removeprefix("make_").removesuffix("_case"): make_case
    for make_case in (
        make_json_case,
        make_debezium_case,
        make_debezium_schema_case,
        make_canal_case,
        make_maxwell_case,
        make_golden_gate_case,
        make_csv_case,
        make_msgpack_case,
        make_text_case,
        make_raw_case,
        make_keyless_case,
        make_key_in_value_case,
        make_clashing_key_case,
    )
}


def sort_rows(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, default=repr, sort_keys=True))


def check(workbench: Any, name: str, topic: str, case: Case) -> None:
    """Write the file, have it validated, flush, and compare."""
    workbench.produce(topic, *((key, value, {"partition": at}) for key, value, at in case.records))
    process = workbench.run_cli("init", "--topic", topic, "--to", f"lake.shop.{name}", "--yes", *case.words)
    assert process.returncode == 0, process.stderr
    file = (workbench.include / "pipelines" / f"{name}.yaml").read_text()
    validated = workbench.run_cli("validate")
    assert validated.returncode == 0, validated.stdout + file
    for message in case.says:
        assert message in process.stdout, f"{message}: {process.stdout}"
    flushed = workbench.run_cli("flush", name)
    assert flushed.returncode == 0, flushed.stderr + file
    assert sort_rows(workbench.read_rows(f"shop.{name}")) == sort_rows(case.rows), file


# what is proposed is checked without servers; these formats are flushed in tests of their own
@pytest.mark.repeats(
    "unit/tidegate/sampling/test_proposal.py::test_format_is_recognised_and_its_file_is_valid",
    "maxwell",
    "golden_gate",
    "debezium_schema",
    "debezium",
    "canal",
    "csv",
    "msgpack",
    "text",
    "raw",
)
@pytest.mark.repeats("unit/tidegate/sampling/test_proposal.py::test_key_by_its_look", "clashing_key", "keyless")
@pytest.mark.repeats(
    "unit/tidegate/sampling/test_proposal.py::test_key_that_is_named_is_taken_from_the_value", "key_in_value"
)
@pytest.mark.parametrize("name", PLAIN)
def test_flush_of_the_file_that_init_wrote_equals_what_was_sent(workbench, name) -> None:
    check(workbench, name, workbench.topic(2), PLAIN[name]())


@pytest.mark.repeats(
    "unit/tidegate/sampling/test_proposal.py::test_topic_of_a_database_is_a_table_for_each_source_table_with_its_own_columns_and_key"
)
def test_file_for_a_topic_of_a_whole_database_flushes_past_every_other_table(workbench) -> None:
    """Maxwell's default: columns of one name and two types, another key, its own rows; and a table that came later."""
    topic = workbench.topic(2)

    def build_record(table: str, kind: str, database: str = "shop", **row: Any) -> tuple[Any, Any, dict[str, int]]:
        name, value = next(iter(row.items()))
        message = {"database": database, "table": table, "type": kind, "ts": 1_700_000_000, "xid": 1, "data": row}
        place = {"partition": len(str(value)) % 2}
        return {"database": database, "table": table, f"pk.{name}": value}, message, place

    workbench.produce(
        topic,
        build_record("Orders", "insert", id=1, status=1),
        build_record("payments", "insert", ref="a", status="paid"),
        build_record("bootstrap", "insert", database="maxwell", id=1, table_name="payments"),
        build_record("payments", "bootstrap-insert", ref="bb", status="open"),
        build_record("Orders", "update", id=1, status=2),
    )
    process = workbench.run_cli("init", "--topic", topic, "--to", "lake.shop.all", "--name", "database", "--yes")
    assert process.returncode == 0, process.stderr
    file = (workbench.include / "pipelines" / "database.yaml").read_text()
    workbench.flush("database")
    workbench.produce(
        topic,
        build_record("payments", "delete", ref="a", status="paid"),
        build_record("stock", "insert", sku="x", status={"a": 1}),
        build_record("Orders", "insert", id=22, status=None),
        build_record("bootstrap", "update", database="maxwell", id=1, table_name="payments", is_complete=1),
    )
    workbench.flush("database")
    rows = {name: workbench.read_rows(f"shop.{name}") for name in ("Orders", "payments")}
    assert sorted((row["id"], row["status"]) for row in rows["Orders"]) == [(1, 2), (22, None)], file
    assert [(row["ref"], row["status"]) for row in rows["payments"]] == [("bb", "open")], file


ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
]}  # fmt: skip
KEY = {"type": "record", "name": "Key", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
CHANGE = {"type": "record", "name": "Change", "fields": [
    {"name": "before", "type": ["null", ORDER]}, {"name": "after", "type": ["null", "shop.Order"]},
    {"name": "op", "type": "string"},
]}  # fmt: skip


class Registering:
    """Registers Avro schemas and writes records behind their ids."""

    def __init__(self, registry: SchemaRegistry) -> None:
        self.registry = registry

    def encode(self, subject: str, schema: Any, data: Any) -> bytes:
        number = self.registry.register(subject, {"schema": json.dumps(schema)})
        return b"\x00" + number.to_bytes(4) + encode_avro(schema, data)[0]


def build_row(n: int, name: str | None) -> dict[str, Any]:
    return {"id": n, "name": name, "at": MICROS}


def build_stored_row(n: int, name: str | None) -> dict[str, Any]:
    return {"id": n, "name": name, "at": AT}


def test_registered_avro_takes_its_columns_and_its_key_from_the_registry(workbench, registry) -> None:
    topic, encoder = workbench.topic(2), Registering(registry)
    records = [(encoder.encode(f"{topic}-key", KEY, {"id": n}),
                None if name == "-" else encoder.encode(f"{topic}-value", ORDER, build_row(n, name)), n % 2)
               for n, name in ((1, "a"), (2, None), (3, "c"), (3, "-"))]  # fmt: skip
    words = ("--registry", registry.url)
    check(workbench, "orders", topic, Case(records, [build_stored_row(1, "a"), build_stored_row(2, None)], words=words))


@pytest.mark.repeats("unit/tidegate/sampling/test_proposal.py::test_id_of_a_schema_is_found_wherever_it_lies")
def test_registered_change_events_and_a_bare_key_of_record_names(workbench, registry) -> None:
    topic, encoder = workbench.topic(2), Registering(registry)
    key = [encoder.encode(f"{topic}-key", KEY, {"id": n}) for n in (0, 1, 2)]
    changes = [(1, "c", build_row(1, "a")), (2, "c", build_row(2, "b")), (2, "u", build_row(2, "c")), (1, "d", None)]
    records = [
        (key[n], encoder.encode(f"{topic}-value", CHANGE, {"before": None, "after": after, "op": op}), n % 2)
        for n, op, after in changes
    ]
    words = ("--registry", registry.url)
    check(workbench, "changes", topic, Case(records, [build_stored_row(2, "c")], words=words))

    named = workbench.topic(2)
    records = [(f"k{n}", encoder.encode("shop.Order", ORDER, build_row(n, "x")), n % 2) for n in (1, 2)]
    messages = ("subjects are record types: shop.Order",)
    rows = [{"key": f"k{n}", **build_stored_row(n, "x")} for n in (1, 2)]
    check(workbench, "named", named, Case(records, rows, messages, words))


@pytest.mark.repeats("unit/tidegate/sampling/test_proposal.py::test_id_of_a_schema_is_found_wherever_it_lies")
def test_registered_messages_and_objects(workbench, registry) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import SerializationContext

    client, words = SchemaRegistryClient({"url": registry.url}), ("--registry", registry.url)
    other = build_message("Other", proto_field("id", 1, "int64"))
    order = build_message("Order", proto_field("id", 1, "int64"), proto_field("name", 2, "string"))
    message_class = build_classes(build_file(other, order))["shop.Order"]
    topic = workbench.topic(2)
    write = ProtobufSerializer(message_class, client)
    records = [
        (str(n), write(message_class(id=n, name="x"), SerializationContext(topic, "value")), n % 2) for n in (1, 2)
    ]
    rows = [{"key": f"{n}", "id": n, "name": "x"} for n in (1, 2)]
    check(workbench, "messages", topic, Case(records, rows, ("a bare value without a name",), words))

    topic = workbench.topic(2)
    schema = {"title": "O", "type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    put = JSONSerializer(json.dumps(schema), client)
    records = [({"id": n}, put({"id": n, "name": "x"}, SerializationContext(topic, "value")), n % 2) for n in (1, 2)]
    check(workbench, "objects", topic, Case(records, [{"id": n, "name": "x"} for n in (1, 2)], words=words))


def list_traces(workbench: Any, topic: str) -> tuple[set[str], set[str]]:
    """Groups with an offset of the topic, and topics that are named after it: other tests have their own."""
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    groups = [group.group_id for group in workbench.admin.list_consumer_groups().result(30).valid]
    partitions = [TopicPartition(topic, number) for number in range(2)]
    offsets = {
        group: workbench.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)])[
            group
        ].result(30)
        for group in groups
    }
    committed = {
        group
        for group, result in offsets.items()
        if any(partition.offset >= 0 for partition in result.topic_partitions)
    }
    return committed, {
        name for name in workbench.admin.list_topics(timeout=30).topics if re.fullmatch(rf"{topic}(\D.*)?", name)
    }


def init(workbench: Any, topic: str, *words: str) -> Any:
    return workbench.run_cli("init", "--topic", topic, "--to", "lake.shop.t", *words)


def test_sampling_leaves_no_group_no_topic_and_no_file_behind(workbench) -> None:
    topic = workbench.topic(2)
    workbench.produce(topic, *(({"id": n}, {"id": n}, {"partition": n % 2}) for n in range(3)))
    process = init(workbench, topic, "--print")
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("# Proposed by")
    assert "CHECK" in process.stderr
    unanswered = init(workbench, topic)  # nobody answers
    assert (unanswered.returncode, "nothing was written" in unanswered.stderr) == (1, True)
    missing = init(workbench, f"{topic}x", "--yes")
    assert (missing.returncode, f"no such topic; there are: {topic}" in missing.stderr) == (1, True)
    assert list_traces(workbench, topic) == (set(), {topic})
    assert not list((workbench.include / "pipelines").iterdir())


@pytest.mark.repeats("unit/tidegate/cli/test_init.py::test_no_answer_writes_nothing_and_says_so_to_programs_too")
def test_file_that_is_there_is_kept_unless_force_is_given(workbench) -> None:
    topic = workbench.topic(2)
    workbench.produce(topic, ({"id": 1}, {"id": 1}))
    path = workbench.include / "pipelines" / "t.yaml"
    path.write_text("mine")
    process = init(workbench, topic, "--yes")
    assert (process.returncode, path.read_text()) == (1, "mine")
    refusal = (
        "t.yaml: it is there already, and nothing was written; choose another name with --name, or replace it with"
    )
    assert f"{refusal} --force" in process.stderr
    report = json.loads(init(workbench, topic, "--yes", "--force", "--json").stdout)
    assert (report["done"], report["yaml"], report["valid"]) == (True, path.read_text(), True)
    assert report["tables"][0]["columns"] == [{"name": "id", "type": "BIGINT"}]


@pytest.mark.repeats("unit/tidegate/cli/test_init.py::test_missing_topic_and_broken_words_are_refused")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--to", "lake.t"), None),
        (("--to", "sea.shop.t"), "catalog=sea is not in catalogs.yaml; there are: lake; declare it there first"),
        (("--to", "t"), "--to=t: not a table; write <catalog>.<namespace>.<table>"),
        (("--to", "lake.shop.t", "--name", "No"), "name=No: no name of a pipeline"),
        (("--to", "lake.shop.t", "--registry", "http://u:secret@h"), "--registry has a login"),
        (("--to", "lake.shop.t", "--kafka", "none_such"), "connection=none_such: not found"),
        (("--to", "lake.shop.t", "--kafka", "u:secret@h:9092"), "--kafka has a login"),
        (("--to", "lake.shop.t", "--topic", "other"), "one table for 2 topics"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_read(workbench, words, message) -> None:
    topic = workbench.topic(2)
    workbench.produce(topic, ({"id": 1}, {"id": 1}))
    process = workbench.run_cli("init", "--topic", topic, "--yes", *words)
    assert process.returncode == (1 if message else 0), process.stderr
    assert message is None or message in process.stderr
    assert "secret" not in process.stderr


@pytest.mark.repeats("unit/tidegate/cli/test_init.py::test_missing_topic_and_broken_words_are_refused")
def test_brokers_that_are_down_are_said_in_seconds(workbench) -> None:
    import time

    begun = time.monotonic()
    process = workbench.run_cli("init", "--topic", "t", "--to", "lake.shop.t", "--kafka", "localhost:1", "--yes")
    assert (process.returncode, "Kafka address=localhost:1 took no connection" in process.stderr) == (
        1,
        True,
    )
    assert time.monotonic() - begun < 10


@pytest.mark.repeats("unit/tidegate/sampling/test_proposal.py::test_nothing_but_tombstones_gives_up_with_a_way_out")
def test_topic_without_records_says_what_to_do(workbench) -> None:
    empty, aborted, deleted = workbench.topic(2), workbench.topic(2), workbench.topic(2)
    workbench.transaction(aborted, ({"id": 1}, {"id": 1}), commit=False)
    workbench.produce(deleted, ({"id": 1}, None, {"partition": 1}))
    for topic, message in (
        (empty, "is empty, so there is nothing to learn its format from; produce some records"),
        (aborted, "offsets are there and no record was found"),
        (deleted, "all of 1 record of 1 partition are tombstones"),
    ):
        process = init(workbench, topic, "--yes")
        assert (process.returncode, message in process.stderr) == (1, True), process.stderr


@pytest.mark.repeats("test_transactions_compaction_and_large_records_are_read")
def test_records_of_both_ends_are_read_and_limits_hold(workbench) -> None:
    topic = workbench.topic(2)
    middle = [({"id": n}, {"id": n, "middle": "x" * 1000}, {"partition": n % 2}) for n in range(200)]
    workbench.produce(topic, *(({"id": n}, {"id": n, "old": 1}, {"partition": n % 2}) for n in range(20)))
    workbench.produce(topic, *middle)
    workbench.produce(topic, *(({"id": n}, {"id": n, "new": 1}, {"partition": n % 2}) for n in range(20)))
    report = json.loads(init(workbench, topic, "--yes", "--json", "--records", "40", "--print").stdout)
    (table,) = report["tables"]
    assert [column["name"] for column in table["columns"]] == ["id", "old", "new"]
    assert (table["partitions"], table["records"], table["offsets"]) == (2, 40, 240)
    all_of_them = json.loads(init(workbench, topic, "--yes", "--json", "--print").stdout)["tables"][0]
    assert (all_of_them["records"], len(all_of_them["columns"])) == (240, 4)


def test_transactions_compaction_and_large_records_are_read(workbench) -> None:
    topic = workbench.topic(2, **{"cleanup.policy": "compact", "max.message.bytes": "5000000"})
    for n in range(3):
        workbench.transaction(topic, ({"id": n}, {"id": n, "text": "x" * 900_000}))
    workbench.transaction(topic, ({"id": 9}, {"id": 9, "aborted": 1}), commit=False)
    process = init(workbench, topic, "--print", "--json")
    assert process.returncode == 0, process.stderr
    (table,) = json.loads(process.stdout)["tables"]
    assert [column["name"] for column in table["columns"]] == ["id", "text"]
    assert (table["records"], table["offsets"]) == (3, 8)


@pytest.mark.repeats("unit/tidegate/cli/test_init.py::test_dry_run_takes_the_newest_records_of_each_partition_by_turns")
def test_dry_run_shows_what_a_flush_would_make_of_ten_records_and_writes_nothing(workbench) -> None:
    topic = workbench.topic(2)
    workbench.produce(
        topic, *(({"id": n}, {"id": n, "at": "2026-01-01T00:00:00Z"}, {"partition": n % 2}) for n in (1, 2, 3))
    )
    workbench.produce(topic, ({"id": 4}, "poison"), ({"id": 1}, None, {"partition": 1}))
    process = init(workbench, topic, "--dry-run")
    assert process.returncode == 0, process.stderr
    assert f"{topic}:0:1 lake.shop.t bad: " in process.stdout
    assert f"{topic}:1:2 lake.shop.t delete" in process.stdout
    assert f"{topic}:0:0 lake.shop.t row " in process.stdout
    assert "2026-01-01" in process.stdout
    assert "nothing was written" in process.stdout
    assert not list((workbench.include / "pipelines").iterdir())
    assert not workbench.exists("shop.t")


@pytest.mark.repeats("unit/tidegate/sampling/test_proposal.py::test_several_topics_have_a_table_each")
def test_several_topics_get_a_table_each_and_land(workbench) -> None:
    first, second = workbench.topic(2), workbench.topic(2)
    workbench.produce(first, ({"id": 1}, {"id": 1}), ({"id": 2}, {"id": 2}, {"partition": 1}))
    workbench.produce(second, (None, "a,1"), (None, "b,2", {"partition": 1}))
    process = workbench.run_cli(
        "init", "--topic", first, "--topic", second, "--to", "lake.shop", "--name", "both", "--yes"
    )
    assert process.returncode == 0, process.stderr
    assert workbench.run_cli("validate").returncode == 0
    assert workbench.run_cli("flush", "both").returncode == 0
    names = [topic.replace("-", "_") for topic in (first, second)]
    assert workbench.read_rows(f"shop.{names[0]}") == [{"id": 1}, {"id": 2}]
    assert workbench.read_rows(f"shop.{names[1]}") == [{"c1": "a", "c2": 1}, {"c1": "b", "c2": 2}]


@pytest.mark.repeats("unit/tidegate/sampling/test_proposal.py::test_id_of_a_schema_is_found_wherever_it_lies")
def test_values_behind_a_schema_id_without_a_registry_say_what_to_name(workbench, registry) -> None:
    topic = workbench.topic(2)
    workbench.produce(topic, ("k", b"\x00\x00\x00\x00\x07abc"))
    for words, message in (
        ((), "its values stand behind the id of a schema (id=7); name the schema registry with --registry"),
        (("--registry", registry.url), "id=7: Subject or version not found"),
        (("--registry", "http://localhost:1"), "took no connection"),
    ):
        process = init(workbench, topic, "--yes", *words)
        assert (process.returncode, message in process.stderr) == (1, True), process.stderr


@pytest.mark.repeats("unit/tidegate/cli/test_init.py::test_no_answer_writes_nothing_and_says_so_to_programs_too")
def test_questions_are_asked_at_a_terminal(workbench, monkeypatch) -> None:
    import io
    import sys

    topic = workbench.topic(2)
    workbench.produce(topic, ({"id": 1}, {"id": 1}))

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    from tidegate.cli.main import main

    for name, value in workbench.build_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", Terminal(f"\n{topic}\nlake.app.users\nno\nyes\n"))
    assert main(["init"]) == 0
    assert "name: lake.app.users" in (workbench.include / "pipelines" / "users.yaml").read_text()
