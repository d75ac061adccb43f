"""Where a later record of a raw key may stand for the earlier ones, and where each has to be decoded and staged."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.cli import output
from tidegate.flush.key_deduplication import can_keep_last_per_key, estimate_superseded_share
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.merge.write_mode import DISTINCT_KEYS_CONF
from tidegate.model.batch import Plan
from tidegate.model.offsets import Ranges
from tidegate.spec.source import Errors
from tidegate.spec.table import Route


def test_last_record_of_each_raw_key_is_enough_where_it_alone_decides() -> None:
    assert can_keep_last_per_key(build_pipeline(), build_table())


@pytest.mark.parametrize(
    "table",
    [
        build_table(mode="append"),
        build_table(mode="delete"),
        build_table(mode="upsert"),  # a tombstone is left out there, so the record before it counts
        build_table(when="name = 'x'"),
        build_table(route=Route("name", "x")),
        build_table(delete_when="name = 'x'"),
        build_table(last_per_key="never"),
        build_table(deletes="soft"),  # what the last upsert wrote stays visible
        build_table(sequence_by=("name",)),
    ],
    ids=["append", "delete-only", "upsert-only", "when", "route", "delete_when", "never", "soft", "sequence"],
)
def test_every_record_is_staged_where_earlier_ones_count_too(table) -> None:
    assert not can_keep_last_per_key(build_pipeline(table), table)


@pytest.mark.parametrize("word", ["json", "canal-json", "maxwell-json", "ogg-json"])
def test_every_record_is_staged_where_the_raw_key_is_not_the_key(word: str) -> None:
    table = build_table()
    changed_table = replace(
        table, value=replace(table.value, format=word), key=replace(table.key, from_value=word == "json")
    )
    assert not can_keep_last_per_key(build_pipeline(changed_table), changed_table)


@pytest.mark.parametrize("source", [{"errors": Errors("all")}, {"verify_integrity": True}])
def test_every_record_is_decoded_where_every_bad_one_has_to_be_found(source) -> None:
    assert not can_keep_last_per_key(build_pipeline(source=source), build_table())


@pytest.mark.parametrize(("choice", "last"), [("auto", True), ("never", False)])
def test_plan_says_which_records_it_will_stage(choice: str, last: bool) -> None:
    world = World()
    world.broker.create("orders")
    world.broker.produce("orders", {"id": "a"}, {"id": "a", "name": "x"})
    planned = plan(world.open_session(build_pipeline(build_table(last_per_key=choice))))
    assert planned.tables[0].to_dict()["last_per_key"] is last
    assert ("reads 1 offset, the last record of each key" in output.format_plan(planned)) is last


def test_records_without_a_key_do_not_supersede_each_other() -> None:
    world = World()
    world.broker.create("orders")
    for id in ("a", "b", "a"):
        world.broker.produce("orders", None, {"id": id, "name": "x"})
    session = world.open_session(build_pipeline())
    (staged,) = stage(session, plan(session))
    assert (staged.counts.staged, staged.counts.superseded) == (3, 0)


# which records are worth leaving out

SPAN, SAMPLE = 100_000, 2_000
CHANCE = random.Random(7)


def estimate_share(key_of: Callable[[int], int | None]) -> float | None:
    """The share that a sample from eight places of one partition tells."""
    offsets = (at for start in range(0, SPAN, SPAN // 8) for at in range(start, start + SAMPLE // 8))
    keys = [None if (key := key_of(at)) is None else b"%d" % key for at in offsets]
    return estimate_superseded_share({("t", 0): keys}, Ranges({"t": {0: (0, SPAN)}}))


def choose_repeated_keys(keys: int) -> Callable[[int], int | None]:
    return lambda _: CHANCE.randrange(keys)


@pytest.mark.parametrize(
    ("key_of", "least", "most"),
    [
        (lambda at: at, 0.0, 0.0),
        (lambda _: None, 0.0, 0.0),  # records without a key stay for themselves
        (lambda _: 1, 1.0, 1.0),
        (choose_repeated_keys(10), 0.99, 1.0),
        (choose_repeated_keys(5_000), 0.9, 1.0),
        (choose_repeated_keys(20_000), 0.7, 0.9),
        (lambda at: at if at % 10 else 0, 0.05, 0.15),  # one busy key says nothing of the others
        (lambda at: at // 3, 0.6, 1.0),
    ],
    ids=["once", "none", "one key", "ten keys", "20 times", "5 times", "a busy one", "threes"],
)
def test_share_of_superseded_records_is_told_from_a_sample(
    key_of: Callable[[int], int | None], least: float, most: float
) -> None:
    share = estimate_share(key_of)
    assert share is not None
    assert least <= share <= most


def test_few_keys_say_nothing() -> None:
    ranges = Ranges({"t": {0: (0, SPAN), 1: (0, SPAN)}})
    assert estimate_superseded_share({}, ranges) is None
    assert estimate_superseded_share({("t", 0): [b"1"] * 20}, ranges) is None
    assert estimate_superseded_share({("t", 0): [b"1"] * 20, ("t", 1): [b"%d" % n for n in range(500)]}, ranges) == 0


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> World:
    """Batches of ten records are large ones."""
    monkeypatch.setattr("tidegate.flush.plan.SAMPLED_MIN_RECORDS", 10)
    monkeypatch.setattr("tidegate.flush.key_deduplication.MIN_SAMPLED_KEYS", 10)
    world = World()
    world.broker.create("orders")
    return world


def produce_and_plan(world: World, records: int, keys: int, **table: object) -> Plan:
    for number in range(records):
        world.broker.produce("orders", {"id": f"k{number % keys}"}, {"id": f"k{number % keys}", "name": "x"})
    return plan(world.open_session(build_pipeline(build_table(**table))))


@pytest.mark.parametrize(("keys", "last", "share"), [(2, True, 1.0), (20, False, 0.0)])
def test_large_batch_leaves_out_what_is_superseded_where_that_is_much(
    large: World, keys: int, last: bool, share: float
) -> None:
    planned = produce_and_plan(large, 20, keys)
    (batch,) = planned.tables
    assert (batch.last_per_key, batch.superseded_share) == (last, share)
    assert Plan.from_dict(planned.to_dict()) == planned
    assert f"about {share:.0%} of the records superseded" in output.format_plan(planned)
    (staged,) = stage(large.open_session(build_pipeline()), planned)
    assert (staged.counts.staged, staged.counts.superseded) == (keys, 20 - keys)
    assert staged.keys_differ


@pytest.mark.parametrize(("choice", "last"), [("always", True), ("never", False)])
def test_choice_of_the_pipeline_file_is_not_asked_of_a_sample(large: World, choice: str, last: bool) -> None:
    (batch,) = produce_and_plan(large, 20, 20, last_per_key=choice).tables
    assert (batch.last_per_key, batch.superseded_share) == (last, None)
    assert batch.keys_differ is last


def test_keys_are_looked_at_in_large_batches_only(large: World) -> None:
    (batch,) = produce_and_plan(large, 9, 9).tables
    assert (batch.last_per_key, batch.superseded_share) == (True, None)


@pytest.mark.parametrize("choice", ["auto", "never"])
def test_rows_whose_keys_differ_are_not_sorted_once_more(large: World, choice: str) -> None:
    planned = produce_and_plan(large, 20, 20, last_per_key=choice)
    session = large.open_session(build_pipeline(build_table(last_per_key=choice)))
    (staged,) = stage(session, planned)
    merge(session, staged)
    conf = large.engine.jobs[-1].conf
    assert (DISTINCT_KEYS_CONF.items() <= conf.items()) is (choice == "auto")
    assert len(large.read_rows("lake.shop.orders")) == 20
