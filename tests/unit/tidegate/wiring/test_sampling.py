"""Samples behind a schema's id: what the registry says of them becomes a proposal, or one sentence."""

import json
import struct
from collections.abc import Iterator

import pytest
from schema_registry import SchemaRegistry
from tidegate.errors import TidegateError
from tidegate.model.kafka_log import KafkaRecord
from tidegate.sampling.proposal import ProposedTable, propose_table
from tidegate.sampling.samples import TopicSample
from tidegate.wiring.sampling import RegistryLookup

MESSAGES = 'syntax = "proto3"; package shop; message Order { int64 id = 1; } message Other { int64 k = 1; }'


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    registry = SchemaRegistry()
    yield registry
    registry.close()


def propose(registry: SchemaRegistry, subject: str, schema: dict[str, str], *bodies: bytes) -> ProposedTable:
    number = registry.register(subject, schema)
    frames = [b"\0" + struct.pack(">I", number) + body for body in bodies]
    records = tuple(
        KafkaRecord("t", 0, n, 1_767_225_600_000 + n, b'{"id": 1}', value) for n, value in enumerate(frames)
    )
    lookup = RegistryLookup(registry.url, lambda conn_id: None)
    return propose_table(TopicSample("t", records, {0: 0}, {0: len(records)}), "lake.shop.t", lookup)


@pytest.mark.parametrize("schema", ["string", ["null", "string"], {"type": "map", "values": "long"}])
def test_values_that_are_no_records_behind_another_subject_are_refused_in_a_sentence(
    registry: SchemaRegistry, schema: object
) -> None:
    """A type without a name is no record type, by which a subject could be called."""
    avro = {"schemaType": "AVRO", "schema": json.dumps(schema)}
    with pytest.raises(TidegateError, match="the registry has no subject=t-value, and none that is called like"):
        propose(registry, "elsewhere", avro, b"\2a")


def test_frame_without_a_message_does_not_choose_the_message_of_the_others(registry: SchemaRegistry) -> None:
    """A record that ends where the place of its message should stand is one bad record; the package is no message."""
    whole, cut = b"\0\x08\1", b"\2"
    table = propose(registry, "t-value", {"schemaType": "PROTOBUF", "schema": MESSAGES}, whole, cut, whole)
    assert [column.name for column in table.value.columns] == ["id"]
    assert table.value.options == {"protobuf": {"registry": registry.url}}


@pytest.mark.parametrize(("kind", "text"), [("JSON", "{"), ("THRIFT", "struct A {}")])
def test_schema_that_cannot_be_read_is_refused_in_a_sentence(registry: SchemaRegistry, kind: str, text: str) -> None:
    """As a registry may keep it that looks into no schema."""
    with pytest.raises(TidegateError, match=r"[Ss]chema .*; (write|correct)"):
        propose(registry, "t-value", {"schemaType": kind, "schema": text}, b'{"id": 1}')
