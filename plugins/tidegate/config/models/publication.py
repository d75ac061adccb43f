"""The words of a publication file with their defaults: all that a user may say about a table's way back to Kafka."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from tidegate.config.models.formats import AvroModel, CsvModel, ProtobufModel, StrictModel
from tidegate.config.models.pipeline import StartTimestamp
from tidegate.config.models.runtime import Duration, SparkModel
from tidegate.config.models.settings import KafkaPlace, PropertyText
from tidegate.formats.registry import WRITTEN_FORMATS

if TYPE_CHECKING:
    OutWord = str
else:  # the words are those of the registry, which no type checker can read
    OutWord = Literal[WRITTEN_FORMATS]


def _tag_start(value: object) -> str | None:
    if isinstance(value, dict):
        return "<timestamp>" if "timestamp" in value else "<snapshot>"
    return "<word>" if isinstance(value, str) else None


class StartSnapshot(StrictModel):
    """Begin at a snapshot."""

    snapshot: int = Field(ge=1, description="Only what changed after this snapshot.")


class KeyOutModel(StrictModel):
    """How a record's key is written."""

    format: OutWord = Field(default="json", description="How the record key is encoded.")
    fields: list[str] = Field(min_length=1, description="The result's key columns: one row for each.")
    fields_prefix: str = Field(default="", description="Taken off the names of key columns; with EXCEPT_KEY only.")
    avro: AvroModel | None = Field(default=None, description="Options of the avro format.")
    protobuf: ProtobufModel | None = Field(default=None, description="Options of the protobuf format.")
    csv: CsvModel | None = Field(default=None, description="Options of the csv format.")


class ValueOutModel(StrictModel):
    """How a record's value is written."""

    format: OutWord = Field(default="json", description="How the record value is encoded.")
    fields_include: Literal["ALL", "EXCEPT_KEY"] = Field(
        default="ALL", description="Whether the value holds the key columns too."
    )
    avro: AvroModel | None = Field(default=None, description="Options of the avro format.")
    protobuf: ProtobufModel | None = Field(default=None, description="Options of the protobuf format.")
    csv: CsvModel | None = Field(default=None, description="Options of the csv format.")


class MetadataOutModel(StrictModel):
    """Columns that become a record's metadata instead of a part of its value."""

    headers: str | None = Field(default=None, min_length=1, description="A MAP, or an ARRAY<STRUCT<key, value>>.")
    timestamp: str | None = Field(default=None, min_length=1, description="A TIMESTAMP or DATE column.")
    topic: str | None = Field(default=None, min_length=1, description="A column that names one of topics.")


class CreateTopicsModel(StrictModel):
    """How missing topics are made."""

    enabled: bool = Field(default=True, description="Create topics that are missing, compacted.")
    partitions: int = Field(
        default=-1, ge=-1, le=2**31 - 1, description="-1: the brokers' default. Never changed later."
    )
    replication_factor: int = Field(default=-1, ge=-1, le=2**15 - 1, description="-1: the brokers' default.")
    properties: dict[str, PropertyText] = Field(default={}, description="Settings of the topic beside the policy.")


class HeartbeatOutModel(StrictModel):
    """A record at the end of each run."""

    produce: bool = Field(default=False, description="Send a heartbeat record at the end of every run.")
    topic: str = Field(
        default="connect-heartbeats", pattern=r"^[A-Za-z0-9._-]{1,249}$", description="Created if it is missing."
    )


class PublicationModel(StrictModel):
    """The whole file."""

    description: str = Field(default="", description="For people; shown in Airflow.")
    table: str = Field(description="<catalog>.<namespace>.<table>; the catalog is a key of catalogs.yaml.")
    sql: str | None = Field(default=None, description="One SELECT ... FROM {table}; joined tables in braces.")
    kafka: KafkaPlace = Field(
        default="kafka_default", description="Airflow connection id, or inline librdkafka settings without secrets."
    )
    topic: str | None = Field(default=None, description="The topic to produce to.")
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
        default="at-least-once", description="As Flink's sink.delivery-guarantee."
    )
    on_expired: Literal["fail", "resynchronise"] = Field(
        default="fail", description="When the last published snapshot is gone: compare with what the topic holds."
    )
    parallelism: int = Field(default=4, ge=1, le=256, description="Into how many parts the keys are divided; fixed.")
    transaction_records: int = Field(default=100_000, ge=1, description="Most changes between two progress records.")
    state_topic: str | None = Field(default=None, description="Default tidegate-publication-<name>.")
    create: CreateTopicsModel = CreateTopicsModel()
    allow_uncompacted: bool = Field(default=False, description="Produce to a topic that is not compacted all the same.")
    interval: Duration = Field(default=-1, description="Pause between runs; -1 runs when the table was published.")
    on_table_change: bool = Field(default=True, description="Without interval: run when the table's asset changes.")
    heartbeat: HeartbeatOutModel = HeartbeatOutModel()
    spark: SparkModel = SparkModel()


def build_publication_schema() -> dict[str, Any]:
    """JSON Schema of a publication file, for editors."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return dialect | PublicationModel.model_json_schema(by_alias=True) | {"title": "Tidegate publication"}
