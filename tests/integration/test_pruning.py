"""A merge opens only the files that may hold its keys: the test moves the others away while it runs."""

from pathlib import Path

import pytest
from pyiceberg.types import DateType, PrimitiveType, TimestampType, TimestamptzType
from tidegate.adapters.iceberg.pruning import KeyRange
from tidegate.flush.flush import flush

KEY = {"fields": ["id", "line"], "schema": "id BIGINT, line STRING"}
VALUE = {"schema": "id BIGINT, line STRING, name STRING"}


def build_records(first: int, count: int, name: str) -> list:
    keys = [{"id": n, "line": None if n % 2 else f"it's {n:05}"} for n in range(first, first + count)]
    return [(key, {**key, "name": name}) for key in keys]


# bounds are worked out file by file in unit tests, and stand in the golden statement
@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_key_ranges.py::test_bounds_hold_the_keys_of_every_staged_file"
)
def test_merge_of_recent_keys_does_not_open_the_files_of_old_ones(workbench, tmp_path) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("recent", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *build_records(0, 50, "old"))
    workbench.flush("recent")
    old = [Path(str(file)) for file in workbench.list_data_files("shop.recent")]
    workbench.produce(topic, *build_records(1000, 50, "new"), ({"id": 2000, "line": None}, None))
    appended = workbench.flush("recent").published  # no key of these can be there
    assert [batch.written_as for batch in appended] == ["append"]
    for number, file in enumerate(old):
        file.rename(tmp_path / str(number))
    workbench.produce(topic, *build_records(1025, 50, "newer"), ({"id": 1001, "line": None}, None))
    workbench.flush("recent")
    for number, file in enumerate(old):
        (tmp_path / str(number)).rename(file)
    names = {row["id"]: row["name"] for row in workbench.read_rows("shop.recent")}
    expected = dict.fromkeys(range(50), "old") | dict.fromkeys(range(1000, 1025), "new")
    expected |= dict.fromkeys(range(1025, 1075), "newer")
    del expected[1001]
    assert names == expected
    workbench.produce(topic, *build_records(20, 10, "late"))
    workbench.flush("recent")
    assert {row["name"] for row in workbench.read_rows("shop.recent") if 20 <= row["id"] < 30} == {"late"}
    assert len(workbench.read_rows("shop.recent")) == len(expected)


def test_merge_that_names_its_keys_writes_what_one_that_does_not_would(workbench, monkeypatch) -> None:
    monkeypatch.setattr("tidegate.adapters.iceberg.pruning.MIN_TABLE_ROWS", 1)
    monkeypatch.setattr("tidegate.adapters.iceberg.pruning.MIN_ROW_RATIO", 1)
    statements = []
    topic = workbench.topic(1)
    workbench.pipeline("named", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *build_records(-50, 100, "old"))
    workbench.flush("named")
    session = workbench.open_session("named")
    run = session.engine.run
    monkeypatch.setattr(
        session.engine, "run", lambda job: (statements.extend(getattr(job, "statements", ())), run(job))
    )
    changed = [{"id": n, "line": f"it's {n:05}"} for n in (-50, -2, 4, 48, 50)]
    upserts = [(key, {**key, "name": "new"}) for key in changed[1:]]
    workbench.produce(topic, (changed[0], None), *upserts)
    (published,) = flush(session).published
    assert (published.written_as, published.inserted, published.updated, published.deleted) == ("merge", 1, 3, 1)
    merge = statements[-1]
    assert "t.`id` IN (-50L, -2L, 4L, 48L, 50L)" in merge
    assert r"t.`line` IN ('it\'s -0002', 'it\'s -0050', 'it\'s 00004'" in merge
    names = {(row["id"], row["line"]): row["name"] for row in workbench.read_rows("shop.named")}
    expected = {(key["id"], key["line"]): "old" for key, _ in build_records(-50, 100, "old")}
    del expected[-50, "it's -0050"]
    assert names == expected | {(key["id"], key["line"]): "new" for key in changed[1:]}


@pytest.mark.repeats(
    "unit/tidegate_spark/test_session.py::test_settings_that_the_statements_rely_on_go_before_those_of_a_file"
)
def test_text_that_looks_like_a_variable_is_what_it_says_in_bounds_and_in_sql_of_the_file(workbench) -> None:
    """Spark puts the value of a variable, or nothing, in the place of ${name} in any SQL, also within quotes."""
    topic, names = workbench.topic(1), ("${nobody}", "${env:HOME}", "${spark.app.name}")
    select = "SELECT id, name, CAST(concat('${nobody}', name) AS STRING) AS more FROM record"
    workbench.pipeline(
        "templates",
        [topic],
        key={"format": "string", "fields": ["id"], "schema": "id STRING"},
        value={"schema": "name STRING"},
        table={"when": "name <> '${nobody}'", "select": select},
    )
    for name in ("old", "new"):
        for key in names:  # each alone: it is both ends of its batch
            workbench.produce(topic, (key, {"name": name}), ("left out", {"name": "${nobody}"}))
            workbench.flush("templates")
    rows = workbench.read_rows("shop.templates")
    assert rows == [{"id": key, "name": "new", "more": "${nobody}new"} for key in sorted(names)]


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_key_ranges.py::test_constants_are_exact_in_years_that_python_does_not_know"
)
def test_constants_of_any_year_are_what_spark_reads(spark) -> None:
    def render_constants(kind: PrimitiveType, values: list[int]) -> str:
        return ", ".join(KeyRange(("at",), kind, value, value, False).bound.ranges[0][0] for value in values)

    micros = [-(2**63), -62_135_596_800_000_001, -30_610_224_000_000_001, 253_402_300_800_000_000, 2**63 - 1]
    days = [-(2**31), -719_529, -354_286, 2_932_897, 2**31 - 1]
    instants, local, dates = spark.sql(
        f"SELECT transform(array({render_constants(TimestamptzType(), micros)}), t -> unix_micros(t)),"
        f" transform(array({render_constants(TimestampType(), micros)}), t -> unix_micros(CAST(t AS TIMESTAMP))),"
        f" transform(array({render_constants(DateType(), days)}), d -> unix_date(d))"
    ).head()
    assert (instants, local, dates) == (micros, micros, days)
