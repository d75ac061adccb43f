"""What a worker asks of Spark: one frozen argument per job, as JSON, without a secret in it.

Brokers' settings and catalogs' properties may hold secrets; they travel as Spark configuration instead.
"""

from dataclasses import dataclass, field

from tidegate.errors import TidegateError, find_kind
from tidegate.jobs.job_json import JsonJob
from tidegate.jobs.lasting_failures import (
    build_passing_failure,
    build_refused_right_error,
    find_lasting_failure,
    find_refused_right,
    summarize_failure,
)
from tidegate.model.kafka_log import Epochs
from tidegate.model.offsets import Ranges
from tidegate.schema.data_types import Column
from tidegate.spec.projection import Projection
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Route
from tidegate.spec.table_template import TableNaming

KAFKA_CONF = "spark.tidegate.secret.kafka"
JOB_CONF = "spark.tidegate.job"
FAILURE_CONF = "spark.tidegate.failure"  # the file in which a submitted job leaves its `JobFailure`
LONGEST_MESSAGE = 500
UNUSUAL_BATCH_PROPERTY = "tidegate.unusual-batch"  # of an intermediate table: the last batch that was read twice


@dataclass(frozen=True)
class StageTable:
    """One intermediate table to fill.

    The attempt, and where its rows and counts go:

    - `attempt`, `summary`: both go into the snapshot. `property`: the table property that takes the counts.
    - `create`: statements that make the table if it is missing.
    - `folder`: where rows and counts are left as files for the worker to load, empty where Spark writes the table.

    What the records are:

    - `key`, `key_columns`, `value`, `value_columns`: the two formats, and the columns that are decoded of each.
    - `fixed`: names, case-folded, of columns that do not grow with the records.
    - `names_of`: for columns that come under several names, as the table's was renamed, all of these, the newest first.
    - `metadata`: the word of `metadata` by column. `topic_column`: one that is a part of the key too, empty for none.
    - `epochs`: the leader's epoch of each partition's records. `partition_time`: record or wall-clock.
    - `unchanged`: columns in which the source may write a placeholder for an unchanged value.
    - `verified`: fields that must be equal in key and value.

    What becomes of them:

    - `when`, `route`, `naming`: which records belong to the table. `max_names`: how many tables records may name.
    - `delete_when`: which records are deletes. `retracts`: the answers of `when` (false, null) that make a record one.
    - `ignore_deletes`: the table takes no deletes. `keys_only`: the value stays NULL.
    - `select`: what is made of each decoded row. `has_history`: each row is a version with a time of its own.
    - `sequence`: columns, of the value or of metadata, that order the records of one key. `grouped`: columns that have
      a sequence of their own.
    - `stages_kept`: each row says which of its columns keep their value. `is_partial`: NULL says so.
    - `last_per_raw_key`: leaves out a record if a later one has the same key bytes.
    - `tries_plain`: reads records by short expressions first, if their format has such; once more as a whole if some
      are spelled in an unusual way.
    - `key_limits`, `value_limits`: reasons why the destination cannot hold a key or a row, each with its SQL condition.

    Bad records:

    - `set_aside`: how many may be staged as dead letters; None stages none. `skips`: the only places (topic, partition,
      offset) where they may be; None for any place.
    - `explains`: stages nothing, and explains the one record of the ranges, field by field. `outlines`: stages nothing,
      and says of each of these places (topic, partition, offset) what becomes of its record.
    - `of_key`: SQL that holds of one `key`: only its records are staged, and also those that make no row, as `bad` ones
      whose stage says why.
    """

    intermediate: str
    attempt: str
    key: KeyFormat
    key_columns: tuple[Column, ...]
    value: ValueFormat
    value_columns: tuple[Column, ...]
    metadata: dict[str, str]
    ignore_deletes: bool
    when: str | None
    route: Route | None
    delete_when: str | None
    summary: dict[str, str]
    property: str
    create: tuple[str, ...] = ()
    last_per_raw_key: bool = False
    naming: TableNaming | None = None
    max_names: int = 0
    sequence: tuple[str, ...] = ()
    set_aside: int | None = None
    keys_only: bool = False
    epochs: Epochs = field(default_factory=dict)
    folder: str = ""
    verified: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    stages_kept: bool = False
    partition_time: str = "record"
    select: Projection | None = None
    has_history: bool = False
    retracts: tuple[str, ...] = ()
    grouped: tuple[str, ...] = ()
    explains: bool = False
    outlines: tuple[tuple[str, int, int], ...] = ()
    skips: tuple[tuple[str, int, int], ...] | None = None
    tries_plain: bool = False
    key_limits: tuple[tuple[str, str], ...] = ()
    value_limits: tuple[tuple[str, str], ...] = ()
    is_partial: bool = False
    topic_column: str = ""
    fixed: tuple[str, ...] = ()
    of_key: str = ""
    names_of: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class DeadLetterSource:
    """The dead letters of `destination` that wait in `table`, read instead of the log, or from their copy in `folder`.

    `topic_ids`: letters of these topics only, if the letter tells its topic's id.
    """

    table: str
    destination: str
    folder: str = ""
    topic_ids: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StageJob(JsonJob):
    """Reads `ranges` once, or `letters`, and stages them as `batch` for each of `tables`; `finder` lists names."""

    pipeline: str
    batch: int
    ranges: Ranges
    isolation: str
    tables: tuple[StageTable, ...]
    letters: DeadLetterSource | None = None
    finder: StageTable | None = None

    @property
    def all_tables(self) -> tuple[StageTable, ...]:
        return (*self.tables, self.finder) if self.finder else self.tables


@dataclass(frozen=True)
class JobFailure(JsonJob):
    """The class name of a job's error, and its text; the first line of the text for an error of another product."""

    kind: str
    message: str

    @classmethod
    def from_error(cls, error: Exception) -> "JobFailure":
        if isinstance(error, TidegateError):
            return cls(type(error).__name__, str(error))
        return cls(type(error).__name__, summarize_failure(str(error), LONGEST_MESSAGE))

    def to_error(self, place: str, verb: str = "") -> TidegateError:
        """The error again, of its own kind; for one of another product `RetryLater`, unless no retry changes it.

        `place` names the job, `verb` what it does.
        """
        error_type = find_kind(self.kind)
        refusal = find_refused_right(self.message)
        if error_type is not None:
            return error_type(self.message)
        if refusal:
            return build_refused_right_error(place, refusal)
        lasting = find_lasting_failure(place, verb, self.message)
        return lasting or build_passing_failure(place, verb, f"{self.kind}: {self.message}", failed=" failed")
