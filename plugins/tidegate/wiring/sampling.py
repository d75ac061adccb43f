"""Samples topics, and asks the registry for schemas of sampled records: what `init` needs of the world outside."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.adapters.kafka.record_sample import sample_records
from tidegate.adapters.kafka.settings import describe_kafka_place, resolve_kafka_settings
from tidegate.adapters.schema_registry.client import Registry, is_apicurio, resolve_registry_settings
from tidegate.adapters.schema_registry.protobuf_descriptors import name_message
from tidegate.adapters.schema_registry.schema_provider import RegistrySchemas
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError, GiveUp, PositionLost
from tidegate.formats.registry import FORMATS, RecordFormat, SchemaKind
from tidegate.model.counts import format_count
from tidegate.sampling.column_types import ProposedColumn
from tidegate.sampling.proposal import Registered
from tidegate.sampling.recognition import HEADER_ID, Recognition
from tidegate.sampling.samples import SampleLimits, TopicSample
from tidegate.schema.avro import get_full_name, is_record, parse_schema, to_spark_type
from tidegate.spec.source import KeyFormat, ValueFormat
from tidegate.spec.table import Table

ISOLATION = "read_committed"
MAX_SHOWN_TOPICS = 10
Kafka = str | dict[str, str]


def list_topics(kafka: Kafka, resolve: Resolve) -> tuple[str, ...]:
    return tuple(name for name in _open_broker(kafka, resolve).list_topics(".*") if not name.startswith("__"))


def sample_topic(
    kafka: Kafka, resolve: Resolve, topic: str, limits: SampleLimits, report: Callable[[str], None]
) -> TopicSample:
    """Read records of every partition. `GiveUp` if the topic does not exist or is empty."""
    broker = _open_broker(kafka, resolve)
    try:
        log = broker.read_log((topic,), ISOLATION)
    except PositionLost as fault:
        names = [name for name in broker.list_topics(".*") if not name.startswith("_")]
        closest_names = difflib.get_close_matches(topic, names, n=3, cutoff=0.5) or names[:MAX_SHOWN_TOPICS]
        alternatives = f"there are: {', '.join(closest_names)}" if closest_names else "there is none"
        raise ConfigurationError(
            f"{describe_kafka_place(kafka)} topic={topic}: no such topic; {alternatives}"
        ) from fault
    begin = log.begin.get(topic, {})
    end = log.end.get(topic, {})
    if all(end[partition] <= begin.get(partition, 0) for partition in end):
        raise GiveUp(
            f"topic={topic} is empty, so there is nothing to learn its format from; produce some records and run init "
            "again, or write the file by hand (docs/pipeline-file.md)"
        )
    report(f"topic={topic}: {format_count(len(end), 'partition')}, reading the newest and the oldest records")
    records, stopped_by = sample_records(broker.settings, topic, (begin, end), limits, report)
    if not records:
        raise GiveUp(
            f"topic={topic}: offsets are there and no record was found: transactions that were aborted, or a log that "
            "was compacted; produce some records and run init again"
        )
    report(f"topic={topic}: {format_count(len(records), 'record')} read")
    compacted = topic in broker.filter_compacted((topic,))
    return TopicSample(topic, records, dict(begin), dict(end), is_compacted=compacted, stopped_by=stopped_by)


def _open_broker(kafka: Kafka, resolve: Resolve) -> KafkaBroker:
    place = describe_kafka_place(kafka) if isinstance(kafka, str) else ""
    return KafkaBroker(resolve_kafka_settings(kafka, resolve), place)


@dataclass(frozen=True)
class RegistryLookup:
    """Looks up registered schemas. `place` is a connection id or an address, None if none is known."""

    place: str | None
    resolve: Resolve

    def __call__(self, sample: TopicSample, part: str, recognised: Recognition) -> Registered:
        look = recognised.look
        place = f"topic={sample.topic}: its {part}s stand {recognised.look.kind}"
        if self.place is None:
            raise ConfigurationError(
                f"{place} (id={look.schema_id}); name the schema registry with --registry (a connection id, or an "
                "http(s) address without a secret)"
            )
        settings = resolve_registry_settings(self.place, self.resolve)
        wire = {} if look.wire == "confluent" else {"wire_format": look.wire}
        base = {"registry": self.place, **wire}
        if is_apicurio(settings["url"]):
            return self._describe(sample, part, base, "AVRO", ())
        registry = Registry(self.place, settings)
        ids = {look.schema_id for look in recognised.looks if isinstance(look.schema_id, int) and not wire}
        subject = f"{sample.topic}-{part}"
        try:
            versions = registry.read_versions(subject)
        except GiveUp:
            if not ids:
                raise
            return self._describe_by_id(registry, sample, part, base, sorted(ids))
        foreign_ids = sorted(ids - {version.id for version in versions})
        checks = list[str]()
        if foreign_ids:
            numbers = ", ".join(map(str, foreign_ids))
            checks.append(f"schema id={numbers} is no version of subject={subject}: bad records")
        messages = _list_messages(recognised, part) if versions[-1].kind == "PROTOBUF" else set[tuple[int, ...]]()
        if len(messages) > 1:
            checks.append(
                f"{len(messages)} kinds of messages of one schema; each but the first is bad, or needs its own table"
            )
        first = min(messages, default=(0,))
        name = name_message(versions[-1], first) if first != (0,) else None
        options = {**base, "message": name} if name else base
        return self._describe(sample, part, options, versions[-1].kind, checks)

    def _describe_by_id(
        self, registry: Registry, sample: TopicSample, part: str, base: Mapping[str, object], ids: Sequence[int]
    ) -> Registered:
        # the subject is not the topic's
        schema_texts = [registry.read_text(number) for number in ids]
        schemas = [parse_schema(text) for kind, text in schema_texts if kind == "AVRO"]
        names = sorted({get_full_name(schema) for schema in schemas if is_record(schema)})
        for strategy, prefix in (("RecordNameStrategy", ""), ("TopicRecordNameStrategy", f"{sample.topic}-")):
            if names and all(_has_subject(registry, prefix + name) for name in names):
                options = {**base, "subject_name_strategy": strategy, "records": names}
                remarks = [f"subjects are record types: {', '.join(names)}; a record of another type is bad"]
                return self._describe(sample, part, options, "AVRO", remarks)
        raise GiveUp(
            f"topic={sample.topic}: the registry has no subject={sample.topic}-{part}, and none that is called like "
            f"the {part}'s record type; write the file by hand with {part}'s subject (docs/formats.md)"
        )

    def _describe(
        self, sample: TopicSample, part: str, options: Mapping[str, object], kind: str, checks: Sequence[str]
    ) -> Registered:
        bare = self._read_bare_key(sample, options, kind) if part == "key" else None
        if bare is not None:
            return Registered(_find_format(kind, is_event=False), {kind.lower(): dict(options)}, (bare,), tuple(checks))
        format_options = (
            {**options} if part == "value" or "records" in options else {**options, "subject": f"{sample.topic}-key"}
        )
        for record_format in (_find_format(kind, is_event=is_event) for is_event in (part == "value", False)):
            table = Table(
                name=sample.topic,
                topics=(sample.topic,),
                key=KeyFormat(),
                value=ValueFormat(record_format.name, options=format_options),
                upsert=False,
                delete=False,
            )
            try:
                columns = RegistrySchemas(self.resolve).describe_table(table).value.columns or ()
            except ConfigurationError:
                if not record_format.is_change_event:
                    raise
                continue
            columns_proposal = tuple(ProposedColumn(column.name, column.type) for column in columns)
            return Registered(
                record_format, {record_format.options or kind.lower(): dict(options)}, columns_proposal, tuple(checks)
            )
        raise AssertionError("the plain format is tried last")

    def _read_bare_key(self, sample: TopicSample, options: Mapping[str, object], kind: str) -> ProposedColumn | None:
        if kind != "AVRO" or "records" in options or is_apicurio(str(options["registry"])):
            return None
        registry = Registry(str(self.place), resolve_registry_settings(str(self.place), self.resolve))
        schema = parse_schema(registry.read_versions(f"{sample.topic}-key")[-1].text)
        return None if is_record(schema) else ProposedColumn("key", to_spark_type(schema, {}))


def _has_subject(registry: Registry, subject: str) -> bool:
    with suppress(GiveUp):
        return bool(registry.read_versions(subject))
    return False


def _find_format(kind: str, *, is_event: bool) -> RecordFormat:
    if kind == "JSON":
        return FORMATS["json"]
    if kind.lower() not in list(SchemaKind):
        raise GiveUp(f"the registry has a schema of type={kind}, which no format reads; write the file by hand")
    formats = [entry for entry in FORMATS.values() if entry.schema is SchemaKind(kind.lower())]
    return next((entry for entry in formats if entry.is_change_event == is_event), formats[0])


def _list_messages(recognised: Recognition, part: str) -> set[tuple[int, ...]]:
    parts = [record.value if part == "value" else record.key for record in recognised.records]
    messages = {_read_indexes(data[HEADER_ID:]) for data in parts if data is not None}
    return messages - {()}  # of a record that ends before it says which


def _read_indexes(data: bytes) -> tuple[int, ...]:
    # a number of indexes and the indexes, as zigzag varints
    numbers = list[int]()
    at = 0
    while at < len(data) and (not numbers or len(numbers) <= numbers[0]):
        shift = value = 0
        while at < len(data):
            value |= (data[at] & 0x7F) << shift
            shift = shift + 7
            at = at + 1
            if data[at - 1] < 0x80:
                break
        numbers.append((value >> 1) ^ -(value & 1))
        if numbers[0] <= 0:
            return (0,)
    return tuple(numbers[1:])
