"""The words of a pipeline file with their defaults: all that a user may say about a record's journey."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema

from tidegate.config.models.formats import ErrorsModel, KeyModel, StrictModel, ValueModel
from tidegate.config.models.settings import (
    BranchName,
    ClassPath,
    Duration,
    FilledText,
    KafkaPlace,
    PropertyText,
    SharedModel,
    SparkModel,
    Suffix,
    parse_interval_or_cron,
)
from tidegate.spec.source import name_cast

DurationOrCron = Annotated[
    int | str,
    BeforeValidator(parse_interval_or_cron),
    WithJsonSchema({"type": ["integer", "string"], "examples": ["60s", "10m", "0 * * * *"]}),
]


def _parse_moment(value: object) -> datetime:
    remedy = "write it with its zone, e.g. 2026-01-01T00:00:00Z"
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        raise ValueError(f"not a time; {remedy}") from None
    if not isinstance(moment, datetime):
        raise ValueError(f"not a time; {remedy}")
    if moment.tzinfo is None:
        raise ValueError(f"a time without a zone means another moment on every machine; {remedy}")
    return moment


def _refuse_repeats(parts: object) -> object:
    numbers = [str(partition) for partition in parts] if isinstance(parts, dict) else []
    if len(set(numbers)) < len(numbers):
        raise ValueError("a partition is given twice, with and without quotes; keep one")
    return parts


Moment = Annotated[datetime, BeforeValidator(_parse_moment)]
Partition = Annotated[
    int,
    BeforeValidator(lambda value: int(value) if isinstance(value, str) and value.isdecimal() else value),
    Field(ge=0, le=2**31 - 1),
]
OffsetsByPartition = Annotated[dict[Partition, Annotated[int, Field(ge=0)]], BeforeValidator(_refuse_repeats)]


def _tag_start(value: object) -> str | None:
    if isinstance(value, dict):
        if {"timestamp", "offsets"} <= value.keys():
            return None
        return "<timestamp>" if "timestamp" in value else "<offsets>"
    return "<word>" if isinstance(value, str) else None


class StartTimestamp(StrictModel):
    """Begin at a time."""

    timestamp: Moment = Field(description="The first record at or after this time, per partition.")

    @property
    def timestamp_ms(self) -> int:
        return round(self.timestamp.timestamp() * 1000)


class StartOffsets(StrictModel):
    """Begin at given offsets."""

    offsets: dict[str, OffsetsByPartition] = Field(description="topic: {partition: offset}.")


def _parse_metadata(value: object) -> object:
    if isinstance(value, str) and value.split()[1:]:
        raise ValueError(f"not a metadata key; {METADATA_REMEDY}")
    if not isinstance(value, dict):
        return value
    word = value.get("from")
    kind = value.get("type")
    if value.keys() != {"from", "type"} or not isinstance(word, str) or not isinstance(kind, str):
        raise ValueError(f"neither a metadata key nor one with its type; {METADATA_REMEDY}")
    return name_cast(word, kind.strip().upper())


METADATA_REMEDY = "write e.g. timestamp, or {from: timestamp, type: BIGINT}"
_CAST_SCHEMA = {
    "type": "object",
    "properties": {"from": {"type": "string"}, "type": {"type": "string"}},
    "required": ["from", "type"],
    "additionalProperties": False,
}
MetadataWord = Annotated[
    str, BeforeValidator(_parse_metadata), WithJsonSchema({"anyOf": [{"type": "string"}, _CAST_SCHEMA]})
]


class SourceModel(StrictModel):
    """The topics and how their records are read."""

    kafka: KafkaPlace = Field(
        default="kafka_default", description="Airflow connection id, or inline librdkafka settings without secrets."
    )
    topics: list[str] = Field(default=[], description="Topics to read; this or topic_pattern.")
    topic_pattern: str | None = Field(
        default=None,
        description="Regular expression that a topic's whole name matches; the brokers' own topics never do.",
    )
    start: Annotated[
        Annotated[Literal["earliest", "latest", "group"], Tag("<word>")]
        | Annotated[StartTimestamp, Tag("<timestamp>")]
        | Annotated[StartOffsets, Tag("<offsets>")],
        Discriminator(
            _tag_start,
            custom_error_type="start",
            custom_error_message="no place to start at; write earliest, latest, group, "
            "{timestamp: 2026-01-01T00:00:00Z} or {offsets: {topic: {0: 42}}}",
        ),
    ] = Field(default="earliest", description="Where to begin while the table has no position.")
    isolation: Literal["read_committed", "read_uncommitted"] = Field(
        default="read_committed", description="As Kafka's isolation.level."
    )
    group: FilledText | None = Field(
        default=None,
        description="Consumer group that reports progress, and of a topic only this one; default tidegate-<pipeline>.",
    )
    key: KeyModel = KeyModel()
    value: ValueModel = ValueModel()
    verify_integrity: bool = Field(default=False, description="A field present in key and value must be equal.")
    metadata: dict[str, MetadataWord] = Field(
        default={}, description="Column name: Kafka metadata key, or {from: that key, type: another type}."
    )
    errors: ErrorsModel = ErrorsModel()


class RouteModel(StrictModel):
    """Routing by the value of a field."""

    field: str = Field(
        min_length=1, description="A column of the value or a struct's field, a metadata column, or topic."
    )
    pattern: str | None = Field(
        default=None,
        min_length=1,
        description="Regular expression that the field's whole text matches; default: the table's name.",
    )


class CreateModel(StrictModel):
    """How a missing destination is made."""

    enabled: bool = Field(default=True, description="Create namespace and table when they are missing.")
    partition_by: list[str] = Field(
        default=[], description="Columns or transforms, e.g. days(created_at), bucket(4, id)."
    )
    cluster_by: list[str] = Field(default=[], description="Columns to sort or cluster by.")
    properties: dict[str, PropertyText] = Field(default={}, description="Table properties.")
    format_version: Literal[2, 3] = Field(
        default=2, description="Iceberg's format of a table that is made; an existing one keeps its own."
    )
    force_optional: bool = Field(default=False, description="No column is made required, whatever the schema says.")


class EvolveModel(StrictModel):
    """Which changes of a table's schema are made on the way."""

    add_columns: bool = Field(default=True, description="Add columns that the schema has and the table lacks.")
    widen: bool = Field(default=True, description="INT to BIGINT, FLOAT to DOUBLE, a wider DECIMAL.")
    relax: bool = Field(default=True, description="NOT NULL to nullable.")


class HistoryModel(StrictModel):
    """The names of the columns that a table with history has beside the record's."""

    valid_from: str = Field(default="valid_from", min_length=1, description="From when on the row holds.")
    valid_to: str = Field(default="valid_to", min_length=1, description="Until when; NULL for the current row.")
    is_current: str = Field(default="is_current", min_length=1, description="Whether it holds now.")


def _parse_deletes(value: object) -> object:
    if isinstance(value, str):
        number = value.strip().removesuffix("%")
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if value.strip() == number or not 0 <= share < 100:
            raise ValueError("neither a number of rows nor a share of the table's below 100%; write e.g. 1000 or 10%")
        return value.strip()
    return value


class ApproveModel(StrictModel):
    """Which batches wait until a person approves them: those for which any of these holds."""

    deletes_over: Annotated[
        Annotated[int, Field(ge=0)] | str | None,
        BeforeValidator(_parse_deletes),
        WithJsonSchema({"type": ["integer", "string"], "examples": [1000, "10%"]}),
    ] = Field(default=None, description="More rows are deleted than this: a number, or a share of the table's rows.")
    rows_over: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="More rows are inserted, updated and deleted than this."
    )
    schema_: Literal["any"] | None = Field(
        default=None, alias="schema", description="any: the batch would change the table's schema."
    )
    when: str | None = Field(
        default=None,
        description="SQL condition on the counts inserted, updated, deleted, rows (their sum) and table_rows (the "
        "table's before).",
    )


class GroupsModel(StrictModel):
    """Partial updates in which groups of columns have sequences of their own."""

    sequence_groups: dict[str, list[str]] = Field(
        description="Sequence column: the columns that a record writes only if its sequence is newer."
    )


BY_TOPIC: Literal["by-topic"] = "by-topic"


class TableModel(StrictModel):
    """One destination."""

    name: str = Field(description="<catalog>.<namespace>.<table>; the catalog is a key of catalogs.yaml.")
    namespaces: list[str] = Field(
        default=[], description="Namespaces that a name template may lead to; default: the template's own."
    )
    max_tables: int = Field(default=1000, ge=1, description="Most tables that a name template may make.")
    topics: list[str] | None = Field(default=None, description="Which of source.topics feed this table; default all.")
    key: KeyModel | None = Field(default=None, description="Instead of source.key for this table.")
    value: ValueModel | None = Field(default=None, description="Instead of source.value for this table.")
    disjoint_keys: Literal[True, False, "by-topic"] = Field(
        default=False,
        description="true states that the topics of this table never share a key; by-topic makes the topic a part of "
        "the key.",
    )
    when: str | None = Field(default=None, description="SQL condition on the decoded record; others are not written.")
    when_false: Literal["ignore", "delete"] = Field(
        default="ignore", description="delete: a record whose when does not hold deletes its key's row."
    )
    route: RouteModel | None = Field(default=None, description="Routing by a field's value.")
    upsert: bool | None = Field(default=None, description="Default true when key.fields is given, else false.")
    delete: bool | None = Field(default=None, description="Default true when key.fields is given, else false.")
    delete_when: str | None = Field(
        default=None, description="SQL condition that deletes, beside tombstones and delete events."
    )
    deletes: Literal["hard", "soft"] = Field(
        default="hard", description="hard removes the row; soft keeps it and sets deleted_column."
    )
    deleted_column: str = Field(
        default="_deleted", min_length=1, description="The BOOLEAN column that soft deletes set."
    )
    history: Literal["none", "scd2"] = Field(
        default="none", description="scd2: a row for each version of a key, with valid_from, valid_to and is_current."
    )
    history_columns: HistoryModel = HistoryModel()
    branch: BranchName = Field(
        default="main",
        description="The branch that is written, and that holds the position; made from main if it is not there.",
    )
    partial_updates: Annotated[
        Annotated[bool, Tag("<word>")] | Annotated[GroupsModel, Tag("<groups>")],
        Discriminator(lambda value: "<groups>" if isinstance(value, dict | GroupsModel) else "<word>"),
    ] = Field(
        default=False, description="true: NULL or missing fields keep the row's value; or {sequence_groups: ...}."
    )
    update_columns: list[str] = Field(
        default=[],
        description="The only columns that an update of a row changes; the others keep the value of the key's first "
        "record. Default: all.",
    )
    sequence_by: list[str] = Field(
        default=[], description="Columns that order records of one key before the offset does."
    )
    tombstone_retention: Duration = Field(default=7 * 86400, gt=0, description="How long deletes are remembered.")
    max_pending: int = Field(
        default=10,
        ge=1,
        description="Staged batches that may wait for this table while others go on; with stage.interval the default "
        "is 1000.",
    )
    last_per_key: Literal["auto", "always", "never"] = Field(
        default="auto",
        description="always: where it gives the same table, only the last record of each raw key is staged; "
        "auto: where that also saves work.",
    )
    select: str | None = Field(default=None, description="SELECT ... FROM record: what is written of each record.")
    create: CreateModel = CreateModel()
    evolve: EvolveModel = EvolveModel()
    audits: list[str] = Field(
        default=[],
        description="What must hold before a batch is published: conditions on its rows, or queries over {table}.",
    )
    approve: ApproveModel | None = Field(
        default=None, description="Which batches a person must approve before they are published."
    )

    @property
    def groups(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The sequence columns of partial updates, each with the columns that follow it."""
        groups = self.partial_updates.sequence_groups if isinstance(self.partial_updates, GroupsModel) else {}
        return tuple((sequence, tuple(columns)) for sequence, columns in groups.items())


class MergeModel(StrictModel):
    """When a flush runs and how large a batch may be."""

    interval: DurationOrCron = Field(
        default=60, description="Pause between flushes, or a cron expression in UTC; -1 disables."
    )
    records_threshold: int = Field(
        default=-1,
        ge=-1,
        description="Flush when this many records wait, with stage.interval: when so many are staged for one table; -1 "
        "disables.",
    )
    max_records: int = Field(default=1_000_000, ge=1, description="Most records of one batch.")
    max_bytes: int = Field(
        default=2 << 30,
        ge=0,
        description="Bytes that a batch should stage, by those of earlier ones; 0: no such limit.",
    )
    intermediate_suffix: Suffix = Field(default="_tmp", description="End of the intermediate table's name.")
    partition_time: Literal["record", "wall-clock"] = Field(
        default="record",
        description="At which time a row lies in partitions of its ingestion, and what partition_time of a staged row "
        "holds: the record's time, or its arrival's.",
    )


class StageModel(StrictModel):
    """Whether records are staged on a clock of their own, beside the merges."""

    interval: DurationOrCron | None = Field(
        default=None,
        description="Pause between two stagings, or a cron expression in UTC; merge.interval is then the pause between "
        "two merges; default: a flush stages and merges in one run.",
    )


class NotifierModel(StrictModel):
    """One of Airflow's notifiers, called when a run fails, or succeeds again."""

    notifier: ClassPath = Field(description="Import path of the notifier's class.")
    kwargs: dict[str, Any] = Field(default={}, description="Its arguments: connection ids, texts; never a secret.")


class PipelineModel(SharedModel):
    """The whole file."""

    description: str = Field(default="", description="For people; shown in Airflow.")
    source: SourceModel
    tables: list[TableModel]
    stage: StageModel = StageModel()
    merge: MergeModel = MergeModel()
    on_rollback: Literal["fail", "rewind", "keep"] = Field(
        default="fail", description="What to do when the table was rolled back."
    )
    on_partition_growth: Literal["fail", "accept"] = Field(
        default="fail", description="What to do when a topic gains partitions."
    )
    on_incomplete_start: Literal["fail", "accept"] = Field(
        default="fail", description="What to do when a new table would start behind what it needs, or is asked to read."
    )
    freshness_target: Duration | None = Field(
        default=None, gt=0, description="The run turns red when a record has waited longer than this."
    )
    complete: Literal["hour", "day"] | None = Field(
        default=None, description="Tell Airflow of each hour or day of records' time, in UTC, once it is complete."
    )
    on_failure: list[NotifierModel] = Field(default=[], description="Notifiers of a run that fails for a new reason.")
    on_recovery: list[NotifierModel] = Field(default=[], description="Notifiers of a run that succeeds again.")
    spark: SparkModel = SparkModel()


def build_json_schema(model: type[StrictModel] = PipelineModel, title: str = "Tidegate pipeline") -> dict[str, Any]:
    """For editors."""
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return dialect | model.model_json_schema(by_alias=True) | {"title": title}
