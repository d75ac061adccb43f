"""A merge into a BigQuery table of many partitions names those of its keys as constants, and reads no others."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fakes import build_table
from integration.test_bigquery_modes import NAME, Bench, Record
from tidegate.schema.data_types import Column
from tidegate.spec.table import Create

DAY = datetime(2026, 3, 1, tzinfo=UTC)
COLUMNS = (Column("id", "BIGINT"), Column("name", "STRING"), Column("at", "TIMESTAMP"))
LAYOUT = Create(partition_by=("days(at)",), cluster_by=("id",))


def change_rows(bench: Bench, *, days: int, per_day: int, each: int, touched: tuple[int, ...]) -> str:
    """Fill a table whose ids go up with its days, and change `each` rows of the `touched` ones; the merge's script."""
    many = f"UNNEST(GENERATE_ARRAY(0, {days - 1})) AS d, UNNEST(GENERATE_ARRAY(0, {per_day - 1})) AS n"
    at = f"TIMESTAMP_ADD(TIMESTAMP '{DAY.isoformat()}', INTERVAL d DAY)"
    table = bench.hands.name(NAME)
    bench.hands.sql(f"INSERT INTO {table} (id, name, at) SELECT d * {per_day} + n, 'old', {at} FROM {many}")
    ids = [id for day in touched for id in range(day * per_day, day * per_day + each)]
    placed = {id: (DAY + timedelta(days=id // per_day)).isoformat() for id in ids}
    return bench.flush([Record({"id": id}, {"id": id, "name": "new", "at": placed[id]}) for id in ids])


def list_bounds(script: str) -> list[str]:
    """The constants of the merge's condition, each a line over the table alone."""
    condition = script[script.index("\nON ") : script.index("\nWHEN ")].splitlines()
    return [line.strip().removeprefix("AND ") for line in condition if line.startswith("  AND (t.")]


def count_by_day(bench: Bench, condition: str) -> list[tuple[int, int]]:
    day = f"TIMESTAMP_DIFF(t.at, TIMESTAMP '{DAY.isoformat()}', DAY)"
    rows = bench.hands.sql(f"SELECT {day}, COUNT(*) FROM {bench.hands.name(NAME)} AS t WHERE {condition} GROUP BY 1")
    return sorted((row[0], row[1]) for row in rows)


@pytest.mark.repeats(
    "unit/tidegate/adapters/bigquery/test_pruning.py::test_partitions_of_a_column_that_may_change_are_looked_up_by_key"
)
def test_merge_reads_the_partitions_of_its_keys_alone(bigquery: str, tmp_path: Path) -> None:
    """Which are looked up by key: an update might have moved a row into another one."""
    bench = Bench(build_table(NAME, columns=COLUMNS, create=LAYOUT), bigquery, tmp_path)
    script = change_rows(bench, days=60, per_day=100, each=5, touched=(3, 17))
    by_id, by_partition = list_bounds(script)
    assert by_id == "(t.`id` BETWEEN 300 AND 1704)"
    assert count_by_day(bench, by_partition) == [(3, 100), (17, 100)]
    assert count_by_day(bench, "name = 'new'") == [(3, 5), (17, 5)]
