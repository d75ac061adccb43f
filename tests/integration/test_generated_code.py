"""Spark compiles what a stage job does once: the code that it generates for a batch is the one of the batch before."""

import re
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import decoding
import pytest
from tidegate.jobs.stage_job import StageJob, StageTable
from tidegate.model.offsets import Ranges
from tidegate.schema.data_types import Column
from tidegate.spec.source import KeyFormat, ValueFormat

COLUMNS = (Column("id", "BIGINT"), Column("name", "STRING"))
RANGES = Ranges({"t": {0: (0, 2), 1: (0, 2)}})
EXPRESSION_ID = re.compile(r"#\d+L?")


def build_table(attempt: str, **more: Any) -> StageTable:
    stage_table = decoding.build_stage_table(ValueFormat("json"), COLUMNS, keys=COLUMNS[:1], **more)
    return replace(stage_table, key=KeyFormat("json", ("id",)), attempt=attempt)


def build_batch(spark: Any, batch: int, table: StageTable) -> Any:
    """The rows that batch N would have of four records in two partitions."""
    from tidegate_spark.stage import job as stage_job

    job = StageJob("p", batch, RANGES, "read_committed", (table,))
    value = "CAST(to_json(struct(id, 'n' AS name)) AS BINARY) AS value"
    frame = spark.range(4).selectExpr(
        "CAST(to_json(struct(id)) AS BINARY) AS key", value, "'t' AS topic", "CAST(id % 2 AS INT) AS partition",
        "id DIV 2 AS offset", "timestamp_seconds(id) AS timestamp", "0 AS timestampType",
        "CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS headers",
    )  # fmt: skip
    texts = frame.selectExpr("*", "CAST(key AS STRING) AS key_text", "CAST(value AS STRING) AS value_text")
    return stage_job.decode(texts, table).selectExpr(*stage_job._list_columns(job, table))


def read_generated_code(frame: Any) -> list[str]:
    """The Java of each stage of a plan, without the numbers that Spark gives to columns, plan by plan."""
    text = frame._explain_string(mode="codegen")
    parts = [part.split("*/", 1)[-1] for part in text.split("Generated code:")[1:]]
    assert parts
    return [EXPRESSION_ID.sub("#", part.split("== Subtree")[0]) for part in parts]


@pytest.mark.repeats("test_code_of_a_batch_is_that_of_the_one_before[record]", "wall-clock")
@pytest.mark.parametrize("partition_time", ["record", "wall-clock"])
def test_code_of_a_batch_is_that_of_the_one_before(compiling_spark: Any, partition_time: str) -> None:
    first, second = (
        build_batch(compiling_spark, batch, build_table(f"attempt-{batch}", partition_time=partition_time))
        for batch in (7, 8_000_000)
    )
    assert read_generated_code(first) == read_generated_code(second)


@pytest.mark.repeats("unit/tidegate/merge/test_write_mode.py::test_code_is_generated_from_some_thousand_rows_on")
@pytest.mark.parametrize(("end", "generates"), [(2500, False), (2501, True)])
def test_only_a_batch_of_many_records_is_worth_generated_code(
    stack: Any, monkeypatch: pytest.MonkeyPatch, end: int, generates: bool
) -> None:
    """Two partitions of that many offsets; the write is where it stops."""
    from tidegate_spark.session import close, connect_session
    from tidegate_spark.stage import job as stage_job

    monkeypatch.setattr(stage_job, "read_records", Mock())
    monkeypatch.setattr(stage_job, "_write_batch", Mock(side_effect=InterruptedError))
    ranges = Ranges({"t": {0: (0, end), 1: (0, end)}})
    session = connect_session(stack.spark_remote, {})
    try:
        with pytest.raises(InterruptedError):
            stage_job.run(session, StageJob("p", 1, ranges, "read_committed", (build_table("one"),)))
        frame = build_batch(session, 1, build_table("one"))
        assert ("codegen id" in frame._explain_string(mode="formatted")) == generates
        assert sorted((row.key.id, row.value.name, row.partition) for row in frame.collect()) == [
            (n, "n", n % 2) for n in range(4)
        ]
    finally:
        close(session)


def test_rows_have_the_number_attempt_and_times_of_their_batch(spark: Any) -> None:
    for batch in (7, 3_000_000_000):
        rows = build_batch(spark, batch, build_table(f"attempt-{batch}", partition_time="wall-clock")).collect()
        assert [(row.batch_number, row.attempt) for row in rows] == [(batch, f"attempt-{batch}")] * 4
        assert {row.partition for row in rows} == {0, 1}
        assert len({row.partition_time for row in rows}) == 1
        assert all(row.partition_time > row.timestamp for row in rows)
