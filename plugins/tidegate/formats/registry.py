"""The formats that keys and values of records may have. A new one is registered here, and nowhere else."""

from tidegate.formats.encoding import Encoding, EventLayout
from tidegate.formats.record_format import RecordFormat, SchemaKind

DEBEZIUM_PLACEHOLDER = "__debezium_unavailable_value"  # as Debezium's unavailable.value.placeholder has it
RAW_TYPES = ("BINARY", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE")
CONNECT_JSON_OPTIONS = ("numbers", "binary")  # of the options of json, those of JSON that Kafka Connect wrote
# Fields of a change event's `source` by their own names, for `sequence_by` among others; each database has some.
SOURCE_TYPES = {
    "lsn": "BIGINT", "file": "STRING", "pos": "BIGINT", "row": "INT", "commit_lsn": "STRING", "change_lsn": "STRING",
    "event_serial_no": "BIGINT", "scn": "DECIMAL(38,0)", "txId": "STRING", "snapshot": "STRING",
    "ts_us": "BIGINT", "ts_ns": "BIGINT",
}  # fmt: skip
_DEBEZIUM_METADATA = {
    "value.op": "STRING",
    **{f"value.source.{name}": kind for name, kind in SOURCE_TYPES.items()},
    "value.ingestion-timestamp": "TIMESTAMP",
    "value.source.timestamp": "TIMESTAMP",
    "value.source.database": "STRING",
    "value.source.schema": "STRING",
    "value.source.table": "STRING",
    "value.source.properties": "MAP<STRING, STRING>",
}
_CANAL_METADATA = {
    "value.database": "STRING",
    "value.table": "STRING",
    "value.sql-type": "MAP<STRING, INT>",
    "value.pk-names": "ARRAY<STRING>",
    "value.ingestion-timestamp": "TIMESTAMP",
    "value.event-timestamp": "TIMESTAMP",
}
_MAXWELL_METADATA = {
    "value.database": "STRING",
    "value.table": "STRING",
    "value.primary-key-columns": "ARRAY<STRING>",
    "value.ingestion-timestamp": "TIMESTAMP",
}
_OGG_METADATA = {
    "value.op": "STRING",
    "value.table": "STRING",
    "value.primary-keys": "ARRAY<STRING>",
    "value.pos": "DECIMAL(38,0)",
    "value.ingestion-timestamp": "TIMESTAMP",
    "value.event-timestamp": "TIMESTAMP",
}

# in the order in which messages name them
_FORMATS = (
    RecordFormat("json", encoder="json", options="json", has_plain_pass=True),
    RecordFormat(
        "avro",
        encoder="avro",
        options="avro",
        schema=SchemaKind.AVRO,
        reads_several_types=True,
        encoding=Encoding.SCHEMA,
    ),
    RecordFormat(
        "protobuf", encoder="protobuf", options="protobuf", schema=SchemaKind.PROTOBUF, encoding=Encoding.SCHEMA
    ),
    RecordFormat("csv", encoder="csv", options="csv", is_flat=True, is_positional=True, encoding=Encoding.SEPARATED),
    RecordFormat(
        "string", decoder="text", encoder="one_column", only_column="STRING", is_flat=True, encoding=Encoding.TEXT
    ),
    RecordFormat(
        "raw",
        encoder="one_column",
        options="raw",
        only_column="BINARY",
        column_types=RAW_TYPES,
        noun="bytes or a number",
        encoding=Encoding.BYTES,
    ),
    RecordFormat("msgpack", encoding=Encoding.PACKED),
    RecordFormat(
        "debezium-json",
        reads_keys=False,
        decoder="change_events.debezium_json",
        options="json",
        option_names=CONNECT_JSON_OPTIONS,
        is_change_event=True,
        is_enveloped=True,
        counts_days=True,
        knows_truncate=True,
        shows_deleted_row=True,
        unavailable_value=DEBEZIUM_PLACEHOLDER,
        metadata={"value.schema": "STRING", **_DEBEZIUM_METADATA},
        event=EventLayout(
            "a change event",
            marks=(("op", "after"), ("op", "before")),
            rows=("after", "before"),
            operation="op",
            deletes=("d",),
            table=("source", "table"),
            scopes=(("source", "db"), ("source", "schema")),
        ),
    ),
    RecordFormat(
        "debezium-avro",
        reads_keys=False,
        decoder="change_events.debezium_avro",
        options="avro",
        schema=SchemaKind.AVRO,
        is_change_event=True,
        knows_truncate=True,
        shows_deleted_row=True,
        unavailable_value=DEBEZIUM_PLACEHOLDER,
        metadata=_DEBEZIUM_METADATA,
        encoding=Encoding.SCHEMA,
    ),
    RecordFormat(
        "canal-json",
        reads_keys=False,
        decoder="change_events.canal",
        is_flat=True,
        holds_several_rows=True,
        is_change_event=True,
        knows_truncate=True,
        metadata=_CANAL_METADATA,
        event=EventLayout(
            "a message of Canal",
            marks=(("data", "isDdl"),),
            rows=("data",),
            operation="type",
            deletes=("DELETE",),
            key_names="pkNames",
            column_types="mysqlType",
        ),
    ),
    RecordFormat(
        "maxwell-json",
        reads_keys=False,
        decoder="change_events.maxwell",
        options="json",
        option_names=CONNECT_JSON_OPTIONS,
        holds_several_rows=True,
        is_change_event=True,
        metadata=_MAXWELL_METADATA,
        event=EventLayout(
            "a message of Maxwell",
            marks=(("data", "type", "table"),),
            rows=("data",),
            operation="type",
            deletes=("delete",),
            key_names="primary_key_columns",
            own_scope="maxwell",
            key_prefix="pk.",
        ),
    ),
    RecordFormat(
        "ogg-json",
        reads_keys=False,
        decoder="change_events.ogg",
        options="json",
        option_names=CONNECT_JSON_OPTIONS,
        holds_several_rows=True,
        is_change_event=True,
        knows_truncate=True,
        may_leave_out=True,
        metadata=_OGG_METADATA,
        event=EventLayout(
            "an operation of GoldenGate",
            marks=(("op_type", "after"), ("op_type", "before")),
            rows=("after", "before"),
            operation="op_type",
            deletes=("D",),
            key_names="primary_keys",
        ),
    ),
)
FORMATS = {format_spec.name: format_spec for format_spec in _FORMATS}
EVENT_FORMATS = tuple(format_spec for format_spec in _FORMATS if format_spec.event is not None)
KEY_FORMATS = tuple(name for name, format_spec in FORMATS.items() if format_spec.reads_keys)
VALUE_FORMATS = tuple(name for name, format_spec in FORMATS.items() if format_spec.reads_values)
WRITTEN_FORMATS = tuple(name for name, format_spec in FORMATS.items() if format_spec.is_written)


def get_format(name: str) -> RecordFormat:
    """The description of a format by its word in the pipeline file."""
    return FORMATS[name]
