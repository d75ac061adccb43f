"""A poisoned topic on real components: eight kinds of bad records among good ones become dead letters."""

import json
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest
from examples import choose_part
from tidegate.errors import BadRecord

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, amount DECIMAL(5,2), at TIMESTAMP, flag BOOLEAN, n INT"}
GOOD = {"amount": 1.25, "at": "2026-01-02T03:04:05.123456Z", "flag": True, "n": 7}
PER_KIND, EVERY = 2, 100
DEADLINE_SECONDS = 600.0
# what is wrong with a record, the stage that says so, and a part of its message
KINDS: list[tuple[Any, str, str]] = [
    (b'{"id": 1, "amount"', "value", "not a JSON object"),
    (b'{"id": 1, "flag": "\xff\xfe"}', "value", "UTF-8"),
    ({"id": 1, **GOOD, "amount": 3.14159}, "value", "amount"),
    ({"id": 1, **GOOD, "amount": 12345.5}, "value", "amount"),
    ({"id": 1, **GOOD, "at": "2026-01-02T03:04:05.123456789Z"}, "value", "at"),
    ({"id": 1, **GOOD, "flag": "yes"}, "value", "flag"),
    ({"id": 1, **GOOD, "n": 2147483648}, "value", "n"),
    ("key", "key", "key"),
]


def produce_bad_records(workbench: Any) -> tuple[str, list[int]]:
    """A topic in which one record of a hundred is bad; the offsets of the bad ones."""
    topic, records, bad = workbench.topic(1), [], []
    for number in range(len(KINDS) * PER_KIND * EVERY):
        if number % EVERY != EVERY // 2:
            records.append(({"id": number}, {"id": number, **GOOD}))
            continue
        value = KINDS[number // EVERY % len(KINDS)][0]
        bad.append(number)
        headers = {"headers": [("trace", b"\x00\x01"), ("trace", b"two")]}
        broken = ({"id": "seven"}, {"id": 7, **GOOD}) if value == "key" else ({"id": number}, value)
        records.append((*broken, headers))
    workbench.produce(topic, *records)
    return topic, bad


def test_poisoned_topic_stops_at_the_first_bad_record_or_lands_with_the_bad_ones_set_aside(workbench) -> None:
    topic, bad = produce_bad_records(workbench)
    total = len(KINDS) * PER_KIND * EVERY
    workbench.pipeline("poisoned", [topic], key=KEY, value=VALUE)
    with pytest.raises(BadRecord) as error_info:
        workbench.flush("poisoned")
    for part in (f"topic={topic}", "partition=0", f"offset={bad[0]}", "not a JSON object", "nothing was merged"):
        assert part in str(error_info.value)
    assert not workbench.exists("shop.poisoned")

    just_enough = {"errors": {"tolerance": "all", "max_per_batch": len(bad)}}
    workbench.pipeline("poisoned", [topic], key=KEY, value=VALUE, source=just_enough)
    workbench.flush("poisoned")
    assert len(workbench.read_rows("shop.poisoned")) == total - len(bad)
    assert workbench.committed("poisoned") == workbench.read_ends(topic)
    check_letters(workbench, topic, bad, total)
    check_replay(workbench, topic, bad, total)


def check_letters(workbench: Any, topic: str, bad: list[int], total: int) -> None:
    letters = workbench.read_rows("shop.tidegate_poisoned_dead_letters")
    assert sorted(row["offset"] for row in letters) == bad
    for row in letters:
        value, stage, part = KINDS[row["offset"] // EVERY % len(KINDS)]
        assert (row["topic"], row["partition"], row["table"]) == (topic, 0, "lake.shop.poisoned")
        assert (row["stage"], part in row["message"], row["replayed_at"]) == (stage, True, None)
        assert row["value"] == (value if isinstance(value, bytes) else json.dumps(build_value(value)).encode())
        assert row["headers"] == [{"key": "trace", "value": b"\x00\x01"}, {"key": "trace", "value": b"two"}]
    status = json.loads(workbench.run_cli("status", "poisoned", "--json").stdout)["pipelines"][0]
    (batch,) = status["batches"]
    assert (batch["read"], batch["staged"], batch["dead_lettered"]) == (total, total - len(bad), len(bad))
    assert (status["dead_letters"], status["newest_dead_letter"]["topic"]) == (len(bad), topic)
    report = json.loads(workbench.run_cli("dead-letters", "poisoned", "--json", "--limit", "3").stdout)
    assert (report["waiting"], report["replayed"], len(report["dead_letters"])) == (len(bad), 0, 3)
    assert report["dead_letters"][0]["offset"] == bad[-1]
    assert f"offset={bad[-1]}" in workbench.run_cli("dead-letters", "poisoned").stdout


def check_replay(workbench: Any, topic: str, bad: list[int], total: int) -> None:
    """A wider schema makes two kinds readable. The table has a newer row of one key, and a delete of another."""
    kinds = len(KINDS)
    can_be_read = [offset for offset in bad if offset // EVERY % kinds in (2, 3, 6)]
    newer, deleted, *other_records = can_be_read
    workbench.produce(topic, ({"id": newer}, {"id": newer, **GOOD, "n": 99}), ({"id": deleted}, None))
    wider = {"schema": "id BIGINT, amount DECIMAL(12,5), at TIMESTAMP, flag BOOLEAN, n BIGINT"}
    # scale 5 does not fit a column of scale 2: the table gets the type by hand, as the refusal says
    statements = ("DROP COLUMN amount", "ADD COLUMN amount DECIMAL(12,5)")
    workbench.run_spark_sql(*(f"ALTER TABLE lake.shop.poisoned {statement}" for statement in statements))
    workbench.pipeline("poisoned", [topic], key=KEY, value=wider, source={"errors": {"tolerance": "all"}})
    workbench.flush("poisoned")
    process = workbench.run_cli("dead-letters", "poisoned", "--replay", "--json")
    result = json.loads(process.stdout)
    assert (result["tried"], result["replayed"], result["still_bad"]) == (
        len(bad), len(can_be_read), len(bad) - len(can_be_read),
    )  # fmt: skip
    assert result["inserted"] == len(other_records)
    assert not [row for row in workbench.read_rows("shop.poisoned") if row["id"] == deleted]
    by_n = {row["n"]: row["id"] for row in workbench.read_rows("shop.poisoned")}
    assert by_n[99] == newer
    assert len(workbench.read_rows("shop.poisoned")) == total - len(bad) + 1 + len(other_records)
    waiting = [
        r["offset"] for r in workbench.read_rows("shop.tidegate_poisoned_dead_letters") if r["replayed_at"] is None
    ]
    assert sorted(waiting) == [offset for offset in bad if offset not in can_be_read]
    assert not workbench.exists("shop.poisoned_poisoned_backfill_replay_tmp")


def build_value(value: Any) -> Any:
    return {"id": 7, **GOOD} if value == "key" else value


# dead letters: the whole way of a poisoned topic is walked for real, the rest in memory
@pytest.mark.repeats("unit/tidegate/merge/test_dead_letters.py::test_each_table_has_its_own_dead_letters")
def test_record_that_is_bad_for_one_table_lands_in_the_other(workbench) -> None:
    topic = workbench.topic(1)
    tables = [
        {"name": "lake.shop.narrow", "value": {"schema": "id BIGINT, n TINYINT"}},
        {"name": "lake.shop.wide", "value": {"schema": "id BIGINT, n INT"}},
    ]
    errors, clock = {"tolerance": "all", "topic": f"{topic}-broken"}, {"partition_time": "wall-clock"}
    workbench.pipeline("twofold", [topic], key=KEY, source={"errors": errors}, tables=tables, merge=clock)
    workbench.produce(
        topic,
        ({"id": 1}, {"id": 1, "n": 1}),
        ({"id": 2}, {"id": 2, "n": 300}, {"headers": [("trace", b"7")]}),
        ({"id": 2}, None),
    )
    workbench.flush("twofold")
    workbench.produce(topic, ({"id": 3}, {"id": 3, "n": 300}))
    workbench.flush("twofold")
    assert workbench.read_rows("shop.narrow") == [{"id": 1, "n": 1}]
    assert workbench.read_rows("shop.wide") == [{"id": 1, "n": 1}, {"id": 3, "n": 300}]
    letters = workbench.read_rows("shop.tidegate_twofold_dead_letters")
    assert [(row["table"], row["offset"]) for row in letters] == [("lake.shop.narrow", 1), ("lake.shop.narrow", 3)]
    sent = read_all_records(workbench, f"{topic}-broken")
    assert [(json.loads(record.key()), json.loads(record.value())["n"]) for record in sent] == [
        ({"id": 2}, 300), ({"id": 3}, 300),
    ]  # fmt: skip
    assert sent[0].headers()[:2] == [("trace", b"7"), ("__connect.errors.topic", topic.encode())]
    headers = dict(sent[0].headers())
    assert headers["__connect.errors.offset"] == b"1"
    assert b"field n is not a TINYINT" in headers["__connect.errors.exception.message"]


def read_all_records(workbench: Any, topic: str) -> list[Any]:
    """All records of a topic of one partition."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": workbench.stack.kafka_bootstrap, "group.id": "looks", "log_level": 0})
    try:
        _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
        consumer.assign([TopicPartition(topic, 0, 0)])
        return consumer.consume(end, 60)
    finally:
        consumer.close()


@pytest.mark.repeats("unit/tidegate/adapters/iceberg/test_letters.py::test_letters_elsewhere_are_not_opened")
def test_batch_with_bad_records_opens_no_dead_letters_of_earlier_offsets(workbench, tmp_path) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("lettered", [topic], key=KEY, value=VALUE, source={"errors": {"tolerance": "all"}})
    letters = "shop.tidegate_lettered_dead_letters"
    for batch in range(2):
        bad = [({"id": n}, b"no JSON", {"partition": n % 2}) for n in range(4 * batch, 4 * batch + 4)]
        workbench.produce(topic, *bad)
        workbench.flush("lettered")
    old = [Path(str(file)) for file in workbench.list_data_files(letters)]
    for number, file in enumerate(old):
        file.rename(tmp_path / str(number))
    workbench.produce(topic, *[({"id": n}, b"no JSON", {"partition": n % 2}) for n in range(8, 12)])
    workbench.flush("lettered")
    for number, file in enumerate(old):
        (tmp_path / str(number)).rename(file)
    places = [(row["partition"], row["offset"], json.loads(row["key"])["id"]) for row in workbench.read_rows(letters)]
    assert sorted(places) == sorted((n % 2, n // 2, n) for n in range(12))


@pytest.mark.repeats(
    "unit/scenarios/test_dead_letters_of_old_topics.py::test_flush_after_the_topic_was_recreated_and_rebased_removes_no_dead_letter_of_the_old_one"
)
def test_dead_letters_of_a_topic_that_was_created_again_stay_through_rebase_flush_and_replay(workbench) -> None:
    """Two partitions. The rebase shows dead letters of the old topic, the flush keeps them, the replay names them."""
    topic, letters = workbench.topic(2), "shop.tidegate_recreated_dead_letters"
    errors = {"errors": {"tolerance": "all"}}
    workbench.pipeline("recreated", [topic], key=KEY, value={"schema": "id BIGINT, n INT"}, source=errors)

    def produce(*values: Any) -> None:
        for partition in (0, 1):
            records = [({"id": 10 * partition + number}, value) for number, value in enumerate(values)]
            workbench.produce(topic, *((*record, {"partition": partition}) for record in records))

    def read_letters() -> list[tuple[Any, ...]]:
        names = ("partition", "offset", "value", "replayed_at")
        return sorted((tuple(row[name] for name in names) for row in workbench.read_rows(letters)), key=str)

    produce({"n": 1}, b"old", b"old too")
    workbench.flush("recreated")
    old = [(p, offset, value, None) for p in (0, 1) for offset, value in ((1, b"old"), (2, b"old too"))]
    assert read_letters() == sorted(old, key=str)
    first = {row["topic_id"] for row in workbench.read_rows(letters)}
    workbench.run_spark_sql(f"ALTER TABLE lake.{letters} ADD COLUMN of_a_later_version STRING")  # before a downgrade
    workbench.recreate(topic, 2)
    produce(b"new", {"n": 2}, b"new too")
    rebase_process = workbench.run_cli("rebase", "recreated", "--to", "earliest", "--yes")
    assert rebase_process.returncode == 0, rebase_process.stderr
    for part in (f"topic={topic} was deleted and created again", "rows=2", "dead_letters=4", "dead-letters recreated"):
        assert part in rebase_process.stdout
    workbench.flush("recreated")
    new = [(p, offset, value, None) for p in (0, 1) for offset, value in ((0, b"new"), (2, b"new too"))]
    assert read_letters() == sorted(old + new, key=str)
    rows = [{"id": 10 * partition + number, "n": number + 1} for partition in (0, 1) for number in (0, 1)]
    assert workbench.read_rows("shop.recreated") == rows
    dead_letters = json.loads(workbench.run_cli("dead-letters", "recreated", "--json").stdout)["dead_letters"]
    assert {(letter["topic_id"] in first, letter["value"][:3]) for letter in dead_letters} == {
        (True, "old"),
        (False, "new"),
    }
    process = workbench.run_cli("dead-letters", "recreated", "--replay")
    assert "tried=4 replayed=0 still_bad=4" in process.stdout
    assert "4 dead letters are of a topic that was deleted since" in process.stdout
    assert read_letters() == sorted(old + new, key=str)
    assert workbench.run_cli("rebase", "recreated", "--to", "earliest", "--yes").returncode == 0
    workbench.pipeline("recreated", [topic], key=KEY, value={"schema": "id BIGINT, n INT"}, source=errors)
    workbench.flush("recreated")
    assert read_letters() == sorted(old + new, key=str), "read again from the same topic they wait once"


# SQL alone tells which record of a key comes last
def test_dead_letters_of_one_key_leave_what_their_records_would_have_left_in_turn(workbench) -> None:
    check_letters_of_one_key(workbench, "lake.shop.{}", lambda table: workbench.read_rows(f"shop.{table}"), 0, 1)


def check_letters_of_one_key(
    workbench: Any, name_table: str, read_rows: Callable[[str], list[dict[str, Any]]], first: int, parts: int
) -> None:
    """An upsert and a delete that were bad, with and without a good record between them, and columns that one lacks."""
    topic, big = workbench.topic(2), 2**31
    value = "id BIGINT, n {}, A STRING, lsn INT, gone BOOLEAN"
    all_kinds: dict[str, Any] = {
        "Soft": {"deletes": "soft"},
        "ordered": {"sequence_by": ["lsn"]},
        "partial": {"partial_updates": True},
    }
    kinds = dict(choose_part([*all_kinds.items()], first, parts))

    def describe(name: str, n: str) -> None:
        names = {kind: name_table.format(f"{name}_{kind}") for kind in kinds}
        tables = [{"name": names[kind], "delete_when": "gone", **options} for kind, options in kinds.items()]
        source = {"errors": {"tolerance": "all"}}
        workbench.pipeline(name, [topic], key=KEY, value={"schema": value.format(n)}, source=source, tables=tables)

    old, last = {"n": big, "A": "old", "lsn": 1}, {"n": big, "gone": True, "lsn": 5}
    unordered = {"n": big, "gone": True}  # a delete without a sequence counts by its offset
    newer = {"n": 1, "A": "newer", "lsn": 3}
    keys: list[list[dict[str, Any]]] = [
        [{"n": 0, "lsn": 0}, old, last],
        [old, newer, last],
        [old, newer, {"n": big, "lsn": 5}],
        [old, newer, old],
        [old, newer, unordered],
        [unordered, newer, old],
        [old, unordered, newer],
    ]
    for partition in (0, 1):
        for number, records in enumerate(keys):
            key = {"id": 10 * partition + number}
            workbench.produce(topic, *((key, {**key, **it}, {"partition": partition}) for it in records))
    describe("late", "INT")
    workbench.flush("late")
    describe("late", "BIGINT")
    describe("whole", "BIGINT")
    workbench.flush("whole")
    assert workbench.run_cli("dead-letters", "late", "--replay").returncode == 0
    for kind in kinds:
        late, whole = (sorted(read_rows(f"{name}_{kind}"), key=itemgetter("id")) for name in ("late", "whole"))
        assert late == whole, kind


# all orders of the calls of two replays
@pytest.mark.repeats(
    "unit/scenarios/test_replays_at_once.py::test_each_dead_letter_comes_in_once_whatever_the_order_of_two_replays"
)
def test_two_replays_at_once_bring_each_dead_letter_of_a_table_without_a_key_in_once(workbench) -> None:
    """Two partitions. A replay that gives way asks for one at a time, and the same command finds the rest done."""
    topic, errors = workbench.topic(2), {"errors": {"tolerance": "all"}}
    workbench.pipeline("twice", [topic], key={"format": "raw"}, value={"schema": "id BIGINT, n INT"}, source=errors)
    for partition in (0, 1):
        values = [{"id": 10 * partition + number, "n": 2**31 if number % 2 else number} for number in range(6)]
        workbench.produce(topic, *((None, value, {"partition": partition}) for value in values))
    workbench.flush("twice")
    before = workbench.load_iceberg("shop.twice").metadata.current_snapshot_id
    workbench.pipeline("twice", [topic], key={"format": "raw"}, value={"schema": "id BIGINT, n BIGINT"}, source=errors)
    words, pipes = (
        workbench.build_command("dead-letters", "twice", "--replay", "--json"),
        {"stdout": PIPE, "stderr": PIPE},
    )
    processes = [Popen(words, env=workbench.build_environment(), text=True, **pipes) for _ in range(2)]
    outputs = [process.communicate(timeout=DEADLINE_SECONDS)[1] for process in processes]
    assert all("Traceback" not in text for text in outputs), outputs
    assert any(process.returncode == 0 for process in processes) or all("replay" in text for text in outputs), outputs
    process = workbench.run_cli("dead-letters", "twice", "--replay", "--json")
    assert process.returncode == 0, process.stderr
    expected = [{"id": 10 * p + n, "n": 2**31 if n % 2 else n} for p in (0, 1) for n in range(6)]
    assert sorted(workbench.read_rows("shop.twice"), key=lambda row: row["id"]) == expected
    assert json.loads(workbench.run_cli("dead-letters", "twice", "--json").stdout)["waiting"] == 0
    assert not workbench.exists("shop.twice_twice_backfill_replay_tmp")
    workbench.run_spark_sql(f"CALL lake.system.rollback_to_snapshot('shop.twice', {before})")
    assert len(workbench.read_rows("shop.twice")) == 6
    (status,) = json.loads(workbench.run_cli("status", "twice", "--json").stdout)["pipelines"]
    assert [
        warning
        for warning in status["warnings"]
        if "dead letters=6 count as replayed, and their rows are gone" in warning
    ]
    assert json.loads(workbench.run_cli("dead-letters", "twice", "--replay", "--json").stdout)["replayed"] == 6
    assert sorted(workbench.read_rows("shop.twice"), key=lambda row: row["id"]) == expected
    workbench.produce(topic, (None, {"id": 99, "n": 9}, {"partition": 1}))
    workbench.flush("twice")
    assert len(workbench.read_rows("shop.twice")) == len(expected) + 1
