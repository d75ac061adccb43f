"""`approve` in a pipeline file: the rules that it becomes, and what `validate` refuses."""

from pathlib import Path

import pytest
from pipeline_files import find_problems, load
from tidegate.spec.table import Approve


def render(
    approve: str, options: str = "", catalog: str = "lake", key: str = "key: {fields: [id], schema: id BIGINT}"
) -> str:
    value = "value: {schema: 'id BIGINT, name STRING'}"
    table = f"{{name: {catalog}.shop.orders, approve: {approve}{', ' + options if options else ''}}}"
    return f"source: {{topics: [t], {value}{', ' + key if key else ''}}}\ntables: [{table}]\n"


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("{deletes_over: 10%}", Approve(deletes_over_percent=10)),
        ("{deletes_over: 0.5 %}", Approve(deletes_over_percent=0.5)),
        ("{deletes_over: 0}", Approve(deletes_over=0)),
        ("{rows_over: 1000, schema: any}", Approve(rows_over=1000, holds_schema=True)),
        ("{when: 'deleted > 10 AND Rows / greatest(table_rows, 1) > 0.5'}", None),
    ],
)
def test_rules_are_read(include: Path, text: str, rules: Approve | None) -> None:
    (table,) = load(include, render(text)).tables
    assert table.approve is not None
    assert rules is None or table.approve == rules


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (render("{}"), "holds no batch; give deletes_over, rows_over, schema or when"),
        (render("{deletes_over: 10 percent}"), "neither a number of rows nor a share of the table's"),
        (render("{deletes_over: 101%}"), "neither a number of rows nor a share of the table's"),
        (render("{deletes_over: 100%}"), "neither a number of rows nor a share of the table's below 100%"),
        (render("{deletes_over: -1}"), "tables[0].approve.deletes_over"),
        (render("{schema: all}"), "tables[0].approve.schema"),
        (render("{when: 'name = 1'}"), "name is no count of a diff; there are: inserted, updated, deleted, rows"),
        (render("{when: 'deleted >'}"), "tables[0].approve.when"),
        (render("{when: 'max(deleted) > 1'}"), "aggregates and windows have no meaning"),
        (
            render("{deletes_over: 10%}", "upsert: false"),
            "tables[0].approve.deletes_over=10%: deletes are counted by key",
        ),
        (render("{rows_over: 1}", key=""), "this table is only appended to; use audits"),
        (
            render("{rows_over: 1}", "deletes: soft"),
            "Spark reads no column _deleted, so soft deletes would be overlooked",
        ),
        (render("{rows_over: 1}", catalog="dwh"), "no batch can wait on a branch in a bigquery catalog; write to an"),
    ],
)
def test_what_cannot_be_held_is_refused(include: Path, text: str, problem: str) -> None:
    assert any(problem in line for line in find_problems(include, text)), find_problems(include, text)


def test_deletes_of_a_table_without_upsert_are_held_by_their_number(include: Path) -> None:
    (table,) = load(include, render("{deletes_over: 10}", "upsert: false")).tables
    assert table.approve == Approve(deletes_over=10)


def test_soft_deletes_with_another_name_can_be_held(include: Path) -> None:
    assert load(include, render("{rows_over: 1}", "deletes: soft, deleted_column: gone")).tables[0].approve is not None


def test_tables_that_records_name_cannot_be_held(include: Path) -> None:
    text = render("{rows_over: 1}").replace("lake.shop.orders", "'lake.shop.{name}'")
    assert any("not for tables that records name" in line for line in find_problems(include, text))
