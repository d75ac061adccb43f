"""A part's changes on their last way: a producer in the executor, and the part's progress behind them.

These functions travel to the executors by value: they may use the standard library, pyarrow and confluent_kafka only.

With exactly-once a part has a transactional id of its own, and its progress is written in the transaction of the
changes before it. A new attempt first fences the earlier one by that id, then reads the part's newest progress: only if
that is still what the run was planned on does it produce, after the last key that is committed. So a killed, repeated
or late attempt neither repeats nor loses a change for readers with ``read_committed``.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any

import confluent_kafka as kafka  # as a module: its classes cannot travel by value
import pyarrow

POSITION_KEY = b"position"
KEY_FORM_HEADER = "key-form"  # beside the position
KEY_MARK = "k"  # before a key's digits, so that an empty key is not taken for none
ANSWER_TIMEOUT_SECONDS = 120.0  # seconds for one answer of the brokers
TRANSACTION_TIMEOUT_MS = 600_000
REFUSAL_PREFIX = "refused "  # an outcome that begins so goes on with JSON
CONSUMER_CONF = {
    "group.id": "tidegate-publications", "isolation.level": "read_committed", "enable.partition.eof": "true",
    "enable.auto.commit": "false", "auto.offset.reset": "earliest", "log_level": "3",
    "fetch.wait.max.ms": "10",  # the end of a short topic is reported at once
}  # fmt: skip
# as Kafka's own clients choose a partition, so that other producers and Kafka Streams agree
PARTITIONER_CONF = {"partitioner": "murmur2_random"}
DEFAULT_CONF = {"linger.ms": "20", "log_level": "3"}
# What the brokers will refuse again however often it is sent; the others may pass.
REFUSAL_CODES = (
    kafka.KafkaError.MSG_SIZE_TOO_LARGE, kafka.KafkaError.RECORD_LIST_TOO_LARGE, kafka.KafkaError.INVALID_RECORD,
    kafka.KafkaError.INVALID_TIMESTAMP,
    kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, kafka.KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, kafka.KafkaError.GROUP_AUTHORIZATION_FAILED,
)  # fmt: skip
# What the client takes back of a transaction that something else has failed; that may be reported behind these.
PURGE_CODES = (kafka.KafkaError._PURGE_QUEUE, kafka.KafkaError._PURGE_INFLIGHT)
FENCED_CODES = (kafka.KafkaError._FENCED, kafka.KafkaError.INVALID_PRODUCER_EPOCH, kafka.KafkaError.PRODUCER_FENCED)
DELIVERY_CONF: dict[str, dict[str, Any]] = {
    "at-least-once": {"enable.idempotence": "true", "acks": "all"},
    "exactly-once": {"enable.idempotence": "true", "acks": "all", "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS},
    "none": {"acks": "1"},
}
Batches = Iterator[pyarrow.RecordBatch]


class Superseded(Exception):
    """Another attempt or run has taken this part over: nothing more may be produced for it."""


class BrokerRefusal(Exception):
    """The brokers refuse a record, or the user, for good; its text is JSON: error, topic, key in hexadecimal, bytes."""


def build_producer(plan: dict[str, Any]) -> Callable[[Batches], Batches]:
    """Return the function for ``mapInArrow``: batches of one or more parts, each in the order of its keys, to outcomes.

    Each part begins with a row without a key. The first part that is refused for good ends the task.
    """

    def run(batches: Batches) -> Batches:
        rows = (row for batch in batches for row in batch.to_pylist())
        for number, part_rows in groupby(rows, key=lambda row: row["part"]):
            outcome = _produce_part(number, plan, part_rows)
            columns = {"part": pyarrow.array([number], pyarrow.int32()), "outcome": pyarrow.array([outcome])}
            yield pyarrow.RecordBatch.from_pydict(columns)
            if outcome.startswith(REFUSAL_PREFIX):
                return

    return run


def _produce_part(number: int, plan: dict[str, Any], rows: Iterator[dict[str, Any]]) -> str:
    part: _PartProducer | None = None
    try:
        part = _PartProducer(number, plan)
        for row in rows:
            if row["key"] is not None:
                part.send(row)
        return part.finish()
    except BaseException as error:
        if part is not None:
            part.give_up()
        if isinstance(error, BrokerRefusal):  # returned, not raised: a task that fails is tried again
            return f"{REFUSAL_PREFIX}{error}"
        raise


def read_newest_state(settings: dict[str, str], topic: str, partition: int) -> str | None:
    """Return the last committed record of one partition of the state topic, as text; None if it is empty.

    Reads the partition from its beginning. TimeoutError if the brokers do not answer.
    """
    consumer = kafka.Consumer({**settings, **CONSUMER_CONF})
    record: str | None = None
    try:
        consumer.assign([kafka.TopicPartition(topic, partition, 0)])
        while True:
            message = consumer.poll(ANSWER_TIMEOUT_SECONDS)
            if message is None:
                raise TimeoutError(
                    f"topic={topic} partition={partition}: no answer within {ANSWER_TIMEOUT_SECONDS:.0f} s; run again"
                )
            if message.error() is None:
                record = message.value().decode()
            elif message.error().code() == kafka.KafkaError._PARTITION_EOF:
                return record
            elif not message.error().retriable():
                raise kafka.KafkaException(message.error())
    finally:
        consumer.close()


class _PartProducer:
    def __init__(self, number: int, plan: dict[str, Any]) -> None:
        self.number = number
        self._plan = plan
        self._part = plan["parts"][number]
        self._is_transactional = plan["delivery"] == "exactly-once"
        self._failure: Any = None
        self._failed: tuple[str, bytes | None, int] = ("", None, 0)  # topic, key and size of the record that did
        self._failed_rank = -1.0
        self._is_fenced = False
        self._superseded = False
        self._is_announced = True
        self._unsent = 0
        self._after: bytes | None = None
        self._last: bytes | None = None
        settings = {
            **DEFAULT_CONF,
            **plan["settings"],
            **PARTITIONER_CONF,
            **DELIVERY_CONF[plan["delivery"]],
            "error_cb": self._handle_error,
        }
        if self._is_transactional:
            settings["transactional.id"] = f"{plan['state_topic']}-{number}"
        self._producer = kafka.Producer(settings)
        try:
            self._begin()
        except Superseded:
            self._superseded = True

    def _begin(self) -> None:
        if self._is_transactional:
            self._retry(lambda: self._producer.init_transactions(ANSWER_TIMEOUT_SECONDS))
        try:
            record = read_newest_state(self._plan["settings"], self._plan["state_topic"], self.number)
        except kafka.KafkaException as error:
            raise self._to_error(error) from error
        state = json.loads(record) if record else None
        last_key = self._part["after"]
        self._counts = dict(self._part["counts"])
        if state is not None and state["run"] == self._plan["position"]["run"]:  # an earlier attempt of this very run
            if state["after"] is None:
                raise Superseded
            last_key = state["after"]
            self._counts = state["counts"]
        elif record != self._part["expected"]:
            raise Superseded
        self._after = bytes.fromhex(last_key.removeprefix(KEY_MARK)) if last_key else None
        if self._is_transactional:
            self._producer.begin_transaction()
        # An aborted record and one without a transaction are in the topic too: say towards which state before the first
        self._is_announced = record is not None and (self._is_transactional or bool(last_key))

    def send(self, row: dict[str, Any]) -> None:
        key = row["key"]
        last = self._last
        if self._superseded or (self._after is not None and key <= self._after):
            return
        if last is not None and key < last:
            raise ValueError(f"part={self.number}: keys are out of order, so progress would be wrong; report this")
        if last is not None and key != last and self._unsent >= self._plan["transaction_records"]:
            self._guard(lambda: self._advance(KEY_MARK + last.hex()))  # never within a key: it may go to two topics
        if not self._is_announced:
            self._guard(lambda: self._advance(""))
            self._is_announced = True
        self._guard(lambda: self._produce(row))
        self._last = key
        self._unsent += 1
        self._counts[row["kind"]] = self._counts.get(row["kind"], 0) + 1

    def finish(self) -> str:
        self._guard(lambda: self._advance(None))
        return "superseded" if self._superseded else "produced"

    def _guard(self, step: Callable[[], None]) -> None:
        if self._superseded:
            return
        try:
            step()
        except Superseded:
            self._superseded = True

    def _produce(self, row: dict[str, Any]) -> None:
        pairs = json.loads(row["headers"]) if row["headers"] else []
        headers = [(name, None if value is None else bytes.fromhex(value)) for name, value in pairs]
        options: dict[str, Any] = {"headers": headers} if headers else {}
        if row["timestamp"] is not None:
            options["timestamp"] = row["timestamp"]
        key = row["key"] if self._plan["has_keys"] else None  # of an inserted row it only says where it stands
        self._hand_over(row["topic"], key=key, value=row["value"], **options)
        if row["kind"] == "deleted" and row["value"] is not None:  # a change event, which compaction would keep
            self._hand_over(row["topic"], key=row["key"], value=None)

    def _hand_over(self, topic: str, **record: Any) -> None:
        report = partial(self._handle_delivery, record.get("timestamp"))  # a failed message does not tell its time
        while True:
            try:
                self._producer.produce(topic, on_delivery=report, **record)
                self._producer.poll(0)
                return
            except BufferError:
                self._producer.poll(1)
            except kafka.KafkaException as error:
                self._failed = (topic, record["key"], len(record["key"] or b"") + len(record["value"] or b""))
                raise self._to_error(error) from error

    def _handle_delivery(self, at_ms: int | None, error: Any, message: Any) -> None:
        if self._failure is None or self._failure.code() in PURGE_CODES:
            self._failure = error or self._failure
        if error is None or message is None or error.code() in PURGE_CODES:
            return
        size = len(message.key() or b"") + len(message.value() or b"")
        # of a batch that is refused the largest record, or the one whose time is farthest from now
        is_untimely = error.code() == kafka.KafkaError.INVALID_TIMESTAMP
        rank = abs((at_ms or 0) - time.time() * 1000) if is_untimely else size
        if rank > self._failed_rank:
            self._failed = (message.topic(), message.key(), size)
            self._failed_rank = rank

    def _advance(self, last_key: str | None) -> None:
        if not self._is_transactional:
            self._flush()
        state = {"after": last_key, "counts": self._counts, "at_ms": int(time.time() * 1000)}
        position = {**self._plan["position"], **state}
        value = json.dumps(position).encode()
        record = {"key": POSITION_KEY, "value": value, "headers": [(KEY_FORM_HEADER, self._plan["key_form"])]}
        self._hand_over(self._plan["state_topic"], partition=self.number, **record)
        self._flush()
        if self._is_transactional:
            self._retry(lambda: self._producer.commit_transaction(ANSWER_TIMEOUT_SECONDS))
            if last_key is not None:
                self._producer.begin_transaction()
        self._unsent = 0

    def _flush(self) -> None:
        queue_length = self._producer.flush(ANSWER_TIMEOUT_SECONDS)
        if self._plan["delivery"] == "none":
            return
        if self._failure is not None:
            raise self._to_error(kafka.KafkaException(self._failure))
        if queue_length:
            raise TimeoutError(
                f"part={self.number}: {queue_length} records are not acknowledged after {ANSWER_TIMEOUT_SECONDS:.0f} s"
            )

    def _retry(self, call: Callable[[], None]) -> None:
        deadline = time.monotonic() + ANSWER_TIMEOUT_SECONDS
        while True:
            try:
                call()
                return
            except kafka.KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise self._to_error(error) from error

    def _handle_error(self, error: Any) -> None:
        # later calls only say that something went wrong for good
        self._is_fenced = self._is_fenced or error.code() in FENCED_CODES

    def _to_error(self, error: Exception) -> Exception:
        reason = error.args[0]
        if self._is_fenced or reason.code() in FENCED_CODES:
            return Superseded()
        if reason.code() not in REFUSAL_CODES:
            return error
        topic, key, size = self._failed
        refusal = {"error": reason.name(), "topic": topic, "key": None if key is None else key.hex(), "bytes": size}
        return BrokerRefusal(json.dumps(refusal))

    def give_up(self) -> None:
        # readers need not wait for the next attempt to abort what is open
        if self._is_transactional and not self._is_fenced:
            with suppress(Exception):  # the failure that led here is what must be reported
                self._producer.abort_transaction(10)
