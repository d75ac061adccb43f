"""A truncate of the source table empties the destination as of its offset, on real components."""

import json
from dataclasses import replace
from typing import Any

import decoding
import pytest
from conftest import build_debezium_event
from crash.points import Point
from round_trip import Way
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat

KEY = {"fields": ["id"], "schema": "id BIGINT"}
SCHEMA = "id BIGINT, name STRING, day DATE"
VALUE = {"format": "debezium-json", "schema": SCHEMA, "truncate": "apply"}
DAYS = ["2026-01-01", "2026-01-02"]
PARTITIONED = {"create": {"partition_by": ["day"]}}
TRUNCATE = (None, {"before": None, "after": None, "op": "t", "source": {"table": "orders"}, "ts_ms": 1})


def build_upsert(id: int, name: str) -> tuple[Any, Any]:
    return {"id": id}, build_debezium_event("u", None, {"id": id, "name": name, "day": DAYS[id % 2]})


def build_delete(id: int) -> tuple[Any, Any]:
    return {"id": id}, build_debezium_event("d", {"id": id}, None)


def collect_names(rows: list[dict[str, Any]]) -> dict[int, str]:
    return {row["id"]: row["name"] for row in rows}


# batches of records, and the rows after the last one; the table holds 1, 2 and 3 before the first
CASES: dict[str, tuple[list[list[Any]], dict[int, str]]] = {
    "rows before and after it in one batch": (
        [
            [
                build_upsert(1, "b"),
                build_upsert(4, "before"),
                TRUNCATE,
                build_upsert(2, "after"),
                build_upsert(5, "x"),
                build_upsert(5, "y"),
                build_delete(1),
            ]
        ],
        {2: "after", 5: "y"},
    ),
    "alone": ([[TRUNCATE]], {}),
    "first of a batch": ([[TRUNCATE, build_upsert(1, "new"), build_upsert(6, "z"), build_delete(6)]], {1: "new"}),
    "last of a batch": ([[build_upsert(1, "b"), build_upsert(7, "z"), build_delete(2), TRUNCATE]], {}),
    "twice, with rows between them": (
        [[TRUNCATE, build_upsert(8, "between"), TRUNCATE, build_upsert(9, "behind")]],
        {9: "behind"},
    ),
    "and rows in the batch behind it": ([[build_upsert(1, "b"), TRUNCATE], [build_upsert(3, "again")]], {3: "again"}),
    "in two batches": (
        [
            [TRUNCATE, build_upsert(1, "b"), build_upsert(2, "c")],
            [build_upsert(3, "d"), TRUNCATE, build_upsert(1, "e")],
        ],
        {1: "e"},
    ),
}


# a truncate at every place of a batch in memory; rows on both sides of it are flushed for real
@pytest.mark.guard(
    "a truncate removes the existing rows",
    file="include/sql/iceberg/_into.sql",
    text='{{ "OVERWRITE" if truncated_at is defined else "INTO" }}',
    off="INTO",
    case="first of a batch",
)
@pytest.mark.guard(
    "a truncate removes the rows before it in its own batch",
    file="include/sql/iceberg/_staged.sql",
    text="{%- if truncated_at is defined %} AND offset > {{ truncated_at }}{% endif %}",
    off="",
    case="rows before and after it in one batch",
)
@pytest.mark.guard(
    "a truncate keeps the rows after it in its own batch",
    file="include/sql/iceberg/_staged.sql",
    text="AND offset > {{ truncated_at }}{% endif %}",
    off="AND offset < {{ truncated_at }}{% endif %}",
    case="rows before and after it in one batch",
)
@pytest.mark.guard(
    "the last truncate of a batch counts",
    file="jobs/tidegate_spark/stage/record_pass.py",
    text="f\"max(CASE WHEN fate = 'staged' AND op = '{TRUNCATE}' THEN offset END)\"",
    off="f\"min(CASE WHEN fate = 'staged' AND op = '{TRUNCATE}' THEN offset END)\"",
    case="twice, with rows between them",
)
@pytest.mark.repeats(
    "test_truncate_empties_the_table_as_of_its_offset[twice, with rows between them]",
    "alone",
    "first of a batch",
    "last of a batch",
    "rows before and after it in one batch",
)
# any cuts and deaths in memory; the statement runs in [twice, with rows between them]
@pytest.mark.repeats(
    "unit/scenarios/test_truncates.py::test_table_equals_the_model_after_any_runs_of_one_or_two_clocks",
    "in two batches",
    "and rows in the batch behind it",
)
@pytest.mark.parametrize("case", CASES)
def test_truncate_empties_the_table_as_of_its_offset(workbench, case: str) -> None:
    batches, expected = CASES[case]
    topic = workbench.topic(1)
    workbench.pipeline("cut", [topic], key=KEY, value=VALUE, table=PARTITIONED)
    workbench.produce(topic, build_upsert(1, "a"), build_upsert(2, "a"), build_upsert(3, "a"))
    workbench.flush("cut")
    for batch in batches:
        workbench.produce(topic, *batch)
        workbench.flush("cut")
    assert collect_names(workbench.read_rows("shop.cut")) == expected
    assert workbench.committed("cut") == workbench.read_ends(topic)


@pytest.mark.repeats(
    "unit/scenarios/test_truncates.py::test_batch_with_a_truncate_takes_a_statement_of_its_own_and_says_so"
)
def test_truncate_is_told_in_the_result_the_snapshot_and_history(workbench) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("told", [topic], key=KEY, value=VALUE, table=PARTITIONED)
    workbench.produce(topic, build_upsert(1, "a"), build_upsert(2, "a"), build_upsert(3, "a"))
    workbench.flush("told")
    workbench.produce(topic, build_delete(3))
    workbench.flush("told")
    workbench.produce(topic, build_upsert(4, "b"), TRUNCATE, build_upsert(2, "c"))
    (batch,) = workbench.flush("told").published
    assert (batch.written_as, batch.inserted, batch.updated, batch.deleted) == ("truncate", 1, 0, 2)
    assert batch.staged == 3
    snapshot = workbench.load_iceberg("shop.told").current_snapshot()
    assert snapshot.summary["tidegate.truncated-at"] == "5"
    assert snapshot.parent_snapshot_id == workbench.load_iceberg("shop.told").history()[-2].snapshot_id
    history = [row["written_as"] for row in workbench.read_rows("shop.tidegate_told_batches")]
    assert sorted(history) == ["append", "merge", "truncate"]


# statements: each stands in a golden file, and the model of rows is walked in memory
@pytest.mark.repeats("unit/sql/test_bigquery_golden.py::test_statement_reads_as_the_golden_file")
@pytest.mark.parametrize("case", ["rows before and after it in one batch", "alone", "in two batches"])
def test_truncate_empties_a_table_of_bigquery_too(dwh: Any, case: str) -> None:
    batches, expected = CASES[case]
    bench = dwh.bench
    topic = bench.topic(1)
    dwh.pipeline("cut", [topic], key=KEY, value=VALUE)
    bench.produce(topic, build_upsert(1, "a"), build_upsert(2, "a"), build_upsert(3, "a"))
    bench.flush("cut")
    for batch in batches:
        bench.produce(topic, *batch)
        (published,) = bench.flush("cut").published
    assert collect_names(dwh.read_rows("cut")) == expected
    assert (published.written_as, published.inserted, published.deleted) == (
        "truncate",
        len(expected),
        2 if len(batches) > 1 else 3,
    )


# (point, fault) of a run that publishes a truncate
FAULTS = {
    "staged, and no answer came": ("stage/engine.run:after:1", "lost"),
    "written, and the process was killed": ("merge/job.statement:inside:1", "killed"),
    "the publish took place, and no answer came": ("merge/commits.publish:after:1", "lost"),
    "published, and the process was killed": ("merge/commits.publish:after:1", "killed"),
}


# any cuts and deaths in memory; the statement runs in [twice, with rows between them]
@pytest.mark.repeats(
    "unit/scenarios/test_truncates.py::test_table_equals_the_model_after_any_runs_of_one_or_two_clocks"
)
def test_truncate_is_applied_once_whatever_befalls_its_run(workbench, runners) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("trial", [topic], key=KEY, value=VALUE, table=PARTITIONED)
    workbench.produce(topic, build_upsert(1, "a"), build_upsert(2, "a"))
    workbench.flush("trial")
    for number, (point, kind) in enumerate(FAULTS.values()):
        workbench.produce(
            topic, build_upsert(1, "before"), TRUNCATE, build_upsert(2, f"{number}"), build_upsert(3 + number, "new")
        )
        outcome = runners.run(workbench.build_environment(), "flush", "trial", at=Point.parse(point), kind=kind)
        assert outcome.fault_happened, outcome.output
        workbench.produce(topic, build_upsert(1, f"behind {number}"))  # a truncate that came twice would take this row
        workbench.drain("trial")
        rows = {1: f"behind {number}", 2: f"{number}", 3 + number: "new"}
        assert collect_names(workbench.read_rows("shop.trial")) == rows
        refs = workbench.load_iceberg("shop.trial").metadata.refs
        assert set(refs) == {"main", "tidegate_trial"}


# any cuts and deaths in memory; the statement runs in [twice, with rows between them]
@pytest.mark.repeats(
    "unit/scenarios/test_truncates.py::test_table_equals_the_model_after_any_runs_of_one_or_two_clocks"
)
def test_update_that_leaves_columns_out_keeps_them_of_a_row_behind_the_truncate_alone(workbench) -> None:
    topic = workbench.topic(1)
    value = {"format": "ogg-json", "schema": "ID BIGINT, NAME STRING, N INT", "truncate": "apply"}
    workbench.pipeline("ogg", [topic], key={"fields": ["ID"], "schema": "ID BIGINT"}, value=value)

    def build_operation(kind: str, **row: Any) -> tuple[Any, Any]:
        return None, {"table": "A.B", "op_type": kind, "pos": "1", **({"after": row} if row else {})}

    workbench.produce(topic, build_operation("I", ID=1, NAME="old", N=1), build_operation("I", ID=2, NAME="old", N=2))
    workbench.flush("ogg")
    workbench.produce(
        topic,
        build_operation("U", ID=2, N=3),
        build_operation("T"),
        build_operation("I", ID=1, NAME="new", N=4),
        build_operation("U", ID=1, N=5),
        build_operation("I", ID=3, NAME="other", N=6),
    )
    workbench.flush("ogg")
    assert sorted(tuple(row.values()) for row in workbench.read_rows("shop.ogg")) == [(1, "new", 5), (3, "other", 6)]


@pytest.mark.repeats(
    "integration/test_publications.py::test_change_events_carry_both_rows_and_a_second_pipeline_makes_the_table_of_them"
)
def test_publication_of_a_truncated_table_deletes_the_keys_that_went(workbench) -> None:
    way, source = Way(workbench, "trip"), workbench.topic(1)
    workbench.pipeline("trip", [source], key=KEY, value=VALUE)
    workbench.produce(source, build_upsert(1, "a"), build_upsert(2, "a"), build_upsert(3, "a"))
    workbench.flush("trip")
    way.publish()
    workbench.produce(source, build_upsert(4, "b"), TRUNCATE, build_upsert(2, "c"), build_upsert(5, "c"))
    workbench.flush("trip")
    result = way.publish()
    assert (result.inserted, result.updated, result.deleted) == (1, 1, 2)
    assert {json.loads(key)["id"]: row["name"] for key, row in way.read_latest().items()} == {2: "c", 5: "c"}


COLUMNS = (Column("id", "BIGINT", nullable=False), Column("name", "STRING", nullable=False))
TRUNCATES = {
    "debezium-json": {"op": "t", "before": None, "after": None},
    "ogg-json": {"op_type": "T", "table": "A.B"},
    "canal-json": {"type": "TRUNCATE", "isDdl": True, "data": None, "table": "b"},
}


@pytest.mark.repeats(
    "test_truncate_has_neither_key_nor_row_whatever_stands_there[debezium-json]", "ogg-json", "canal-json"
)
@pytest.mark.parametrize("word", TRUNCATES)
def test_truncate_has_neither_key_nor_row_whatever_stands_there(spark, word: str) -> None:
    text, keys = json.dumps(TRUNCATES[word]).encode(), (None, b'{"id": 7}', b"not a key")
    stage = decoding.build_stage_table(ValueFormat(word, options={"truncate": "apply"}), COLUMNS, COLUMNS[:1])
    stage = replace(stage, delete_when="name = 'x'")
    records = [(key, value) for value in (text, text[:-1]) for key in keys]
    results = decoding.decode(spark, stage, records, "op", "key_struct", "value_struct", "fate", "reason")
    assert results[:3] == [("t", None, None, "staged", None)] * 3
    assert [fate for *_, fate, _ in results[3:]] == ["bad"] * 3
    refusing = replace(stage, value=ValueFormat(word))
    (reason,) = decoding.read_reasons(spark, refusing, [text])
    assert "value.truncate: apply" in str(reason)
