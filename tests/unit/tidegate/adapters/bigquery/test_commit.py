"""Every statement that is sent to BigQuery, read by GoogleSQL's own analyzer over a grid of tables and modes."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from examples import choose_part
from fakes import World, build_pipeline, build_table
from googlesql import Analyzer, Refused
from tidegate.adapters.bigquery.commit import render_transaction
from tidegate.adapters.sql_templates import SqlFiles
from tidegate.merge.scd2_statements import list_destination_change_columns
from tidegate.merge.statements import render_backfill_statements, render_merge_statements, render_replay_statements
from tidegate.model.batch import Counts, StagedBatch
from tidegate.model.offsets import Ranges
from tidegate.model.ownership import describe_intermediate
from tidegate.ports.session import Session
from tidegate.schema.data_types import Column
from tidegate.schema.evolution import to_struct
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import Create, History, Table
from tidegate.table.columns import (
    list_deletes_columns,
    list_destination_columns,
    list_flat_key_columns,
    list_metadata_columns,
    list_sequence_columns,
    list_value_columns,
    list_version_columns,
    stages_kept_columns,
)
from tidegate.table.session import TableSession

SQL = SqlFiles("bigquery", {"dwh": "my-project"})
NAME = "dwh.shop.orders"
RECORDS = (
    Column("topic", "STRING"), Column("partition", "INT"), Column("offset", "BIGINT"), Column("timestamp", "TIMESTAMP"),
)  # fmt: skip
EVERY_TYPE = (
    Column("id", "BIGINT"),
    *(Column(f"a_{kind}", kind) for kind in ("tinyint", "smallint", "int", "float", "double", "boolean", "binary")),
    *(Column(f"b_{kind}", kind) for kind in ("date", "timestamp", "timestamp_ntz", "string")),
    *(Column(f"d{p}_{s}", f"DECIMAL({p},{s})") for p, s in ((12, 2), (38, 9), (38, 18), (38, 0), (5, 5))),
    Column("tags", "ARRAY<STRING>"),
    Column("lines", "ARRAY<STRUCT<`sku`: STRING, `each`: ARRAY<STRUCT<`n`: INT>>>>"),
    Column("counts", "MAP<STRING, INT>"),
    Column("nested", "STRUCT<`a b`: INT, `deep`: STRUCT<`x`: DECIMAL(9,3), `m`: MAP<STRING, DATE>>>"),
)
ODD = (
    "order id",
    "select",
    "größe",
    "it's",
    "名前",
    "t",
    "s",
    "r",
    "key",
    "value",
    "op",
    "topic",
    "offset",
    "last",
    "at",
)


@dataclass(frozen=True)
class Shape:
    """A table's columns and key, and what it may be called."""

    columns: tuple[Column, ...]
    keys: tuple[str, ...] = ("id",)
    more: dict[str, Any] = field(default_factory=dict)
    held: tuple[Column, ...] = ()


def capitalize_columns(data: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(Column(c.name.capitalize(), c.type) for c in data)


SHAPES = {
    "plain": Shape((Column("id", "BIGINT"), Column("name", "STRING"), Column("amount", "DECIMAL(12,2)"))),
    "every_type": Shape(EVERY_TYPE),
    "odd_names": Shape(tuple(Column(name, "STRING") for name in ODD), (ODD[0], "s", "t")),
    "composite_key": Shape(
        (
            *(Column(name, kind) for name, kind in (("a", "DATE"), ("b", "DECIMAL(20,4)"), ("c", "BINARY"))),
            Column("n", "INT"),
        ),
        ("a", "b", "c"),
    ),
    "nested_key": Shape(
        (Column("k", "STRUCT<`id`: BIGINT, `at`: STRUCT<`zone`: STRING, `t`: TIMESTAMP>>"), Column("n", "STRING")),
        ("k",),
    ),
    "only_the_key": Shape((Column("id", "STRING"),)),
    "prefix": Shape((Column("id", "BIGINT"), Column("name", "STRING")), more={"prefix": "k_"}),
    "held_otherwise": Shape(
        (
            Column("id", "INT"),
            Column("name", "STRING"),
            Column("n", "INT"),
            Column("st", "STRUCT<`a`: INT>"),
            Column("rows", "ARRAY<STRUCT<`q`: INT, `a`: MAP<STRING, INT>>>"),
        ),
        held=(
            Column("ID", "BIGINT"),
            Column("other", "STRING"),
            Column("Name", "STRING"),
            Column("n", "DECIMAL(20,0)"),
            Column("st", "STRUCT<`b`: STRING, `A`: BIGINT>"),
            Column("rows", "ARRAY<STRUCT<`a`: ARRAY<STRUCT<key: STRING, value: DOUBLE>>, `q`: BIGINT, `z`: DATE>>"),
        ),
    ),
    "by_day": Shape(
        (Column("id", "BIGINT"), Column("name", "STRING")),
        more={"create": Create(partition_by=("days(_PARTITIONTIME)",), cluster_by=("id",))},
    ),
}
GROUPS = (("at_lsn", ("third", "heads")), ("sub", ("event_ts",)))
KINDS: dict[str, dict[str, Any]] = {
    "upsert_delete": {},
    "upsert": {"mode": "upsert"},
    "delete": {"mode": "delete"},
    "append": {"mode": "append"},
    "soft": {"deletes": "soft"},
    "partial": {"partial_updates": True},
    "partial_soft": {"partial_updates": True, "deletes": "soft"},
    "grouped": {"partial_updates": True, "sequence_groups": GROUPS},
    "grouped_soft": {"partial_updates": True, "sequence_groups": GROUPS, "deletes": "soft"},
    "unchanged": {"unavailable": "__unchanged"},
    "first": {"update_columns": ("event_ts",)},
    "first_soft": {"update_columns": ("event_ts",), "deletes": "soft"},
    "sequenced": {"sequence_by": ("at_lsn",)},
    "sequenced_soft": {"sequence_by": ("at_lsn", "sub"), "deletes": "soft"},
    "sequenced_upsert": {"sequence_by": ("at_lsn", "sub", "third"), "mode": "upsert"},
    "history": {"history": History()},
    "history_by_time": {"history": History(), "sequence_by": ("sub", "at_lsn")},
    "history_by_number": {"history": History("from", "to", "now"), "sequence_by": ("at_lsn",)},
}
SEQUENCE = (Column("at_lsn", "BIGINT"), Column("sub", "TIMESTAMP"), Column("third", "DECIMAL(38,9)"))
FOLDED = ("partial", "partial_soft", "grouped", "grouped_soft", "first", "first_soft")
NOT_AGAIN = (*FOLDED, "unchanged", "history", "history_by_time", "history_by_number")
METADATA = {"event_ts": "timestamp", "heads": "headers", "list": "header-list"}


def build_shaped_table(shape: Shape, kind: str) -> Table:
    options = {"mode": "upsert_delete", **shape.more, **KINDS[kind]}
    sequence_names = [c.name for c in SEQUENCE] if "sequence_groups" in options else options.get("sequence_by", ())
    columns = shape.columns + tuple(c for c in SEQUENCE if c.name in sequence_names)
    table = build_table(NAME, options.pop("mode"), keys=shape.keys, columns=columns, metadata=METADATA, **options)
    added = [*(c for c in columns if c not in shape.columns), *list_metadata_columns(table)]
    flag = [Column("_deleted", "BOOLEAN")] if table.deletes == "soft" else list(list_version_columns(table))
    return replace(table, target_schema=to_struct([*shape.held, *added, *flag])) if shape.held else table


def open_session(pipeline: Pipeline) -> Session:
    session = replace(World().open_session(pipeline), sql=SQL)
    session.commits.has_branches = lambda table: False
    return session


def build_staged_batch(table: Table, kept_rows: int = 0) -> StagedBatch:
    counts = Counts(span=9, read=9, staged=9)
    ranges = Ranges.from_dict({"orders": {"0": [0, 9]}})
    return StagedBatch(
        table.name, 7, "0af3", 0, ranges, counts, deletes=2, unsequenced_deletes=1, kept=kept_rows, table_uuid="1"
    )


def list_intermediate_columns(pipeline: Pipeline, table: Table) -> dict[str, Any]:
    return {
        "keys": tuple(Column(c.name.removeprefix(table.key.prefix), c.type) for c in list_flat_key_columns(table)),
        "values": (*list_value_columns(table), *list_metadata_columns(table)),
        "sequence": list_sequence_columns(table),
        "kept": stages_kept_columns(table),
        "own": describe_intermediate(pipeline, table),
    }


def format_struct(columns: tuple[Column, ...]) -> str:
    return f"STRUCT<{', '.join(f'`{c.name}`: {c.type}' for c in columns)}>"


def build_analyzer(
    pipeline: Pipeline, table: Table, shape: Shape, more_tables: Mapping[str, tuple[Column, ...]] | None = None
) -> Analyzer:
    """What there is when a batch is merged: the table, what is staged, what remembers deletes, the positions."""
    parts = list_intermediate_columns(pipeline, table)
    table_columns = tuple(Column(n, t) for n, t in _list_types(table)) if table.target_schema else ()
    header = "STRUCT<`key`: STRING, `value`: BINARY>"
    texts = ", ".join(f"`{name}`: STRING" for name in ("stage", "class", "message"))
    bad = f"STRUCT<`key`: BINARY, `value`: BINARY, `headers`: ARRAY<{header}>, {texts}>"
    staged = (
        Column("key", format_struct(parts["keys"])), Column("value", format_struct(parts["values"])),
        *([Column("sequence", format_struct(parts["sequence"]))] if parts["sequence"] else []),
        Column("kept", "ARRAY<STRING>"), Column("bad", bad), Column("op", "STRING"), *RECORDS,
        Column("partition_time", "TIMESTAMP"), Column("i", "BIGINT"), Column("batch_number", "BIGINT"),
        Column("attempt", "STRING"),
    )  # fmt: skip
    tables = {
        NAME: table_columns or list_destination_columns(table),
        f"{NAME}_shop_tmp": staged,
        f"{NAME}_tidegate_position": (
            Column("pipeline", "STRING"), Column("version", "BIGINT"), Column("attempt", "STRING"),
            Column("properties", "STRING"), Column("changed", "TIMESTAMP"),
        ),
    }  # fmt: skip
    if table.history:
        tables[f"{NAME}_changes"] = list_destination_change_columns(table)
    if table.remembers_deletes:
        tables[f"{NAME}_deletes"] = list_deletes_columns(table)
    tables |= more_tables or {}
    pseudo = ("_PARTITIONTIME",) if table.create.partition_by else ()
    return Analyzer({name.replace("dwh", "my-project", 1): columns for name, columns in tables.items()}, pseudo)


def _list_types(table: Table) -> list[tuple[str, str]]:
    from tidegate.schema.data_types import format_type

    return [(name, format_type(inner)) for name, inner in table.target_schema.fields] if table.target_schema else []


CASES = [(shape, kind) for row, shape in enumerate(SHAPES) for kind in choose_part([*KINDS], row, 8)]
AGAIN = [
    (shape, kind)
    for row, shape in enumerate(SHAPES)
    for kind in choose_part([kind for kind in KINDS if kind not in NOT_AGAIN], row, 7)
]
REPLAYED = [(shape, kind) for row, shape in enumerate(SHAPES) for kind in choose_part(FOLDED, row, 4)]


# what BigQuery says of any other: Cannot set pseudo column for automatic partitioned table
INGESTION_YEARS = re.compile(
    r"LEAST\(GREATEST\(partition_time, TIMESTAMP '1960-01-01 00:00:00\+00:00'\), "
    r"TIMESTAMP '2159-12-31 23:00:00\+00:00'\) AS `_tidegate_partition_time`"
)


@pytest.mark.parametrize("kind", ["append", "upsert", "upsert_delete", "partial"])
def test_record_of_a_time_that_has_no_partition_by_ingestion_lies_in_the_first_or_the_last(kind: str) -> None:
    """BigQuery has them of the years 1960 to 2159: one record of another time would fail each merge of its batch."""
    table = build_shaped_table(SHAPES["by_day"], kind)
    pipeline = build_pipeline(table)
    script = "\n".join(
        render_merge_statements(TableSession(open_session(pipeline), table), build_staged_batch(table), "b")
    )
    assert "_PARTITIONTIME" in script
    assert INGESTION_YEARS.search(script)
    assert not re.search(r"(?<!_)\bpartition_time\b", INGESTION_YEARS.sub("", script)), "by every way to the rows"


@pytest.mark.parametrize(("shape", "kind"), CASES)
def test_merge_is_one_that_bigquery_reads(shape: str, kind: str) -> None:
    table = build_shaped_table(SHAPES[shape], kind)
    pipeline = build_pipeline(table)
    analyzer, staged = (
        build_analyzer(pipeline, table, SHAPES[shape]),
        build_staged_batch(table, 1 if kind == "unchanged" else 0),
    )
    for statement in render_merge_statements(TableSession(open_session(pipeline), table), staged, "b"):
        analyzer.check(statement)


@pytest.mark.parametrize(("shape", "kind"), AGAIN)
def test_backfill_and_replay_are_ones_that_bigquery_reads(shape: str, kind: str) -> None:
    table = build_shaped_table(SHAPES[shape], kind)
    pipeline = build_pipeline(table)
    analyzer, staged = build_analyzer(pipeline, table, SHAPES[shape]), build_staged_batch(table)
    session = open_session(pipeline)
    source = f"{NAME}_shop_tmp"
    for statement in (
        *render_backfill_statements(TableSession(session, table), staged, "b", source),
        *render_replay_statements(TableSession(session, table), staged, "b", source),
    ):
        analyzer.check(statement)


@pytest.mark.parametrize(("shape", "kind"), REPLAYED)
def test_replay_of_partial_updates_is_one_that_bigquery_reads(shape: str, kind: str) -> None:
    table = build_shaped_table(SHAPES[shape], kind)
    pipeline = build_pipeline(table)
    analyzer = build_analyzer(pipeline, table, SHAPES[shape])
    for statement in render_replay_statements(
        TableSession(open_session(pipeline), table), build_staged_batch(table), "b", f"{NAME}_shop_tmp"
    ):
        analyzer.check(statement)


def test_backfill_of_groups_is_one_that_bigquery_reads() -> None:
    groups = (("at_lsn", ("name", "third", "event_ts", "heads", "list")), ("sub", ("amount",)))
    shape = replace(
        SHAPES["by_day"], columns=(Column("id", "BIGINT"), Column("name", "STRING"), Column("amount", "INT"))
    )
    table = replace(build_shaped_table(shape, "grouped"), sequence_groups=groups, delete=False)
    pipeline = build_pipeline(table)
    analyzer, session = build_analyzer(pipeline, table, shape), open_session(pipeline)
    (statement,) = render_backfill_statements(
        TableSession(session, table), build_staged_batch(table), "b", f"{NAME}_shop_tmp"
    )
    analyzer.check(statement)
    assert "s.`at_lsn` > t.`at_lsn`" in statement
    assert "is_later" not in statement


@pytest.mark.parametrize("shape", SHAPES)
def test_tables_that_are_made_are_ones_that_bigquery_reads(shape: str) -> None:
    for kind in ("soft", "sequenced"):
        table = build_shaped_table(SHAPES[shape], kind)
        pipeline = build_pipeline(table)
        values = {
            "table": NAME, "parent": "dwh.shop", "partition_by": (), "cluster_by": (), "properties": {},
            "shape": "0af3", "batch": 7, "dead_letters": True, **list_intermediate_columns(pipeline, table),
        }  # fmt: skip
        analyzer = build_analyzer(pipeline, table, SHAPES[shape])
        columns = list_destination_columns(table)
        creations = ("create_namespace", "create_intermediate", "drop_intermediate", "create_positions", "create_names")
        for name in creations:
            analyzer.check(SQL.render(name, **values))
        analyzer.check(SQL.render("create_table", **{**values, "columns": columns}))


@pytest.mark.parametrize(
    ("partition_by", "properties"),
    [
        (("days(at)",), {"require_partition_filter": "true", "partition_expiration_days": "90", "description": "it's"}),
        (("day",), {}),
        (("months(day)",), {"partition_column": "immutable"}),
        (("hour(ntz)",), {"kms_key_name": "projects/p/locations/l/keyRings/r/cryptoKeys/k"}),
        (("years(`at`)",), {"friendly_name": "Orders"}),
        (("hours(_PARTITIONTIME)",), {}),
    ],
)
def test_layout_is_one_that_bigquery_reads(partition_by: tuple[str, ...], properties: dict[str, str]) -> None:
    columns = (Column("at", "TIMESTAMP"), Column("day", "DATE"), Column("ntz", "TIMESTAMP_NTZ"), Column("id", "INT"))
    values = {"columns": columns, "partition_by": partition_by, "properties": properties, "cluster_by": ("id", "day")}
    statement = SQL.render("create_table", table=NAME, **values)
    # the analyzer does not know the pseudo columns in a table that is only being made
    Analyzer({}).check(statement.replace("_PARTITIONTIME", "`at`"))


def test_script_that_publishes_is_read_statement_by_statement() -> None:
    table = build_shaped_table(SHAPES["plain"], "sequenced")
    pipeline = build_pipeline(table)
    analyzer = build_analyzer(pipeline, table, SHAPES["plain"])
    script = render_transaction(
        SQL, positions=f"{NAME}_tidegate_position", pipeline="shop", version=6, attempt="0af3",
        properties={"tidegate.shop.position": '{"it\'s": 1}'},
        statements=render_merge_statements(TableSession(open_session(pipeline), table), build_staged_batch(table), "b"),
        audits=[("SELECT COUNT(*) FROM `my-project`.`shop`.`orders` WHERE `amount` < 0", "amount >= 0")],
    )  # fmt: skip
    statements = [part.strip() for part in script.split(";\n")]
    assert [s.splitlines()[-1].split("(")[0][:6] for s in statements if "TRANS" in s] == ["BEGIN ", "COMMIT"]
    assert statements[0].startswith("CREATE TABLE")
    for statement in statements:
        analyzer.check(statement.removesuffix(";"))


def test_analyzer_refuses_what_bigquery_refuses() -> None:
    analyzer = Analyzer({"p.d.t": (Column("id", "BIGINT"), Column("k", "STRUCT<`a`: INT>"), Column("f", "DOUBLE"))})
    for statement in (
        "SELECT nope FROM p.d.t",
        "UPDATE p.d.t SET id = 'text' WHERE TRUE",
        "DELETE FROM p.d.t",
        "SELECT 1 FROM p.d.t GROUP BY k",
        "SELECT COUNT(*) OVER (PARTITION BY f) FROM p.d.t",
        "MERGE p.d.t AS t USING p.d.t AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
    ):
        with pytest.raises(Refused):
            analyzer.check(statement)
