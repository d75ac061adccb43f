"""The words of a file for settings that are not ours: properties as text, names in Kafka, and where the brokers are."""

import re
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Discriminator, Tag, WithJsonSchema

MAX_TOPIC_LETTERS = 249
TOPIC_PATTERN = re.compile(r"[A-Za-z0-9._-]+")


def _to_property_text(value: object) -> object:
    """Properties are text for everyone downstream; YAML's true and 5 mean the words, not Python's True."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def check_topic_name(name: str) -> str:
    """The name, if Kafka takes it for a topic; ValueError says why it does not."""
    if not TOPIC_PATTERN.fullmatch(name):
        raise ValueError(f"not a topic name; letters, digits, dot, dash and underscore, at most {MAX_TOPIC_LETTERS}")
    if len(name) > MAX_TOPIC_LETTERS:
        raise ValueError(f"not a topic name: it has letters={len(name)}; Kafka takes at most {MAX_TOPIC_LETTERS}")
    if name in (".", ".."):
        raise ValueError("not a topic name: Kafka refuses . and ..; write the topic's whole name")
    return name


def _refuse_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("empty; write it out, or leave the key out")
    return text


TopicName = Annotated[
    str, AfterValidator(check_topic_name), WithJsonSchema({"type": "string", "pattern": r"^[A-Za-z0-9._-]{1,249}$"})
]
FilledText = Annotated[str, AfterValidator(_refuse_blank), WithJsonSchema({"type": "string", "pattern": r"\S"})]
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
