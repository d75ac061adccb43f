"""`select`: what it means, what it is refused for, and that a projection changes nothing about exactly-once."""

from contextlib import suppress
from typing import Any

import pytest
import yaml
from fakes import CrashAt, World, build_pipeline, build_table
from fakes.clock import Crash
from tidegate.config.parsing.select_statement import parse_select
from tidegate.config.pipeline_file import load_pipeline
from tidegate.errors import ConfigurationError, NothingToDo, RetryLater
from tidegate.flush.flush import flush
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Catalog
from tidegate.table.columns import build_projection, compute_shape, list_destination_columns, list_sequence_columns

NAME, DIMENSION = "lake.shop.orders", "lake.dim.customers"
COLUMNS = (Column("id", "STRING"), Column("at", "STRUCT<`x`: INT, `y z`: DATE>"), Column("name", "STRING", False))
JOINED = f"SELECT r.*, c.region FROM record r LEFT JOIN {DIMENSION} c ON c.id = r.name"


def build_select_table(text: str, **options: Any):
    return build_table(NAME, columns=COLUMNS, select=parse_select(text), **options)


def test_columns_follow_the_list_with_their_types() -> None:
    table = build_select_table(
        "SELECT name, id, at.`y z` AS day, r.topic, TRY_CAST(at.x AS DECIMAL(4,1)) AS x FROM record r"
    )
    assert list_destination_columns(table) == (
        Column("name", "STRING", False),
        Column("id", "STRING"),
        Column("day", "DATE"),
        Column("topic", "STRING"),
        Column("x", "DECIMAL(4,1)"),
    )


def test_star_stands_for_the_columns_that_the_table_would_have() -> None:
    table = build_select_table("SELECT record.* EXCEPT (AT), offset FROM record", metadata={"seen": "timestamp"})
    names = [c.name for c in list_destination_columns(table)]
    assert names == ["id", "name", "seen", "offset"]


def test_words_go_to_spark_as_they_are() -> None:
    text = "SELECT id, CAST(CASE WHEN name LIKE 'a, FROM (%' THEN left(name, 2) END AS STRING) AS `left` FROM record"
    (_, projection_columns) = build_projection(build_select_table(text)).columns
    assert (projection_columns.name, projection_columns.sql, projection_columns.type) == (
        "left",
        "CASE WHEN name LIKE 'a, FROM (%' THEN left(name, 2) END",
        "STRING",
    )
    on = "c.k = left(r.name, 2) AND c.x > 0"
    (dimension,) = parse_select(f"SELECT r.id FROM record r LEFT OUTER JOIN a.b.c c ON {on}").dimensions
    assert (dimension.table, dimension.on) == ("a.b.c", on)


@pytest.mark.parametrize(("text", "message"), [
    ("SELECT id FROM record WHERE id > 1", "no WHERE here; leave records out with when"),
    ("SELECT DISTINCT id FROM record", "no DISTINCT here"),
    ("SELECT id FROM record GROUP BY id", "no GROUP here"),
    ("SELECT id FROM record UNION ALL SELECT id FROM record", "not one SELECT"),
    ("DROP TABLE x", "not one SELECT"),
    ("SELECT id FROM record; DROP TABLE x", "2 statements found"),
    ("SELECT id FROM orders", "it reads FROM record"),
    ("SELECT id", "it reads FROM record"),
    ("SELECT id, upper(name) AS name FROM record", r"upper\(name\): the type .* write CAST"),
    ("SELECT CAST(name AS STRING) FROM record", "write CAST"),
    ("SELECT CAST(max(name) AS STRING) AS n FROM record", "an aggregate"),
    ("SELECT CAST(explode(name) AS STRING) AS n FROM record", "several rows"),
    ("SELECT CAST((SELECT 1) AS INT) AS n FROM record", "a subquery"),
    ("SELECT r.id FROM record r JOIN a.b.c c ON c.id = r.id", "only LEFT JOIN"),
    ("SELECT r.id FROM record r, a.b.c c", "only LEFT JOIN"),
    ("SELECT r.id FROM record r LEFT JOIN b.c c ON c.id = r.id", "write <catalog>"),
    ("SELECT id FROM record r LEFT JOIN a.b.c c ON c.id = r.id", "each column names its table, e.g. r.id"),
    ("SELECT r.id, c.* FROM record r LEFT JOIN a.b.c c ON c.id = r.id", "one by one"),
    ("SELECT r.id FROM record r LEFT JOIN a.b.c r ON r.id = r.id", "called the same"),
    ("SELECT r.id FROM record r LEFT JOIN a.b.c TIMESTAMP AS OF '2026-01-01' c ON c.id = r.id", "pinned by each batch"),
])  # fmt: skip
def test_what_is_no_projection_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_select(text)


@pytest.mark.parametrize(("text", "message"), [
    ("SELECT name FROM record", "leaves out or changes id of key.fields"),
    ("SELECT CAST(upper(id) AS STRING) AS id, name FROM record", "leaves out or changes id of key.fields"),
    ("SELECT id AS key, name, at AS id FROM record", "leaves out or changes id of key.fields"),
    ("SELECT id, at FROM record", "leaves out or changes name of sequence_by"),
    ("SELECT *, nmae AS n FROM record", "nmae is not a column of the record; did you mean name"),
    ("SELECT * EXCEPT (nmae) FROM record", "nmae is not a column of the record"),
    ("SELECT *, at AS NAME FROM record", "makes two columns of one name: name"),
    ("SELECT r.* FROM record r LEFT JOIN nowhere.a.b c ON c.id = r.id", "no Iceberg catalog"),
    ("SELECT r.* FROM record r LEFT JOIN lake.shop.orders c ON c.id = r.id", "where batches are cut"),
])  # fmt: skip
def test_select_that_cannot_be_right_is_refused_with_the_file(tmp_path, text: str, message: str) -> None:
    source = {"topics": ["t"], "key": {"fields": ["id"]}, "value": {"schema": "id INT, name STRING, at DATE"}}
    table = {"name": "lake.shop.orders", "select": text, "sequence_by": ["name"]}
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump({"source": source, "tables": [table]}))
    with pytest.raises(ConfigurationError, match=message) as error_info:
        load_pipeline(file, {"lake": Catalog("lake", "iceberg")})
    assert len(error_info.value.problems) == 1


def test_table_layout_is_checked_against_what_select_makes(tmp_path) -> None:
    source = {"topics": ["t"], "value": {"schema": "id INT, name STRING"}}
    table = {"name": "lake.shop.orders", "select": "SELECT name AS n FROM record", "create": {"cluster_by": ["name"]}}
    file = tmp_path / "orders.yaml"
    file.write_text(yaml.safe_dump({"source": source, "tables": [table]}))
    with pytest.raises(ConfigurationError, match="name is not a column of the table"):
        load_pipeline(file, {"lake": Catalog("lake", "iceberg")})


def test_staged_rows_of_another_select_are_staged_anew() -> None:
    shapes = {compute_shape(build_select_table(t)) for t in ("SELECT * FROM record", "SELECT id, name FROM record")}
    assert len(shapes | {compute_shape(build_table(NAME, columns=COLUMNS))}) == 3


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders")
    world.destination.create(DIMENSION, (Column("id", "STRING"), Column("region", "STRING")))
    world.engine.selects[JOINED] = lambda row, c: {
        **row,
        "region": next((d["region"] for d in c if d["id"] == row["name"]), None),
    }
    return world


def test_killed_at_any_call_a_projected_table_ends_as_an_uninterrupted_run_leaves_it(world: World) -> None:
    pipeline, number = build_pipeline(build_select_table(JOINED)), 0
    world.destination.add_snapshot(DIMENSION, "main", ({"id": "a", "region": "north"},), {})
    at = 0
    while True:
        at += 7
        crash = CrashAt(at)
        for _ in range(2):
            number += 1
            world.broker.produce("orders", {"id": str(number % 3)}, {"id": str(number % 3), "at": None, "name": "a"})
        try:
            flush(world.open_session(pipeline, crash))
            break
        except Crash:
            continue
        except (RetryLater, NothingToDo):
            continue
    with suppress(NothingToDo):
        for _ in range(9):
            flush(world.open_session(pipeline))
    regions = {row["id"]: row["region"] for row in world.read_rows(NAME)}
    assert regions == {"0": "north", "1": "north", "2": "north"}


def test_staged_batch_keeps_the_dimension_rows_it_was_staged_with(world: World) -> None:
    pipeline = build_pipeline(build_select_table(JOINED))
    world.broker.produce("orders", {"id": "1"}, {"id": "1", "at": None, "name": "a"})
    session = world.open_session(pipeline)
    stage(session, plan(session))
    world.destination.add_snapshot(DIMENSION, "main", ({"id": "a", "region": "south"},), {})
    flush(world.open_session(pipeline))
    assert [row["region"] for row in world.read_rows(NAME)] == [None]
    world.broker.produce("orders", {"id": "1"}, {"id": "1", "at": None, "name": "a"})
    flush(world.open_session(pipeline))
    assert [row["region"] for row in world.read_rows(NAME)] == ["south"]


def test_missing_dimension_table_is_said_before_anything_is_staged(world: World) -> None:
    del world.destination.tables[DIMENSION]
    world.broker.produce("orders", {"id": "1"}, {"id": "1", "at": None, "name": "a"})
    with pytest.raises(ConfigurationError, match=f"joins table={DIMENSION}, which does not exist"):
        flush(world.open_session(build_pipeline(build_select_table(JOINED))))
    assert not world.engine.jobs


def test_sequence_may_be_made_of_the_record_by_select() -> None:
    text = "SELECT r.*, CAST(upper(r.name) AS STRING) AS rank, r.at.x AS place FROM record r"
    table = build_select_table(text, sequence_by=("PLACE", "rank"))
    assert list_sequence_columns(table) == (Column("place", "INT"), Column("rank", "STRING"))
    assert compute_shape(table) != compute_shape(build_select_table(text))


def test_column_that_select_writes_anew_under_its_name_orders_the_records() -> None:
    table = build_select_table("SELECT id, CAST(length(name) AS INT) AS name FROM record", sequence_by=("name",))
    assert list_sequence_columns(table) == (Column("name", "INT"),)
