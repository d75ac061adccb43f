"""The one pass over a batch's records: decode each, judge it, and count what becomes of it."""

import json
import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql.utils import is_remote
from tidegate.formats.registry import Encoding, get_format
from tidegate.jobs.stage_job import StageTable
from tidegate.jobs.stage_outcome import (
    DELETE_COUNTS,
    ROW_COUNT,
    TRUNCATED_AT,
    UNCHANGED_COUNTS,
    UNKNOWN_FIELDS,
    FirstBadRecord,
    StageOutcome,
)
from tidegate.model.batch import FATES, RECORD_COUNTS, exceeds_tolerance
from tidegate.model.offsets import Ranges
from tidegate.model.plain_data import read_plain
from tidegate.model.unknown_fields import UnknownFields
from tidegate.schema.inferred_types import GrownColumns, grow_columns
from tidegate.sql.spark import quote, render_literal

from tidegate_spark.fields.json.hollow_values import render_without_hollow_values
from tidegate_spark.formats.change_events.unavailable_values import (
    KEPT_COLUMN,
    add_old_key_deletes,
    mark_unavailable_values,
)
from tidegate_spark.formats.decoded import NO_CHANGE, TRUNCATE, DecodedValue, add_key_object, get_value_decoder
from tidegate_spark.formats.json import reports_unknown_fields
from tidegate_spark.formats.plain_json import UNUSUAL, decode_plain_key, decode_plain_value
from tidegate_spark.formats.wire_format import ignore_other_schemas, normalize_wire_format, restore_sent_bytes
from tidegate_spark.stage.bigquery_limits import STORABLE_TIME, add_limit_reasons
from tidegate_spark.stage.foreign_records import has_conditions, mark_foreign_records
from tidegate_spark.stage.key import (
    COUNT_COLUMN,
    LATEST_TIME_COLUMN,
    add_key,
    check_verified_fields,
    keep_every_record,
    keep_last_per_key,
)
from tidegate_spark.stage.projection import add_sequence, project_rows
from tidegate_spark.stage.unknown_field_counts import (
    gather_kinds,
    gather_unknown_fields,
    render_count_of_sets,
    sum_sets,
)
from tidegate_spark.stage.value import add_value

# Beyond this many partitions no valid-through time is kept: each costs an aggregate in the pass over the records.
MAX_OBSERVED_PARTITIONS = 512
PARTITION_TIMES = {"record": None, "wall-clock": "current_timestamp()"}
RECORD_PLACE = "topic, partition, offset"
HAS_UNKNOWN_FIELDS = f"record_fate = 'staged' AND op <> 'd' AND row_number = 0 AND size({UNKNOWN_FIELDS}) > 0"
UNKNOWN_REASON = (
    f"CASE WHEN size({UNKNOWN_FIELDS}) > 0 THEN concat('the value field ', {UNKNOWN_FIELDS}[0].path, ' is no column, "
    "and value.unknown_fields is refuse: declare it, or set value.unknown_fields: warn') END"
)
UNKNOWN_SETS = "unknown_sets"
DEAD_LETTER_OP = "bad"  # beside the changes' own letters, so that no merge takes it for a row
DEAD_LETTER_FATE = "dead_lettered"
BAD_CONDITION = f"fate = '{DEAD_LETTER_FATE}'"
# its bytes and the reason
BAD_STRUCT = (
    "named_struct('key', key, 'value', value, 'headers', headers, 'stage', failed_stage, "
    "'class', concat('Undecodable', initcap(failed_stage)), 'message', reason)"
)
# what is neither reason is a rule about the value, as of fields that no column holds
FAILED_STAGE = (
    "CASE WHEN key_reason IS NOT NULL THEN 'key' WHEN coalesce(value_reason, reason) IS NOT NULL THEN 'value' END"
)
WRITTEN_CONDITION = f"fate IN ('staged', '{DEAD_LETTER_FATE}')"


class PassCounts:
    """The aggregates of one pass: `observe` the records, write them, `read` from what was written.

    By name the counts come with the answer to the write. An `Observation` would let the server analyse the whole plan
    once more: a sixth of the cost of a small stage.
    """

    def __init__(self) -> None:
        self._name = uuid.uuid4().hex
        self._observation = None if is_remote() else Observation(self._name)

    def observe(self, records: DataFrame, aggregates: Sequence[Column]) -> DataFrame:
        """Return the records, with `aggregates` computed while they pass; read them after the action."""
        return records.observe(self._observation or self._name, *aggregates)

    def read(self, written_rows: DataFrame) -> dict[str, Any]:
        """Return the counts, after `written_rows` were written; empty if the server lost them."""
        if self._observation is not None:
            return dict(self._observation.get)
        execution = written_rows.executionInfo
        return dict(next((counts for name, counts in execution.flows if name == self._name), {})) if execution else {}


def build_pass(
    ranges: Ranges, table: StageTable, records: DataFrame, *, is_plain: bool
) -> tuple[PassCounts, DataFrame]:
    """Return the rows of these records, lazily, and the counts that are filled when the rows are written.

    A plain pass also counts the records that it cannot decode, as `UNUSUAL`.
    """
    counts = PassCounts()
    aggregates = list_aggregates(ranges, table)
    if is_plain:
        aggregates.append(count_unusual())
    decoded = counts.observe(decode(_count_records(records, table), table, is_plain=is_plain), aggregates)
    return counts, decoded.where(WRITTEN_CONDITION)


def count_unusual() -> Column:
    return F.expr(f"count_if(reason = '{UNUSUAL}')").alias(UNUSUAL)


def count_unknown_fields(observed: dict[str, Any], records: DataFrame, table: StageTable) -> UnknownFields | None:
    """What the rows of these records hold beside their columns, by name, after a pass over them; None for nothing.

    If they have too many different fields for one pass, the records are read once more.
    """
    number = observed.get(UNKNOWN_FIELDS)
    if not number:
        return None
    unknown_fields = sum_sets(observed[UNKNOWN_SETS], number)
    if unknown_fields is not None:
        return unknown_fields
    return gather_unknown_fields(_read_unknown_fields(records, table), number)


def infer_lacking_columns(observed: dict[str, Any], records: DataFrame, table: StageTable) -> GrownColumns:
    """The columns that hold what the rows of these records have beside their columns, after a pass over them.

    If they have any such field, the records are read once more. Of too many fields only the number counts.
    """
    if not table.value.adds_columns or not observed.get(UNKNOWN_FIELDS):
        return GrownColumns()
    infer = table.value.infer
    kinds = gather_kinds(_read_unknown_fields(records, table))
    if get_format(table.value.format).is_flat:  # each value is read as a text
        kinds = {steps: {"STRING"} for steps in kinds if len(steps) == 1}
    lacking = grow_columns(table.value_columns, set(table.fixed), kinds, infer)
    return replace(lacking, columns=lacking.columns[: infer.max_new_columns])


def _read_unknown_fields(records: DataFrame, table: StageTable) -> DataFrame:
    """The decoded records that have unknown fields."""
    decoded = decode(_count_records(records, table), table)
    # Spark pushes a condition down through each step of decoding, and writes all steps into it: it would not end to
    # plan. It pushes none through an observation.
    barrier = [F.expr(f"count_if({HAS_UNKNOWN_FIELDS})").alias(UNKNOWN_FIELDS)]
    return PassCounts().observe(decoded, barrier).where(HAS_UNKNOWN_FIELDS)


def _count_records(records: DataFrame, table: StageTable) -> DataFrame:
    """The records that are decoded, each with its texts, and the number of those that it stands for."""
    return add_texts(keep_last_per_key(records, table) if table.last_per_raw_key else keep_every_record(records))


def add_texts(records: DataFrame) -> DataFrame:
    return records.selectExpr("*", "CAST(key AS STRING) AS key_text", "CAST(value AS STRING) AS value_text")


def decode(records: DataFrame, table: StageTable, *, is_plain: bool = False) -> DataFrame:
    """Add key, value, op and `fate`: bad, dead_lettered, filtered, ignored (a delete that is not taken), staged.

    `is_plain`: the short expressions of `can_read_plainly`; records that they cannot decode get the reason `UNUSUAL`. A
    record that names no table is bad if names are collected; else it is filtered.
    """
    is_name_registry = table.naming is not None and table.naming.name is None
    unnamed = "name_reason" if is_name_registry else "NULL"
    records = _drop_hollow_values(records, table)
    if is_plain:
        decoded_value = decode_plain_value(records, table)
    else:
        decoded_value = get_value_decoder(table)(add_key_object(normalize_wire_format(records, table), table), table)
    decode_key = decode_plain_key if is_plain else None
    decoded_value = replace(decoded_value, records=ignore_other_schemas(decoded_value.records, table))
    is_truncate = decoded_value.truncate_condition
    keyed = add_key(decoded_value, table, decode_key)
    decoded = add_sequence(add_value(keyed, decoded_value, table), decoded_value, table)
    decoded = add_limit_reasons(
        project_rows(mark_unavailable_values(check_verified_fields(decoded, table), decoded_value, table), table), table
    )
    decoded = restore_sent_bytes(decoded, table)
    ignored_case = "op <=> 'd'" if table.ignore_deletes else "false"
    keyless = [is_truncate or "false", ignored_case]  # nothing is looked up by the key of these
    key_reason = f"CASE WHEN NOT ({' OR '.join(keyless)}) THEN key_reason END"
    refused = "NULL"
    if reports_unknown_fields(table) and table.value.unknown_fields == "refuse":
        refused = f"CASE WHEN is_wanted AND op <> 'd' THEN {UNKNOWN_REASON} END"
    reasons = f"coalesce({key_reason}, value_reason, {unnamed}, {refused})"
    reason = f"CASE WHEN change <> '{NO_CHANGE}' THEN {reasons} END AS reason"
    bad = _render_bad_fate(table)
    judged = _judge_owner(decoded.selectExpr("*", reason), decoded_value, table, is_plain=is_plain).selectExpr(
        "*",
        f"{FAILED_STAGE} AS failed_stage",
        f"CASE WHEN change = '{NO_CHANGE}' THEN 'ignored' WHEN reason IS NOT NULL THEN {bad} "
        f"WHEN NOT is_wanted THEN 'filtered' WHEN {ignored_case} THEN 'ignored' ELSE 'staged' END AS fate",
    )
    if decoded_value.has_several_rows:
        judged = _spoil_whole_records(judged)
    fated = judged.selectExpr("*", f"{_render_record_fate(decoded_value)} AS record_fate")
    if is_truncate:
        fated = fated.withColumns(
            {
                "op": F.expr(f"CASE WHEN {is_truncate} THEN '{TRUNCATE}' ELSE op END"),
                "key_struct": F.expr(f"CASE WHEN NOT {is_truncate} THEN key_struct END"),
            }
        )
    return add_old_key_deletes(fated, decoded_value, table) if decoded_value.previous_key else fated


def _drop_hollow_values(records: DataFrame, table: StageTable) -> DataFrame:
    record_format = get_format(table.value.format)
    # a flat row has texts alone; MessagePack is no text yet
    if not table.value.adds_columns or record_format.is_flat or record_format.encoding is not Encoding.OBJECT:
        return records
    names = (*record_format.event.rows, "old") if record_format.event else ()
    rows: list[tuple[str, ...]] = [(name,) for name in names]
    if record_format.is_enveloped or table.value.options.get("envelope"):
        rows += [("payload",), *(("payload", name) for name in names)]
    return records.withColumn("value_text", F.expr(render_without_hollow_values("value_text", rows)))


def _judge_owner(reasoned: DataFrame, decoded_value: DecodedValue, table: StageTable, *, is_plain: bool) -> DataFrame:
    """Leave bad records to the tables that they are for: they are not wanted here, and have no `reason`."""
    if not has_conditions(table):
        return reasoned
    if is_plain:
        return reasoned.withColumn("reason", F.expr(f"CASE WHEN reason IS NOT NULL THEN '{UNUSUAL}' END"))
    changed_columns = {
        "is_wanted": "is_wanted AND NOT is_foreign",
        "reason": "CASE WHEN NOT is_foreign THEN reason END",
    }
    if decoded_value.previous_key:
        changed_columns["is_old_key_wanted"] = "is_old_key_wanted AND NOT is_foreign"
    marked = mark_foreign_records(reasoned, decoded_value, table)
    return marked.withColumns({name: F.expr(sql) for name, sql in changed_columns.items()})


def _render_bad_fate(table: StageTable) -> str:
    if table.skips is not None:
        cases = " ".join(f"WHEN {render_place(*place)} THEN '{DEAD_LETTER_FATE}'" for place in table.skips)
        return f"(CASE {cases} ELSE 'bad' END)" if cases else "'bad'"
    return "'bad'" if table.set_aside is None else f"'{DEAD_LETTER_FATE}'"


def render_place(topic: str, partition: int, offset: int) -> str:
    return f"topic = {render_literal(topic)} AND partition = {partition} AND offset = {offset}"


def _spoil_whole_records(judged: DataFrame) -> DataFrame:
    is_bad = f"fate IN ('bad', '{DEAD_LETTER_FATE}')"
    spoilt = f"min(CASE WHEN {is_bad} THEN row_number END) OVER (PARTITION BY {RECORD_PLACE}) AS spoilt_by"
    columns = {
        "fate": F.expr("CASE WHEN spoilt_by <> row_number THEN 'ignored' ELSE fate END"),
        "reason": F.expr("CASE WHEN spoilt_by = row_number THEN reason END"),
    }
    return judged.selectExpr("*", spoilt).withColumns(columns)


def _render_record_fate(decoded_value: DecodedValue) -> str:
    # a record is bad if any of its rows is, else staged if any of them is
    if not decoded_value.has_several_rows:
        return "fate"
    rank = "CASE fate WHEN 'staged' THEN 2 WHEN 'filtered' THEN 1 WHEN 'ignored' THEN 0 ELSE 3 END"
    return f"max_by(fate, {rank}) OVER (PARTITION BY {RECORD_PLACE})"


def list_row_columns(table: StageTable) -> list[str]:
    """Return a decoded row's columns in the order of an intermediate table; `i` numbers the rows of one record."""
    return [
        f"{render_key(table)} AS key", f"{_render_value(table)} AS value", *(["sequence"] if table.sequence else []),
        *([KEPT_COLUMN] if table.stages_kept else []),
        "op", "topic", "partition", "offset", *_list_times(table),
        "row_number AS i",
    ]  # fmt: skip


def add_bad_column(columns: Sequence[str], is_bad: str, bad: str) -> list[str]:
    """Extend the intermediate row's `columns` (`expression AS name`, or names) to hold records that make no row.

    Such a record, one for which the condition `is_bad` holds, has the struct `bad`, and neither key nor value.
    """
    expressions = []
    for column in columns:
        expression, _, name = column.rpartition(" AS ")
        if name == "op":
            expressions.append(f"CASE WHEN {is_bad} THEN {bad} END AS bad")
            expressions.append(
                f"CASE WHEN {is_bad} THEN {render_literal(DEAD_LETTER_OP)} ELSE {expression or name} END AS op"
            )
        elif name in ("key", "value", "sequence"):
            expressions.append(f"CASE WHEN NOT {is_bad} THEN {expression or name} END AS {name}")
        else:
            expressions.append(column)
    return expressions


def render_key(table: StageTable) -> str:
    """Return the SQL of the staged key, over `key_struct` and `topic`."""
    if not table.topic_column:
        return "key_struct"
    names = [quote(c.name.removeprefix(table.key.prefix)) for c in table.key_columns]
    fields = ", ".join((*(f"key_struct.{name} AS {name}" for name in names), f"topic AS {quote(table.topic_column)}"))
    return f"CASE WHEN key_struct IS NOT NULL THEN struct({fields}) END"


def _list_times(table: StageTable) -> list[str]:
    at = STORABLE_TIME if table.folder else "timestamp"
    now = PARTITION_TIMES[table.partition_time]
    return [f"{at} AS timestamp", f"{at if now is None else render_as_data(now)} AS partition_time"]


def render_as_data(constant: str) -> str:
    """Return SQL for a number or a time that differs from batch to batch."""
    # a literal becomes part of generated code, which Spark would compile for each batch; it does not fold this index
    return f"array({constant})[pmod(partition, 1)]"


def _render_value(table: StageTable) -> str:
    if not table.keys_only:
        return "value_struct"
    if table.select is None:
        return "CASE WHEN false THEN value_struct END"
    # nothing is made of these records, and the columns that would be are those of the intermediate table
    fields = ", ".join(f"{quote(c.name)}: {c.type}" for c in table.select.columns)
    return f"CAST(NULL AS STRUCT<{fields}>)"


def list_aggregates(ranges: Ranges, table: StageTable) -> list[Column]:
    failing = "reason IS NOT NULL" if table.skips is None else "fate = 'bad'"
    bad_place = f"CASE WHEN {failing} THEN struct(topic, partition, offset) END"
    fates = {fate: f"count_if(record_fate = '{fate}' AND row_number = 0)" for fate in (*FATES, "bad")}
    first_bad = f"min_by(to_json(struct(topic, partition, offset, reason)), {bad_place})"
    read = f"coalesce(sum(CASE WHEN row_number = 0 THEN {COUNT_COLUMN} END), 0)"
    aggregates = {"read": read, **fates, "superseded": f"{read} - count_if(row_number = 0)", "first_bad": first_bad}
    if table.folder:
        aggregates[ROW_COUNT] = f"count_if({WRITTEN_CONDITION})"
    if table.sequence:
        aggregates["deletes"] = "count_if(fate = 'staged' AND op = 'd')"
        aggregates["unsequenced_deletes"] = "count_if(fate = 'staged' AND op = 'd' AND sequence IS NULL)"
    if table.value.applies_truncates:
        aggregates[TRUNCATED_AT] = f"max(CASE WHEN fate = 'staged' AND op = '{TRUNCATE}' THEN offset END)"
    if table.stages_kept:
        aggregates["kept"] = f"count_if(fate = 'staged' AND size({KEPT_COLUMN}) > 0)"
    if reports_unknown_fields(table):
        aggregates[UNKNOWN_FIELDS] = f"count_if({HAS_UNKNOWN_FIELDS})"
        aggregates[UNKNOWN_SETS] = render_count_of_sets(HAS_UNKNOWN_FIELDS)
    for index, (topic, partition) in enumerate(_list_observed_partitions(ranges)):
        is_in_partition = f"topic = {render_literal(topic)} AND partition = {partition}"
        aggregates[f"timestamp_{index}"] = (
            f"max(CASE WHEN {is_in_partition} THEN unix_millis({LATEST_TIME_COLUMN}) END)"
        )
    return [F.expr(expression).alias(name) for name, expression in aggregates.items()]


def _list_observed_partitions(ranges: Ranges) -> list[tuple[str, int]]:
    busy = [(topic, partition) for topic, partition, start, end in ranges if end > start]
    return busy if len(busy) <= MAX_OBSERVED_PARTITIONS else []


def build_outcome(
    observed: dict[str, Any],
    ranges: Ranges,
    table: StageTable,
    unknown_fields: UnknownFields | None,
    lacking: GrownColumns | None,
) -> StageOutcome:
    timestamps: dict[str, dict[int, int]] = {}
    for index, (topic, partition) in enumerate(_list_observed_partitions(ranges)):
        latest = observed[f"timestamp_{index}"]
        if latest is not None:
            timestamps.setdefault(topic, {})[partition] = latest
    names = [*RECORD_COUNTS, "bad", *([ROW_COUNT] if table.folder else [])]
    names += [*(DELETE_COUNTS if table.sequence else ()), *(UNCHANGED_COUNTS if table.stages_kept else ())]
    counts = {name: observed[name] for name in names}
    if table.set_aside is not None and exceeds_tolerance(counts["dead_lettered"], table.set_aside):
        counts["bad"] = counts["dead_lettered"]  # too many: the batch is recorded as bad, and never merged
    first = observed["first_bad"]
    return StageOutcome(
        **counts,
        unknown_fields=unknown_fields,
        lacking=lacking or GrownColumns(),
        applies_truncates=table.value.applies_truncates,
        truncated_at=observed.get(TRUNCATED_AT),
        timestamps=timestamps,
        first_bad=read_plain(FirstBadRecord, json.loads(first)) if first else None,
    )
