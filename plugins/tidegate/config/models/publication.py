"""The words of a publication file with their defaults: all that a user may say about a table's way back to Kafka."""

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Discriminator, Field, Tag

from tidegate.config.models.formats import AvroModel, CsvModel, ProtobufModel, StrictModel
from tidegate.config.models.pipeline import StartTimestamp
from tidegate.config.models.settings import Duration, KafkaPlace, PropertyText, SparkModel, TopicName
from tidegate.formats.registry import WRITTEN_FORMATS, WRITTEN_KEY_FORMATS

if TYPE_CHECKING:
    KeyOutWord = str
    ValueOutWord = str
else:  # the words are those of the registry, which no type checker can read
    KeyOutWord = Literal[WRITTEN_KEY_FORMATS]
    ValueOutWord = Literal[WRITTEN_FORMATS]


def _tag_start(value: object) -> str | None:
    if isinstance(value, dict):
        return "<timestamp>" if "timestamp" in value else "<snapshot>"
    return "<word>" if isinstance(value, str) else None


class StartSnapshot(StrictModel):
    """Begin at a snapshot."""

    snapshot: int = Field(ge=1, description="The id of an Iceberg snapshot: what changed after it is sent.")


class KeyOutModel(StrictModel):
    """How a record's key is written."""

    format: KeyOutWord = Field(default="json", description="How the record key is encoded.")
    fields: list[str] = Field(
        description="The key's columns of the result of sql; each key may have one row. [] produces inserted rows only."
    )
    fields_prefix: str = Field(
        default="", description="Removed from the names of key columns in the key; with EXCEPT_KEY only."
    )
    avro: AvroModel | None = Field(default=None, description="Options of the avro format.")
    protobuf: ProtobufModel | None = Field(default=None, description="Options of the protobuf format.")
    csv: CsvModel | None = Field(default=None, description="Options of the csv format.")


class ValueOutModel(StrictModel):
    """How a record's value is written."""

    format: ValueOutWord = Field(default="json", description="How the record value is encoded.")
    fields_include: Literal["ALL", "EXCEPT_KEY"] = Field(
        default="ALL", description="Whether the value holds the key columns too."
    )
    avro: AvroModel | None = Field(default=None, description="Options of the avro format.")
    protobuf: ProtobufModel | None = Field(default=None, description="Options of the protobuf format.")
    csv: CsvModel | None = Field(default=None, description="Options of the csv format.")


class MetadataOutModel(StrictModel):
    """Columns that become a record's metadata instead of a part of its value."""

    headers: str | None = Field(
        default=None, min_length=1, description="The column of headers: a MAP, or an ARRAY<STRUCT<key, value>>."
    )
    timestamp: str | None = Field(
        default=None,
        min_length=1,
        description="The column of the record's time: a TIMESTAMP, TIMESTAMP_NTZ (in UTC) or DATE.",
    )
    topic: str | None = Field(
        default=None, min_length=1, description="The column that names the record's topic, one of topics."
    )


class CreateTopicsModel(StrictModel):
    """How missing topics are made."""

    enabled: bool = Field(default=True, description="Create topics that are missing, compacted.")
    partitions: int = Field(
        default=-1,
        ge=-1,
        le=2**31 - 1,
        description="Of a topic that is made; -1 is the brokers' default. Never changed later.",
    )
    replication_factor: int = Field(
        default=-1, ge=-1, le=2**15 - 1, description="Of a topic that is made; -1 is the brokers' default."
    )
    properties: dict[str, PropertyText] = Field(
        default={}, description="Settings of a topic that is made, beside its cleanup.policy."
    )


class HeartbeatOutModel(StrictModel):
    """A record at the end of each run."""

    produce: bool = Field(default=False, description="Send a heartbeat record at the end of every run.")
    topic: TopicName = Field(default="connect-heartbeats", description="Created if it is missing.")


class PublicationModel(StrictModel):
    """The whole file."""

    description: str = Field(default="", description="For people; shown in Airflow.")
    table: str = Field(description="<catalog>.<namespace>.<table>; the catalog is a key of catalogs.yaml.")
    sql: str | None = Field(
        default=None, description="One SELECT ... FROM {table}, joined tables in braces; all columns by default."
    )
    kafka: KafkaPlace = Field(
        default="kafka_default", description="Airflow connection id, or inline librdkafka settings without secrets."
    )
    topic: str | None = Field(default=None, description="The topic to produce to; topics instead, with metadata.topic.")
    topics: list[str] = Field(default=[], description="With metadata.topic: all topics that a record may go to.")
    key: KeyOutModel
    value: ValueOutModel = ValueOutModel()
    metadata: MetadataOutModel = MetadataOutModel()
    start: Annotated[
        Annotated[Literal["full"], Tag("<word>")]
        | Annotated[StartSnapshot, Tag("<snapshot>")]
        | Annotated[StartTimestamp, Tag("<timestamp>")],
        Discriminator(
            _tag_start,
            custom_error_type="start",
            custom_error_message="write full, {snapshot: ...} or {timestamp: ...}",
        ),
    ] = Field(default="full", description="Where the first run begins: with the whole table, or with what changed.")
    delivery: Literal["at-least-once", "exactly-once", "none"] = Field(
        default="at-least-once",
        description="What readers may rely on: each change at least once, exactly once, or no promise.",
    )
    on_expired: Literal["fail", "resynchronise"] = Field(
        default="fail",
        description="If the last published snapshot has expired: stop, or compare with what the topic holds.",
    )
    on_delete: Literal["fail", "ignore"] = Field(
        default="fail", description="With fields: []: what rows do that are gone or changed: stop the run, or nothing."
    )
    parallelism: int = Field(
        default=4, ge=1, le=256, description="Into how many parts the keys are divided; the first run fixes it."
    )
    transaction_records: int = Field(
        default=100_000,
        ge=1,
        description="Changes of a part after which its progress is recorded, and its transaction committed.",
    )
    state_topic: str | None = Field(
        default=None, description="Where progress is kept; tidegate-publication-<name> by default. No topic of records."
    )
    create: CreateTopicsModel = CreateTopicsModel()
    allow_uncompacted: bool = Field(default=False, description="Produce to a topic that is not compacted all the same.")
    interval: Duration = Field(default=-1, description="Pause between runs, e.g. 5m; -1: none, see on_table_change.")
    on_table_change: bool = Field(
        default=True, description="Without interval: run when a pipeline has published the table, or a joined one."
    )
    heartbeat: HeartbeatOutModel = HeartbeatOutModel()
    spark: SparkModel = SparkModel()
