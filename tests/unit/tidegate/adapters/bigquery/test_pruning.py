"""What bounds a merge into BigQuery: true for every row that it can touch, and as narrow as what is known."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from examples import choose_part
from fakes import build_pipeline, build_session
from tidegate.adapters.bigquery.commit import POSITION_MOVED, writes_into
from tidegate.adapters.bigquery.pruning import TableLayout, compute_bounds
from tidegate.adapters.bigquery.schema import Partitioning
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import GiveUp
from tidegate.merge.statements import build_merge_input, render_merge_statements
from tidegate.model.batch import Counts
from tidegate.schema.data_types import Column
from tidegate.spec.table import Create
from tidegate.sql.googlesql import render_constant
from tidegate.sql.pruning import UNBOUNDED, Bound, join_intervals
from tidegate.table.session import TableSession
from unit.tidegate.adapters.bigquery.test_commit import (
    NAME,
    SHAPES,
    Shape,
    build_analyzer,
    build_shaped_table,
    build_staged_batch,
    open_session,
)

SQL = SqlFiles("bigquery", {"dwh": "my-project"})
POSITIONS = f"{NAME}_tidegate_position"
FIELDS = [
    {"name": "id", "type": "INTEGER"},
    {"name": "name", "type": "STRING"},
    {"name": "at", "type": "TIMESTAMP"},
    {"name": "day", "type": "DATE"},
    {"name": "day_number", "type": "INTEGER"},
]
COLUMNS = (Column("id", "BIGINT"), Column("name", "STRING"), Column("at", "TIMESTAMP"), Column("day", "DATE"))
LAYOUTS = [(field, unit) for field in ("at", "day", None) for unit in ("DAY", "MONTH")]
BOUNDED = [
    (shape, *layout)
    for row, shape in enumerate(("plain", "by_day", "nested_key", "odd_names"))
    for layout in choose_part(LAYOUTS, row, 2)
]
MERGES = ("append", "upsert", "delete", "upsert_delete", "soft", "partial", "unchanged", "sequenced")
MERGED_IN_PARTS = [
    (of, kind) for row, of in enumerate(("at", "day", "id", "ingestion")) for kind in choose_part(MERGES, row, 2)
]
KEPT = Create(properties={"partition_column": "immutable"})
KEYS: dict[str, Any] = {"low_0": 5, "high_0": 90, "nulls_0": False, "deletes": 0}


def build_time(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 1, day, hour, tzinfo=UTC)


def build_layout(
    field: str | None = "at", unit: str = "DAY", *, clustered: tuple[str, ...] = ("id",), needs: bool = False
):
    times = {"type": unit, **({"field": field} if field else {})}
    return TableLayout.from_api_repr(
        {
            "schema": {"fields": FIELDS},
            **({"timePartitioning": times} if unit else {}),
            "clustering": {"fields": list(clustered)},
            "requirePartitionFilter": needs,
        }
    )


def build_values(kind: str = "upsert_delete", **options: Any) -> dict[str, Any]:
    table = build_shaped_table(Shape(COLUMNS, options.pop("keys", ("id",)), more=options), kind)
    return build_merge_input(build_session(build_pipeline(table), table), build_staged_batch(table), "b")


class Asked:
    """Answers the questions in order, and keeps them."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self.answers, self.questions = list(answers), list[str]()

    def __call__(self, question: str) -> list[dict[str, Any]]:
        self.questions.append(question)
        return [self.answers.pop(0)]


def test_table_without_partitions_and_clusters_is_not_asked() -> None:
    query_runner = Asked()
    assert (
        compute_bounds(build_layout(unit="", clustered=()), query_runner, SQL, POSITIONS, build_values()) == UNBOUNDED
    )
    assert compute_bounds(build_layout(unit=""), query_runner, SQL, POSITIONS, build_values("append")) == UNBOUNDED
    assert query_runner.questions == []


def test_key_bounds_hold_for_tables_that_are_clustered_by_it() -> None:
    bounds = compute_bounds(build_layout(unit=""), Asked(KEYS), SQL, POSITIONS, build_values())
    assert bounds.conditions == (Bound(("id",), (("5", "90"),)),)
    bounds = compute_bounds(build_layout(unit=""), Asked({**KEYS, "nulls_0": True}), SQL, POSITIONS, build_values())
    assert bounds.conditions[0].nulls


def test_partitions_of_a_column_that_may_change_are_looked_up_by_key() -> None:
    query_runner = Asked(
        KEYS,
        {"partitions": [build_time(3), build_time(1), build_time(2), build_time(9)], "outside": True, "versions": 17},
    )
    bounds = compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values())
    assert bounds.conditions[1] == Bound(
        ("at",),
        (
            ("TIMESTAMP '2026-01-01 00:00:00+00:00'", "TIMESTAMP '2026-01-03 23:59:59.999999+00:00'"),
            ("TIMESTAMP '2026-01-09 00:00:00+00:00'", "TIMESTAMP '2026-01-09 23:59:59.999999+00:00'"),
        ),
        nulls=True,
    )
    assert "t.`id` BETWEEN 5 AND 90" in query_runner.questions[1]
    assert "JOIN" in query_runner.questions[1]


def test_what_was_looked_up_is_worth_nothing_once_another_pipeline_has_written() -> None:
    query_runner = Asked(KEYS, {"partitions": [build_time(1)], "outside": False, "versions": 17})
    guards = compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values()).guards
    assert len(guards) == 1
    assert "SUM(version)" in guards[0]
    assert "= 18" in guards[0]  # this publish moves its own position first
    assert POSITION_MOVED in guards[0]


def test_new_keys_alone_leave_a_filter_that_reads_next_to_nothing() -> None:
    query_runner = Asked(KEYS, {"partitions": None, "outside": False, "versions": 1})
    assert compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values()).conditions[1] == Bound(
        ("at",), (), nulls=True
    )


@pytest.mark.parametrize("options", [{"keys": ("id", "at")}, {"create": KEPT}])
def test_partitions_of_the_batch_are_those_of_its_keys_where_the_column_cannot_change(options: dict[str, Any]) -> None:
    query_runner = Asked({**KEYS, "partitions": [build_time(1)], "outside": False})
    bounds = compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values(**options))
    assert len(query_runner.questions) == 1
    assert bounds.conditions[-1].ranges[0][0] == "TIMESTAMP '2026-01-01 00:00:00+00:00'"
    assert bounds.guards == ()


def test_delete_does_not_tell_its_partition_even_where_the_column_cannot_change() -> None:
    facts = {**KEYS, "partitions": [build_time(1)], "outside": True, "deletes": 2}
    query_runner = Asked(facts, {"partitions": [build_time(1)], "outside": False, "versions": 3})
    compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values(create=KEPT))
    assert len(query_runner.questions) == 2


@pytest.mark.guard(
    "BigQuery: a row without its partition column does not limit the partitions",
    file="plugins/tidegate/adapters/bigquery/pruning.py",
    text='not (stats["deletes"] or stats["outside"])',
    off='not stats["deletes"]',
)
def test_record_that_leaves_the_partition_column_out_does_not_tell_its_partition() -> None:
    """A partial update, or a placeholder: its row lies where an earlier record has put it."""
    facts = {**KEYS, "partitions": [build_time(1)], "outside": True}
    query_runner = Asked(facts, {"partitions": [build_time(1), build_time(9)], "outside": False, "versions": 3})
    bounds = compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values("partial", create=KEPT))
    assert len(query_runner.questions) == 2
    assert [low for low, _ in bounds.conditions[-1].ranges] == [
        "TIMESTAMP '2026-01-01 00:00:00+00:00'", "TIMESTAMP '2026-01-09 00:00:00+00:00'",
    ]  # fmt: skip
    assert bounds.guards


def test_lookup_in_a_table_that_requires_a_filter_has_one_that_is_true_for_every_row() -> None:
    query_runner = Asked(KEYS, {"partitions": [build_time(1)], "outside": False, "versions": 3})
    compute_bounds(build_layout(needs=True), query_runner, SQL, POSITIONS, build_values())
    assert "t.`at` BETWEEN TIMESTAMP '0001-01-01 00:00:00+00:00'" in query_runner.questions[1]
    assert "OR t.`at` IS NULL" in query_runner.questions[1]


@pytest.mark.parametrize(
    ("unit", "start", "last"),
    [
        ("HOUR", build_time(1, 5), "TIMESTAMP '2026-01-01 05:59:59.999999+00:00'"),
        ("MONTH", build_time(1), "TIMESTAMP '2026-01-31 23:59:59.999999+00:00'"),
        ("YEAR", build_time(1), "TIMESTAMP '2026-12-31 23:59:59.999999+00:00'"),
        ("DAY", datetime(9999, 12, 31, tzinfo=UTC), "TIMESTAMP '9999-12-31 23:59:59.999999+00:00'"),
    ],
)
def test_range_ends_with_its_partition(unit: str, start: datetime, last: str) -> None:
    query_runner = Asked(KEYS, {"partitions": [start], "outside": False, "versions": 3})
    assert (
        compute_bounds(build_layout(unit=unit), query_runner, SQL, POSITIONS, build_values()).conditions[1].ranges[0][1]
        == last
    )


def test_dates_are_partitions_by_themselves() -> None:
    days = [date(2026, 1, 1), date(2026, 1, 2), date(9999, 12, 31)]
    query_runner = Asked(KEYS, {"partitions": days, "outside": False, "versions": 3})
    bounds = compute_bounds(build_layout("day"), query_runner, SQL, POSITIONS, build_values()).conditions[1]
    assert bounds.ranges == (
        ("DATE '2026-01-01'", "DATE '2026-01-02'"),
        ("DATE '9999-12-31'", "DATE '9999-12-31'"),
    )


@pytest.mark.parametrize(("shape", "field", "unit"), BOUNDED)
def test_questions_and_bounded_merges_are_ones_that_bigquery_reads(shape: str, field: str | None, unit: str) -> None:
    base = SHAPES[shape]
    wanted_shape = Shape((*base.columns, Column("at", "TIMESTAMP"), Column("day", "DATE"))[-99:], base.keys, base.more)
    if shape == "odd_names":
        wanted_shape = Shape(
            (*base.columns[:-1], Column("at", "TIMESTAMP"), Column("day", "DATE")), base.keys, base.more
        )
    create = Create(partition_by=("days(_PARTITIONTIME)",))
    table = build_shaped_table(
        Shape(wanted_shape.columns, wanted_shape.keys, {**wanted_shape.more, "create": create}), "upsert_delete"
    )
    pipeline = build_pipeline(table)
    analyzer, values = (
        build_analyzer(pipeline, table, wanted_shape),
        build_merge_input(build_session(pipeline, table), build_staged_batch(table), "b"),
    )
    days = [date(2026, 1, 1)] if field == "day" else [build_time(1), build_time(5)]
    query_runner = Asked(KEYS, {"partitions": days, "outside": False, "versions": 3})
    bounds = compute_bounds(build_layout(field, unit, needs=True), query_runner, SQL, POSITIONS, values)
    for statement in (
        *query_runner.questions,
        *bounds.guards,
        SQL.render("merge_upsert_delete", **{**values, "bounds": bounds.conditions}),
    ):
        analyzer.check(statement)


def list_days(first: date, count: int) -> list[datetime]:
    return [datetime(first.year, first.month, first.day, tzinfo=UTC) + timedelta(days=n) for n in range(count)]


def test_batch_of_more_partitions_than_a_job_may_change_is_merged_in_parts() -> None:
    """Eleven years of days: every day lies in one part, and what does not tell its day in the last."""
    days = list_days(date(2015, 1, 1), 4018)
    facts = {**KEYS, "partitions": days[::-1], "outside": True, "deletes": 3}
    query_runner = Asked(facts, {"partitions": days[:5], "outside": False, "versions": 3})
    bounds = compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values())
    assert [part.staged.nulls for part in bounds.parts] == [False, False, False, True]
    assert [part.conditions for part in bounds.parts] == [bounds.conditions] * 4
    part_ranges = [part.staged.ranges[0] for part in bounds.parts if part.staged.ranges]
    for day in days:
        text = f"TIMESTAMP '{day.isoformat(sep=' ')}'"
        assert sum(low <= text <= high for low, high in part_ranges) == 1
    assert bounds.guards


def test_batch_of_few_partitions_is_one_statement_also_where_keys_leave_others() -> None:
    days = list_days(date(2015, 1, 1), 4001)
    query_runner = Asked(
        {**KEYS, "partitions": days[:4000], "outside": True}, {"partitions": days[:4000], "versions": 3, "outside": 0}
    )
    assert compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values()).parts == ()
    query_runner = Asked(
        {**KEYS, "partitions": days[:9], "outside": True}, {"partitions": days, "versions": 3, "outside": 0}
    )
    assert len(compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values()).parts) == 2


def test_parts_of_a_column_that_cannot_change_look_at_their_own_partitions_alone() -> None:
    days = list_days(date(2015, 1, 1), 4001)
    query_runner = Asked({**KEYS, "partitions": days, "outside": False})
    bounds = compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values(create=KEPT))
    assert [part.conditions[-1].ranges for part in bounds.parts] == [part.staged.ranges for part in bounds.parts]
    assert len(bounds.parts) == 3


def test_appended_rows_are_cut_into_parts_and_a_small_batch_is_not_asked_for() -> None:
    days = list_days(date(2015, 1, 1), 4001)
    values = {**build_values("append"), "staged_rows": 5000}
    query_runner = Asked({"partitions": days, "outside": True, "deletes": 0})
    bounds = compute_bounds(build_layout(), query_runner, SQL, POSITIONS, values)
    assert (len(bounds.parts), bounds.conditions, bounds.guards) == (4, (), ())
    assert compute_bounds(build_layout(), Asked(), SQL, POSITIONS, {**values, "staged_rows": 1000}) == UNBOUNDED


def test_batch_that_no_table_of_bigquery_can_hold_is_refused_with_a_way_out() -> None:
    query_runner = Asked({**KEYS, "partitions": list_days(date(1990, 1, 1), 10_001), "outside": False})
    with pytest.raises(GiveUp, match=r"partitions=10001, and a table of BigQuery has at most 10000.*months\(c\)"):
        compute_bounds(build_layout(), query_runner, SQL, POSITIONS, build_values(create=KEPT))


def build_range_layout(needs: bool = False) -> TableLayout:
    ranges = {"start": "100", "end": "1000", "interval": "300"}
    return TableLayout.from_api_repr(
        {
            "schema": {"fields": FIELDS},
            "rangePartitioning": {"field": "id", "range": ranges},
            "requirePartitionFilter": needs,
        }
    )


def test_partitions_of_numbers_are_bounds_too() -> None:
    """The last is shorter than the others; what lies below, above or nowhere is in none of them."""
    facts = {"deletes": 4, "partitions": [700, 100], "outside": False}
    (key_bound,) = compute_bounds(build_range_layout(), Asked(facts), SQL, POSITIONS, build_values()).conditions
    assert (key_bound.ranges, key_bound.nulls) == ((("100", "399"), ("700", "999")), False)
    (key_bound,) = compute_bounds(
        build_range_layout(), Asked({**facts, "outside": True}), SQL, POSITIONS, build_values()
    ).conditions
    outer_ranges = ((str(-(2**63)), "99"), ("1000", str(2**63 - 1)))
    assert (key_bound.ranges, key_bound.nulls) == ((("100", "399"), ("700", "999"), *outer_ranges), True)


def test_partitions_of_numbers_are_looked_up_with_a_filter_where_one_is_required() -> None:
    name = replace(build_range_layout(needs=True), partitioning=Partitioning("day_number", "", range(0, 10)))
    query_runner = Asked({"deletes": 0}, {"partitions": [3], "outside": False, "versions": 3})
    (key_bound,) = compute_bounds(name, query_runner, SQL, POSITIONS, build_values()).conditions
    assert key_bound.ranges == (("3", "3"),)
    assert f"t.`day_number` BETWEEN {-(2**63)} AND {2**63 - 1} OR t.`day_number` IS NULL" in query_runner.questions[1]


@pytest.mark.parametrize(("of", "kind"), MERGED_IN_PARTS)
def test_parts_of_every_merge_are_ones_that_bigquery_reads(of: str, kind: str) -> None:
    values_by_column = {
        "at": list_days(date(2015, 1, 1), 4001),
        "day": [day.date() for day in list_days(date(2015, 1, 1), 4001)],
    }
    values_by_column |= {"id": [*range(0, 40010, 10)], "ingestion": values_by_column["at"]}
    layout = build_layout(None if of == "ingestion" else of)
    if of == "id":
        layout = replace(layout, partitioning=Partitioning("id", "", range(0, 50000, 10)))
    create = Create(partition_by=("days(_PARTITIONTIME)",)) if of == "ingestion" else Create()
    shape = Shape(COLUMNS, more={"create": create})
    table = build_shaped_table(shape, kind)
    pipeline = build_pipeline(table)
    staged = replace(build_staged_batch(table, 1 if kind == "unchanged" else 0), counts=Counts(5000, 5000, 5000))
    answers = (
        {**KEYS, "partitions": values_by_column[of], "outside": True},
        {"partitions": values_by_column[of], "outside": True, "versions": 3},
    )
    query_runner = Asked(*answers)
    tables = SimpleNamespace(find_bounds=lambda _, values: compute_bounds(layout, query_runner, SQL, POSITIONS, values))
    session = replace(open_session(pipeline), tables=tables)
    statements = render_merge_statements(TableSession(session, table), staged, "b")
    merges = [
        text for text in statements if writes_into(text, "`my-project`.`shop`.`orders`") and "_tidegate_part" in text
    ]
    assert len(merges) == 4
    analyzer = build_analyzer(pipeline, table, shape)
    for statement in (*query_runner.questions, *statements):
        analyzer.check(statement)


def test_many_partitions_become_few_ranges_that_hold_them_all() -> None:
    starts = [build_time(1) + timedelta(days=2 * n) for n in range(200)]
    intervals = [(start, start + timedelta(hours=23)) for start in starts]
    ranges = join_intervals(intervals, timedelta(hours=1), 50)
    assert len(ranges) == 50
    assert all(any(low <= start <= high for low, high in ranges) for start in starts)
    assert join_intervals([(1, 3), (9, 9), (4, 5)], 1, 50) == ((1, 5), (9, 9))
    assert join_intervals([(1, 1), (5, 5), (100, 100)], 1, 2) == ((1, 5), (100, 100))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (5, "5"), ("it's", "'it\\'s'"), (True, None), (b"x", None), (1.5, None), (None, None),
        (Decimal("1.50"), "NUMERIC '1.50'"), (Decimal("1E-10"), "BIGNUMERIC '0.0000000001'"),
        (Decimal(10) ** 30, "BIGNUMERIC '1000000000000000000000000000000'"),
        (date(2026, 1, 2), "DATE '2026-01-02'"), (datetime(2026, 1, 2, 3), "DATETIME '2026-01-02 03:00:00'"),
        (datetime(2026, 1, 2, 3, 0, 0, 7, tzinfo=UTC), "TIMESTAMP '2026-01-02 03:00:00.000007+00:00'"),
    ],
)  # fmt: skip
def test_constant_is_the_value_exactly_or_none(value: Any, text: str | None) -> None:
    assert render_constant(value) == text
