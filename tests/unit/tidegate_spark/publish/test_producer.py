"""Which of the failures that a producer is told of is the reason: a transaction fails all of its records for one."""

import json
from itertools import permutations
from typing import Any

import pyarrow
import pytest
from confluent_kafka import KafkaError, KafkaException
from fakes.producing import SCHEMA, Broker, Killed
from tidegate_spark.publish import producer as producer_module
from tidegate_spark.publish.producer import REFUSAL_PREFIX, BrokerRefusal, _PartProducer, build_producer


class Message:
    def __init__(self, key: bytes, value: bytes) -> None:
        self._key, self._value = key, value

    def topic(self) -> str:
        return "out"

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value


REFUSED = KafkaError.INVALID_TIMESTAMP, Message(b"far", b"x"), 4_000_000_000_000
PURGED = KafkaError._PURGE_QUEUE, Message(b"large", b"x" * 100), None
TAKEN_BACK = KafkaError._PURGE_INFLIGHT, Message(b"near", b"x"), None
DELIVERED = None, Message(b"before", b"x"), None


def find_error(*reports: tuple[Any, Message, Any]) -> Exception:
    """The error of a part of which the client reports this, in this order."""
    producer = object.__new__(_PartProducer)
    producer._failure, producer._failed, producer._failed_rank, producer._is_fenced = None, ("", None, 0), -1.0, False
    for code, message, at_ms in reports:
        producer._handle_delivery(at_ms, None if code is None else KafkaError(code), message)
    assert producer._failure is not None
    return producer._to_error(KafkaException(producer._failure))


@pytest.mark.parametrize("reports", list(permutations((REFUSED, PURGED, TAKEN_BACK, DELIVERED))))
def test_record_that_was_refused_is_told_whatever_is_reported_before_it(reports: Any) -> None:
    error = find_error(*reports)
    assert isinstance(error, BrokerRefusal)
    assert json.loads(str(error)) == {"error": "INVALID_TIMESTAMP", "topic": "out", "key": b"far".hex(), "bytes": 4}


def test_what_was_taken_back_for_nothing_else_is_a_failure_that_may_pass() -> None:
    error = find_error(DELIVERED, PURGED, TAKEN_BACK)
    assert isinstance(error, KafkaException)
    assert error.args[0].code() == KafkaError._PURGE_INFLIGHT


@pytest.mark.parametrize(
    ("outcomes", "expected_parts"),
    [
        (["produced", "superseded", "produced"], [0, 1, 2]),
        (["produced", f"{REFUSAL_PREFIX}{{}}", "produced"], [0, 1]),
        ([f"{REFUSAL_PREFIX}{{}}", f"{REFUSAL_PREFIX}{{}}", "produced"], [0]),
    ],
)
def test_part_that_is_refused_is_the_last_of_its_task_and_no_other_is(
    monkeypatch: pytest.MonkeyPatch, outcomes: list[str], expected_parts: list[int]
) -> None:
    """The run fails anyway: parts behind it would go out and be told by nobody."""
    produced = list[int]()

    def produce_part(number: int, plan: Any, rows: Any) -> str:
        assert len(list(rows)) == 2
        produced.append(number)
        return outcomes[number]

    monkeypatch.setattr(producer_module, "_produce_part", produce_part)
    batches = [pyarrow.RecordBatch.from_pydict({"part": parts}) for parts in ([0, 0, 1], [1, 2, 2])]
    results = [row for batch in build_producer({})(iter(batches)) for row in batch.to_pylist()]
    assert results == [{"part": number, "outcome": outcomes[number]} for number in expected_parts]
    assert produced == expected_parts


@pytest.mark.parametrize("killed_at", [None, *range(9)])
def test_delete_event_and_the_tombstone_behind_it_are_in_one_transaction(killed_at: int | None) -> None:
    """Also where each change is a transaction: a reader never sees a topic that ends with one of the two."""
    broker = Broker()
    changes = [(b"a", b"row", "inserted"), (b"b", b"event", "deleted"), (b"c", None, "deleted")]
    rows = [{"part": 0}, *({"part": 0, "topic": "out", "key": k, "value": v, "kind": kind} for k, v, kind in changes)]
    plan = {
        "settings": {},
        "delivery": "exactly-once",
        "state_topic": "state",
        "transaction_records": 1,
        "position": {"run": "1-r"},
        "key_form": "",
        "has_keys": True,
        "parts": {0: {"expected": None, "after": "", "counts": {}}},
    }

    def meet(number: int, name: str) -> None:
        if number == killed_at:
            broker.before_call = lambda number, name: None
            raise Killed

    broker.before_call = meet
    expected = [(b"a", b"row"), (b"b", b"event"), (b"b", None), (b"c", None)]
    with broker.replace_kafka():
        if killed_at is not None:
            with pytest.raises(Killed):
                list(build_producer(plan)(iter([pyarrow.RecordBatch.from_pylist(rows, schema=SCHEMA)])))
            assert broker.read("out", 0) in (expected[:0], expected[:1], expected[:3])
        list(build_producer(plan)(iter([pyarrow.RecordBatch.from_pylist(rows, schema=SCHEMA)])))
    assert broker.read("out", 0) == expected
    counts = json.loads(broker.read("state", 0)[-1][1] or b"")["counts"]
    assert counts == {"inserted": 1, "deleted": 2}
