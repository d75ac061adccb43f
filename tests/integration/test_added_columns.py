"""Tables whose columns follow JSON records, on real Kafka, Spark and Iceberg: made, grown inside, and never guessed."""

import json
import re
from typing import Any

import msgpack
import pytest
from drifting_topics import RECORDS, list_rows, make_topic, normalize_row
from tidegate.errors import BadRecord, GiveUp
from tidegate.monitoring.status import read_status

KEY = {"fields": ["id"], "schema": "id BIGINT"}


def produce(workbench: Any, topic: str, *rows: dict[str, Any]) -> None:
    workbench.produce(topic, *(({"id": row["id"]}, row) for row in rows))


def read_columns(workbench: Any, table: str) -> dict[str, str]:
    """Each column's type, without the ids of its parts."""
    fields = workbench.load_iceberg(table).schema().fields
    return {field.name: re.sub(r"\d+: |optional ", "", str(field.field_type)) for field in fields}


def test_table_is_made_of_its_records_and_grows_with_them(workbench) -> None:
    topic = workbench.topic(2)
    audits = ["SELECT max(price) < 100 FROM {table}"]  # of a column that records make
    workbench.pipeline("grown", [topic], key=KEY, value={"unknown_fields": "add"}, table={"audits": audits})
    produce(
        workbench, topic,
        {"id": 1, "Name": "a", "price": 5, "at": {"city": "x"}, "none": None, "no": [], "lines": [{"sku": "s"}]},
        {"id": 2, "Name": None, "price": 19.5, "tags": ["t"], "at": {"zip": 7}, "big": 2**70},
        {"id": 3, "mixed": 1, "of": {}}, {"id": 4, "mixed": "text"},
    )  # fmt: skip
    workbench.flush("grown")
    assert read_columns(workbench, "shop.grown") == {
        "id": "long", "Name": "string", "price": "double", "at": "struct<city: string, zip: long>",
        "big": "decimal(38, 0)", "mixed": "string", "tags": "list<string>", "lines": "list<struct<sku: string>>",
    }  # fmt: skip
    produce(
        workbench, topic,
        {"id": 5, "at": {"city": "y", "geo": {"lat": 1.5}}, "lines": [{"sku": "u", "n": 2}], "Late": True, "no": [1.5]},
        {"id": 1, "NAME": "b", "price": 6},
    )  # fmt: skip
    workbench.flush("grown")
    rows = {row["id"]: row for row in workbench.read_rows("shop.grown")}
    assert rows[5]["at"] == {"city": "y", "zip": None, "geo": {"lat": 1.5}}
    assert rows[5]["lines"] == [{"sku": "u", "n": 2}]
    assert (rows[5]["Late"], rows[5]["no"]) == (True, [1.5])
    assert (rows[1]["Name"], rows[1]["price"], rows[1]["Late"]) == ("b", 6.0, None)
    assert (rows[2]["price"], rows[2]["at"], rows[2]["big"]) == (19.5, {"city": None, "zip": 7, "geo": None}, 2**70)
    assert (rows[3]["mixed"], rows[4]["mixed"]) == ("1", "text")
    status = read_status(workbench.open_session("grown"))
    assert (status["warnings"], [batch["unknown_fields"] for batch in status["batches"]]) == ([], [None, None])


@pytest.mark.repeats(
    "unit/scenarios/test_added_columns.py::test_message_of_a_bad_record_names_only_columns_that_do_not_hold_it"
)
def test_value_that_its_column_cannot_hold_makes_a_bad_record_with_the_way_out(workbench) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("whole", [topic], key=KEY, value={"unknown_fields": "add"})
    produce(workbench, topic, {"id": 1, "n": 1, "value": "x", "at": {"n": 1}})
    workbench.flush("whole")
    produce(workbench, topic, {"id": 2, "n": 1.5, "more": 1, "value": "y", "at": {"n": 2}})
    with pytest.raises(BadRecord, match=r"keeps its type: `n` BIGINT; .* write `n` STRING into value.schema"):
        workbench.flush("whole")
    columns = {"id": "long", "n": "long", "value": "string", "at": "struct<n: long>"}
    assert read_columns(workbench, "shop.whole") == columns
    workbench.run_spark_sql("ALTER TABLE lake.shop.whole DROP COLUMN n")
    workbench.pipeline("whole", [topic], key=KEY, value={"unknown_fields": "add", "schema": "n STRING"})
    workbench.flush("whole")
    offsets = {topic: {f"{partition}": [0, end] for partition, end in workbench.read_ends(topic)[topic].items()}}
    process = workbench.run_cli("backfill", "whole", "--range", json.dumps(offsets))
    assert process.returncode == 0, process.stderr
    assert [(row["n"], row["more"]) for row in workbench.read_rows("shop.whole")] == [("1", None), ("1.5", 1)]


@pytest.mark.repeats("unit/scenarios/test_added_columns.py::test_declared_columns_stay_as_they_are_declared")
def test_declared_columns_change_events_and_text_of_objects(workbench) -> None:
    topic = workbench.topic(2)
    infer = {"objects": "string", "decimals": "decimal"}
    value = {"format": "debezium-json", "unknown_fields": "add", "infer": infer, "schema": "id BIGINT, n INT"}
    workbench.pipeline("events", [topic], key=KEY, value=value)
    rows = [{"id": 1, "n": 1, "o": {"a": [1]}, "price": 1.25}, {"id": 2, "n": 2, "price": 3}]
    events = [{"before": None, "after": row, "op": "c"} for row in rows]
    workbench.produce(topic, *(({"id": event["after"]["id"]}, event) for event in events))
    workbench.flush("events")
    columns = {"id": "long", "n": "int", "o": "string", "price": "decimal(38, 9)"}
    assert read_columns(workbench, "shop.events") == columns
    first, second = workbench.read_rows("shop.events")
    assert (json.loads(first["o"]), float(first["price"]), second["o"], float(second["price"])) == (
        {"a": [1]}, 1.25, None, 3.0,
    )  # fmt: skip
    deleted = {"before": rows[0], "after": None, "op": "d"}
    workbench.produce(topic, ({"id": 1}, deleted), ({"id": 1}, None))
    workbench.flush("events")
    assert [row["id"] for row in workbench.read_rows("shop.events")] == [2]


@pytest.mark.repeats("unit/scenarios/test_added_columns.py::test_topic_of_made_up_names_adds_nothing")
def test_topic_of_made_up_names_is_stopped(workbench) -> None:
    topic = workbench.topic(2)
    value = {"unknown_fields": "add", "infer": {"max_new_columns": 20}}
    workbench.pipeline("random", [topic], key=KEY, value=value)
    produce(workbench, topic, *({"id": n, "by_user": {f"user {n}": n}} for n in range(30)))
    with pytest.raises(GiveUp, match=r"new_fields=30, more than value\.infer\.max_new_columns=20, in by_user"):
        workbench.flush("random")
    assert not workbench.exists("shop.random")


@pytest.mark.repeats("unit/scenarios/test_added_columns.py::test_tables_are_equal_however_a_topic_is_cut")
def test_tables_are_equal_however_their_topics_are_cut(workbench) -> None:
    """Two of forty topics, each cut in two ways; in Python all are cut in ten."""
    check_cuts(workbench, 0, (RECORDS, 8))


@pytest.mark.repeats("unit/scenarios/test_added_columns.py::test_tables_are_equal_however_a_topic_is_cut")
@pytest.mark.parametrize("group", range(1, 20))
def test_tables_of_all_topics_are_equal_however_these_are_cut(workbench, group: int) -> None:
    check_cuts(workbench, group, (RECORDS, 13, 6))


def check_cuts(workbench: Any, group: int, cuts: tuple[int, ...]) -> None:
    topics = {workbench.topic(2): make_topic(2 * group + number) for number in range(2)}
    for topic, records in topics.items():
        workbench.produce(topic, *(({"id": key}, row) for key, row in records))
    for cut in cuts:
        name = f"cut{group}_{cut}"
        tables: list[Any] = [
            {"name": f"lake.{name}.t{number}", "topics": [topic]} for number, topic in enumerate(topics)
        ]
        value = {"unknown_fields": "add"}
        workbench.pipeline(name, [*topics], key=KEY, value=value, tables=tables, merge={"max_records": cut})
        workbench.drain(name)
        for table, records in zip(tables, topics.values(), strict=True):
            rows = workbench.read_rows(table["name"].removeprefix("lake."))
            assert sorted(map(normalize_row, rows), key=lambda row: row["id"]) == list_rows(records), (cut, table)


def pack(row: Any) -> bytes | None:
    return None if row is None else bytes(msgpack.packb(row))


WRITERS = {
    "msgpack": ({"format": "msgpack"}, lambda _, row: pack(row)),
    "enveloped": ({"json": {"envelope": True}}, lambda _, row: {"schema": None, "payload": row}),
    "debezium": (
        {"format": "debezium-json"},
        lambda key, row: {"op": "u" if row else "d", "before": row or {"id": key}, "after": row},
    ),
    "maxwell": (
        {"format": "maxwell-json"},
        lambda key, row: {"type": "update" if row else "delete", "data": row or {"id": key}, "old": {"x": []}},
    ),
    "ogg": (
        {"format": "ogg-json"},
        lambda key, row: {"op_type": "I" if row else "D", "before": {"id": key}, **({"after": row} if row else {})},
    ),
}
ROW_NAMES = ("data", "after", "payload", "before")  # columns, too, may have the names that hold rows


def rename_fields(records: list[Any]) -> list[Any]:
    names = sorted({name for _, row in records for name in row or {} if name != "id"})
    new_names = {"id": "id", **dict(zip(names, [*ROW_NAMES, *names[len(ROW_NAMES) :]], strict=True))}
    return [(key, row and {new_names[name]: field for name, field in row.items()}) for key, row in records]


def check_formats(workbench: Any, names: tuple[str, ...], seed: int) -> None:
    topics = {
        name: (workbench.topic(), rename_fields(make_topic(seed + number, is_respelled=False)))
        for number, name in enumerate(names)
    }
    for name, (topic, records) in topics.items():
        workbench.produce(topic, *(({"id": key}, WRITERS[name][1](key, row)) for key, row in records))
    for cut in (RECORDS, 8):
        tables: list[Any] = [
            {
                "name": f"lake.formats{seed}_{cut}.{name}", "topics": [topic],
                "value": {**WRITERS[name][0], "unknown_fields": "add"},
            }
            for name, (topic, _) in topics.items()
        ]  # fmt: skip
        pipeline = f"formats{seed}_{cut}"
        topic_names = [topic for topic, _ in topics.values()]
        workbench.pipeline(pipeline, topic_names, key=KEY, tables=tables, merge={"max_records": cut})
        workbench.drain(pipeline)
        for table, (_, records) in zip(tables, topics.values(), strict=True):
            rows = workbench.read_rows(table["name"].removeprefix("lake."))
            assert sorted(map(normalize_row, rows), key=lambda row: row["id"]) == list_rows(records), (cut, table)


@pytest.mark.repeats("unit/scenarios/test_added_columns.py::test_tables_are_equal_however_a_topic_is_cut")
def test_tables_of_other_formats_are_equal_however_their_topics_are_cut(workbench) -> None:
    check_formats(workbench, ("msgpack", "maxwell"), 3)


@pytest.mark.repeats("unit/scenarios/test_added_columns.py::test_tables_are_equal_however_a_topic_is_cut")
@pytest.mark.parametrize("seed", range(4, 24, 5))
def test_tables_of_every_format_are_equal_however_their_topics_are_cut(workbench, seed: int) -> None:
    check_formats(workbench, tuple(WRITERS), seed)


@pytest.mark.repeats("integration/test_ogg.py::test_operations_insert_update_in_part_move_and_delete")
def test_update_of_some_columns_keeps_a_column_that_records_made(workbench) -> None:
    """An operation of GoldenGate leaves out what did not change, and a message of Canal holds several rows."""
    topics = [workbench.topic(), workbench.topic()]
    tables: list[Any] = [
        {"name": f"lake.parts.{name}", "topics": [topic], "value": {"format": name, "unknown_fields": "add"}}
        for name, topic in zip(("ogg-json", "canal-json"), topics, strict=True)
    ]
    for table in tables:
        table["name"] = table["name"].replace("-json", "")
    workbench.pipeline("parts", topics, key=KEY, tables=tables)
    workbench.produce(
        topics[0],
        ({"id": 1}, {"op_type": "I", "after": {"id": 1, "n": 1, "tags": []}}),
        ({"id": 2}, {"op_type": "I", "after": {"id": 2, "n": 2}}),
    )
    rows = [{"id": "1", "n": "1", "gone": None}, {"id": "2", "n": "[]", "gone": None}]
    workbench.produce(topics[1], (None, {"type": "INSERT", "isDdl": False, "table": "t", "data": rows}))
    workbench.flush("parts")
    workbench.produce(
        topics[0],
        ({"id": 1}, {"op_type": "U", "before": {"id": 1}, "after": {"id": 1, "tags": ["a"]}}),
        ({"id": 2}, {"op_type": "U", "before": {"id": 2}, "after": {"id": 2, "n": None, "late": {"x": 1}}}),
    )
    changed = {"type": "UPDATE", "isDdl": False, "table": "t", "data": [{"id": "1", "n": "1.50", "late": "x"}]}
    workbench.produce(topics[1], (None, changed))
    workbench.flush("parts")
    assert workbench.read_rows("parts.ogg") == [
        {"id": 1, "n": 1, "tags": ["a"], "late": None}, {"id": 2, "n": None, "tags": None, "late": {"x": 1}},
    ]  # fmt: skip
    assert workbench.read_rows("parts.canal") == [
        {"id": 1, "n": "1.50", "late": "x"},
        {"id": 2, "n": "[]", "late": None},
    ]


def parse_objects(row: dict[str, Any]) -> dict[str, Any]:
    """The row with the objects that its texts hold."""
    kinds = ("object", "outer", "lines")
    return {name: parse_text(value) if name.casefold().startswith(kinds) else value for name, value in row.items()}


def parse_text(value: Any) -> Any:
    return [parse_text(element) for element in value] if isinstance(value, list) else value and json.loads(value)


@pytest.mark.repeats("unit/scenarios/test_added_columns.py::test_tables_are_equal_however_a_topic_is_cut")
@pytest.mark.parametrize("group", range(20))
def test_tables_in_bigquery_are_equal_however_their_topics_are_cut(dwh, group: int) -> None:
    check_cuts_in_bigquery(dwh, group, {})


@pytest.mark.repeats("unit/scenarios/test_added_columns.py::test_tables_are_equal_however_a_topic_is_cut")
def test_tables_in_bigquery_with_objects_as_texts_are_equal_however_their_topics_are_cut(dwh) -> None:
    check_cuts_in_bigquery(dwh, 0, {"objects": "string"})


def check_cuts_in_bigquery(dwh: Any, group: int, infer: dict[str, str]) -> None:
    topics = {dwh.bench.topic(2): make_topic(2 * group + number, has_null_elements=False) for number in range(2)}
    for topic, records in topics.items():
        dwh.bench.produce(topic, *(({"id": key}, row) for key, row in records))
    for cut in (RECORDS, 8):
        tables: list[Any] = [
            {"name": dwh.table(f"t{number}_{cut}"), "topics": [topic]} for number, topic in enumerate(topics)
        ]
        value = {"unknown_fields": "add", "infer": infer}
        name = f"bq{group}_{cut}"
        dwh.bench.pipeline(name, [*topics], key=KEY, value=value, tables=tables, merge={"max_records": cut})
        dwh.bench.drain(name)
        for table, records in zip(tables, topics.values(), strict=True):
            rows = dwh.read_rows(table["name"].rpartition(".")[2])
            rows = [parse_objects(row) for row in rows] if infer else rows
            assert sorted(map(normalize_row, rows), key=lambda row: row["id"]) == list_rows(records), (cut, table)


@pytest.mark.repeats("test_table_is_made_of_its_records_and_grows_with_them")
def test_both_destinations_get_the_same_columns(dwh) -> None:
    """And tell the same of a field whose name no column has."""
    bench = dwh.bench
    topic = bench.topic(2)
    tables = [{"name": dwh.table("grown")}, {"name": "lake.mixed.grown"}]
    bench.pipeline("mixed", [topic], key={**KEY, "format": "json"}, value={"unknown_fields": "add"}, tables=tables)
    produce(bench, topic, {"id": 1, "Name": "a", "n": 1, "at": {"city": "x"}}, {"id": 2, "price": 1.5, "tags": ["t"]},
            {"id": 4, "at": {"city": "y"}})  # fmt: skip
    bench.flush("mixed")
    produce(
        bench, topic, {"id": 1, "Name": "b", "open": True, "x.y": 1}, {"id": 3, "price": 2, "at": {"Zip": {"n": 7}}}
    )
    bench.flush("mixed")
    both = [dwh.read_rows("grown"), bench.read_rows("mixed.grown")]
    none = dict.fromkeys(("Name", "n", "at", "price", "open"))
    expected = [
        {**none, "id": 1, "Name": "b", "open": True, "tags": []},
        {**none, "id": 2, "price": 1.5, "tags": ["t"]},
        {**none, "id": 3, "price": 2.0, "tags": [], "at": {"city": None, "Zip": {"n": 7}}},
        {**none, "id": 4, "tags": [], "at": {"city": "y", "Zip": None}},
    ]
    for rows in both:  # BigQuery has no NULL in place of a list
        found = [{**row, "tags": list(row["tags"] or [])} for row in sorted(rows, key=lambda row: row["id"])]
        assert found == expected
    status = read_status(bench.open_session("mixed"))
    assert [batch["unknown_fields"]["fields"] for batch in status["batches"][:2]] == [
        [{"name": "`x.y`", "records": 1, "type": "BIGINT"}]
    ] * 2
