"""Which tables that are created get identifier fields: those in which the key is always there, and finds one row."""

from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.config.parsing.select_statement import parse_select
from tidegate.flush.merge import _find_identifiers
from tidegate.model.table_state import TableState
from tidegate.schema.data_types import Column
from tidegate.schema.evolution import to_struct
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Create, DeleteMode, History, Table
from tidegate.table.columns import list_identifier_columns
from tidegate.table.session import TableSession

REQUIRED = Column("id", "BIGINT", False)


def build_keyed_table(*columns: Column, prefix: str = "", into: str | None = None, **changes: Any) -> Table:
    fields = tuple(column.name for column in columns)
    key = KeyFormat(fields=fields, columns=columns, prefix=prefix, into=into)
    return replace(build_table(), key=key, value=ValueFormat(columns=(Column("name", "STRING"),)), **changes)


@pytest.mark.parametrize(
    ("table", "names"),
    [
        (build_keyed_table(REQUIRED, Column("line", "DATE", False)), ("id", "line")),
        (build_keyed_table(REQUIRED, prefix="k_"), ("k_id",)),
        (build_keyed_table(REQUIRED, delete=False), ("id",)),
        (build_keyed_table(REQUIRED, topic_column="src"), ("id", "src")),
        (build_keyed_table(REQUIRED, deletes=DeleteMode.SOFT), ("id",)),
    ],
    ids=["two", "prefix", "upserts_only", "by_topic", "soft_deletes"],
)
def test_required_key_that_finds_one_row_identifies_it(table: Table, names: tuple[str, ...]) -> None:
    assert list_identifier_columns(table) == names


@pytest.mark.parametrize(
    "table",
    [
        build_keyed_table(REQUIRED, Column("line", "DATE")),
        build_keyed_table(REQUIRED, Column("weight", "DOUBLE", False)),
        build_keyed_table(REQUIRED, Column("part", "STRUCT<a: INT>", False)),
        build_keyed_table(REQUIRED, into="key"),
        build_keyed_table(REQUIRED, history=History()),
        build_keyed_table(REQUIRED, upsert=False),
        build_keyed_table(REQUIRED, upsert=False, delete=False),
        build_keyed_table(REQUIRED, create=Create(force_optional=True)),
        build_keyed_table(upsert=False, delete=False),
    ],
    ids=["nullable", "double", "struct", "into", "history", "deletes_only", "append", "force_optional", "no_key"],
)
def test_key_that_may_be_missing_or_find_several_rows_does_not(table: Table) -> None:
    assert list_identifier_columns(table) == ()


def open_created(spec: Table, *columns: Column) -> TableSession:
    """A table that is created as `columns`, or will be, if there are none."""
    state = TableState("u-1", None, 0, None, 0, columns, schema=to_struct(columns)) if columns else None
    return TableSession(World().open_session(build_pipeline(spec)), spec, state)


def test_identifier_fields_are_spelled_as_the_table_spells_them_and_left_out_where_it_has_them_optional() -> None:
    spec = build_keyed_table(REQUIRED, select=parse_select("SELECT ID, name FROM record"))
    assert _find_identifiers(open_created(spec)) == ("ID",)
    assert _find_identifiers(open_created(spec, Column("ID", "BIGINT", False), Column("name", "STRING"))) == ("ID",)
    assert _find_identifiers(open_created(spec, Column("ID", "BIGINT"), Column("name", "STRING"))) == ()
