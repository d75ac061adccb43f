"""What brokers limit: how large a record is, on its way in and out, and how fast a client may read."""

import base64
import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from conftest import Workbench
from round_trip import Way, read
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.errors import BadRecord, NothingToDo
from tidegate.flush.clean_up import clean_up

from local.kafka.cluster import CONNECTION
from local.server import build_clean_environment, build_java_command

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
APPEND = {"upsert": False, "delete": False}  # shows a record that is read twice or never
BYTES_AT_MOST = 8 * 1024 * 1024
# Bytes a second; a broker counts over so many. What it holds back must come within the 15 s that Spark waits for a
# record, on a busy machine too.
RATE, QUOTA_SECONDS = 330_000, 11
BATCH_HEADER_BYTES = 61  # of Kafka's batches, of format 2


def make_name(length: int, first: str) -> str:
    """A text that no codec makes small."""
    return first + make_letters()[: length - 1]


@cache
def make_letters() -> str:
    """As many as the largest record has."""
    return base64.b64encode(random.Random(20).randbytes(BYTES_AT_MOST), altchars=b"xy").decode()[:BYTES_AT_MOST]


def count_varint_bytes(number: int) -> int:
    return max(1, -(-(2 * number).bit_length() // 7))


def count_batch_bytes(key: bytes, value: bytes) -> int:
    """The size that a broker compares with `max.message.bytes`: a batch of this one record."""
    body = 4 + count_varint_bytes(len(key)) + len(key) + count_varint_bytes(len(value)) + len(value)
    return BATCH_HEADER_BYTES + count_varint_bytes(body) + body


def make_largest(id: int, first: str) -> dict[str, Any]:
    """A row whose record is as large as the topic takes."""
    key, row = json.dumps({"id": id}).encode(), {"id": id, "name": make_name(BYTES_AT_MOST - 1000, first)}
    missing = BYTES_AT_MOST - count_batch_bytes(key, json.dumps(row).encode())
    return {**row, "name": row["name"] + "x" * missing}


@contextmanager
def open_producer(bench: Workbench) -> Iterator[Any]:
    """A producer that sends each record alone. The brokers decide which records are too large."""
    settings = {"bootstrap.servers": bench.stack.kafka_bootstrap, "message.max.bytes": 4 * BYTES_AT_MOST}
    producer = Producer({**settings, "linger.ms": 0, "batch.num.messages": 1, "log_level": 0})
    outcomes: list[Any] = []

    def send(topic: str, partition: int, id: int, row: dict[str, Any] | bytes | None) -> Any:
        value = row if row is None or isinstance(row, bytes) else json.dumps(row).encode()
        producer.produce(topic, value, json.dumps({"id": id}), partition, lambda error, _: outcomes.append(error))
        assert producer.flush(60) == 0
        return outcomes.pop()

    yield send


def change_connection(bench: Workbench, monkeypatch: pytest.MonkeyPatch, **extra: Any) -> None:
    environment = bench.build_environment()
    connection = json.loads(environment[CONNECTION])
    words = {name.replace("_", "."): str(value) for name, value in extra.items()}
    changed = json.dumps({**connection, "extra": {**connection["extra"], **words}})
    monkeypatch.setattr(bench, "build_environment", lambda: {**environment, CONNECTION: changed})


def let_topic_take(bench: Workbench, topic: str, size: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(size), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
    bench.admin.incremental_alter_configs([resource])[resource].result(30)


def test_records_as_large_as_their_topic_takes_are_staged_and_merged_with_default_settings(workbench) -> None:
    topic = workbench.topic(2, **{"max.message.bytes": str(BYTES_AT_MOST)})
    columns = {"epoch": "leader-epoch"}
    workbench.pipeline("large", [topic], key=KEY, value=VALUE, source={"metadata": columns})
    rows = {id: make_largest(id, "a") for id in (1, 11, 12)} | {2: {"id": 2, "name": "small"}}
    with open_producer(workbench) as send:
        for id in (1, 2):
            assert send(topic, 0, id, rows[id]) is None
        longer = {**rows[1], "name": rows[1]["name"] + "x"}
        assert send(topic, 0, 1, longer).code() == KafkaError.MSG_SIZE_TOO_LARGE, "they are at the very limit"
        for id in (11, 12):
            assert send(topic, 1, id, rows[id]) is None
        assert send(topic, 1, 11, None) is None
        workbench.flush("large")
        del rows[11]
        assert read_rows(workbench, "shop.large") == rows
        rows[2] = make_largest(2, "b")
        assert send(topic, 0, 2, rows[2]) is None
        for partition, id in ((0, 1), (1, 12)):
            assert send(topic, partition, id, None) is None
            del rows[id]
        rows[12] = make_largest(12, "c")
        assert send(topic, 1, 12, rows[12]) is None
        workbench.flush("large")
    assert read_rows(workbench, "shop.large") == rows
    with pytest.raises(NothingToDo):
        workbench.flush("large")


@pytest.mark.repeats(
    "unit/scenarios/test_publications.py::test_time_that_the_brokers_refuse_is_told_as_such_and_no_reason_to_try_again"
)
def test_time_that_the_topic_refuses_is_told_with_its_row_and_published_once_it_is_taken(workbench) -> None:
    """Since Kafka 4 a topic takes no time that is more than an hour ahead."""
    sql = "SELECT *, IF(name = 'far', TIMESTAMP'2999-01-01', at) AS time FROM {table}"
    given = {"metadata": {"timestamp": "time"}, "delivery": "exactly-once", "create": {"partitions": 1}}
    way = Way(workbench, "ahead", sql=sql, parallelism=1, **given)
    way.flush(k1="a", k2="far", k3="c")
    for _ in range(2):
        with pytest.raises(BadRecord, match=r'the time of a record: .* key=\{"id":2\}: INVALID_TIMESTAMP; widen'):
            way.publish()
    assert way.read_latest() == {}
    way.flush(k2="near")
    way.publish(resynchronise=True)
    assert way.read_latest() == way.read_table()


def read_rows(bench: Workbench, table: str) -> dict[int, dict[str, Any]]:
    rows = bench.read_rows(table)
    assert {row.pop("epoch") for row in rows} == {0}
    rows_by_id = {row["id"]: row for row in rows}
    assert len(rows_by_id) == len(rows)
    return rows_by_id


@pytest.mark.repeats(
    "unit/scenarios/test_publications.py::test_record_that_is_too_large_is_named_and_no_reason_to_try_again"
)
def test_row_that_is_larger_than_its_topic_takes_is_published_once_it_does(workbench, monkeypatch) -> None:
    way = Way(workbench, "wide", delivery="exactly-once", create={"partitions": 2}, parallelism=2)
    way.flush(k1="a", k2="b", k3="c", k4="d")
    way.publish()
    way.flush(k1="a2", k3=None, k5="e")
    large = make_name(2_000_000, "e")
    with open_producer(workbench) as send:
        let_topic_take(workbench, way.source, BYTES_AT_MOST)
        row = {"id": 2, "name": large, "price": "2.50", "at": "2026-01-01T00:00:02.000002Z"}
        assert send(way.source, 0, 2, row) is None
    workbench.flush("wide")
    for _ in range(2):
        with pytest.raises(BadRecord) as error_info:
            way.publish()
        assert f"the brokers refuse a record as too large: topic={way.topic} snapshot=" in str(error_info.value)
        assert '{"id":2} bytes=' in str(error_info.value)
        assert "raise the topic's max.message.bytes and the connection's message.max.bytes" in str(error_info.value)
    change_connection(workbench, monkeypatch, message_max_bytes=BYTES_AT_MOST)
    with pytest.raises(BadRecord, match="MSG_SIZE_TOO_LARGE"):
        way.publish()
    let_topic_take(workbench, way.topic, BYTES_AT_MOST)
    way.publish()
    assert way.read_latest() == way.read_table()
    assert way.read_table()['{"id":2}']["name"] == large
    changed = Counter(key for key, _ in way.read_records())
    assert changed == {f'{{"id":{id}}}': times for id, times in {1: 2, 2: 2, 3: 2, 4: 1, 5: 1}.items()}, "each once"


# what brokers, stores and registries refuse: their answers are judged without them, each kind is met once for real
@pytest.mark.repeats(
    "unit/tidegate/merge/test_dead_letters.py::test_dead_letter_that_its_topic_does_not_take_is_named_by_its_place_and_sent_once_it_does"
)
def test_dead_letter_that_is_larger_than_its_topic_takes_waits_with_the_others_until_it_does(
    workbench, monkeypatch
) -> None:
    topic = workbench.topic(2, **{"max.message.bytes": str(BYTES_AT_MOST)})
    broken = workbench.topic(1)
    errors = {"tolerance": "all", "topic": broken}
    workbench.pipeline("letters", [topic], key=KEY, value=VALUE, source={"errors": errors})
    large = make_name(3_000_000, "-").encode()
    with open_producer(workbench) as send:
        sent = [(0, 1, b"no JSON"), (0, 2, large), (1, 11, b"nor this"), (1, 12, {"id": 12, "name": "good"})]
        for partition, id, value in sent:
            assert send(topic, partition, id, value) is None
        workbench.flush("letters")
        assert send(topic, 1, 13, b"and no other") is None
        workbench.flush("letters")
    assert workbench.read_rows("shop.letters") == [{"id": 12, "name": "good"}]
    message = (
        f"the dead letter of topic={topic} partition=0 offset=1 was not sent: errors.topic={broken} takes no record"
    )
    for limit in (None, BYTES_AT_MOST):
        if limit:
            change_connection(workbench, monkeypatch, message_max_bytes=limit)
        (report,) = clean_up(workbench.open_session("letters"))
        assert message in report.failed
        assert "MSG_SIZE_TOO_LARGE; raise its max.message.bytes and the connection's message.max.bytes" in report.failed
        assert read(workbench, broken) == []
    let_topic_take(workbench, broken, BYTES_AT_MOST)
    (report,) = clean_up(workbench.open_session("letters"))
    assert (report.failed, report.sent_dead_letters) == (None, 4)
    assert sorted(record.value() for record in read(workbench, broken)) == sorted(
        [b"no JSON", large, b"nor this", b"and no other"]
    )
    assert len(workbench.read_rows("shop.tidegate_letters_dead_letters")) == 4


@pytest.mark.repeats(
    "unit/tidegate_spark/stage/test_kafka_source.py::test_fetch_at_the_end_of_the_log_keeps_nobody_waiting_unless_the_connection_says_so"
)
def test_reader_that_brokers_slow_down_for_seconds_ends_with_every_record_once(workbench, monkeypatch) -> None:
    topic, client = workbench.topic(2), f"slow-{time.monotonic_ns()}"
    change_connection(workbench, monkeypatch, client_id=client)
    workbench.pipeline("slow", [topic], key=KEY, value=VALUE, table=APPEND)
    rows = [{"id": id, "name": make_name(10_000, str(id % 10))} for id in range(500)]
    workbench.produce(topic, *(({"id": row["id"]}, row, {"partition": row["id"] % 2}) for row in rows))
    set_read_quota(workbench, client)
    started = time.monotonic()
    workbench.flush("slow")
    # what may be read at once, and nobody can have read faster than the rest at the rate
    assert time.monotonic() - started > (5_000_000 - QUOTA_SECONDS * RATE) / RATE - 2
    assert sorted(workbench.read_rows("shop.slow"), key=lambda row: row["id"]) == rows
    assert workbench.committed("slow") == workbench.read_ends(topic)
    with pytest.raises(NothingToDo):
        workbench.flush("slow")


def set_read_quota(bench: Workbench, client: str) -> None:
    """For a client that no other test is: the quota stays."""
    where = ("--bootstrap-server", bench.stack.kafka_bootstrap, "--entity-type", "clients", "--entity-name", client)
    quota = ("--add-config", f"consumer_byte_rate={RATE}")
    command = build_java_command("kafka", "kafka.admin.ConfigCommand", "--alter", *where, *quota)
    subprocess.run(command, env=build_clean_environment(), check=True, capture_output=True, timeout=120)


def test_log_whose_records_are_deleted_inside_of_an_open_transaction_does_not_end_before_it_begins(workbench) -> None:
    """Brokers name a last stable offset that lies before the first one (Kafka 4.1)."""
    topic = workbench.topic(2)
    transactional = workbench.open_transactional_producer()
    transactional.begin_transaction()
    for number in range(5):
        transactional.produce(topic, b"open", b"%d" % number, partition=1)
    transactional.flush(60)
    workbench.produce(topic, *(({"id": number}, {"id": number}, {"partition": 1}) for number in range(5)))
    workbench.retain_from(topic, 7, 1)
    broker = KafkaBroker({"bootstrap.servers": workbench.stack.kafka_bootstrap})
    log = broker.read_log((topic,), "read_committed")
    assert (log.begin, log.end) == ({topic: {0: 0, 1: 7}}, {topic: {0: 0, 1: 7}})
    workbench.end_transaction(transactional, topic, commit=False)
    assert broker.read_log((topic,), "read_committed").end == {topic: {0: 0, 1: 11}}
