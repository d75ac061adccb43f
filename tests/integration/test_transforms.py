"""The examples of docs/transforms.md, run from the page's own text, and what `select` does with rows it cannot make."""

import datetime
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import yaml
from examples import choose_part
from tidegate.errors import BadRecord

PAGE = Path(__file__).parents[2] / "docs" / "transforms.md"
BLOCK = re.compile(r"```(yaml|json)\n(.*?)```", re.DOTALL)


def read_examples() -> dict[str, tuple[dict[str, Any], list[Any], list[Any]]]:
    """By heading: the pipeline, the records, and the rows that the page promises."""
    examples = {}
    for section in re.split(r"^##+ ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        blocks = BLOCK.findall(section)
        if not blocks:
            continue
        (_, pipeline), (_, records), (_, rows) = blocks
        lines = [[json.loads(line) for line in text.splitlines()] for text in (records, rows)]
        examples[section.splitlines()[0]] = (yaml.safe_load(pipeline), *lines)
    return examples


EXAMPLES = read_examples()


@pytest.fixture(scope="module")
def shared(workbenches, tmp_path_factory):
    """One workbench with the dimension tables that the page speaks of."""
    workbench = workbenches(tmp_path_factory.mktemp("transforms"))
    january, march = (datetime.datetime(2026, month, 1, tzinfo=datetime.UTC) for month in (1, 3))
    create_table(workbench, "dim.customers", pyarrow.table({"id": [7], "region": ["north"]}))
    history = {"id": [7, 7], "region": ["north", "south"], "valid_from": [january, march], "valid_to": [march, None]}
    create_table(workbench, "dim.customer_history", pyarrow.table(history))
    return workbench


def create_table(workbench: Any, name: str, rows: pyarrow.Table) -> Any:
    """A table that another writer made."""
    from tidegate.adapters.iceberg.catalog import Catalogs

    catalog = Catalogs({"lake": workbench.properties}).catalog("lake")
    catalog.create_namespace_if_not_exists(name.partition(".")[0])
    table = catalog.create_table(name, rows.schema)
    table.append(rows)
    return table


def convert_to_plain(value: Any) -> Any:
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: convert_to_plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [convert_to_plain(inner) for inner in value]
    return str(value) if isinstance(value, Decimal) else value


@pytest.mark.real
def test_examples_of_the_page_give_the_rows_that_it_promises(shared) -> None:
    """Those without metadata are the tables of one pipeline, each with the topic of its example: one flush."""
    assert len(EXAMPLES) == 8, "one for every transform"
    tables, expected = [], {}
    for heading, (pipeline, records, rows) in choose_part([*EXAMPLES.items()], 0, 2):
        name, topic = "t_" + re.sub("[^a-z]+", "_", heading.lower()), shared.topic(1)
        source, table = pipeline["source"], {"name": f"lake.shop.{name}", **pipeline["tables"][0]}
        if "metadata" in source:
            shared.pipeline("with_metadata", [topic], source=source, tables=[table])
        else:
            tables.append({**table, "topics": [topic], **source})
        headers = [{"headers": record["headers"]} if "headers" in record else {} for record in records]
        shared.produce(topic, *((r["key"], r["value"], more) for r, more in zip(records, headers, strict=True)))
        expected[name] = rows
    shared.pipeline("examples", [topic for table in tables for topic in table["topics"]], tables=tables)
    shared.flush("examples")
    if len(tables) < len(expected):
        shared.flush("with_metadata")
    table_rows = {name: convert_to_plain(shared.read_rows(f"shop.{name}")) for name in expected}
    assert table_rows == expected
    for name, rows in expected.items():
        assert [list(row) for row in table_rows[name]] == [list(row) for row in rows], "the columns have this order"


@pytest.mark.repeats("unit/scenarios/test_select.py::test_staged_batch_keeps_the_dimension_rows_it_was_staged_with")
def test_batch_says_which_snapshot_of_a_dimension_it_read_and_a_second_match_is_a_bad_record(shared) -> None:
    topic = shared.topic(1)
    select = "SELECT r.id, d.name FROM record r LEFT JOIN lake.dim.names d ON d.k = lower(r.k) -- by key"
    names = create_table(shared, "dim.names", pyarrow.table({"k": ["a", "b"], "name": ["x", "y"]}))
    key, value = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, k STRING"}
    shared.pipeline("named", [topic], key=key, value=value, table={"select": select})
    shared.produce(topic, ({"id": 1}, {"id": 1, "k": "A"}), ({"id": 5}, {"id": 5, "k": "C"}))
    pinned = names.current_snapshot().snapshot_id
    shared.produce(topic, ({"id": 2}, {"id": 2, "k": "A"}), ({"id": 3}, {"id": 3, "k": None}), ({"id": 1}, None))
    session = shared.open_session("named")
    from tidegate.flush.plan import plan
    from tidegate.flush.stage import stage

    stage(session, plan(session))
    summary = shared.load_iceberg("shop.named_named_tmp").current_snapshot().summary
    assert json.loads(summary["tidegate.dimensions"]) == {"lake.dim.names": str(pinned)}
    shared.flush("named")
    assert shared.read_rows("shop.named") == [
        {"id": 2, "name": "x"}, {"id": 3, "name": None}, {"id": 5, "name": None}
    ]  # fmt: skip
    names.append(pyarrow.table({"k": ["b"], "name": ["z"]}))
    shared.produce(topic, ({"id": 4}, {"id": 4, "k": "B"}))
    with pytest.raises(BadRecord, match=r"offset=5 reason=select: more than one row of lake\.dim\.names matches"):
        shared.flush("named")


# a join with a table as of the record's time is an example of the page, too
@pytest.mark.repeats("test_examples_of_the_page_give_the_rows_that_it_promises")
def test_compacted_topic_of_one_pipeline_is_joined_as_of_the_records_time_by_another(shared) -> None:
    """And a bounded read takes it only so far as it was asked to."""
    customers, orders = shared.topic(**{"cleanup.policy": "compact"}), shared.topic()
    key = {"fields": ["id"], "schema": "id BIGINT"}
    value = {"schema": "id BIGINT, region STRING"}
    shared.pipeline("residents", [customers], key=key, value=value, table={"history": "scd2"})
    january, february, march, may = (
        convert_to_millis("2026-01-01"),
        convert_to_millis("2026-02-01"),
        convert_to_millis("2026-03-01"),
        convert_to_millis("2026-05-01"),
    )
    shared.produce(
        customers,
        ({"id": 7}, {"id": 7, "region": "north"}, {"timestamp": january}),
        ({"id": 9}, {"id": 9, "region": "west"}, {"timestamp": january}),
        ({"id": 9}, None, {"timestamp": february}),
        ({"id": 7}, {"id": 7, "region": "south"}, {"timestamp": march}),
        ({"id": 7}, {"id": 7, "region": "east"}, {"timestamp": may}),
    )
    loaded = shared.run_cli("flush", "residents", "--until", "2026-04-01T00:00:00Z")
    assert loaded.returncode == 0, loaded.stderr
    assert {row["region"] for row in shared.read_rows("shop.residents")} == {"north", "south", "west"}
    select = """SELECT o.id, c.region FROM record o LEFT JOIN lake.shop.residents c
        ON c.id = o.customer AND o.at >= c.valid_from AND (o.at < c.valid_to OR c.valid_to IS NULL)"""
    value = {"schema": "id BIGINT, customer BIGINT, at TIMESTAMP"}
    shared.pipeline("placed", [orders], key=key, value=value, table={"select": select})
    placed = [(7, "2026-01-15"), (7, "2026-03-15"), (9, "2026-01-15"), (9, "2026-02-15"), (7, "2025-12-31")]
    rows = [{"id": n, "customer": who, "at": f"{day}T00:00:00Z"} for n, (who, day) in enumerate(placed)]
    shared.produce(orders, *(({"id": row["id"]}, row) for row in rows))
    shared.flush("placed")
    regions = {row["id"]: row["region"] for row in shared.read_rows("shop.placed")}
    assert regions == {0: "north", 1: "south", 2: "west", 3: None, 4: None}


def convert_to_millis(day: str) -> int:
    return int(datetime.datetime.fromisoformat(f"{day}T00:00:00+00:00").timestamp() * 1000)


@pytest.mark.repeats("test_examples_of_the_page_give_the_rows_that_it_promises")
def test_value_that_its_type_cannot_hold_is_set_aside_and_placeholders_keep_what_they_can(shared) -> None:
    topic, placeholder = shared.topic(1), "__debezium_unavailable_value"
    key = {"fields": ["id"], "schema": "id BIGINT"}
    value = {"schema": "id BIGINT, n STRING, a STRING, b STRING", "unavailable_value": placeholder}
    select = "SELECT id, A, CAST(n AS INT) AS n, CAST(upper(B) AS STRING) AS b FROM record"  # names have no case
    errors = {"errors": {"tolerance": "all"}}
    shared.pipeline("strict", [topic], source=errors, key=key, value=value, table={"select": select})
    row = {"id": [1], "a": ["x"], "n": pyarrow.array([1], pyarrow.int32()), "b": ["Y"]}
    create_table(shared, "shop.strict", pyarrow.table(row))
    shared.produce(
        topic,
        ({"id": 1}, {"id": 1, "n": "2", "a": placeholder, "b": "z"}),
        ({"id": 2}, {"id": 2, "n": "many", "a": "x", "b": "y"}),
        ({"id": 3}, {"id": 3, "n": "3", "a": "x", "b": placeholder}),
    )
    shared.flush("strict")
    assert shared.read_rows("shop.strict") == [{"id": 1, "a": "x", "n": 2, "b": "Z"}]
    letters = {row["offset"]: row["message"] for row in shared.read_rows("shop.tidegate_strict_dead_letters")}
    assert letters[1] == "select: n is not a INT"
    assert "a value that did not change" in letters[2]
