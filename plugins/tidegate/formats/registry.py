"""The formats of keys and values. A new one is registered here, and nowhere else."""

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Encoding(StrEnum):
    """How keys or values of a format are written."""

    OBJECT = "object"  # the text of a JSON object
    SCHEMA = "schema"  # bytes that only their schema explains
    PACKED = "packed"  # a MessagePack map
    SEPARATED = "separated"  # one line of columns
    TEXT = "text"
    BYTES = "bytes"


@dataclass(frozen=True)
class EventLayout:
    """Where a change event written as a JSON object has its parts; names are fields of that object.

    - `noun`: its name in messages. `marks`: all fields of one of these make an object such an event.
    - `rows`: the fields that hold the row, the newer state first; each row of a list counts.
    - `operation`: the field that says what happened; `deletes`: its words for a deleted row.
    - `key_names`: the field with the names of the source's primary key, or empty.
    - `column_types`: the field with the source's type of each column, or empty.
    - `table`: the path to the source table's name. `scopes`: the paths to what holds the table, as its database;
      `own_scope`
      is the source's internal one.
    - `key_prefix`: stands before the names of key columns in the record's key.
    """

    noun: str
    marks: tuple[tuple[str, ...], ...]
    rows: tuple[str, ...]
    operation: str
    deletes: tuple[str, ...]
    key_names: str = ""
    column_types: str = ""
    table: tuple[str, ...] = ("table",)
    scopes: tuple[tuple[str, ...], ...] = (("database",),)
    own_scope: str = ""
    key_prefix: str = ""

    @property
    def table_word(self) -> str:
        return ".".join(("value", *self.table))


def decode_text(data: bytes) -> str | None:
    """None for bytes that are no UTF-8, or hold control characters other than blanks."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    # joiners of emoji and marks of direction are text, though Python calls them unprintable
    is_control = (unicodedata.category(character) == "Cc" and not character.isspace() for character in text)
    return None if any(is_control) else text


class SchemaKind(StrEnum):
    """The language of the schema, by the word of the options beside `format:`."""

    AVRO = "avro"
    PROTOBUF = "protobuf"


@dataclass(frozen=True)
class RecordFormat:
    """What a format can do, and what its records tell. The defaults fit an object with the columns by name.

    - `name`: the word of `format:` in pipeline files.
    - `decoder`: its module in `tidegate_spark.formats`; empty: `name`.
    - `encoder`: its module in `tidegate_spark.publish.encoders`, of a change event that of the rows in it; empty:
      publications may not use it.
    - `options`: the mapping beside `format:` with its options, or None; `option_names`: the keys that it knows, None
      for all.
    - `schema`: the kind of schema that describes its records, or None.
    - `reads_several_types`: records of several record types may lie in one table.
    - `only_column`: the type of the one column that the whole key or value is, unless a schema declares another.
    - `column_types`: the types that a column may have, empty for all; `noun`: what the bytes are, for messages.
    - `is_flat`: a column has no parts. `is_positional`: columns have places and no names, so a schema is needed.
    - `holds_several_rows`: one message may hold rows of several keys; the record's own key is none of them.
    - `is_change_event`: the row is a part of the record. `knows_truncate`: an event may empty the table.
    - `is_enveloped`: Kafka Connect's schema may stand beside each payload. `counts_days`: a number is a date in days.
    - `has_plain_pass`: objects of flat columns, without any option, may be read by short expressions first.
    - `shows_deleted_row`: an event says what was deleted; the tombstone behind it only repeats that.
    - `may_leave_out`: an update may leave out unchanged columns.
    - `unavailable_value`: what the source writes in place of a large value that did not change.
    - `metadata`: the words of `metadata` that messages offer, with their column types.
    - `encoding`, `event`: how its bytes look, and where a change event has its parts; a sample is recognised by these.
    """

    name: str
    decoder: str = ""
    encoder: str = ""
    options: str | None = None
    option_names: tuple[str, ...] | None = None
    schema: SchemaKind | None = None
    reads_several_types: bool = False
    only_column: str | None = None
    column_types: tuple[str, ...] = ()
    noun: str = ""
    is_flat: bool = False
    is_positional: bool = False
    holds_several_rows: bool = False
    is_change_event: bool = False
    is_enveloped: bool = False
    counts_days: bool = False
    has_plain_pass: bool = False
    knows_truncate: bool = False
    shows_deleted_row: bool = False
    may_leave_out: bool = False
    unavailable_value: str | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    metadata_casts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    encoding: Encoding = Encoding.OBJECT
    event: EventLayout | None = None

    @property
    def module(self) -> str:
        """Below `tidegate_spark.formats`."""
        return self.decoder or self.name.replace("-", "_")

    @property
    def reads_keys(self) -> bool:
        """Whether keys may use it; values may use each."""
        return not self.is_change_event

    @property
    def is_written(self) -> bool:
        return bool(self.encoder)

    @property
    def reads_by_name(self) -> bool:
        """Whether its records name their fields themselves, so that they may hold some that no column is for."""
        return self.schema is None and self.only_column is None and not self.is_positional

    @property
    def describes_itself(self) -> bool:
        """Whether the columns are known without a declared schema."""
        return self.schema is not None or self.only_column is not None


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
_DEBEZIUM_CASTS = dict.fromkeys(("value.ingestion-timestamp", "value.source.timestamp"), ("BIGINT",))
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
        decoder="change_events.debezium_json",
        encoder="json",
        options="json",
        option_names=CONNECT_JSON_OPTIONS,
        is_change_event=True,
        is_enveloped=True,
        counts_days=True,
        knows_truncate=True,
        shows_deleted_row=True,
        unavailable_value=DEBEZIUM_PLACEHOLDER,
        metadata={"value.schema": "STRING", **_DEBEZIUM_METADATA},
        metadata_casts=_DEBEZIUM_CASTS,
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
        decoder="change_events.debezium_avro",
        options="avro",
        schema=SchemaKind.AVRO,
        is_change_event=True,
        knows_truncate=True,
        shows_deleted_row=True,
        unavailable_value=DEBEZIUM_PLACEHOLDER,
        metadata=_DEBEZIUM_METADATA,
        metadata_casts=_DEBEZIUM_CASTS,
        encoding=Encoding.SCHEMA,
    ),
    RecordFormat(
        "canal-json",
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
VALUE_FORMATS = tuple(FORMATS)
WRITTEN_FORMATS = tuple(name for name, format_spec in FORMATS.items() if format_spec.is_written)
WRITTEN_KEY_FORMATS = tuple(name for name in WRITTEN_FORMATS if name in KEY_FORMATS)


def get_format(name: str) -> RecordFormat:
    return FORMATS[name]
