"""From a topic to a table: `init` writes a file that `validate` accepts, and a flush with it equals what was sent."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgpack
import pytest
from fuzzing import avro
from protobuf_messages import a_file, classes, message
from protobuf_messages import field as proto_field
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


def plain_json() -> Case:
    def row(n: int) -> dict[str, Any]:
        return {
            "id": n, "name": f"Zoë {n}", "score": n + 0.5, "at": "2026-01-02T03:04:05.678901Z", "day": "2026-01-02",
            "part": {"a.b": n, "Order": None}, "tags": ["x", None], "none": None, "mixed": "x" if n % 2 else n,
            "big": 2**63 + n, "price": f"{n}.50", "on": n % 2 == 0, "seen_ms": 1767323045000,
        }  # fmt: skip

    def stored(n: int) -> dict[str, Any]:
        more = {"at": AT, "day": date(2026, 1, 2), "big": Decimal(2**63 + n), "mixed": "x" if n % 2 else str(n)}
        return {**row(n), **more}

    records = [({"id": n}, row(n), n % 2) for n in range(1, 7)] + [({"id": 2}, None, 0)]
    told = ("value.schema none: only null was seen", "value.schema mixed: integers and texts", "seen_ms: may be a time")
    return Case(records, [stored(n) for n in (1, 3, 4, 5, 6)], (*told, "only 7 records"))


def event(op: str, n: int, **row: Any) -> dict[str, Any]:
    image = {"id": n, **row}
    state = {"before": image, "after": None} if op == "d" else {"before": None, "after": image}
    return {**state, "op": op, "ts_ms": 1, "source": {"table": "orders"}}


def debezium() -> Case:
    changes = [("c", 1, "a"), ("c", 2, "b"), ("u", 1, "c"), ("c", 3, "d"), ("d", 2, "b")]
    records = [({"id": n}, event(op, n, name=name), n % 2) for op, n, name in changes]
    return Case([*records, ({"id": 2}, None, 0)], [{"id": 1, "name": "c"}, {"id": 3, "name": "d"}])


def debezium_with_schema() -> Case:
    def one(name: str, kind: str, logical: str = "", **more: str) -> dict[str, Any]:
        return {"field": name, "type": kind, "optional": True, **({"name": logical} if logical else {}),
                **({"parameters": more} if more else {})}  # fmt: skip

    row = [
        one("id", "int64"), one("day", "int32", "io.debezium.time.Date"),
        one("at", "int64", "io.debezium.time.MicroTimestamp"),
        one("zoned", "string", "io.debezium.time.ZonedTimestamp"),
        one("amount", "bytes", "org.apache.kafka.connect.data.Decimal", scale="2",
            **{"connect.decimal.precision": "12"}),
    ]  # fmt: skip
    schema = {"type": "struct", "fields": [
        {"field": "before", "type": "struct", "fields": row}, {"field": "after", "type": "struct", "fields": row},
    ]}  # fmt: skip
    key_schema = {"type": "struct", "fields": [one("id", "int64")]}

    def record(op: str, n: int) -> tuple[Any, Any, int]:
        values = {"day": 20455, "at": MICROS, "zoned": "2026-01-02T03:04:05.678901Z", "amount": "MDk="}
        return (
            {"schema": key_schema, "payload": {"id": n}},
            {"schema": schema, "payload": event(op, n, **values)},
            n % 2,
        )

    stored = {"day": date(2026, 1, 2), "at": NTZ, "zoned": AT, "amount": Decimal("123.45")}
    return Case([record("c", 1), record("r", 2), record("d", 1)], [{"id": 2, **stored}])


def canal() -> Case:
    types = {"id": "bigint unsigned", "name": "varchar(9)", "amount": "decimal(12,2)", "at": "datetime(6)"}

    def record(kind: str, *ids: int) -> tuple[Any, Any, int]:
        rows = [{"id": str(n), "name": f"n{n}", "amount": "7.50", "at": "2026-01-02 03:04:05.678901"} for n in ids]
        told = {"type": kind, "isDdl": False, "pkNames": ["id"], "mysqlType": types, "table": "t", "database": "d"}
        return None, {"data": rows, "old": None, "es": 1, "ts": 1, **told}, ids[0] % 2

    stored = {"name": "n1", "amount": Decimal("7.50"), "at": NTZ}
    large = {"id": Decimal(2**64 - 1), "name": f"n{2**64 - 1}", "amount": Decimal("7.50"), "at": NTZ}
    records = [record("INSERT", 1, 3), record("INSERT", 2**64 - 1), record("DELETE", 3)]
    return Case(records, [{"id": Decimal(1), **stored}, large])


def maxwell() -> Case:
    def record(kind: str, n: int, name: str) -> tuple[Any, Any, int]:
        key = {"database": "d", "table": "t", "pk.id": n}
        told = {"database": "d", "table": "t", "type": kind, "ts": 1_700_000_000, "xid": 1, "commit": True}
        return key, {**told, "data": {"id": n, "name": name}}, n % 2

    records = [record("insert", 1, "a"), record("insert", 2, "b"), record("update", 2, "c"), record("delete", 1, "a")]
    return Case(records, [{"id": 2, "name": "c"}])


def golden_gate() -> Case:
    told = {"table": "S.T", "op_ts": "2026-01-02 03:04:05.678901", "pos": "1", "primary_keys": ["ID"]}

    def record(op: str, n: int, before: Any, after: Any) -> tuple[Any, Any, int]:
        return f"k{n}", {**told, "op_type": op, "before": before, "after": after}, n % 2

    row = {"ID": 1, "NAME": "a", "AT": "2026-01-02 03:04:05.678901"}
    records = [
        record("I", 1, None, row), record("I", 2, None, {**row, "ID": 2}),
        record("U", 1, row, {**row, "NAME": "b"}), record("D", 2, {"ID": 2}, None),
    ]  # fmt: skip
    return Case(records, [{"ID": 1, "NAME": "b", "AT": NTZ}])


def lines() -> Case:
    records = [(str(n), f'{n},"a, {n}",{n}.5,2026-01-02,true', n % 2) for n in (1, 2, 3)] + [("3", None, 1)]
    rows = [{"c1": n, "c2": f"a, {n}", "c3": n + 0.5, "c4": date(2026, 1, 2), "c5": True} for n in (1, 2)]
    return Case(records, rows, ("lines have no names",))


def packed() -> Case:
    def record(n: int) -> tuple[Any, Any, int]:
        row = {"id": n, "at": msgpack.Timestamp(MICROS // 10**6, AT.microsecond * 1000), "raw": b"\x00\xff", "f": 0.1}
        return msgpack.packb({"id": n}), msgpack.packb(row), n % 2

    rows = [{"id": n, "at": AT, "raw": b"\x00\xff", "f": 0.1} for n in (1, 2)]
    return Case([record(1), record(2)], rows)


def text() -> Case:
    records = [("k-1", "Hello, wörld", 0), ("k-2", "another", 1), ("k-1", "again", 0)]
    rows = [{"key": "k-1", "value": "again"}, {"key": "k-2", "value": "another"}]
    return Case(records, rows, ("a bare value without a name", "3 records have 2 keys"))


def raw() -> Case:
    records = [((n).to_bytes(8), b"\xff\x00" * n, n % 2) for n in (1, 2)]
    return Case(records, [{"key": n, "value": b"\xff\x00" * n} for n in (1, 2)], ("taken for a number",))


def events_without_key() -> Case:
    records = [(None, {"id": n % 2, "what": "x"}, n % 2) for n in range(4)]
    return Case(records, [{"id": n % 2, "what": "x"} for n in (0, 2, 1, 3)], ("no key in",))


def values_that_name_the_key() -> Case:
    records = [(None, {"id": n % 2, "what": n}, n % 2) for n in range(4)]
    return Case(records, [{"id": 0, "what": 2}, {"id": 1, "what": 3}], words=("--key", "id"))


def clashing_key() -> Case:
    records = [({"id": f"{n}", "Other": 1}, {"id": n, "other": 2}, n % 2) for n in (1, 2)]
    rows = [{"key_id": f"{n}", "key_Other": 1, "id": n, "other": 2} for n in (1, 2)]
    return Case(records, rows, ("the key's columns are called key_",))


PLAIN: dict[str, Callable[[], Case]] = {
    made.__name__: made
    for made in (
        plain_json, debezium, debezium_with_schema, canal, maxwell, golden_gate, lines, packed, text, raw,
        events_without_key, values_that_name_the_key, clashing_key,
    )
}  # fmt: skip


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: json.dumps(row, default=repr, sort_keys=True))


def check(workbench: Any, name: str, topic: str, case: Case) -> None:
    """Write the file, have it validated, flush, and compare."""
    workbench.produce(topic, *((key, value, {"partition": at}) for key, value, at in case.records))
    made = workbench.cli("init", "--topic", topic, "--to", f"lake.shop.{name}", "--yes", *case.words)
    assert made.returncode == 0, made.stderr
    file = (workbench.include / "pipelines" / f"{name}.yaml").read_text()
    validated = workbench.cli("validate")
    assert validated.returncode == 0, validated.stdout + file
    for told in case.says:
        assert told in made.stdout, f"{told}: {made.stdout}"
    flushed = workbench.cli("flush", name)
    assert flushed.returncode == 0, flushed.stderr + file
    assert ordered(workbench.rows(f"shop.{name}")) == ordered(case.rows), file


@pytest.mark.parametrize("name", PLAIN)
def test_flush_of_the_file_that_init_wrote_equals_what_was_sent(workbench, name) -> None:
    check(workbench, name, workbench.topic(2), PLAIN[name]())


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    made = SchemaRegistry()
    yield made
    made.close()


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
        return b"\x00" + number.to_bytes(4) + avro(schema, data)[0]


def row(n: int, name: str | None) -> dict[str, Any]:
    return {"id": n, "name": name, "at": MICROS}


def stored(n: int, name: str | None) -> dict[str, Any]:
    return {"id": n, "name": name, "at": AT}


def test_registered_avro_takes_its_columns_and_its_key_from_the_registry(workbench, registry) -> None:
    topic, made = workbench.topic(2), Registering(registry)
    records = [(made.encode(f"{topic}-key", KEY, {"id": n}),
                None if name == "-" else made.encode(f"{topic}-value", ORDER, row(n, name)), n % 2)
               for n, name in ((1, "a"), (2, None), (3, "c"), (3, "-"))]  # fmt: skip
    words = ("--registry", registry.url)
    check(workbench, "orders", topic, Case(records, [stored(1, "a"), stored(2, None)], words=words))


def test_registered_change_events_and_a_bare_key_of_record_names(workbench, registry) -> None:
    topic, made = workbench.topic(2), Registering(registry)
    key = [made.encode(f"{topic}-key", KEY, {"id": n}) for n in (0, 1, 2)]
    changes = [(1, "c", row(1, "a")), (2, "c", row(2, "b")), (2, "u", row(2, "c")), (1, "d", None)]
    records = [
        (key[n], made.encode(f"{topic}-value", CHANGE, {"before": None, "after": after, "op": op}), n % 2)
        for n, op, after in changes
    ]
    words = ("--registry", registry.url)
    check(workbench, "changes", topic, Case(records, [stored(2, "c")], words=words))

    named = workbench.topic(2)
    records = [(f"k{n}", made.encode("shop.Order", ORDER, row(n, "x")), n % 2) for n in (1, 2)]
    told = ("subjects are record types: shop.Order",)
    rows = [{"key": f"k{n}", **stored(n, "x")} for n in (1, 2)]
    check(workbench, "named", named, Case(records, rows, told, words))


def test_registered_messages_and_objects(workbench, registry) -> None:
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.json_schema import JSONSerializer
    from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
    from confluent_kafka.serialization import SerializationContext

    client, words = SchemaRegistryClient({"url": registry.url}), ("--registry", registry.url)
    other = message("Other", proto_field("id", 1, "int64"))
    order = message("Order", proto_field("id", 1, "int64"), proto_field("name", 2, "string"))
    made = classes(a_file(other, order))["shop.Order"]
    topic = workbench.topic(2)
    write = ProtobufSerializer(made, client)
    records = [(str(n), write(made(id=n, name="x"), SerializationContext(topic, "value")), n % 2) for n in (1, 2)]
    rows = [{"key": f"{n}", "id": n, "name": "x"} for n in (1, 2)]
    check(workbench, "messages", topic, Case(records, rows, ("a bare value without a name",), words))

    topic = workbench.topic(2)
    schema = {"title": "O", "type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}
    put = JSONSerializer(json.dumps(schema), client)
    records = [({"id": n}, put({"id": n, "name": "x"}, SerializationContext(topic, "value")), n % 2) for n in (1, 2)]
    check(workbench, "objects", topic, Case(records, [{"id": n, "name": "x"} for n in (1, 2)], words=words))
