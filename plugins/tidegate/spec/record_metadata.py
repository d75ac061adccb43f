"""What a record carries beside its key and value, by the words of the pipeline file, and the column type of each."""

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
# Fields of a change event's `source` by their own names, for `sequence_by` among others; each database has some.
SOURCE_TYPES = {
    "lsn": "BIGINT", "pos": "BIGINT", "file": "STRING", "scn": "DECIMAL(38,0)", "txId": "STRING", "snapshot": "STRING",
    "ts_us": "BIGINT", "ts_ns": "BIGINT",
}  # fmt: skip
_DEBEZIUM = {
    "value.op": "STRING",
    **{f"value.source.{name}": kind for name, kind in SOURCE_TYPES.items()},
    "value.ingestion-timestamp": "TIMESTAMP",
    "value.source.timestamp": "TIMESTAMP",
    "value.source.database": "STRING",
    "value.source.schema": "STRING",
    "value.source.table": "STRING",
    "value.source.properties": "MAP<STRING, STRING>",
}
# value format -> what its messages tell about themselves
FORMAT_TYPES = {
    "debezium-json": {"value.schema": "STRING", **_DEBEZIUM},
    "debezium-avro": _DEBEZIUM,
    "canal-json": {
        "value.database": "STRING",
        "value.table": "STRING",
        "value.sql-type": "MAP<STRING, INT>",
        "value.pk-names": "ARRAY<STRING>",
        "value.ingestion-timestamp": "TIMESTAMP",
        "value.event-timestamp": "TIMESTAMP",
    },
    "maxwell-json": {
        "value.database": "STRING",
        "value.table": "STRING",
        "value.primary-key-columns": "ARRAY<STRING>",
        "value.ingestion-timestamp": "TIMESTAMP",
    },
    "ogg-json": {
        "value.op": "STRING",
        "value.table": "STRING",
        "value.primary-keys": "ARRAY<STRING>",
        "value.pos": "DECIMAL(38,0)",
        "value.ingestion-timestamp": "TIMESTAMP",
        "value.event-timestamp": "TIMESTAMP",
    },
}
METADATA_TYPES = {word: kind for words in (KAFKA_TYPES, *FORMAT_TYPES.values()) for word, kind in words.items()}


def order_metadata(metadata: dict[str, str]) -> dict[str, str]:
    """Column: word, the value format's ahead of Kafka's, else as the user wrote them."""
    return dict(sorted(metadata.items(), key=lambda item: not item[1].startswith("value.")))


def list_known_words(value_format: str) -> tuple[str, ...]:
    """The words that a table with values of this format may use."""
    return (*FORMAT_TYPES.get(value_format, {}), *KAFKA_TYPES)
