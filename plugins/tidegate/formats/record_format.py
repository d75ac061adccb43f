"""The description of one format of record keys and values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tidegate.formats.encoding import Encoding, EventLayout


class SchemaKind(StrEnum):
    """What a schema that says what records hold is written in, by the word of the options beside `format:`."""

    AVRO = "avro"
    PROTOBUF = "protobuf"


@dataclass(frozen=True)
class RecordFormat:
    """What a format can do, and what its records tell; the defaults are those of an object with the columns by name.

    - `name`: the word of `format:` in pipeline files.
    - `reads_keys`, `reads_values`: whether keys and values may use it.
    - `decoder`: its module in `tidegate_spark.formats`, empty for the one of its name.
    - `encoder`: its module in `tidegate_spark.publish.encoders`, empty where publications may not use it.
    - `options`: the mapping beside `format:` that holds its options, None without any; `option_names` are the keys of
      that mapping that it knows, None for all of them.
    - `schema`: the kind of schema that says what its records hold, None where nothing does.
    - `reads_several_types`: whether records of several record types may lie in one table.
    - `only_column`: the type of the one column that the whole key or value is, where no schema declares another.
    - `column_types`: the types that a column may have, none for every type; `noun` is what the bytes are.
    - `is_flat`: a column has no parts. `is_positional`: columns are known by their place, so that a schema is needed.
    - `holds_several_rows`: one message may hold rows of several keys, none of which is the record's.
    - `is_change_event`: the row is a part of the record. `knows_truncate`: an event may empty the table.
    - `is_enveloped`: Kafka Connect's schema may stand beside each payload. `counts_days`: a number is a date in days.
    - `has_plain_pass`: objects of flat columns, read without any option, may be read by short expressions first.
    - `shows_deleted_row`: an event says what was deleted, and the tombstone behind it only repeats that.
    - `may_leave_out`: an update may leave out columns that did not change.
    - `unavailable_value`: what the source writes in place of a large value that did not change.
    - `metadata`: what messages tell about themselves: the words of `metadata` with their column types.
    - `encoding`: what its bytes look like, and `event` where a change event has its parts: by these a sample is
      recognised.
    """

    name: str
    reads_keys: bool = True
    reads_values: bool = True
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
    encoding: Encoding = Encoding.OBJECT
    event: EventLayout | None = None

    @property
    def module(self) -> str:
        """Where `decode_key` and `decode_value` are, below `tidegate_spark.formats`."""
        return self.decoder or self.name.replace("-", "_")

    @property
    def is_written(self) -> bool:
        """Whether publications may use it."""
        return bool(self.encoder)

    @property
    def describes_itself(self) -> bool:
        """Whether its records' columns are known without a declared schema."""
        return self.schema is not None or self.only_column is not None
