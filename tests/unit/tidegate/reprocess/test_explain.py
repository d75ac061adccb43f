"""explain, before Spark is asked: what is refused in a sentence, and which part of the log is read."""

from dataclasses import replace

import pytest
from fakes import World, build_pipeline, build_table
from fakes.orders import NAME, make_orders, send_orders
from tidegate.errors import ConfigurationError, GiveUp, Unverifiable
from tidegate.flush.flush import flush
from tidegate.jobs.stage_job import StageJob
from tidegate.model.offsets import Ranges
from tidegate.reprocess import explain
from tidegate.reprocess.explain import explain_key

PIPELINE = build_pipeline()
KEY = '{"id": "a"}'


@pytest.fixture
def world() -> World:
    world = make_orders()
    flush(world.open_session(PIPELINE))
    return world


def test_table_before_its_first_flush_is_refused() -> None:
    with pytest.raises(GiveUp, match="no position yet"):
        explain_key(make_orders().open_session(PIPELINE), NAME, KEY)


def test_key_of_other_columns_is_refused(world: World) -> None:
    with pytest.raises(ConfigurationError, match="the fields are"):
        explain_key(world.open_session(PIPELINE), NAME, '{"other": 1}')


def test_table_without_a_key_is_refused(world: World) -> None:
    table = build_table(mode="append")
    keyless = build_pipeline(replace(table, key=replace(table.key, fields=())))
    with pytest.raises(ConfigurationError, match="its rows have no key"):
        explain_key(world.open_session(keyless), NAME, KEY)


def test_table_in_bigquery_is_refused_before_anything_is_staged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.destination, "has_branches", lambda table: False)
    jobs = len(world.engine.jobs)
    refusal = f"pipeline=shop table={NAME}: explain does not know tables of BigQuery"
    with pytest.raises(Unverifiable, match=f"^{refusal}; compare it by hand$"):
        explain_key(world.open_session(PIPELINE), NAME, KEY)
    assert len(world.engine.jobs) == jobs


def test_log_that_is_gone_is_refused(world: World) -> None:
    world.broker.retain_from("orders", 1, 0)
    world.broker.retain_from("orders", 2, 1)
    with pytest.raises(GiveUp, match="the log holds no record of its topics any more"):
        explain_key(world.open_session(PIPELINE), NAME, KEY)


@pytest.mark.parametrize(
    ("within", "before", "ahead"),
    [
        (None, {0: (0, 1), 1: (0, 2)}, {0: (1, 2), 1: (2, 3)}),
        (Ranges({"orders": {1: (1, 9)}}), {0: (0, 0), 1: (1, 2)}, {0: (1, 1), 1: (2, 3)}),
        (Ranges({"orders": {0: (0, 1)}}), {0: (0, 1), 1: (0, 0)}, None),
    ],
)
def test_log_is_read_up_to_the_position_and_behind_it(
    world: World, monkeypatch: pytest.MonkeyPatch, within: Ranges | None, before: dict, ahead: dict | None
) -> None:
    send_orders(world, ("a", "3"), ("b", None))
    session = world.open_session(PIPELINE)
    known = len(world.engine.jobs)

    def stop(*_: object) -> None:
        raise GiveUp("staged")

    monkeypatch.setattr(explain, "_ask", stop)
    with pytest.raises(GiveUp, match="staged"):
        explain_key(session, NAME, KEY, within)
    jobs = [job for job in world.engine.jobs[known:] if isinstance(job, StageJob)]
    read = [job.ranges.by_topic["orders"] for job in jobs]
    assert [{p: span for p, span in parts.items() if span[0] != span[1]} for parts in read] == [
        {p: span for p, span in parts.items() if span[0] != span[1]} for parts in (before, ahead) if parts is not None
    ]
    assert all(job.tables[0].of_key for job in jobs)
