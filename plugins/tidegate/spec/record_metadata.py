"""What a record carries beside its key and value, by the words of the pipeline file, and the column type of each."""

from tidegate.formats.registry import FORMATS

KAFKA_TYPES = {
    "topic": "STRING",
    "partition": "INT",
    "headers": "MAP<STRING, BINARY>",
    "header-list": "ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>",
    "leader-epoch": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestamp-type": "STRING",
}
_ALL_WORDS = (KAFKA_TYPES, *(record_format.metadata for record_format in FORMATS.values()))
METADATA_TYPES = {word: kind for words in _ALL_WORDS for word, kind in words.items()}


def order_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Column: word, the value format's ahead of Kafka's, else as the user wrote them."""
    return dict(sorted(metadata.items(), key=lambda item: not item[1].startswith("value.")))


def list_known_words(value_format: str) -> tuple[str, ...]:
    """The words that a table with values of this format may use."""
    return (*FORMATS[value_format].metadata, *KAFKA_TYPES)
