"""What a value format tells beside a row, as a column's type, or why its record cannot be used."""

from collections.abc import Iterable

from tidegate.jobs.stage_job import StageTable
from tidegate.schema.data_types import Primitive
from tidegate.spec.source import METADATA_TYPES, name_cast, split_cast
from tidegate.sql.spark import render_literal

from tidegate_spark.fields.lossless import FIRST_DATE, LAST_TIMESTAMP, render_is_text_lossy
from tidegate_spark.formats.decoded import DELETE, NO_CHANGE, DecodedValue

# MySQL fills the number of a binlog with zeros up to six digits: as texts, files of more come before mysql-bin.999999
LONG_FILE_NUMBER_PATTERN = "[.][0-9]{7,}$"
BINLOG_FILE = "value.source.file"
# Kafka counts milliseconds: microseconds that a producer gives for them are of a year that no reader of tables knows
IS_FAR_TIME = f"timestamp NOT BETWEEN TIMESTAMP'{FIRST_DATE}' AND TIMESTAMP'{LAST_TIMESTAMP}'"
KAFKA_UNKEPT = {"timestamp": IS_FAR_TIME, name_cast("timestamp", "TIMESTAMP_NTZ"): IS_FAR_TIME}
FAR_VERSION_REASON = (
    "the record's timestamp is outside of the years 1 to 9999, and with history it says from when on a row holds"
)


def render_is_unkept(source: str, conversion: str, kind: str = "") -> str:
    """Whether `source` is not NULL, and its `conversion` is; of a decimal, or not the same number."""
    leaf = Primitive(kind) if kind else None
    rounded = f" OR {render_is_text_lossy(source, leaf, None)}" if leaf is not None and leaf.decimal else ""
    return f"({source} IS NOT NULL AND (({conversion}) IS NULL{rounded}))"


def render_unkept_reason(decoded_value: DecodedValue, table: StageTable) -> str:
    """Return which metadata columns cannot hold what the record shows, else NULL; empty if each always can.

    A delete has no row, so only columns that order it count.
    """
    cases = list(_list_cases(decoded_value, table))
    return f"CASE {' '.join(cases)} END" if cases else ""


def _list_cases(decoded_value: DecodedValue, table: StageTable) -> Iterable[str]:
    as_they_are, ordering = _find_ordering_columns(table)
    unkept = {f"value.{name}": condition for name, condition in decoded_value.lossy_metadata.items()}
    if table.has_history and not table.sequence:
        yield f"WHEN change <> '{NO_CHANGE}' AND {IS_FAR_TIME} THEN {render_literal(FAR_VERSION_REASON)}"
    for name, word in table.metadata.items():
        if word == BINLOG_FILE and name.casefold() in as_they_are:
            file = decoded_value.metadata[BINLOG_FILE.removeprefix("value.")]
            text = (
                f"the number in the metadata {word} has more than six digits, and as text it comes before 999999; "
                f"order by a number that select makes of it: CAST(substring_index({name}, '.', -1) AS BIGINT)"
            )
            is_long = f"{file} RLIKE {render_literal(LONG_FILE_NUMBER_PATTERN)}"
            yield f"WHEN change <> '{NO_CHANGE}' AND {is_long} THEN {render_literal(text)}"
        condition = KAFKA_UNKEPT.get(word) or unkept.get(split_cast(word)[0])
        if condition is not None:
            ordered_words = "" if name.casefold() in ordering else f"'{DELETE}', "
            text = f"the metadata {word} is not a {METADATA_TYPES[word]} without loss"
            yield f"WHEN change NOT IN ({ordered_words}'{NO_CHANGE}') AND {condition} THEN {render_literal(text)}"


def _find_ordering_columns(table: StageTable) -> tuple[set[str], set[str]]:
    columns = table.select.columns if table.select is not None else ()
    derived_columns = {c.name: c for c in columns if c.is_derived}
    as_they_are = set[str]()
    ordering = set[str]()
    for name in table.sequence:
        reads = {read.casefold() for read in (derived_columns[name].reads if name in derived_columns else (name,))}
        ordering |= reads
        as_they_are |= set() if name in derived_columns and derived_columns[name].is_computed else reads
    return as_they_are, ordering
