"""Flink itself as the reader of a publication's change events."""

from collections import Counter
from typing import Any

import flink
import pytest
from round_trip import Way

COPIED = """SELECT *, CAST(at AS DATE) AS day, CAST(name AS BINARY) AS content,
    array(named_struct('a', id, 'b', CAST(NULL AS STRING))) AS more FROM {table}"""
COLUMNS = "id, name, CAST(price AS STRING), CAST(`at` AS STRING), CAST(`day` AS STRING), CAST(content AS STRING), " + (
    "more[1].a, more[1].b"
)
# as docs/publications.md says
TABLE = """CREATE TEMPORARY TABLE events (
    id BIGINT, name STRING, price DECIMAL(12, 2), `at` TIMESTAMP_LTZ(6), `day` DATE, content BYTES,
    more ARRAY<ROW<a BIGINT, b STRING>>, headers MAP<STRING, BYTES> METADATA, part INT METADATA FROM 'partition',
    PRIMARY KEY (id) NOT ENFORCED
) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{bootstrap}',
    'properties.isolation.level' = 'read_committed', 'scan.startup.mode' = 'earliest-offset',
    'scan.bounded.mode' = 'latest-offset', 'format' = 'debezium-json',
    'debezium-json.timestamp-format.standard' = 'ISO-8601'
)"""
HEADERS = {"+I": "+I", "-U": "+U", "+U": "+U", "-D": "-D"}  # an update is one event


@pytest.mark.repeats(
    "integration/test_publications.py::test_change_events_carry_both_rows_and_a_second_pipeline_makes_the_table_of_them"
)
def test_flink_makes_the_table_and_its_aggregates_of_the_change_events(workbench, tmp_path) -> None:
    """Each row that Flink takes back is one that it has, so what it aggregates is what the table says."""
    way = Way(workbench, "flink", parallelism=2)
    way.topic = workbench.topic(2)
    way.write_publication(
        sql=COPIED, value={"format": "debezium-json"}, delivery="exactly-once", parallelism=2, allow_uncompacted=True
    )
    way.flush(k1="a", k2="b", k3="a", k4='ß;"', k5="b", k6="c")
    way.publish()
    way.flush(k1="b", k2=None, k3=None, k7="a")
    way.publish()
    way.flush(k1="c", k2="again", k4=None, k5="b")
    way.publish()

    changes = flink.run(
        tmp_path,
        TABLE.format(topic=way.topic, bootstrap=workbench.stack.kafka_bootstrap),
        f"SELECT part, CAST(headers['tidegate.row-kind'] AS STRING), {COLUMNS} FROM events",
        "SELECT name, CAST(count(*) AS STRING), CAST(sum(price) AS STRING) FROM events GROUP BY name",
    )
    assert {change.fields[0] for change in changes[1]} == {"0", "1"}, "both partitions hold events"
    assert Counter(change.kind for change in changes[1]) == {"+I": 8, "-U": 2, "+U": 2, "-D": 3}
    assert all(change.fields[1] == HEADERS[change.kind] for change in changes[1])
    rows = workbench.run_spark_sql(COPIED.format(table="lake.shop.flink"))
    assert fold(changes[1], 2) == Counter(render_row(row) for row in rows)
    sums = workbench.run_spark_sql("SELECT name, count(*) AS n, sum(price) AS s FROM lake.shop.flink GROUP BY name")
    assert fold(changes[2], 0) == Counter((row["name"], str(row["n"]), str(row["s"])) for row in sums)


def fold(changes: list[flink.Change], first: int) -> "Counter[tuple[str | None, ...]]":
    """The rows that the changes end with, from the field `first` on."""
    rows: Counter[tuple[str | None, ...]] = Counter()
    for change in changes:
        row = change.fields[first:]
        if change.kind[0] == "+":
            rows[row] += 1
        else:
            assert rows[row], f"takes back a row that is not there: {change}"
            rows[row] -= 1
    return +rows


def render_row(row: Any) -> tuple[str | None, ...]:
    at = row["at"].strftime("%Y-%m-%d %H:%M:%S.%f")
    name = bytes(row["content"]).decode()
    return (str(row["id"]), row["name"], str(row["price"]), at, str(row["day"]), name, str(row["more"][0]["a"]), None)
