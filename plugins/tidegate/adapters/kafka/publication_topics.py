"""The topics of a publication, through confluent-kafka: made compacted, checked, and the progress read from them."""

import time
from contextlib import closing, suppress

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from tidegate.adapters.kafka.broker import RETRY_PAUSE_SECONDS, TIMEOUT_SECONDS, KafkaBroker
from tidegate.adapters.kafka.errors import REQUIRED_RIGHTS, explain_refusal, translate_kafka_errors
from tidegate.errors import GiveUp, PositionLost, RetryLater
from tidegate.model.counts import format_count
from tidegate.model.offsets import Ranges, iterate_offsets
from tidegate.model.publication_progress import KEY_FORM_HEADER, PartProgress
from tidegate.ports.publication_session import ExistingTopics
from tidegate.spec.publication import Publication

COMPACTED_CONFIG = {"cleanup.policy": "compact"}
# A state topic stays small: compaction gets at a segment after an hour instead of a week.
STATE_TOPIC_CONFIG = {**COMPACTED_CONFIG, "segment.ms": "3600000", "min.cleanable.dirty.ratio": "0.1"}
READER_SETTINGS = {
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "earliest",
    "fetch.wait.max.ms": "10",
    "group.id": "tidegate-publications",
    "log_level": "3",
}


class KafkaTopics(KafkaBroker):
    """Implements the port `Topics`."""

    @translate_kafka_errors
    def find_topics(self, publication: Publication, at_rest: bool = False) -> ExistingTopics:
        existing = self._list_existing(*publication.topics, publication.state_topic)
        existing_topics = tuple(topic for topic in publication.topics if topic in existing)
        if publication.state_topic in existing:
            consequence = "the publication's progress, and it would begin again from the start; set it to compact"
            self._refuse_uncompacted(publication, publication.state_topic, consequence)
        if not existing_topics:
            return ExistingTopics()
        if publication.is_append:
            self._refuse_compacted(publication, existing_topics)
        elif not publication.allow_uncompacted:
            consequence = (
                "the last record of a key; set it to compact, or allow_uncompacted: true where readers keep what "
                "they have read"
            )
            for topic in existing_topics:
                self._refuse_uncompacted(publication, topic, consequence)
        if at_rest:
            self._refuse_open_transactions(publication, existing_topics)
        log = self.read_log(existing_topics, "read_committed")
        partitions = {topic: len(offsets) for topic, offsets in log.end.items()}
        return ExistingTopics(log.topic_ids, partitions, Ranges.between(log.begin, log.end))

    @translate_kafka_errors
    def create(self, publication: Publication) -> None:
        topic_settings = publication.create
        policy = "delete" if publication.is_append else "compact"
        existing = self._list_existing(*publication.topics, publication.state_topic)
        missing = [topic for topic in publication.topics if topic not in existing]
        if missing and not topic_settings.enabled:
            raise GiveUp(
                f"publication={publication.name} topic={missing[0]} does not exist and create.enabled is false; "
                f"create it with cleanup.policy={policy}"
            )
        config = {"cleanup.policy": policy, **topic_settings.properties}
        new = [
            NewTopic(t, topic_settings.partitions, topic_settings.replication_factor, config=config) for t in missing
        ]
        if publication.state_topic not in existing:
            parts = publication.parallelism
            new.append(
                NewTopic(publication.state_topic, parts, topic_settings.replication_factor, config=STATE_TOPIC_CONFIG)
            )
        for topic, future in (self._admin.create_topics(new) if new else {}).items():
            try:
                future.result(TIMEOUT_SECONDS)
            except KafkaException as error:
                if error.args[0].code() in REQUIRED_RIGHTS:
                    asked_for = f"to create topic={topic}"
                    raise GiveUp(explain_refusal(self._servers, asked_for, error.args[0])) from error
                if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # another run was faster
                    raise RetryLater(f"topic={topic} cannot be created: {error.args[0].str()}") from error
        topics = (*publication.topics, publication.state_topic)
        # the controller answers before every broker has heard of a new topic
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while not {*topics} <= set(self.list_topics(".*")) and time.monotonic() < deadline:
            time.sleep(RETRY_PAUSE_SECONDS)
        self.read_log(topics, "read_uncommitted")

    def _list_existing(self, *topics: str) -> set[str]:
        """Return the existing topics; `GiveUp` where one of `topics` may exist, and the user may not see it."""
        existing = set(self.list_topics(".*"))
        for topic in topics:
            if topic not in existing:
                with suppress(PositionLost):
                    self.read_topic_ids((topic,))
        return existing

    @translate_kafka_errors
    def read_progress(self, publication: Publication, at_rest: bool = False) -> PartProgress:
        topic = publication.state_topic
        parts = publication.parallelism
        if topic not in self._list_existing(topic):
            return PartProgress((None,) * parts)
        ends = self.read_log((topic,), "read_committed").end[topic]
        if len(ends) != parts:
            raise GiveUp(
                f"publication={publication.name} topic={topic}: it has "
                f"{format_count(len(ends), 'partition')} and parallelism={parts}; a publication keeps its "
                f"parallelism: set it back to {len(ends)}"
            )
        if at_rest:
            self._wait_for_markers((topic,))  # of what is committed before an open transaction is the answer
        newest: dict[int, str] = {}
        forms: dict[int, str] = {}
        open_partitions = set(ends)
        with closing(Consumer({**self.settings, **READER_SETTINGS})) as consumer:
            consumer.assign([TopicPartition(topic, number, 0) for number in ends])
            while open_partitions:
                message = consumer.poll(TIMEOUT_SECONDS)
                if message is None:
                    raise RetryLater(f"topic={topic}: its progress was not answered within {TIMEOUT_SECONDS:.0f} s")
                if message.error() is not None:
                    self._raise_lasting_error(topic, message.error())
                    if message.error().code() == KafkaError._PARTITION_EOF:
                        open_partitions.discard(message.partition())
                    continue
                newest[message.partition()] = message.value().decode()
                form = dict(message.headers() or ()).get(KEY_FORM_HEADER)
                forms[message.partition()] = form.decode() if form else ""
        numbers = range(parts)
        return PartProgress(tuple(map(newest.get, numbers)), tuple(forms.get(number, "") for number in numbers))

    def _wait_for_markers(self, topics: tuple[str, ...]) -> list[tuple[str, int, int]]:
        """Return where transactions are open still, after a little while: topic, partition and offset."""
        # a commit is answered before all brokers have written it; until then readers do not see it
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            ends = self.read_log(topics, "read_uncommitted").end  # first: what is produced meanwhile does not count
            stable_ends = self.read_log(topics, "read_committed").end
            open_places = [(t, p, offset) for t, p, offset in iterate_offsets(stable_ends) if offset < ends[t][p]]
            if not open_places or time.monotonic() > deadline:
                return open_places
            time.sleep(RETRY_PAUSE_SECONDS)

    def _refuse_open_transactions(self, publication: Publication, topics: tuple[str, ...]) -> None:
        for topic, partition, offset in self._wait_for_markers(topics):
            raise RetryLater(
                f"publication={publication.name} topic={topic} partition={partition}: a transaction is open at "
                f"offset={offset}, and what is committed behind it cannot be compared with the table; nothing was "
                "produced; run it again when it has ended: that of a run that was killed ends by itself within ten "
                "minutes"
            )

    def _raise_lasting_error(self, topic: str, error: KafkaError) -> None:
        if error.code() in REQUIRED_RIGHTS:
            raise GiveUp(explain_refusal(self._servers, f"the progress in topic={topic}", error))
        if error.code() != KafkaError._PARTITION_EOF and not error.retriable():
            raise RetryLater(f"topic={topic}: its progress cannot be read: {error.str()}")

    def _refuse_compacted(self, publication: Publication, topics: tuple[str, ...]) -> None:
        for topic in topics:
            policy = self._read_policy(topic)
            if "compact" in policy:
                raise GiveUp(
                    f"publication={publication.name} topic={topic}: cleanup.policy={policy} takes no record without a "
                    "key; set it to delete, or give key.fields"
                )

    def _refuse_uncompacted(self, publication: Publication, topic: str, consequence: str) -> None:
        policy = self._read_policy(topic)
        if policy != "compact":
            raise GiveUp(
                f"publication={publication.name} topic={topic}: cleanup.policy={policy} would delete {consequence}"
            )

    def _read_policy(self, topic: str) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        configs = self._admin.describe_configs([resource], request_timeout=TIMEOUT_SECONDS)
        return str(self._await_result(f"the settings of topic={topic}", configs[resource])["cleanup.policy"].value)
