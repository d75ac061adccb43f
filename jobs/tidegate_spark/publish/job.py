"""The publish job: a table's changes between two snapshots, produced to Kafka from the executors."""

import json
from dataclasses import asdict
from typing import Any

from pyspark import cloudpickle
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from tidegate.errors import BadRecord, ConfigurationError, GiveUp
from tidegate.failpoints import hit_failpoint
from tidegate.formats.registry import get_format
from tidegate.jobs.publish_job import PRODUCER_CONF, PublishJob
from tidegate.model.publication_progress import RunMode
from tidegate.sql.spark import render_literal

from tidegate_spark.publish import producer
from tidegate_spark.publish.encoders.record_part import RecordPart
from tidegate_spark.publish.record_encoding import build_part_header
from tidegate_spark.publish.table_changes import IDENTITY_BYTES, find_changed_rows, find_inserted_rows, find_key
from tidegate_spark.session import read_private_conf

ALIEN_PROBLEM = "goes to a topic that is not listed in topics"
INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def describe_key_form(spark: SparkSession, key: RecordPart) -> str:
    """Return a text that changes if an equal key would get other bytes: the schema's id, or the columns' types."""
    header = build_part_header(spark, key)
    if header is not None:
        return header.hex()
    is_wide = bool(get_format(key.format).column_types)  # its numbers are bytes, as many as their type has
    return ", ".join(f"{name} {_describe_type(kind, is_wide=is_wide)}" for name, kind in key.typed_fields)


def refuse_other_keys(job: PublishJob, form: str) -> None:
    """Raise `GiveUp` if keys in the topics have another form: they would stay there beside the new ones."""
    earlier_form = next((part.key_form for part in job.parts if part.key_form not in ("", form)), None)
    if earlier_form is None or job.position.mode == RunMode.TOPIC:
        return
    raise GiveUp(
        f"publication={job.publication} snapshot={job.position.to}: keys would be written otherwise than those that "
        f"the topics hold, key_form={earlier_form} and now key_form={form}, as a column's type or the key's schema in "
        "the registry has changed: each row would have a new key, and the old ones would stay; nothing was produced; "
        f"run `tidegate publish {job.publication} --resynchronise`, which deletes the old keys, or publish to a "
        "new topic"
    )


def _describe_type(kind: T.DataType, *, is_wide: bool) -> str:
    if isinstance(kind, INTEGERS) and not is_wide:
        return "integer"
    if isinstance(kind, T.DecimalType):
        return f"decimal({kind.scale})"
    if isinstance(kind, T.StructType):
        fields = ", ".join(f"{field.name} {_describe_type(field.dataType, is_wide=is_wide)}" for field in kind)
        return f"struct({fields})"
    if isinstance(kind, T.ArrayType):
        return f"array({_describe_type(kind.elementType, is_wide=is_wide)})"
    if isinstance(kind, T.MapType):
        sides = (_describe_type(data_type, is_wide=is_wide) for data_type in (kind.keyType, kind.valueType))
        return f"map({', '.join(sides)})"
    return str(kind.simpleString())


# The executors have no code of ours: the functions travel by value.
cloudpickle.register_pickle_by_value(producer)


def run(spark: SparkSession, job: PublishJob) -> None:
    """Produce the job's changes.

    1. Compare the two states, key by key; keep the result, because it is used twice.
    2. Check all of it: one bad record, or another form of keys, stops the run before anything is produced.
    3. Give each part its changes in the order of their keys, and an empty row, so that parts without changes advance.
    4. Produce, part by part. The state topic records what was done.
    """
    persisted_frames: list[DataFrame] = []
    try:
        # 1. and 2.
        changes = _compare_states(spark, job, persisted_frames)
        key_form = "" if job.is_append else describe_key_form(spark, find_key(spark, job))
        refuse_other_keys(job, key_form)
        hit_failpoint("job.compared")
        parts = [part.number for part in job.parts]
        # 3.
        rows = _split_into_parts(spark, changes, job).where(f"part IN ({', '.join(map(str, parts))})")
        ordered_rows = rows.repartition(job.parallelism, "part").sortWithinPartitions("part", "key", "topic")
        # 4.
        plan = build_plan(job, json.loads(read_private_conf(spark, PRODUCER_CONF)), key_form)
        outcomes = ordered_rows.mapInArrow(producer.build_producer(plan), "part INT, outcome STRING").collect()
        hit_failpoint("job.produced")
        raise_refusal(job, [row.outcome for row in outcomes])
    finally:
        for rows in persisted_frames:
            rows.unpersist()


def _compare_states(spark: SparkSession, job: PublishJob, persisted_frames: list[DataFrame]) -> DataFrame:
    try:
        find = find_inserted_rows if job.is_append else find_changed_rows
        check = _check_inserted_rows if job.is_append else _check_changes
        changes = find(spark, job, persisted_frames).persist()
        persisted_frames.append(changes)
        check(changes, job)
    except AnalysisException as error:
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:500]
        raise ConfigurationError(
            f"publication={job.publication} snapshot={job.position.to}: Spark does not understand the SQL over the "
            f"table's columns: {first}; correct sql or key.fields, or the table"
        ) from error
    return changes


def _split_into_parts(spark: SparkSession, changes: DataFrame, job: PublishJob) -> DataFrame:
    columns = ("topic", "key", "value", "headers", "timestamp", "kind")
    # equal rows stay in one part: how many of them it has produced is told by its own states alone
    key = f"substring(key, 1, {IDENTITY_BYTES})" if job.is_append else "key"
    part = f"CAST(crc32({key}) % {job.parallelism} AS INT) AS part"
    empty = [f"CAST(NULL AS {changes.schema[name].dataType.simpleString()}) AS {name}" for name in columns]
    empty_parts = spark.range(job.parallelism).selectExpr("CAST(id AS INT) AS part", *empty)
    rows = changes.selectExpr(part, *columns).unionByName(empty_parts)
    # as text: of a column of lists Spark measures the whole batch anew for each row that it hands to Python
    return rows.withColumn("headers", F.expr("to_json(transform(headers, h -> array(h.key, hex(h.value))))"))


def _check_inserted_rows(changes: DataFrame, job: PublishJob) -> None:
    """`BadRecord` for a row that makes no record, and for rows that are gone."""
    place = f"publication={job.publication} snapshot={job.position.to}"
    misfit = f"CASE WHEN {_render_is_alien(job)} THEN '{ALIEN_PROBLEM}' ELSE problem END"
    gone = "sum(CASE WHEN kind = 'deleted' THEN number END)"
    first, number = changes.selectExpr(f"min(CASE WHEN kind = 'inserted' THEN {misfit} END)", gone).collect()[0]
    if first is not None:
        raise BadRecord(f"{place}: an inserted row {first}; nothing was produced")
    if number:
        raise BadRecord(
            f"{place}: of the rows at snapshot={job.position.origin} {-number} were deleted or changed, which no "
            "record of an inserted row can say; nothing was produced; set on_delete: ignore to produce only what was "
            "inserted, or give key.fields"
        )


def _render_is_alien(job: PublishJob) -> str:
    topics = ", ".join(map(render_literal, job.topics))
    return f"topic IS NULL OR NOT array_contains(array({topics}), topic)"


def _check_changes(changes: DataFrame, job: PublishJob) -> None:
    # a job of its own, before the first record is sent
    wrong = {
        "copies > 1": "has several rows; correct key.fields, or the SQL",
        "key IS NULL": "is NULL, which no compacted topic takes; correct key.fields, or filter such rows",
        "value IS NULL AND kind <> 'deleted'": "has a NULL value, which would delete it; use another value.format",
        _render_is_alien(job): ALIEN_PROBLEM,
    }
    key_hex = "hex(coalesce(key, x''))"
    aggregates = [f"min(CASE WHEN {condition} THEN {key_hex} END)" for condition in wrong]
    unwritable = f"min(CASE WHEN problem IS NOT NULL THEN struct({key_hex} AS key, problem) END)"
    first, *answer = changes.selectExpr(unwritable, *aggregates).collect()[0]
    problems = [] if first is None else [(first.problem, first.key)]
    for problem, key in (*problems, *zip(wrong.values(), answer, strict=True)):
        if key is not None:
            key_text = bytes.fromhex(key).decode(errors="replace")
            raise BadRecord(f"publication={job.publication} snapshot={job.position.to} key={key_text}: it {problem}")


def raise_refusal(job: PublishJob, outcomes: list[str]) -> None:
    """Raise `BadRecord` for a record that the brokers never accept, `GiveUp` if the user lacks a right."""
    refusal = next((text for text in outcomes if text.startswith(producer.REFUSAL_PREFIX)), None)
    if refusal is None:
        return
    refusal_words = json.loads(refusal.removeprefix(producer.REFUSAL_PREFIX))
    topics = refusal_words["topic"] or ", ".join(job.topics)
    place = f"topic={topics} snapshot={job.position.to}"
    beginning = f"publication={job.publication}: the brokers refuse"
    if refusal_words["error"].endswith("AUTHORIZATION_FAILED"):
        raise GiveUp(
            f"{beginning} its records: {place}: {refusal_words['error']}; give the connection's user what "
            "docs/security.md lists for publications"
        )
    comparison = f"compare the whole table with: tidegate publish {job.publication} --resynchronise"
    key = bytes.fromhex(refusal_words["key"] or "").decode(errors="replace")
    if refusal_words["error"] == "INVALID_TIMESTAMP":
        raise BadRecord(
            f"{beginning} the time of a record: {place} key={key}: {refusal_words['error']}; widen the topic's "
            "message.timestamp.before.max.ms and message.timestamp.after.max.ms; or correct the column of "
            f"metadata.timestamp, and then {comparison}"
        )
    if refusal_words["error"] == "INVALID_RECORD":  # said of a whole batch, so nobody knows of which record
        raise BadRecord(
            f"{beginning} a record: {place}: {refusal_words['error']}; a compacted topic takes none without a key, and "
            "one whose brokers check schemas none of another format; correct the topic's settings, or key and value"
        )
    raise BadRecord(
        f"{beginning} a record as too large: {place} key={key} bytes={refusal_words['bytes']}: "
        f"{refusal_words['error']}; raise the topic's max.message.bytes and the connection's message.max.bytes; or "
        f"make the row smaller, and then {comparison}"
    )


def build_plan(job: PublishJob, settings: dict[str, str], key_form: str = "") -> dict[str, Any]:
    return {
        "settings": settings,
        "delivery": job.delivery,
        "state_topic": job.state_topic,
        "transaction_records": job.transaction_records,
        "position": job.position.to_dict(),
        "key_form": key_form,
        "has_keys": not job.is_append,
        "parts": {part.number: asdict(part) for part in job.parts},
    }
