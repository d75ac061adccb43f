"""Tables and namespaces of any name that a pipeline file takes, through real Kafka, Spark and Iceberg."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from lake_servers import LakeBench
from round_trip import read
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.leftovers import find_leftovers

SPACE = "näm😀space"
SEQUENCED, APPENDED = {"sequence_by": ["seq"]}, {"upsert": False, "delete": False}
# right to left, as catalogs and Spark use them, in paths, and as long as their own tables leave room for
MODES: dict[str, dict[str, Any]] = {
    "größe": {}, "😀🙂": SEQUENCED, "שלום": APPENDED, "select": {**SEQUENCED, "history": "scd2"}, "Orders": {},
    "files": SEQUENCED, "branch_main": APPENDED, "a%20b%": {}, "a:b;c": SEQUENCED, "a*[b]&=+,(c)": {}, "-x": APPENDED,
    "x" * 200: SEQUENCED,
}  # fmt: skip


@pytest.mark.repeats("unit/sql/test_iceberg_golden.py::test_table_name_is_quoted_part_by_part")
def test_tables_of_odd_names_are_flushed_and_maintained(workbench: Any) -> None:
    topic = workbench.topic(2)
    tables = [{"name": f"lake.{SPACE}.{name}", **mode} for name, mode in MODES.items()]
    key, value = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, name STRING, seq BIGINT"}
    workbench.pipeline("odd", [topic], key=key, value=value, tables=tables, source={"errors": {"tolerance": "all"}})

    def send(*records: tuple[int, str | None, int]) -> None:
        workbench.produce(
            topic, *(({"id": i}, name and {"id": i, "name": name, "seq": seq}) for i, name, seq in records)
        )

    send((1, "a", 1), (2, "b", 1), (3, "c", 1))
    workbench.produce(topic, ({"id": 9}, b"not json"))
    workbench.flush("odd")
    send((1, "d", 2), (2, None, 0), (4, "e", 1))
    workbench.flush("odd")

    def check() -> None:
        for name, mode in MODES.items():
            names = [row["name"] for row in workbench.read_rows(f"{SPACE}.{name}")]
            kept_names = {"a", "b"} if mode is APPENDED or "history" in mode else set()
            assert set(names) == kept_names | {"c", "d", "e"}, name

    check()
    for path in workbench.warehouse.rglob("*"):  # so old that maintenance would remove what it takes for unused
        os.utime(path, (0, 0))
    maintained = workbench.run_cli("maintain", "odd")
    assert maintained.returncode == 0, maintained.stderr
    check()
    assert len(workbench.read_rows(f"{SPACE}.tidegate_odd_dead_letters")) == len(MODES)
    assert len(workbench.read_rows(f"{SPACE}.tidegate_odd_batches")) == 2 * len(MODES)


@pytest.mark.repeats("unit/sql/test_iceberg_golden.py::test_table_name_is_quoted_part_by_part")
@pytest.mark.parametrize("kind", ["sql", "rest"])
def test_tables_in_namespaces_of_several_levels_are_right(
    workbench: Any, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """Two pipelines: one with letters and a key without a schema, one whose records name their tables."""
    bench = workbench
    if kind == "rest":
        bench = LakeBench(workbench, request.getfixturevalue("lake_servers").make_catalog("rest", "s3", tmp_path))
    flush_deep_tables(bench)
    flush_named_tables(bench)
    publish_deep_table(bench)
    for words in (("maintain", "deep"), ("maintain", "named"), ("status", "deep"), ("doctor", "deep", "named")):
        done = bench.run_cli(*words)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    (leftovers,), failures = find_leftovers(Catalogs({"lake": bench.properties}), "lake", {"named"})
    assert (leftovers.pipeline, failures) == ("deep", [])
    assert "lake.Shop.EU.west.Orders" in leftovers.destinations
    assert {"lake.Shop.EU.west.tidegate_deep_batches", "lake.Shop.EU.Orders_deep_tmp"} <= set(leftovers.tables)


DEEP_KEY = {"format": "string", "fields": ["K"]}
DEEP_VALUE = {"schema": "name STRING, seq BIGINT, type STRING"}


def send(bench: Any, topic: str, *records: tuple[str, str | None, int]) -> None:
    for key, name, seq in records:
        bench.produce(topic, (key.encode(), name and {"name": name, "seq": seq, "type": f"T{seq % 2}"}))


def flush_deep_tables(bench: Any) -> None:
    topic = bench.topic()
    tables = [
        {"name": "lake.Shop.EU.west.Orders", "audits": ["K <> 'none'"]},
        {"name": "lake.Shop.Orders", **APPENDED},
        {"name": "lake.Shop.EU.Orders", **SEQUENCED, "history": "scd2"},
    ]
    bench.pipeline(
        "deep", [topic], key=DEEP_KEY, value=DEEP_VALUE, tables=tables, source={"errors": {"tolerance": "all"}}
    )
    send(bench, topic, ("a", "x", 1), ("b", "y", 2), ("c", "z", 3))
    bench.produce(topic, (b"bad", b"not json"))
    bench.flush("deep")
    send(bench, topic, ("a", "X", 4), ("b", None, 0), ("d", "w", 2))
    bench.drain("deep")
    latest = {"a": "X", "c": "z", "d": "w"}
    assert {row["K"]: row["name"] for row in bench.read_rows("Shop.EU.west.Orders")} == latest
    assert sorted(row["name"] for row in bench.read_rows("Shop.Orders")) == ["X", "w", "x", "y", "z"]
    assert {row["K"]: row["name"] for row in bench.read_rows("Shop.EU.Orders") if row["is_current"]} == latest
    assert len(bench.read_rows("Shop.EU.west.tidegate_deep_batches")) == 6
    assert len(bench.read_rows("Shop.EU.west.tidegate_deep_dead_letters")) == 3


def flush_named_tables(bench: Any) -> None:
    topic = bench.topic()
    named = {"name": "lake.kinds.eu.{type}", "namespaces": ["kinds.eu"], **APPENDED}
    joined = "SELECT r.K, d.name AS joined FROM record r LEFT JOIN lake.Shop.EU.west.Orders d ON d.K = r.K"
    tables = [named, {"name": "lake.Shop.EU.Joined", "select": joined}]
    bench.pipeline("named", [topic], key=DEEP_KEY, value=DEEP_VALUE, tables=tables)
    for records in ((("a", "1", 1), ("b", "2", 2)), (("c", "3", 3), ("a", "4", 4))):
        send(bench, topic, *records)
        bench.drain("named")
    rows = {kind: sorted(row["name"] for row in bench.read_rows(f"kinds.eu.{kind}")) for kind in ("t0", "t1")}
    assert rows == {"t0": ["2", "4"], "t1": ["1", "3"]}
    assert {row["K"]: row["joined"] for row in bench.read_rows("Shop.EU.Joined")} == {"a": "X", "b": None, "c": "z"}


def publish_deep_table(bench: Any) -> None:
    topic = f"out-{bench.topic()}"
    sql = "SELECT t.K, t.name, o.joined FROM {table} t LEFT JOIN {lake.Shop.EU.Joined} o ON o.K = t.K"
    content = {"table": "lake.Shop.EU.west.Orders", "topic": topic, "state_topic": f"{topic}-state", "sql": sql}
    (bench.include / "publications").mkdir()
    (bench.include / "publications" / "deep_out.yaml").write_text(yaml.safe_dump({**content, "key": {"fields": ["K"]}}))
    published = bench.run_cli("publish", "deep_out")
    assert published.returncode == 0, published.stderr
    values = [json.loads(message.value()) for message in read(bench, topic)]
    assert {value["K"]: (value["name"], value["joined"]) for value in values} == {
        "a": ("X", "X"), "c": ("z", "z"), "d": ("w", None)}  # fmt: skip
