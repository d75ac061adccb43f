"""A failure's reason in two parts, and what a bad record's field holds: what a person on call reads first."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes import World, build_pipeline, build_table
from tidegate.errors import BadRecord
from tidegate.flush.flush import flush
from tidegate.monitoring.details import describe_bad_record
from tidegate.monitoring.health import BadRecordReason, find_bad_record, split_reason
from tidegate.schema.data_types import Column

BAD = (
    "stage failed: pipeline=users table=lake.app.Users batch=3: 1 record cannot be decoded; the first: "
    "topic=app.users partition=1 offset=40 reason=the value does not fit value.schema, fields: score; nothing was "
    "merged; look at it with: tidegate record users --at app.users:1:40; then correct the producer"
)


@pytest.mark.parametrize(
    ("reason", "fact", "advice"),
    [
        (
            BAD,
            "the value does not fit value.schema, fields: score · app.users, partition 1, offset 40",
            "look at it with: tidegate record users --at app.users:1:40; then correct the producer",
        ),
        (
            f"heartbeat failed: pipeline=users: {BAD.replace('1 record ', '7 records ')}",
            "the value does not fit value.schema, fields: score · app.users, partition 1, offset 40, and 6 more",
            "look at it with: tidegate record users --at app.users:1:40; then correct the producer",
        ),
        (
            "merge[0] failed and will be tried again: pipeline=p table=lake.a.b batch=1: no answer; it is tried again",
            "no answer",
            "it is tried again",
        ),
        (
            "merge failed: pipeline=p table=lake.a.Left batch=1: one; do a\n"
            "pipeline=p table=lake.a.Right batch=2: two; do b",
            "lake.a.Left: one\nlake.a.Right: two",
            "do a\ndo b",
        ),
        (
            "table=lake.a.b was rolled back: the last snapshot is gone; undo that with: tidegate undo-rollback p",
            "table=lake.a.b was rolled back: the last snapshot is gone",
            "undo that with: tidegate undo-rollback p",
        ),
        (
            "/in/p.yaml:3: colour=red: unknown key; allowed: source\n/in/p.yaml:5: tables: missing; add it",
            "/in/p.yaml:3: colour=red: unknown key; allowed: source\n/in/p.yaml:5: tables: missing; add it",
            "",
        ),
        ("5 records wait, the oldest for 61 s", "5 records wait, the oldest for 61 s", ""),
        (
            "publish failed: publication=out topic=t: cleanup.policy=delete would let it go; set it to compact",
            "topic=t: cleanup.policy=delete would let it go",
            "set it to compact",
        ),
    ],
)  # fmt: skip
def test_fact_comes_first_without_what_the_row_says_already(reason: str, fact: str, advice: str) -> None:
    assert split_reason(reason) == (fact, advice)


def test_table_is_named_where_a_pipeline_has_several() -> None:
    reason = "merge[1] failed: pipeline=p table=lake.shop.B batch=1: no answer; try again"
    assert split_reason(reason, names_table=True) == ("lake.shop.B: no answer", "try again")


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("App.Users", 2)
    return world


COLUMNS = (Column("id", "STRING"), Column("Score", "INT"), Column("amount", "DECIMAL(9,2)"))


def describe(world: World, value: Any, reason: str, key: Any = None, columns: tuple[Column, ...] = COLUMNS) -> str:
    """The fact about a record in the second partition, behind another one."""
    world.broker.produce("App.Users", {"id": "a"}, {"id": "a", "name": "x"}, partition=1)
    text = value.decode() if isinstance(value, bytes) else value
    world.broker.produce("App.Users", key or {"id": "b"}, text, partition=1)
    table = build_table("lake.app.Users", topics=("App.Users",))
    session = world.open_session(build_pipeline(replace(table, value=replace(table.value, columns=columns))))
    return describe_bad_record(session, BadRecordReason(1, ("App.Users", 1, 1), reason, ""))["fact"]


@pytest.mark.parametrize(
    ("value", "reason", "fact"),
    [
        ({"Score": "many"}, "the value does not fit value.schema, fields: Score", 'field Score is "many", not INT'),
        ({"Score": 1.5}, "the value field Score is not a INT without loss", "field Score is 1.5, not INT"),
        (
            {"payload": {"after": {"Score": [1], "amount": 12.345}}},
            "the value does not fit value.schema, fields: Score, amount",
            "field Score is an array, not INT; field amount is 12.345, not DECIMAL(9,2)",
        ),
        ({"Score": "y" * 99}, "the value field Score is not a INT", f'field Score is "{"y" * 60}…", not INT'),
        (b'{"Score": "\\ud83d"}', "the value field Score is not a INT", 'field Score is "?", not INT'),
        (b'{"Score": %d}' % 10**99, "the value field Score is not a INT", f"field Score is 1{'0' * 59}…, not INT"),
        ({"id": "b"}, "the value field Score is required and missing", "the value field Score is required and missing"),
        ({"Score": 1}, "the value is not a Protobuf message", "the value is not a Protobuf message"),
    ],
)  # fmt: skip
def test_value_that_does_not_fit_stands_beside_the_type_that_was_expected(
    world: World, value: Any, reason: str, fact: str
) -> None:
    assert describe(world, value, reason) == f"{fact} · App.Users, partition 1, offset 1"


@pytest.mark.parametrize("value", [b'{"Score": 1e99999999999999999999}', b"[" * 100_000], ids=["exponent", "depth"])
def test_reason_stands_alone_where_python_does_not_hold_the_value(world: World, value: bytes) -> None:
    reason = "the value field Score is not a INT"
    assert describe(world, value, reason) == f"{reason} · App.Users, partition 1, offset 1"


def test_field_of_the_key_is_looked_for_in_the_key(world: World) -> None:
    fact = describe(world, {"id": "other"}, "the key field id is not a STRING", key={"id": 7})
    assert fact == "field id is 7, not STRING · App.Users, partition 1, offset 1"


def test_type_is_that_of_the_field_in_its_own_part(world: World) -> None:
    """With `key.prefix` the value may have a field of the key's name."""
    fact = describe(world, {"id": "many"}, "the value field id is not a BIGINT", columns=(Column("id", "BIGINT"),))
    assert fact == 'field id is "many", not BIGINT · App.Users, partition 1, offset 1'


def test_bad_record_is_found_in_what_a_flush_says_of_it(world: World) -> None:
    world.broker.produce("App.Users", {"id": "a"}, "not JSON", partition=1)
    session = world.open_session(build_pipeline(build_table("lake.app.Users", topics=("App.Users",))))
    with pytest.raises(BadRecord) as failure:
        flush(session)
    bad = find_bad_record(f"stage failed: {failure.value}")
    assert bad is not None
    assert (bad.records, bad.address) == (1, ("App.Users", 1, 0))
    assert json.dumps(describe_bad_record(session, bad)["fact"]).endswith('partition 1, offset 0"')
