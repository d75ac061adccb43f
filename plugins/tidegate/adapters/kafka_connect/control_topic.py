"""What an Iceberg sink leaves in Kafka: the data files that its tasks announce on a control topic, and its group."""

import json
import struct
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.errors import translate_kafka_errors
from tidegate.errors import GiveUp, RetryLater
from tidegate.sinks.world import AnnouncedFiles

MAGIC = b"\xc2\x01"  # of Iceberg's AvroEncoderUtil: then a length of two bytes, the schema as JSON, and the record
OLD_EVENTS = b'"io.tabular.iceberg.connect.events'  # the namespace of its schemas
DATA_WRITTEN = 1  # PayloadType.DATA_WRITTEN
READER_GROUP = "tidegate-import"
POLL_SECONDS = 30.0
ANSWER_SECONDS = 30


class SinkBroker(KafkaBroker):
    """Brokers as the import of another system's sink asks them: what a sink announced, and who is in its group."""

    @translate_kafka_errors
    def count_members(self, group: str) -> int:
        """0 also for an unknown group."""
        future = self._admin.describe_consumer_groups([group], request_timeout=ANSWER_SECONDS)[group]
        return len(future.result(ANSWER_SECONDS).members)

    @translate_kafka_errors
    def read_announcements(self, topic: str, start: Mapping[int, int], end: Mapping[int, int]) -> list[AnnouncedFiles]:
        """Announcements in ``[start, end)`` of each partition; a partition without a start is read from its begin.

        Joins no group.
        """
        announcements = list[AnnouncedFiles]()
        open_partitions = {partition for partition, offset in end.items() if offset > start.get(partition, 0)}
        with self._open_consumer(READER_GROUP) as consumer:
            consumer.assign([TopicPartition(topic, p, start.get(p, OFFSET_BEGINNING)) for p in sorted(open_partitions)])
            while open_partitions:
                message = consumer.poll(POLL_SECONDS)
                if message is None:
                    raise RetryLater(f"topic={topic}: the brokers send nothing; run the command again")
                partition = message.partition()
                offset = message.offset()
                if message.error() is not None:
                    if message.error().code() != KafkaError._PARTITION_EOF:
                        raise RetryLater(f"topic={topic}: {message.error()}; run the command again")
                    open_partitions.discard(partition)
                elif partition is not None and offset is not None and partition in open_partitions:
                    announced = decode_announcement(topic, partition, offset, message.value() or b"")
                    announcements += [announced] if announced is not None else []
        return announcements


def decode_announcement(topic: str, partition: int, offset: int, data: bytes) -> AnnouncedFiles | None:
    """The files that an event announces; None for any other event. `GiveUp` for what no Iceberg sink wrote."""
    from pyiceberg.avro.decoder import new_decoder

    place = f"topic={topic} partition={partition} offset={offset}"
    if OLD_EVENTS in data:
        raise GiveUp(
            f"{place}: Tabular's sink with Iceberg 1.4 wrote it, and events of that form are not read; upgrade the "
            "connector, let it commit once, stop it, and run the command again"
        )
    try:
        if not data.startswith(MAGIC):
            raise ValueError("it does not begin as an event of an Iceberg sink")
        (length,) = struct.unpack(">H", data[2:4])
        # the schema is Iceberg's own, with the ids of its fields
        reader, shape = _build_reader(data[4 : 4 + length].decode())
        event = _name_fields(reader.read(new_decoder(data[4 + length :])), shape)
        if event["type"] != DATA_WRITTEN:
            return None
        payload = event["payload"]
        table = event["payload"]["table_reference"]
        files = [file for part in ("data_files", "delete_files") for file in payload.get(part) or ()]
        number = sum(file.get("record_count", 1) > 0 for file in files)
        name = ".".join((*table["namespace"], table["name"]))
        return AnnouncedFiles(partition=partition, offset=offset, group=event["group_id"], table=name, files=number)
    except (ValueError, KeyError, TypeError, IndexError, struct.error, AttributeError, EOFError) as fault:
        raise GiveUp(f"{place}: no event of an Iceberg sink: {fault}; check iceberg.control.topic") from fault


@lru_cache(maxsize=64)
def _build_reader(schema: str) -> tuple[Any, Any]:
    from pyiceberg.avro.resolver import construct_reader
    from pyiceberg.utils.schema_conversion import AvroSchemaConversion

    converted = AvroSchemaConversion().avro_to_iceberg(_expand_names(json.loads(schema), {}))
    return construct_reader(converted), converted.as_struct()


def _expand_names(schema: Any, known: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_expand_names(item, known) for item in schema]
    if not isinstance(schema, dict):
        return known.get(schema, schema)
    # PyIceberg does not resolve names of types
    expanded = {key: _expand_names(schema[key], known) for key in ("type", "items", "fields") if key in schema}
    expanded = {**schema, **expanded}
    if schema.get("type") in ("record", "fixed"):
        for name in (schema["name"], f"{schema.get('namespace', '')}.{schema['name']}"):
            known[name] = expanded
    return expanded


def _name_fields(value: Any, shape: Any) -> Any:
    from pyiceberg.types import ListType, StructType

    if isinstance(shape, StructType) and value is not None:
        return {field.name: _name_fields(value[index], field.field_type) for index, field in enumerate(shape.fields)}
    if isinstance(shape, ListType) and value is not None:
        return [_name_fields(item, shape.element_type) for item in value]
    return value
