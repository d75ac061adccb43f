"""Makes the schema of a publication's records known to the registry, before the first of them is encoded."""

from typing import Any

from tidegate.errors import GiveUp


def registered(settings: dict[str, Any], subjects: list[str], schema: str) -> int:
    """The schema's id, the same under each subject. GiveUp with the registry's own word where it is refused."""
    from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    client = SchemaRegistryClient({"timeout": 20, "max.retries": 2, **settings})
    ids: set[int] = set()
    for subject in subjects:
        try:
            ids.add(client.register_schema(subject, Schema(schema, "AVRO")))
        except SchemaRegistryError as fault:
            raise GiveUp(
                f"subject={subject}: the registry refuses the schema: {fault.error_message}; allow the change there, "
                "or publish to a new topic"
            ) from fault
    if len(ids) > 1:
        raise GiveUp(
            f"subjects={', '.join(subjects)}: the registry gives one schema several ids={sorted(ids)}; give one subject"
        )
    return ids.pop()
