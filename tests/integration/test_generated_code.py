"""Spark compiles what a job does once: the code that it generates for a batch is the one of the batch before."""

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
    return split_code(frame._explain_string(mode="codegen"))


def split_code(text: str) -> list[str]:
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


def flush_and_explain(workbench: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Flush, and return how Spark explains each merge that it is about to run."""
    from tidegate_spark.merge import job as merge_job

    explanations = []
    execute = merge_job.execute

    def explain_and_execute(spark: Any, statement: str) -> None:
        if "MERGE INTO" in statement:
            spark.conf.set("spark.sql.adaptive.enabled", "false")  # else the code is generated as the statement runs
            explanations.append(spark.sql(f"EXPLAIN CODEGEN {statement}").collect()[0][0])
            spark.conf.set("spark.sql.adaptive.enabled", "true")
        execute(spark, statement)

    with monkeypatch.context() as patches:
        patches.setattr(merge_job, "execute", explain_and_execute)
        workbench.flush(name)
    return explanations


def build_changes(keys: list[int], score: int) -> list[tuple[dict[str, int], dict[str, int] | None]]:
    """An upsert for each key, but a delete for the last."""
    return [({"id": key}, {"id": key, "score": score} if key != keys[-1] else None) for key in keys]


THREE_BATCHES = [[9, 300, 970, 2], [3, 500, 990, 7], [11, 400, 981, 20]]
CHANGED_KEYS = {
    "upsert": ("BIGINT", {}, THREE_BATCHES),
    "sequence": ("BIGINT", {"sequence_by": ["score"]}, THREE_BATCHES),
    "named": ("INT", {}, THREE_BATCHES),
    "one-named": ("BIGINT", {}, [[9, 9], [3, 3], [700, 700]]),
}


@pytest.mark.repeats("test_code_of_a_merge_is_that_of_the_one_before[upsert]", "sequence", "named")
@pytest.mark.parametrize("kind", CHANGED_KEYS)
def test_code_of_a_merge_is_that_of_the_one_before(workbench: Any, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Other keys of the same table, as many and of the same kind."""
    monkeypatch.setattr("tidegate.jobs.evaluation.MAX_INTERPRETED_ROWS", 0)
    if "named" in kind:
        monkeypatch.setattr("tidegate.adapters.iceberg.pruning.MIN_TABLE_ROWS", 1)
        monkeypatch.setattr("tidegate.adapters.iceberg.pruning.MIN_ROW_RATIO", 1)
    key_type, table, batches = CHANGED_KEYS[kind]
    topic = workbench.topic(2)
    key = {"fields": ["id"], "schema": f"id {key_type}"}
    name = f"code_{kind}".replace("-", "_")
    value = {"schema": f"id {key_type}, score BIGINT"}
    workbench.pipeline(name, [topic], key=key, value=value, table=table)
    workbench.produce(topic, *build_changes([*range(1000), 1000], 1))
    workbench.flush(name)
    explanations = []
    for number, keys in enumerate(batches):
        workbench.produce(topic, *build_changes(keys, number + 2))
        explanations.append(flush_and_explain(workbench, monkeypatch, name))
    # the plan of the first one may be another: the table of deletes was nearly empty
    _, first, second = explanations
    assert len(first) == len(second) == (2 if kind == "sequence" else 1)
    for before, after in zip(first, second, strict=True):
        assert split_code(before) == split_code(after)
    if "named" in kind:  # and files are left out by the keys
        for (text,), keys in zip(explanations, batches, strict=True):
            filtered = re.search(r"filters=.*?id IN \(([\d, ]+)\)", text)
            assert filtered is not None
            assert {*map(int, filtered[1].split(", "))} == {*keys}
    rows = {row["id"]: row["score"] for row in workbench.read_rows(f"shop.{name}")}
    expected = dict.fromkeys(range(1000), 1)
    for number, keys in enumerate(batches):
        for changed in keys:
            expected[changed] = number + 2
        del expected[keys[-1]]
    assert rows == expected


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
