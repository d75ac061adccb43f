"""The words of a pipeline file for a record's key and value: formats, their options, and what a bad record does."""

from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from tidegate.formats.registry import KEY_FORMATS, VALUE_FORMATS

if TYPE_CHECKING:
    KeyWord = str
    ValueWord = str
else:  # the words are those of the registry, which no type checker can read
    KeyWord = Literal[KEY_FORMATS]
    ValueWord = Literal[VALUE_FORMATS]


def _tag_unit(value: object) -> str:
    return "<each>" if isinstance(value, dict) else "<all>"


Word = TypeVar("Word")
# for all columns, or for each by its name
# tagged, so that a wrong word is refused as one of the words, and not as one of two shapes
AllOrEach = Annotated[
    Annotated[Word, Tag("<all>")] | Annotated[dict[str, Word], Tag("<each>")], Discriminator(_tag_unit)
]
TimeUnits = AllOrEach[Literal["seconds", "millis", "micros", "nanos"]]
Numbers = AllOrEach[Literal["strict", "lenient"]]
Encodings = AllOrEach[Literal["base64", "base64-url-safe", "hex"]]
Nanoseconds = AllOrEach[Literal["refuse", "truncate"]]
Character = Annotated[str, Field(min_length=1, max_length=1)]


class StrictModel(BaseModel):
    """One mapping of the file: unknown keys and silent conversions are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class CsvModel(StrictModel):
    """How a line is cut into columns."""

    delimiter: Character = Field(default=",", description="What stands between two columns.")
    quote: Character = Field(default='"', description="What stands around a column that holds a delimiter.")
    escape: Character | None = Field(
        default=None, description="What stands before a quote inside of quotes; without it such a quote is doubled."
    )
    null_literal: str | None = Field(
        default=None, description="Text of a column that means NULL; without it an empty column does."
    )


class CsvInModel(CsvModel):
    """How the columns of a line are read."""

    binary: Encodings | None = Field(
        default=None, description="How bytes are written, for all columns or by column; default base64."
    )


class RawModel(StrictModel):
    """How the bytes of a number lie."""

    endianness: Literal["big", "little"] = Field(
        default="big", description="Which byte of a number comes first: the highest, as Kafka's serializers write it."
    )


class RegistryModel(StrictModel):
    """Which subject of a registry has the schema."""

    registry: str = Field(
        default="schema_registry_default", description="Airflow connection id, or the registry's http(s) address."
    )
    subject: str | None = Field(default=None, description="Subject of the registry; default <topic>-key or -value.")


class AvroModel(RegistryModel):
    """Where an Avro schema comes from."""

    schema_: str | None = Field(
        default=None, alias="schema", description="The schema itself, as JSON: records carry no schema id then."
    )


class WrittenModel(StrictModel):
    """Which schemas records may have, and where their ids lie."""

    subject_name_strategy: Literal["TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"] | None = Field(
        default=None, description="What subjects are called; default TopicNameStrategy, <topic>-key or -value."
    )
    records: list[str] | None = Field(
        default=None, min_length=1, description="Full names of the record types that are read, with a record strategy."
    )
    ignored_records: list[str] | None = Field(
        default=None, min_length=1, description="Record types of the topic that change nothing; any other one is bad."
    )
    wire_format: Literal["confluent", "confluent-header", "apicurio", "apicurio-header"] | None = Field(
        default=None,
        description="Where the schema id lies; default confluent: a magic byte and 4 bytes before the record.",
    )
    use_id: Literal["globalId", "contentId"] | None = Field(
        default=None, description="Which id Apicurio's serializer writes; default globalId with API v2, contentId v3."
    )


class AvroInModel(AvroModel, WrittenModel):
    """Where the Avro schemas of records come from."""


class ProtobufModel(RegistryModel):
    """Where a message's descriptor comes from."""

    descriptor: str | None = Field(
        default=None,
        min_length=1,
        description="A descriptor set in the include folder: records are bare messages, and no registry is asked.",
    )
    message: str | None = Field(
        default=None, min_length=1, description="Which message of the schema; default its first."
    )


class ProtobufInModel(ProtobufModel, WrittenModel):
    """Where the descriptors of records come from."""


class JsonKeyModel(WrittenModel):
    """What stands before the object."""

    registry: str | None = Field(
        default=None,
        description="Airflow connection id or http(s) address: a magic byte and a schema id stand before the object.",
    )
    subject: str | None = Field(default=None, description="Subject of the registry; default <topic>-key or -value.")
    numbers: Numbers | None = Field(
        default=None,
        description='lenient reads numbers that are sent as text ("7"), for all or by column; strict refuses them.',
    )
    binary: Encodings | None = Field(
        default=None, description="How bytes are written, for all columns or by column; default base64."
    )
    extended: bool = Field(default=False, description="MongoDB's extended JSON, in a key as text inside of its field.")


class JsonModel(JsonKeyModel):
    """What stands before and around the object."""

    envelope: bool = Field(default=False, description="Kafka Connect's {schema, payload} around every value.")


class KeyModel(StrictModel):
    """How a record key is read."""

    format: KeyWord = Field(default="json", description="How the record key is encoded.")
    fields: list[str] = Field(
        default=[], description="Key columns; from the record key, or from the value for keyless topics."
    )
    from_: Literal["record", "value"] = Field(
        default="record",
        alias="from",
        description="value: the fields come from the value; the record's key is not read.",
    )
    prefix: str = Field(default="", description="Put before key columns that would collide with value columns.")
    into: str | None = Field(
        default=None, description="One struct column that holds the whole key instead of flat columns."
    )
    schema_: str | None = Field(default=None, alias="schema", description="Spark DDL of the key, e.g. id BIGINT.")
    json_: JsonKeyModel | None = Field(default=None, alias="json", description="Options of the json format.")
    avro: AvroInModel | None = Field(default=None, description="Options of the avro formats.")
    protobuf: ProtobufInModel | None = Field(default=None, description="Options of the protobuf format.")
    csv: CsvInModel | None = Field(default=None, description="Options of the csv format.")
    raw: RawModel | None = Field(default=None, description="Options of the raw format.")


class InferModel(StrictModel):
    """Which columns records make."""

    decimals: Literal["double", "decimal", "string"] = Field(
        default="double", description="Numbers with a fraction: DOUBLE, DECIMAL(38,9), or their text."
    )
    objects: Literal["struct", "string"] = Field(
        default="struct", description="Objects: a STRUCT that grows with its fields, or their text."
    )
    max_new_columns: int = Field(
        default=100, ge=1, le=1000, description="A batch with more new fields, also inside of structs, fails."
    )


class ValueModel(StrictModel):
    """How a record value is read."""

    format: ValueWord = Field(default="json", description="How the record value is encoded.")
    schema_: str | None = Field(
        default=None, alias="schema", description="Spark DDL of the row; without it the destination's columns are used."
    )
    fields_include: Literal["ALL", "EXCEPT_KEY"] = Field(
        default="ALL", description="Whether the value repeats the key columns."
    )
    json_: JsonModel | None = Field(default=None, alias="json", description="Options of the json format.")
    unknown_fields: Literal["warn", "add", "refuse", "ignore"] = Field(
        default="warn",
        description="What becomes of a field that no column holds: warn counts it by name, add makes a column of it, "
        "refuse makes its record bad.",
    )
    infer: InferModel = Field(default=InferModel(), description="Which columns records make, with unknown_fields: add.")
    truncate: Literal["refuse", "ignore", "apply"] = Field(
        default="refuse",
        description="What a truncate of the source table does: apply empties the table, from its place in the log on.",
    )
    timestamp_unit: TimeUnits | None = Field(
        default=None,
        description="What integers count in columns that hold a time, for all or by column; refused without it.",
    )
    nanoseconds: Nanoseconds = Field(
        default="refuse",
        description="What becomes of parts of a microsecond in columns that hold a time, for all or by column.",
    )
    unavailable_value: str | None = Field(default=None, description="What stands for an unchanged value; '' for none.")
    avro: AvroInModel | None = Field(default=None, description="Options of the avro formats.")
    protobuf: ProtobufInModel | None = Field(default=None, description="Options of the protobuf format.")
    csv: CsvInModel | None = Field(default=None, description="Options of the csv format.")
    raw: RawModel | None = Field(default=None, description="Options of the raw format.")


def get_options(part: KeyModel | ValueModel, word: str) -> StrictModel | None:
    options: StrictModel | None = getattr(part, "json_" if word == "json" else word)
    return options


class ErrorsModel(StrictModel):
    """What a bad record does."""

    tolerance: Literal["none", "all"] = Field(
        default="none", description="none fails on the first bad record; all sets it aside."
    )
    max_per_batch: int = Field(default=1000, ge=0, description="More bad records than this fail the batch even so.")
    topic: str | None = Field(
        default=None, min_length=1, description="Topic that they are sent to as well, with headers that say why."
    )
