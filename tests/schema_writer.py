"""Writes records as producers with a schema registry do: by confluent-kafka's own serializers."""

import json
from typing import Any


class SchemaWriter:
    """Registers under `<topic>-value`, or under `<topic>-key`, as serializers do by default. `close` ends it."""

    def __init__(self, url: str, topic: str) -> None:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        self.client, self.topic = SchemaRegistryClient({"url": url}), topic

    def __enter__(self) -> "SchemaWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.client.close()

    def write_avro(self, schema: Any, data: Any, part: str = "value") -> bytes:
        from confluent_kafka.schema_registry.avro import AvroSerializer

        return self._write(AvroSerializer(self.client, json.dumps(schema)), data, part)

    def write_message(self, message: Any, part: str = "value") -> bytes:
        from confluent_kafka.schema_registry.protobuf import ProtobufSerializer

        return self._write(ProtobufSerializer(type(message), self.client), message, part)

    def write_object(self, schema: Any, data: Any, part: str = "value") -> bytes:
        from confluent_kafka.schema_registry.json_schema import JSONSerializer

        return self._write(JSONSerializer(json.dumps(schema), self.client), data, part)

    def register(self, schema: str, kind: str, part: str = "value") -> int:
        """The id of a schema that was registered by itself, as a build does."""
        from confluent_kafka.schema_registry import Schema

        return int(self.client.register_schema(f"{self.topic}-{part}", Schema(schema, kind)))

    def _write(self, serializer: Any, data: Any, part: str) -> bytes:
        from confluent_kafka.serialization import SerializationContext

        encoded = serializer(data, SerializationContext(self.topic, part))
        assert isinstance(encoded, bytes)
        return encoded
