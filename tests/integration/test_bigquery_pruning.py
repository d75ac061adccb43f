"""A merge into a BigQuery table of many partitions names those of its keys as constants, and reads no others."""

from datetime import UTC, datetime, timedelta
from typing import Any

from tidegate.batch import PublishedBatch

KEY = {"format": "json", "fields": ["id"], "schema": "id BIGINT"}
VALUE = {"format": "json", "schema": "id BIGINT, name STRING, at TIMESTAMP"}
DAY = datetime(2026, 3, 1, tzinfo=UTC)
LAYOUT = {"partition_by": ["days(at)"], "cluster_by": ["id"]}


def placed(id: int, per_day: int) -> str:
    return (DAY + timedelta(days=id // per_day)).isoformat()


def fill(dwh: Any, table: str, days: int, per_day: int) -> None:
    """Rows of every day but one, which the pipeline wrote; ids go up with the days."""
    many = f"UNNEST(GENERATE_ARRAY(0, {days - 1})) AS d, UNNEST(GENERATE_ARRAY(0, {per_day - 1})) AS n"
    at = f"TIMESTAMP_ADD(TIMESTAMP '{DAY.isoformat()}', INTERVAL d DAY)"
    dwh.sql(f"INSERT INTO `{table}` (id, name, at) SELECT d * {per_day} + n, 'old', {at} FROM {many} WHERE d + n > 0")


def changed(dwh: Any, table: str, *, days: int, per_day: int, each: int, touched: tuple[int, ...]) -> PublishedBatch:
    """Fill a table, change `each` rows of the `touched` days, and return what the merge of these changes told."""
    bench = dwh.bench
    topic = bench.topic()
    dwh.pipeline(table, [topic], key=KEY, value=VALUE, table={"create": LAYOUT})
    bench.produce(topic, ({"id": 0}, {"id": 0, "name": "old", "at": placed(0, per_day)}))
    bench.flush(table)
    fill(dwh, table, days, per_day)
    for day in touched:
        ids = range(day * per_day, day * per_day + each)
        bench.produce(topic, *(({"id": id}, {"id": id, "name": "new", "at": placed(id, per_day)}) for id in ids))
    (published,) = bench.flush(table).published
    return published


def script_of(dwh: Any, published: PublishedBatch) -> str:
    job = dwh.client.get_job(published.job.partition(":")[2].partition(".")[2])
    return str(job.query)


def bounds_in(script: str) -> list[str]:
    """The constants of the merge's condition, each a line over the table alone."""
    condition = script[script.index("\nON ") : script.index("\nWHEN ")].splitlines()
    return [line.strip().removeprefix("AND ") for line in condition if line.startswith("  AND (t.")]


def test_merge_reads_the_partitions_of_its_keys_alone(dwh: Any) -> None:
    """Which are looked up by key: an update might have moved a row into another one."""
    published = changed(dwh, "wide", days=30, per_day=100, each=5, touched=(3, 17))
    assert (published.inserted, published.updated) == (0, 10)
    by_id, by_day = bounds_in(script_of(dwh, published))
    assert by_id == "(t.`id` BETWEEN 300 AND 1704)"
    open_days = f"SELECT DATE(t.at) AS day, COUNT(*) AS n FROM `wide` AS t WHERE {by_day} GROUP BY day ORDER BY day"
    assert [(row["day"].day, row["n"]) for row in dwh.sql(open_days)] == [(4, 100), (18, 100)]
    written = dwh.sql("SELECT DATE(at) AS day, COUNT(*) AS n FROM `wide` WHERE name = 'new' GROUP BY day ORDER BY day")
    assert [(row["day"].day, row["n"]) for row in written] == [(4, 5), (18, 5)]
