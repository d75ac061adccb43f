"""verify, before Spark is asked: what is refused, in a sentence, because the log could not tell."""

import argparse
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from fakes import World, build_pipeline, build_table
from fakes.orders import NAME, make_orders, send_orders
from tidegate.cli.parser import parse_share
from tidegate.config.parsing.select_statement import parse_select
from tidegate.errors import GiveUp, NotTried, SomeTablesFailed
from tidegate.flush.flush import flush
from tidegate.jobs.stage_job import StageJob
from tidegate.model.batch import StagedBatch
from tidegate.ports.session import Session
from tidegate.reprocess import verify
from tidegate.reprocess.rebase import propose_rebase
from tidegate.reprocess.repair import propose_repair
from tidegate.reprocess.verify import (
    CHANGING,
    WHOLE,
    Difference,
    LogComparison,
    Verification,
    build_values,
    verify_all,
    verify_table,
)
from tidegate.schema.data_types import Column
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.table import History

PIPELINE = build_pipeline()


@pytest.fixture
def world() -> World:
    world = make_orders()
    flush(world.open_session(PIPELINE))
    return world


def refuse(world: World, pipeline: Pipeline, message: str) -> None:
    with pytest.raises(GiveUp, match=message):
        verify_table(world.open_session(pipeline), NAME)


def test_table_before_its_first_flush_is_refused() -> None:
    refuse(make_orders(), PIPELINE, "no position yet")


@pytest.mark.parametrize("to", ["earliest", "latest"])
def test_moved_position_is_refused_until_a_merge_shows_what_the_table_has(world: World, to: str) -> None:
    send_orders(world, ("a", "3"))
    session = world.open_session(PIPELINE)
    propose_rebase(session, to).perform("ann")
    refuse(world, PIPELINE, f"table={NAME}: the position was moved by hand.* run: tidegate flush shop")


def test_changed_file_is_refused_until_a_merge_has_used_it(world: World) -> None:
    changed = replace(PIPELINE, source=replace(PIPELINE.source, isolation="read_uncommitted"))
    refuse(world, changed, "has changed since the last merge")


def test_log_that_is_gone_up_to_the_position_is_refused(world: World) -> None:
    world.broker.retain_from("orders", 1, 0)
    world.broker.retain_from("orders", 2, 1)
    refuse(world, PIPELINE, "holds no record that tells its rows: topic=orders partition=0: the log begins at offset=1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "append"}, "tables of mode=append"),
        ({"mode": "delete"}, "tables of mode=delete"),
        ({"delete_when": "at < NOW()"}, r"a select with NOW\(, which gives another value each time"),
    ],
)
def test_mode_that_the_log_alone_does_not_give_is_refused(world: World, options: dict, message: str) -> None:
    refuse(world, build_pipeline(build_table(**options)), message)


def test_select_that_joins_a_table_is_refused_before_anything_is_staged(world: World) -> None:
    world.destination.create("lake.dim.c", (Column("id", "STRING"), Column("region", "STRING")))
    select = parse_select("SELECT r.*, c.region FROM record r LEFT JOIN lake.dim.c c ON c.id = r.name")
    jobs = len(world.engine.jobs)
    refusal = "verify does not know a select that joins tables, whose rows may have changed since; compare it by hand"
    refuse(world, build_pipeline(build_table(select=select)), f"^pipeline=shop table={NAME}: {refusal}$")
    assert len(world.engine.jobs) == jobs


def test_table_in_bigquery_is_refused_before_anything_is_staged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.destination, "has_branches", lambda table: False)
    jobs = len(world.engine.jobs)
    refusal = f"pipeline=shop table={NAME}: verify does not know tables of BigQuery; compare it by hand"
    refuse(world, PIPELINE, f"^{refusal}$")
    assert len(world.engine.jobs) == jobs


@pytest.mark.parametrize(
    ("options", "tail"),
    [
        ({}, []),
        ({"sequence_by": ("name",)}, [(2, True)]),
        ({"sequence_by": ("name",), "mode": "upsert"}, []),
        ({"history": History()}, [(2, True)]),
    ],
)
def test_keys_behind_the_position_are_read_where_their_deletes_may_be_remembered(
    monkeypatch: pytest.MonkeyPatch, options: dict, tail: list
) -> None:
    world = make_orders()
    session = world.open_session(build_pipeline(build_table(**options)))
    flush(session)
    send_orders(world, ("a", "3"), ("b", None))
    before = len(world.engine.jobs)
    monkeypatch.setattr(verify, "compare", Mock(side_effect=GiveUp("staged")))
    with pytest.raises(GiveUp, match="staged"):
        verify_table(session, NAME)
    jobs = [job for job in world.engine.jobs[before:] if isinstance(job, StageJob)]
    assert [(job.batch, job.tables[0].keys_only) for job in jobs] == [(1, False), *tail]
    ends = [job.ranges.end for job in jobs]
    assert ends == [{"orders": {0: 1, 1: 2}}, {"orders": {0: 2, 1: 3}}][: len(jobs)]


@pytest.mark.parametrize(
    ("mode", "is_compacted", "is_gone", "may_lack"),
    [
        ("upsert_delete", True, True, True), ("upsert_delete", True, False, False),
        ("upsert_delete", False, True, False), ("upsert", True, True, False),
    ],
)  # fmt: skip
def test_delete_may_have_expired_where_the_broker_compacts_and_records_are_gone(
    monkeypatch: pytest.MonkeyPatch, *, mode: str, is_compacted: bool, is_gone: bool, may_lack: bool
) -> None:
    """A delete whose key had other bytes takes no earlier record along."""
    world = make_orders()
    session = world.open_session(build_pipeline(build_table(mode=mode)))
    flush(session)
    world.broker.compacting = {"orders"} if is_compacted else set()
    if is_gone:
        world.broker.retain_from("orders", 1, 1)
    found: list[dict[str, Any]] = []

    def compare(work: LogComparison, staged: StagedBatch, tail: StagedBatch | None) -> None:
        found.append(build_values(work, staged, tail))
        raise GiveUp("compared")

    monkeypatch.setattr(verify, "compare", compare)
    with pytest.raises(GiveUp, match="compared"):
        verify_table(session, NAME)
    assert [(values["may_lack_deletes"], values["is_complete"]) for values in found] == [(may_lack, not is_gone)]


@pytest.mark.parametrize(
    ("text", "is_changing"),
    [
        ("d < current_date", True), ("d < CURRENT_TIMESTAMP()", True), ("rand() < 0.5", True), ("uuid () AS id", True),
        ("uniform(1, 9) AS n", True), ("randstr(3) AS t", True), ("try_reflect('a', 'b')", True),
        ("uniform AS u", False),
        ("t < TIMESTAMP 'now'", True), ("unix_timestamp( ) > n", True), ("now > 1", False), ("uuid = 'x'", False),
        ("unix_timestamp(at) > n", False), ("state = 'current'", False), ("random_field = 1", False),
    ],
)  # fmt: skip
def test_function_that_gives_another_value_each_time_is_found(text: str, is_changing: bool) -> None:
    assert bool(CHANGING.search(text)) == is_changing


def make_verification(table: str, missing: int = 0) -> Verification:
    differences = (Difference("missing", "secret key", None, None, "secret row"),) * missing
    return Verification(
        table=table, at_ms=0, position={}, snapshot_id=1, sample_per_million=WHOLE, equal=5, missing=missing, surplus=0,
        different=0, unknowable=0, differences=differences,
    )  # fmt: skip


def test_table_that_differs_or_is_refused_keeps_no_other_from_its_verification(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    names = [f"lake.shop.{name}" for name in ("Gone", "journal", "right", "late")]
    tables = tuple(build_table(name, "append" if "journal" in name else "upsert_delete") for name in names)
    pipeline = replace(PIPELINE, tables=tables)
    wrong = {names[0]: 2}
    verified = list[str]()
    compare_for_real = verify.verify_table

    def compare(session: Session, name: str) -> Verification:
        if name == names[1]:
            return compare_for_real(session, name)
        verified.append(name)
        return make_verification(name, wrong.get(name, 0))

    monkeypatch.setattr(verify, "verify_table", compare)
    session = World().open_session(pipeline)
    with pytest.raises(SomeTablesFailed) as failure:
        verify_all(session)
    assert verified == [names[0], *names[2:]]
    command = "missing=2 different=0 surplus=0; see them with: tidegate verify shop --table lake.shop.Gone"
    assert command in str(failure.value)
    assert "secret" not in str(failure.value)
    refusal = "pipeline=shop table=lake.shop.journal: verify does not know tables of mode=append"
    assert refusal in caplog.text
    wrong.clear()
    assert [verification.counts["table"] for verification in verify_all(session)] == [names[0], *names[2:]]
    assert "differences" not in verify_all(session, names[2])[0].counts
    with pytest.raises(NotTried, match="does not know tables of mode=append"):
        verify_all(session, names[1])


def test_versions_that_differ_are_not_repaired_and_another_table_is() -> None:
    past, now = "lake.shop.Past", "lake.shop.now"
    pipeline = replace(PIPELINE, tables=(build_table(past, history=History()), build_table(now)))
    session = World().open_session(pipeline)
    with pytest.raises(GiveUp, match=f"table={past}: a repair does not know tables with history.* by hand"):
        propose_repair(session, [make_verification(now, 1), make_verification(past, 1)])
    assert [part.table for part in propose_repair(session, [make_verification(now, 1)]).parts] == [now]


@pytest.mark.parametrize(("text", "per_million"), [("1%", 10_000), ("100%", 1_000_000), (" 0.5% ", 5_000)])
def test_share_is_read_as_so_many_of_a_million(text: str, per_million: int) -> None:
    assert parse_share(text) == per_million


@pytest.mark.parametrize("text", ["1", "0%", "101%", "-1%", "x%", "nan%", "inf%", ""])
def test_text_that_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="no share of the keys"):
        parse_share(text)
