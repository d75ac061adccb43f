"""Makes the schema of a publication's records known to the registry, before the first of them is encoded."""

import base64
import json
from typing import Any

from pyspark.sql import SparkSession
from tidegate.errors import GiveUp
from tidegate.jobs.publish_job import REGISTRY_CONF
from tidegate.schema.proto_source import parse_proto

from tidegate_spark.publish.encoders.protobuf_messages import serialize_description
from tidegate_spark.publish.encoders.record_part import RecordPart
from tidegate_spark.session import read_private_conf

ACCESS_STATUS_CODES = (401, 403)


def read_registry_settings(spark: SparkSession, part: RecordPart) -> dict[str, Any]:
    """Return how the registry of key or value is reached, with its secrets: for the driver alone."""
    settings: dict[str, Any] = json.loads(read_private_conf(spark, REGISTRY_CONF))[part.part]
    return settings


def register_schema(settings: dict[str, Any], subjects: list[str], schema: str, kind: str = "AVRO") -> int:
    """Register and return the schema's id, equal under each subject. `GiveUp` if the registry refuses."""
    from confluent_kafka.schema_registry import Schema
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    ids: set[int] = set()
    with _open_client(settings) as client:
        for subject in subjects:
            try:
                ids.add(client.register_schema(subject, Schema(schema, kind)))
            except SchemaRegistryError as fault:
                raise _explain_refusal(subject, fault, "register a schema") or GiveUp(
                    f"subject={subject}: the registry refuses the schema: {fault.error_message}; "
                    "allow the change there, or publish to a new topic"
                ) from fault
    if len(ids) > 1:
        raise GiveUp(
            f"subjects={', '.join(subjects)}: the registry gives the same schema several ids={sorted(ids)}, and a "
            "record holds one; set one avro.subject, or protobuf.subject, for all topics of the publication"
        )
    return ids.pop()


def read_newest_schema(settings: dict[str, Any], subject: str) -> tuple[int, bytes] | None:
    """Return id and description of the newest Protobuf schema of a subject; None if it has none.

    `GiveUp` if the registry refuses, or the subject holds schemas of another kind.
    """
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    try:
        with _open_client(settings) as client:
            version = client.get_latest_version(subject, fmt="serialized")
    except SchemaRegistryError as fault:
        if fault.http_status_code == 404:
            return None
        raise _explain_refusal(subject, fault, "read its newest schema") or GiveUp(
            f"subject={subject}: the registry gives no schema: {fault.error_message}; see the registry's log"
        ) from fault
    if version.schema.schema_type != "PROTOBUF":
        raise GiveUp(f"subject={subject} holds {version.schema.schema_type} schemas, no Protobuf; give another subject")
    place = f"subject={subject} version={version.version} id={version.schema_id}"
    return version.schema_id, _read_description(place, version.schema.schema_str)


def _open_client(settings: dict[str, Any]) -> Any:
    from confluent_kafka.schema_registry import SchemaRegistryClient

    return SchemaRegistryClient({"timeout": 20, "max.retries": 2, **settings})


def _explain_refusal(subject: str, fault: Any, right: str) -> GiveUp | None:
    if fault.http_status_code not in ACCESS_STATUS_CODES:
        return None
    return GiveUp(
        f"subject={subject}: access was refused by the registry: status={fault.http_status_code}: "
        f"{fault.error_message}; nothing was produced; check the connection's login, and give its user the right to "
        f"{right}, as docs/security.md lists"
    )


def _read_description(place: str, text: str) -> bytes:
    # some registries give the text of the language although the serialized form was asked for
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        pass
    try:
        return serialize_description(parse_proto(text))
    except ValueError as fault:
        raise GiveUp(f"{place}: the newest schema cannot be read: {fault}; give another subject") from fault
