"""The systems around another system's sink, as far as an import can reach them: brokers and the catalog."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from tidegate.adapters.kafka_connect.control_topic import SinkBroker
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.destinations.registry import get_destination
from tidegate.connections import Resolve
from tidegate.errors import PositionLost
from tidegate.model.kafka_log import Log
from tidegate.sinks.world import AnnouncedFiles, CommitNote, ControlTopic, GroupState, SinkNotes, TableShape
from tidegate.spec.pipeline import Catalog
from tidegate.wiring.proposed_files import CATALOGS

ISOLATION = "read_committed"


class SinkWorld:
    """Implements `World`. `kafka` are librdkafka's settings, None if the brokers are unknown."""

    def __init__(self, include: Path, resolve: Resolve, kafka: Mapping[str, str] | None) -> None:
        self._include = include
        self._resolve = resolve
        self._kafka = kafka

    def list_topics(self, pattern: str) -> tuple[str, ...] | None:
        return self._broker.list_topics(pattern) if self._broker else None

    def read_log(self, topics: tuple[str, ...], isolation: str) -> Log | None:
        return self._broker.read_log(topics, isolation) if self._broker else None

    def read_group(self, group: str, topics: tuple[str, ...]) -> GroupState | None:
        # A topic that does not exist has no offsets
        if self._broker is None:
            return None
        offsets = {}
        with suppress(PositionLost):
            offsets = self._broker.read_committed(group, topics)
        return GroupState(self._broker.count_members(group), offsets)

    def read_announcements(self, topic: str, start: dict[int, int]) -> Iterable[AnnouncedFiles]:
        if self._broker is None:
            return []
        try:
            log = self._broker.read_log((topic,), ISOLATION)
        except PositionLost:  # the sink has never announced anything there
            return []
        begin = log.begin.get(topic, {})
        places = {partition: max(start.get(partition, 0), offset) for partition, offset in begin.items()}
        return self._broker.read_announcements(topic, places, log.end.get(topic, {}))

    def describe_table(self, name: str) -> TableShape | None:
        notes = self._open_notes(name)
        return notes.describe(name) if notes else None

    def read_commit_note(self, table: str, control: ControlTopic, branch: str) -> CommitNote | None:
        notes = self._open_notes(table)
        return notes.read_note(table, control, branch) if notes else None

    def list_noted_tables(self, catalog: str, control: ControlTopic) -> tuple[str, ...] | None:
        notes = self._open_notes(catalog)
        return notes.list_noted(catalog, control) if notes else None

    @cached_property
    def _broker(self) -> SinkBroker | None:
        return SinkBroker(self._kafka) if self._kafka else None

    @cached_property
    def _catalogs(self) -> Mapping[str, Catalog | str]:
        return read_catalogs(self._include) if (self._include / CATALOGS).exists() else {}

    def _open_notes(self, table: str) -> SinkNotes | None:
        catalog = self._catalogs.get(table.partition(".")[0])
        destination = get_destination(catalog)
        if not isinstance(catalog, Catalog) or destination.open_sink_notes is None:
            return None
        return destination.open_sink_notes(catalog, self._resolve)
