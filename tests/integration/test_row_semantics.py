"""Which row a record means, through real Kafka, Spark and Iceberg: keys of any type, moves, names that need quoting."""

import base64
from typing import Any

import pytest

KEY = {"fields": ["id"], "schema": "id BIGINT"}
WORDS = ("", " ", "it's", 'a "b"', "back\\slash", "new\nline", "tab\t", "naïve 名前 🙂", "NULL", "a`b", "%_", "\u0000")


def test_key_of_any_type_finds_its_row(workbench) -> None:
    """A struct is compared by what lies in it, whatever the order of its fields; one of NULLs alone is none."""
    topic = workbench.topic()
    schema = "s STRING, b BINARY, d DOUBLE, flag BOOLEAN, ts TIMESTAMP_NTZ, amount DECIMAL(38,10), small TINYINT"
    schema += ", k STRUCT<id: BIGINT, `the place`: STRUCT<zone: STRING, day: DATE>>"
    key = {"fields": ["s", "b", "d", "flag", "ts", "amount", "small", "k"], "schema": schema}
    workbench.pipeline("any", [topic], key=key, value={"schema": f"{schema}, n INT"})
    binary = base64.b64encode(bytes(range(256))).decode()
    plain: dict[str, Any] = {"b": binary, "d": 0.1, "flag": False, "amount": "1e27", "small": -128}
    plain["ts"], plain["k"] = "2026-03-29T02:30:00.000001", {"id": 7, "the place": {"zone": "z", "day": "2026-01-02"}}
    structs = [(1, None, "2026-01-02"), (1, "x", None), (None, "y", None), (2, "x", None), (9, None, None)]
    keys = [{**plain, "s": word} for word in WORDS]
    keys += [{**plain, "s": "x", "d": d} for d in (0.0, float("nan"), float("inf"), 1e-320, None)]
    keys += [{**plain, "s": "x", name: None} for name in ("b", "flag", "ts", "amount", "small")]
    keys += [{**plain, "s": "x", "k": {"id": id, "the place": {"zone": zone, "day": day}}} for id, zone, day in structs]
    first = [*keys[:-1], {**plain, "s": "x", "k": {"id": 9}}]
    places = [{"partition": n % 2} for n in range(len(keys))]
    workbench.produce(topic, *((key, {**key, "n": n}, places[n]) for n, key in enumerate(first)))
    workbench.flush("any")
    assert len(workbench.read_rows("shop.any")) == len(keys)
    equal_keys = [{**key, "d": -0.0 if key["d"] == 0.0 else key["d"]} for key in keys]
    equal_keys = [{**key, "k": dict(reversed(key["k"].items()))} for key in equal_keys]
    workbench.produce(
        topic, *((key, {**key, "n": n + 100} if n % 3 else None, places[n]) for n, key in enumerate(equal_keys))
    )
    workbench.flush("any")
    expected = [n + 100 for n in range(len(keys)) if n % 3]
    assert sorted(row["n"] for row in workbench.read_rows("shop.any")) == expected


def test_row_that_moves_to_another_partition_is_found_and_its_soft_delete_is_readable(workbench) -> None:
    """The column of soft deletes has another name than the one that Spark keeps for itself."""
    topic = workbench.topic()
    value = {"schema": "id BIGINT, region STRING, at TIMESTAMP"}
    create = {"partition_by": ["region", "days(at)"]}
    soft = {"deletes": "soft", "deleted_column": "is_deleted"}
    tables = [{"name": "lake.shop.moved", "create": create}, {"name": "lake.shop.marked", **soft}]
    workbench.pipeline("moved", [topic], key=KEY, value=value, tables=tables)

    def build_row(id, region, day):
        return {"id": id}, {"id": id, "region": region, "at": f"2026-01-0{day}T00:00:00Z"}

    workbench.produce(topic, build_row(1, "north", 1), build_row(2, "north", 1), build_row(3, None, 2))
    workbench.flush("moved")
    workbench.produce(topic, build_row(1, "south", 2), ({"id": 2}, None), build_row(3, "east", 3))
    workbench.flush("moved")
    assert [(r["id"], r["region"], r["at"].day) for r in workbench.read_rows("shop.moved")] == [
        (1, "south", 2),
        (3, "east", 3),
    ]
    rows = workbench.run_spark_sql("SELECT id, region, is_deleted FROM lake.shop.marked ORDER BY id")
    assert [tuple(row) for row in rows] == [(1, "south", False), (2, "north", True), (3, "east", False)]


@pytest.mark.repeats("unit/tidegate/flush/test_flush.py::test_ignored_tombstones_reach_lag_zero_in_upsert_only_tables")
def test_upsert_only_partitions_that_end_in_tombstones_reach_lag_zero(workbench) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("kept", [topic], key=KEY, value={"schema": "id BIGINT, n INT"}, table={"delete": False})
    workbench.produce(topic, ({"id": 1}, {"id": 1, "n": 1}), ({"id": 1}, None), ({"id": 1}, None))
    workbench.produce(topic, ({"id": 2}, None, {"partition": 1}))
    workbench.flush("kept")
    assert [row["n"] for row in workbench.read_rows("shop.kept")] == [1]
    assert workbench.committed("kept") == workbench.read_ends(topic) == {topic: {0: 3, 1: 1}}
    workbench.produce(topic, ({"id": 1}, None))
    workbench.flush("kept")
    assert workbench.committed("kept") == workbench.read_ends(topic)


KEYS, SEQUENCE = ("order id", "select"), "seq`no"
VALUES = (
    "a.b",
    "größe",
    "tick`y",
    "it's",
    "offset",
    "sequence",
    "timestamp",
    "key",
    "t",
    "s",
    "value",
    "名前",
    SEQUENCE,
)
MODES = {
    "hard": {},
    "upserts": {"delete": False},
    "appended": {"upsert": False, "delete": False},
    "deletes": {"upsert": False},
    "soft": {"deletes": "soft"},
    "ordered": {"sequence_by": [SEQUENCE, "größe"]},
    "soft_ordered": {"sequence_by": [SEQUENCE, "größe"], "deletes": "soft"},
    "ordered_upserts": {"sequence_by": [SEQUENCE, "größe"], "delete": False},
}


def render_ddl(names: tuple[str, ...]) -> str:
    return ", ".join("`" + name.replace("`", "``") + "` STRING" for name in names)


# every statement is rendered with odd names and parsed; a table with odd names is flushed in tests of columns
@pytest.mark.repeats("unit/sql/test_iceberg_golden.py::test_statement_is_one_that_spark_reads")
def test_names_that_need_quoting_work_in_every_statement_of_every_mode(workbench) -> None:
    topic = workbench.topic(1)
    tables = [{"name": f"lake.shop.{mode}", **settings} for mode, settings in MODES.items()]
    key = {"fields": list(KEYS), "schema": render_ddl(KEYS)}
    workbench.pipeline("odd", [topic], tables=tables, key=key, value={"schema": render_ddl((*KEYS, *VALUES))})

    def build_row(id, mark):
        return {KEYS[0]: id, KEYS[1]: None, **{name: f"{mark}{name}" for name in VALUES}}

    def build_record(id, mark):
        return {name: build_row(id, mark)[name] for name in KEYS}, mark and build_row(id, mark)

    workbench.produce(topic, *(build_record(id, "5") for id in "abc"), build_record("d", None))
    workbench.flush("odd")
    workbench.produce(topic, build_record("a", "7"), build_record("b", None), build_record("c", "4"))
    workbench.flush("odd")
    a, b, c, late, flag = build_row("a", "7"), build_row("b", "5"), build_row("c", "5"), build_row("c", "4"), "_deleted"
    first, on, off = build_row("a", "5"), {flag: True}, {flag: False}
    expected = {
        "hard": [a, late],
        "upserts": [a, b, late],
        "appended": [first, a, b, late, c],
        "deletes": [first, a, late, c],
        "soft": [a | off, b | on, late | off],
        "ordered": [a, c],
        "soft_ordered": [a | off, b | on, c | off],
        "ordered_upserts": [a, b, c],
    }
    assert {mode: workbench.read_rows(f"shop.{mode}") for mode in MODES} == expected
    (remembered,) = workbench.read_rows("shop.ordered_deletes")
    assert (remembered[KEYS[0]], remembered["sequence"][SEQUENCE]) == ("b", b[SEQUENCE])
