"""What a table of BigQuery must be like before anything is merged into it."""

import re
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
from fakes import build_session
from tidegate.adapters.bigquery.table import BigQueryTables
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.errors import GiveUp
from tidegate.merge.statements import build_merge_input, render_merge_statements
from tidegate.merge.write_mode import choose_write_mode
from tidegate.schema.data_types import Column
from tidegate.spec.table import Create
from tidegate.sql.pruning import UNBOUNDED
from tidegate.table.session import TableSession
from unit.tidegate.adapters.bigquery.test_commit import (
    SQL,
    Shape,
    build_pipeline,
    build_shaped_table,
    build_staged_batch,
    open_session,
)

TABLE = "dwh.shop.orders"
IGNORED_CASE = {"type": "STRING", "collation": "und:ci"}
FIELDS = [
    {"name": "Id", "type": "INTEGER"},
    {"name": "Place", "type": "RECORD", "fields": [{"name": "Code", **IGNORED_CASE}]},
    {"name": "name", **IGNORED_CASE},
    {"name": "score", "type": "FLOAT"},
    {"name": "Point", "type": "RECORD", "fields": [{"name": "x", "type": "FLOAT64"}, {"name": "n", "type": "INTEGER"}]},
]


def find_bounds(
    *leaves: tuple[str, ...], partitioning: Mapping[str, Any] = MappingProxyType({}), **options: Any
) -> Any:
    table = SimpleNamespace(to_api_repr=lambda: {"schema": {"fields": FIELDS}, **partitioning})
    warehouse: Any = SimpleNamespace(find_table=lambda _: table, query_rows=lambda _: pytest.fail("nothing is asked"))
    values: Any = {**({"leaves": leaves} if leaves else {}), "staged_rows": 5, **options}
    return BigQueryTables({"dwh": warehouse}, SqlFiles("bigquery", {"dwh": "p"})).find_bounds(TABLE, values)


def test_key_that_bigquery_compares_without_case_is_refused() -> None:
    """Records of two keys, `a` and `A`, would be one row."""
    with pytest.raises(GiveUp, match=r"table=dwh.shop.orders column=Place\.Code: .* \(collation=und:ci\).* make"):
        find_bounds(("Id",), ("place", "code"))


def test_text_that_is_no_key_may_be_compared_as_it_likes() -> None:
    assert find_bounds(("Id",)) == UNBOUNDED
    assert find_bounds() == UNBOUNDED


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sequence": ["Name"]}, "records of one key would have another order"),
        ({"given": {"Id": ("by_sequence", ["Name"])}}, "records of one key would have another order"),
        ({"compared": ["Id", "Name"]}, "a change of case alone would make no version"),
    ],
)
def test_text_that_orders_records_or_tells_versions_apart_is_refused_if_bigquery_compares_it_without_case(
    options: dict[str, Any], words: str
) -> None:
    with pytest.raises(
        GiveUp, match=rf"table=dwh.shop.orders column=name: .* \(collation=und:ci\), and {words}; .* make"
    ):
        find_bounds(("Id",), **options)


def test_history_compares_the_texts_of_its_rows() -> None:
    """What `Bob` becomes of `bob` is a version, also in a dataset whose tables are made with a collation."""
    for kind, is_refused in (("history", True), ("sequenced", False)):
        table = build_shaped_table(Shape((Column("id", "BIGINT"), Column("name", "STRING"))), kind)
        loaded_table = SimpleNamespace(to_api_repr=lambda: {"schema": {"fields": FIELDS[:3]}})
        warehouse: Any = SimpleNamespace(find_table=lambda _, found=loaded_table: found, query_rows=None)
        session = replace(open_session(build_pipeline(table)), tables=BigQueryTables({"dwh": warehouse}, SQL))
        expected = pytest.raises(GiveUp, match=r"column=name: .* no version") if is_refused else nullcontext()
        with expected:
            render_merge_statements(TableSession(session, table), build_staged_batch(table), "b")


@pytest.mark.parametrize("leaf", [("Score",), ("point", "X")])
def test_key_of_floating_point_is_refused_also_where_only_a_registry_tells_its_type(leaf: tuple[str, ...]) -> None:
    """NaN is not equal to itself, and each batch would add its row once more."""
    with pytest.raises(GiveUp, match=rf"table=dwh.shop.orders column={re.escape('.'.join(leaf))}: .*floating point"):
        find_bounds(("Id",), leaf)
    assert find_bounds(("Id",), ("point", "n")) == UNBOUNDED


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("sequence_by", {"sequence": ["Id", "Score"]}),
        ("sequence_groups", {"given": {"name": ("by_sequence", ["Score"]), "Id": ("always", [])}}),
    ],
)
def test_sequence_of_floating_point_is_refused_as_one_that_the_file_declares(
    word: str, options: dict[str, Any]
) -> None:
    """Nothing is newer than NaN: a row of that sequence would never change again."""
    with pytest.raises(GiveUp, match=rf"table=dwh.shop.orders column=Score: .*floating point.* column for {word}, or"):
        find_bounds(("Id",), **options)
    assert find_bounds(("Id",), sequence=["Id"], given={"name": ("by_sequence", ["Id"])}) == UNBOUNDED


def merge_fields(kind: str, *fields: dict[str, Any], **options: Any) -> None:
    """Look for the bounds of a batch as a flush does, in a table with these fields beside the key."""
    columns = (Column("id", "BIGINT"), Column("tags", "ARRAY<STRING>"), Column("name", "STRING"))
    table = replace(build_shaped_table(Shape(columns), kind), **options)
    schema = [FIELDS[0], *fields]
    loaded_table = SimpleNamespace(to_api_repr=lambda: {"schema": {"fields": schema}})
    warehouse: Any = SimpleNamespace(find_table=lambda _: loaded_table, query_rows=lambda _: pytest.fail("no query"))
    pipeline, staged = build_pipeline(table), build_staged_batch(table)
    session = replace(open_session(pipeline), tables=BigQueryTables({"dwh": warehouse}, SQL))
    state: Any = SimpleNamespace(snapshot_id=7)
    table_session = TableSession(session, table, state)
    choose_write_mode(table_session, staged, build_merge_input(build_session(pipeline, table), staged, "b"))


TAGS = {"name": "Tags", "type": "STRING", "mode": "REPEATED"}


def test_array_of_a_registry_is_refused_in_partial_updates() -> None:
    """BigQuery stores a NULL array as an empty one: a record without the array emptied the row's."""
    with pytest.raises(
        GiveUp,
        match=r"table=dwh.shop.orders column=tags: BigQuery stores a NULL array as an empty one.*if records have made "
        "the column, drop it from the table and declare it as STRING in value.schema",
    ):
        merge_fields("partial", TAGS)
    merge_fields("partial", {**TAGS, "mode": "NULLABLE"})
    merge_fields("upsert_delete", TAGS)
    merge_fields("grouped", TAGS, sequence_groups=(("at_lsn", ("tags", "name")),))


def test_sequence_of_a_group_whose_floating_point_only_a_registry_declares_is_refused_by_a_flush() -> None:
    """The flush looked for bounds before it knew the groups: a row with NaN never changed again."""
    groups = (("at_lsn", ("tags", "name")),)
    with pytest.raises(GiveUp, match=r"column=at_lsn: .*floating point.* column for sequence_groups"):
        merge_fields("grouped", TAGS, {"name": "at_lsn", "type": "FLOAT64"}, sequence_groups=groups)
    merge_fields("grouped", TAGS, {"name": "at_lsn", "type": "INTEGER"}, sequence_groups=groups)


BY_DAY, BY_HOUR = ({"timePartitioning": {"type": unit}} for unit in ("DAY", "HOUR"))
BY_COLUMN = {"timePartitioning": {"type": "DAY", "field": "at"}}
BY_NUMBER = {"rangePartitioning": {"field": "Id", "range": {"start": "0", "end": "9", "interval": "1"}}}


@pytest.mark.parametrize(
    ("partitioning", "own_layout"),
    [({}, "none"), (BY_HOUR, "HOUR of _PARTITIONTIME"), (BY_COLUMN, "DAY of at"), (BY_NUMBER, "RANGE of Id")],
)
def test_partitions_by_ingestion_that_a_table_does_not_have_are_refused_with_those_that_it_has(
    partitioning: dict[str, Any], own_layout: str
) -> None:
    """BigQuery said that there is no column _PARTITIONTIME; rows of days came into the first hour of each."""
    create = Create(partition_by=("days(_PARTITIONTIME)",))
    with pytest.raises(GiveUp, match=f"by DAY of _PARTITIONTIME, and its partitions are {own_layout}; nothing was"):
        find_bounds(layout=create, partitioning=partitioning)
    assert find_bounds(layout=create, partitioning=BY_DAY) == UNBOUNDED
    wall_clock = replace(create, partition_time="wall-clock")
    assert find_bounds(layout=wall_clock, partitioning=partitioning) == UNBOUNDED


@pytest.mark.parametrize("kind", ["VIEW", "MATERIALIZED_VIEW", "EXTERNAL", "SNAPSHOT"])
def test_what_has_a_tables_name_and_takes_no_rows_is_refused(kind: str) -> None:
    warehouse: Any = SimpleNamespace(find_table=lambda _: SimpleNamespace(table_type=kind))
    tables = BigQueryTables({"dwh": warehouse}, SqlFiles("bigquery", {"dwh": "p"}))
    with pytest.raises(GiveUp, match=rf"table=dwh\.shop\.orders .* type={kind}; nothing was changed; rename it"):
        tables.read_state(TABLE, "shop")
