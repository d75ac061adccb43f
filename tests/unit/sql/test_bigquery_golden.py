"""Every statement of include/sql/bigquery as a file that people can read, for the cases of Iceberg's and a few more.

``REGENERATE_GOLDEN=1 pytest tests/unit/sql/test_bigquery_golden.py`` writes the files anew: read what changed.
"""

import re
from pathlib import Path
from typing import Any

import jinja2
import pytest
from golden_files import compare_with_golden
from tidegate.adapters.bigquery.commit import POSITION_MOVED, render_transaction
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import GiveUp
from tidegate.model.ownership import Ownership, TableKind
from tidegate.schema.data_types import Column
from tidegate.spec.table import Create
from tidegate.sql.googlesql import quote, render_constant, render_literal
from tidegate.sql.pruning import Bound
from unit.sql import test_iceberg_golden as iceberg

GOLDEN = Path(__file__).parents[2] / "golden" / "bigquery"
SQL = SqlFiles("bigquery", {"lake": "my-project"})
STATEMENTS = iceberg.list_statements("bigquery")
EMPTY = ("order_table", "identify_table")  # what BigQuery does by itself, and what it does not have
MERGE, TABLE = iceberg.MERGE, iceberg.TABLE
POSITIONS = {"table": "lake.shop.orders_tidegate_position", "pipeline": "shop", "version": 6, "properties": "{}"}
POSITIONED = {"positions": "lake.shop.orders_tidegate_position"}
DAYS = (
    ("TIMESTAMP '2026-01-01 00:00:00+00:00'", "TIMESTAMP '2026-01-03 23:59:59.999999+00:00'"),
    ("TIMESTAMP '2026-01-09 00:00:00+00:00'", "TIMESTAMP '2026-01-09 23:59:59.999999+00:00'"),
)
BOUNDS = (Bound(("id",), (("5", "90"),)), Bound(("at",), DAYS, nulls=True))
TIMES = (Column("id", "BIGINT", False), Column("at", "TIMESTAMP"), Column("m", "MAP<STRING, DECIMAL(38,18)>"))
BY_RECORD = {"layout": Create(partition_by=("days(_PARTITIONTIME)",))}
SCRIPT: dict[str, Any] = {
    "positions": "lake.shop.orders_tidegate_position",
    "pipeline": "shop",
    "version": 6,
    "attempt": "0af3",
    "properties": {"tidegate.shop.position": '{"orders": {"0": 900}}', "tidegate.shop.batch": "7"},
}

# the tables of Iceberg alone, and what an analyzer does with names that BigQuery takes in no table
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        name: case
        for name, case in iceberg.CASES.items()
        if case[0] in STATEMENTS
        and case[0] not in EMPTY
        and name not in ("create_table-own_modes", "create_table-format_3")
    },
    **{
        name: (statement, {**values, **POSITIONED, "pipeline": "shop"})
        for name, (statement, values) in iceberg.LIVE_CASES.items()
    },
    "mark_staged-plain": (
        "mark_staged",
        {"source": "lake.shop.orders_shop_tmp", "batch": 7, "note": '{"attempt": "it\'s"}'},
    ),
    "create_table-partition_by": (
        "create_table",
        {**TABLE, "columns": TIMES, "partition_by": ("hours(at)",), "cluster_by": ("id",), "properties": {}},
    ),
    "create_table-properties": (
        "create_table",
        {
            **TABLE,
            "columns": TIMES,
            "partition_by": ("days(_PARTITIONTIME)",),
            "properties": {
                "require_partition_filter": "true",
                "partition_expiration_days": "90",
                "description": "it's",
            },
        },
    ),
    "merge_upsert_delete-by_record_time": ("merge_upsert_delete", {**MERGE, **BY_RECORD}),
    "merge_append-by_record_time": ("merge_append", {**iceberg.WITHOUT_LEAVES, **BY_RECORD}),
    "merge_truncate-by_record_time": ("merge_truncate", {**MERGE, **BY_RECORD, "truncated_at": 900}),
    "merge_folded-by_record_time": ("merge_folded", {**iceberg.FOLDED, **BY_RECORD}),
    "merge_upsert_delete-bounded": ("merge_upsert_delete", {**MERGE, "bounds": BOUNDS}),
    "bounds_staged-plain": (
        "bounds_staged",
        {**MERGE, "values": ["at"], "bounded": [("id",)], "partition": "TIMESTAMP_TRUNC(`at`, DAY, 'UTC')"},
    ),
    "bounds_table-plain": (
        "bounds_table",
        {**MERGE, "values": [], "bounds": BOUNDS[:1], **POSITIONED, "partition": "TIMESTAMP_TRUNC(t.`at`, DAY, 'UTC')"},
    ),
    "partitions_table-plain": (
        "partitions_table",
        {"target": MERGE["target"], "bounds": BOUNDS[1:], "partition": "TIMESTAMP_TRUNC(t.`at`, DAY, 'UTC')"},
    ),
    "remove_rows-plain": ("remove_rows", {"target": MERGE["target"], "bounds": ()}),
    "remove_rows-filtered": ("remove_rows", {"target": MERGE["target"], "bounds": BOUNDS[1:]}),
    "assert_versions-plain": ("assert_versions", {**POSITIONED, "versions": 17}),
    "create_names-plain": (
        "create_names",
        {"table": "lake.shop.tidegate_shop_names", "own": Ownership(TableKind.NAMES, "shop")},
    ),
    "create_positions-plain": (
        "create_positions",
        {**POSITIONS, "own": Ownership(TableKind.POSITIONS, "", "shop.orders")},
    ),
    "seed_position-plain": ("seed_position", POSITIONS),
}


def render_case(case: str) -> str:
    statement, values = CASES[case]
    return SQL.render(statement, **{"cluster_by": (), **values}) + "\n"


def render_script() -> str:
    statements = (
        SQL.render("create_deletes", table="lake.shop.orders_deletes", columns=TIMES, own=iceberg.DELETES_OWN),
        SQL.render("merge_upsert_delete", **MERGE),
    )
    audits = [(SQL.render("audit_rows", **{**iceberg.AUDIT, "rows": "upsert", "leaves": [("id",)]}), "amount > 0")]
    return render_transaction(SQL, statements=statements, audits=audits, **SCRIPT) + "\n"


def check(name: str, text: str) -> None:
    compare_with_golden(GOLDEN / f"{name}.sql", text)


@pytest.mark.parametrize("case", CASES)
def test_statement_reads_as_the_golden_file(case: str) -> None:
    check(case, render_case(case))


def test_script_reads_as_the_golden_file() -> None:
    check("publish-plain", render_script())


def test_no_golden_file_without_a_case() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sql")} == {*CASES, "publish-plain"}


def test_no_statement_without_a_case() -> None:
    assert {statement for statement, _ in CASES.values()} | {"publish", *EMPTY} == STATEMENTS


def test_every_statement_of_iceberg_has_one_for_bigquery_unless_it_is_upkeep() -> None:
    """Nothing is compacted or expired in BigQuery, no batch waits on a branch there, and no row is explained."""
    iceberg_only = iceberg.list_statements("iceberg") - STATEMENTS
    upkeep = (
        "maintain_",
        "merge_new",
        "verify_",
        "keep_verification",
        "explain_",
        "forget_answers",
        "diff_",
        "branch_memory",
    )
    assert all(name.startswith(upkeep) for name in iceberg_only)


def test_missing_value_is_an_error_instead_of_an_empty_text() -> None:
    for name in ("target", "source", "parts", "keys", "leaves", "values"):
        with pytest.raises(jinja2.UndefinedError, match=name):
            SQL.render("merge_upsert_delete", **{key: value for key, value in MERGE.items() if key != name})


@pytest.mark.parametrize("part", ["statements", "audits", "position"])
def test_script_that_is_longer_than_bigquery_reads_is_refused_with_the_part_that_is_too_long(part: str) -> None:
    long_text = "x" * 1024 * 1024
    options = {
        "statements": {"statements": ("SELECT 1", f"SELECT 2 -- {long_text}")},
        "audits": {"audits": [("SELECT 0", "n > 0"), ("SELECT 0", f"n > 0 -- {long_text}")]},
        "position": {"properties": {"position": long_text, "batch": 7}},
    }[part]
    with pytest.raises(GiveUp) as error_info:
        render_transaction(SQL, **{"statements": ("SELECT 1",), **SCRIPT, **options})
    message = str(error_info.value)
    sizes = {name: int(size) for name, size in re.findall(r"(statements|audits|position)=(\d+)", message)}
    assert max(sizes, key=lambda name: sizes[name]) == part
    assert len(long_text) <= sizes[part] < int(re.findall(r"has bytes=(\d+) \(", message)[0])
    for remedy in ("fewer columns, shorter names or larger partitions", "shorter ones", "fewer topics"):
        assert remedy in message


def test_position_moves_before_a_statement_that_is_billed_by_the_table_or_the_batch() -> None:
    """Who is too late, or meets another publish, ends at it: a merge that is rolled back is paid all the same."""
    text = render_script().split("BEGIN TRANSACTION;")[1]
    places = [
        text.index(word) for word in ("UPDATE `my-project`.`shop`.`orders_tidegate_position`", "ASSERT", "MERGE INTO")
    ]
    assert places == sorted(places)
    assert text.index("orders_shop_tmp") > places[1]


def test_script_that_finds_another_version_says_so_in_words_that_are_looked_for() -> None:
    assert f"= 1 AS '{POSITION_MOVED}: pipeline=shop version=6';" in render_script()


@pytest.mark.parametrize(
    ("axis", "sql"),
    [
        ("DECIMAL(12,2)", "CAST(NULL AS NUMERIC)"),
        ("DECIMAL(38,18)", "CAST(NULL AS BIGNUMERIC)"),
        ("DATE", "DATE(`_tidegate_timestamp`, 'UTC')"),
        ("TIMESTAMP_NTZ", "DATETIME(`_tidegate_timestamp`, 'UTC')"),
        ("TIMESTAMP", "`_tidegate_timestamp`"),
    ],
)
def test_delete_without_a_sequence_lies_in_history_at_no_parameters_and_in_utc(axis: str, sql: str) -> None:
    is_time = not axis.startswith("DECIMAL")
    rendered = SQL.render("remember_changes", **{**iceberg.REMEMBERED, "axis_type": axis, "is_time": is_time})
    assert f"IF(`_tidegate_op` = 'd', {sql}, NULL)) AS `_tidegate_axis`" in rendered


def test_no_statement_reads_times_in_the_projects_default_zone() -> None:
    """A project may set `default_time_zone`; partitions begin in UTC. What makes a table has a clause of its own."""
    for path in sorted(GOLDEN.glob("*.sql")):
        matches = re.findall(r"TIMESTAMP_TRUNC\([^()']*\)", path.read_text())
        assert matches == [] or path.name.startswith("create_table"), path.name


@pytest.mark.parametrize(
    ("name", "sql"), [("a", "`a`"), ("a`b", "`a\\`b`"), ("a.b", "`a.b`"), ("a\\", "`a\\\\`"), ("a\nb", "`a\\nb`")]
)
def test_identifier_cannot_be_broken_out_of(name: str, sql: str) -> None:
    assert quote(name) == sql


def test_text_cannot_be_broken_out_of() -> None:
    assert render_literal("it's \\\n") == "'it\\'s \\\\\\n'"
    assert render_constant("'); DROP TABLE t; --") == "'\\'); DROP TABLE t; --'"


def test_catalog_is_the_project_in_a_name() -> None:
    assert (
        SQL.render("drop_intermediate", table="lake.shop.orders") == "DROP TABLE IF EXISTS `my-project`.`shop`.`orders`"
    )
    assert (
        SqlFiles("bigquery").render("create_namespace", parent="dwh.a-b") == "CREATE SCHEMA IF NOT EXISTS `dwh`.`a-b`"
    )
