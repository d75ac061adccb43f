"""The live view in BigQuery: at each moment the table as the next merges will make it."""

from typing import Any

import pytest
from examples import choose_part
from integration.test_live_view import (
    CLOCK,
    KEY,
    TABLES,
    VALUE,
    Rows,
    View,
    check_every_point,
    make_records,
    merge_batch,
    sort_rows,
    stage_next,
)
from tidegate.errors import RetryLater
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage

APPEND = {"upsert": False, "delete": False}


class WarehouseView(View):
    """In BigQuery."""

    def __init__(self, dwh: Any, name: str) -> None:
        super().__init__(dwh.bench, name, lambda texts: [dwh.sql(text) for text in texts])
        self._dwh = dwh

    def read_tables(self) -> dict[str, Rows]:
        return {table: sort_rows(self._dwh.read_rows(table.rpartition(".")[2])) for table in self._texts}


def test_view_in_bigquery_is_the_table_after_the_merge_at_every_point(dwh: Any) -> None:
    topic = dwh.bench.topic()
    tables = [{"name": dwh.table(name), **options} for name, options in choose_part([*TABLES.items()], 15, 16)]
    dwh.bench.pipeline("live", [topic], stage=CLOCK, key=KEY, value=VALUE, tables=tables)
    dwh.bench.produce(topic, *make_records(1))
    dwh.bench.flush("live")
    check_every_point(dwh.bench, topic, WarehouseView(dwh, "live"), "live")


@pytest.mark.repeats("test_view_in_bigquery_is_the_table_after_the_merge_at_every_point")
def test_batch_behind_new_partitions_counts_before_it_is_merged(dwh: Any) -> None:
    topics = [dwh.bench.topic(1), dwh.bench.topic(2)]
    growing = {"stage": CLOCK, "on_partition_growth": "accept"}
    dwh.pipeline("grown", topics, key=KEY, value=VALUE, table=APPEND, **growing)
    for number, topic in enumerate(topics):
        dwh.bench.produce(topic, *make_records(number))
    dwh.bench.flush("grown")
    view = WarehouseView(dwh, "grown")
    shown = [view.read()]
    dwh.bench.grow(topics[0], 12)
    for seed in (2, 3):
        records = [(*record, {"partition": 11}) for record in make_records(seed)]
        dwh.bench.transaction(topics[0], *records)  # by a producer that knows the new partitions
        queue = stage_next(dwh.bench, "grown")
        shown.append(view.read())
    assert [batch.batch for batch in queue] == [2, 3]
    assert shown[0] != shown[1] != shown[2]
    for number in (2, 3):
        merge_batch(dwh.bench, "grown", queue, number)
        assert view.read_tables() == shown[number - 1]
        assert view.read() == shown[2]


@pytest.mark.repeats("test_view_in_bigquery_is_the_table_after_the_merge_at_every_point")
@pytest.mark.parametrize("longer", [0, 1], ids=["the longer first", "the longer last"])
def test_of_a_batch_that_two_runs_staged_at_once_the_one_that_is_merged_counts(dwh: Any, longer: int) -> None:
    topic = dwh.bench.topic()
    dwh.pipeline("twice", [topic], stage=CLOCK, key=KEY, value=VALUE, table=APPEND)
    dwh.bench.produce(topic, *make_records(1, 10))
    dwh.bench.flush("twice")
    view = WarehouseView(dwh, "twice")
    at_rest = view.read()
    runs = []
    for seed in (2, 3):
        dwh.bench.produce(topic, *make_records(seed, 10))
        session = dwh.bench.open_session("twice")
        runs.append((session, plan(session)))
    for run in runs if longer else reversed(runs):
        stage(*run)
    with_one = view.read()
    dwh.bench.produce(topic, *make_records(4, 10))
    queue = stage_next(dwh.bench, "twice")
    with_two = view.read()
    assert [batch.batch for batch in queue] == [2, 3]
    assert at_rest != with_one != with_two
    merge_batch(dwh.bench, "twice", queue, 2)
    assert view.read_tables() == with_one
    assert view.read() == with_two
    merge_batch(dwh.bench, "twice", queue, 3)
    assert view.read_tables() == with_two == view.read()


@pytest.mark.repeats(
    "unit/tidegate/adapters/bigquery/test_staging.py::test_attempt_is_marked_for_live_views_once_all_of_it_is_loaded"
)
def test_rows_in_bigquery_count_once_they_are_marked_as_complete(dwh: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies between its load and its mark leaves rows that nobody sees; the next one makes them count."""
    topic = dwh.bench.topic()
    dwh.pipeline("marked", [topic], stage=CLOCK, key=KEY, value=VALUE, table=APPEND)
    dwh.bench.produce(topic, *make_records(1, 10))
    dwh.bench.flush("marked")
    view = WarehouseView(dwh, "marked")
    at_rest = view.read()
    dwh.bench.produce(topic, *make_records(2, 10))

    def die(*_: Any) -> None:
        raise RetryLater("killed")

    with monkeypatch.context() as patch:
        patch.setattr("tidegate.adapters.bigquery.staging._describe_attempt", die)
        with pytest.raises(RetryLater, match="killed"):
            stage_next(dwh.bench, "marked")
    assert len(dwh.read_rows("marked_marked_tmp")) > 0
    assert view.read() == at_rest
    (batch,) = stage_next(dwh.bench, "marked")
    staged = view.read()
    assert staged != at_rest
    assert dwh.bench.run_cli("live-view", "marked", "--create").returncode == 0
    assert sort_rows(dwh.sql(f"SELECT * FROM {dwh.dataset}.marked_marked_live")) == staged[dwh.table("marked")]
    merge(dwh.bench.open_session("marked"), batch)
    assert view.read_tables() == staged == view.read()
