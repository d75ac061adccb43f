"""The words of a file for settings that are not ours: properties as text, and where the brokers are."""

from typing import Annotated

from pydantic import BeforeValidator, Discriminator, Tag, WithJsonSchema


def _to_property_text(value: object) -> object:
    """Properties are text for everyone downstream; YAML's true and 5 mean the words, not Python's True."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


PropertyText = Annotated[
    str, BeforeValidator(_to_property_text), WithJsonSchema({"type": ["string", "integer", "number", "boolean"]})
]


def _tag_kafka(value: object) -> str | None:
    return "<inline>" if isinstance(value, dict) else "<connection>" if isinstance(value, str) else None


KafkaPlace = Annotated[
    Annotated[str, Tag("<connection>")] | Annotated[dict[str, PropertyText], Tag("<inline>")],
    Discriminator(
        _tag_kafka,
        custom_error_type="kafka",
        custom_error_message="write a connection id or a mapping of librdkafka settings",
    ),
]
