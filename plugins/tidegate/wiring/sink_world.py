"""The systems around another system's sink, as far as an import can reach them: brokers and the catalog."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

import yaml

from tidegate.adapters.kafka_connect.control_topic import SinkBroker
from tidegate.config.catalogs_file import read_catalogs
from tidegate.config.destinations.registry import get_destination
from tidegate.config.pipeline_file import PIPELINE_NAME_PATTERN, check_tables_of_others, load_pipeline
from tidegate.connections import Resolve
from tidegate.errors import ConfigurationError, PositionLost
from tidegate.model.kafka_log import Log
from tidegate.settings import format_path
from tidegate.sinks.world import AnnouncedFiles, CommitNote, ControlTopic, GroupState, SinkNotes, TableShape
from tidegate.spec.pipeline import Catalog
from tidegate.wiring.trial_folder import CATALOGS, open_trial, write_in_one_step


def is_declared(include: Path, catalog: str) -> bool:
    """Whether catalogs.yaml has an entry of that name, right or wrong."""
    return (include / CATALOGS).exists() and catalog in read_catalogs(include)


def check_files(include: Path, name: str, pipeline: str, entry: str) -> tuple[list[str], list[str]]:
    """Return problems and warnings of the pipeline's text, beside the other files and the new `entry`.

    `ConfigurationError` for a name that no pipeline can have.
    """
    if not PIPELINE_NAME_PATTERN.fullmatch(name):
        raise ConfigurationError(
            f"name={name}: no name of a pipeline; choose one with --name: [a-z][a-z0-9_-]*, at most 60 letters"
        )
    with open_trial(include, name, pipeline, entry) as trial:
        try:
            loaded_pipeline = load_pipeline(trial / "pipelines" / f"{name}.yaml")
            check_tables_of_others(trial, name)
        except ConfigurationError as fault:
            return [problem.replace(f"{trial}/", "") for problem in fault.problems], []
        return [], list(loaded_pipeline.warnings)


def write_files(include: Path, name: str, pipeline: str, entry: str, *, overwrite: bool) -> list[str]:
    """Write the pipeline file, and add `entry` to catalogs.yaml unless it is empty; return the paths.

    `ConfigurationError` if the file exists, unless it may be overwritten, and if catalogs.yaml takes no entry at its
    end.
    """
    path = include / "pipelines" / f"{name}.yaml"
    catalogs = include / CATALOGS
    if path.exists() and not overwrite:
        raise ConfigurationError(
            f"file={format_path(path)}: it is there already, and nothing was written; choose another name with "
            "--name, or "
            "replace it with --overwrite"
        )
    written_files = [path]
    if entry:
        before = catalogs.read_text(encoding="utf-8") if catalogs.exists() else ""
        text = f"{before.rstrip()}\n\n{entry}" if before.strip() else entry
        try:
            yaml.compose(text)
        except yaml.YAMLError:
            raise ConfigurationError(
                f"file={format_path(catalogs)}: no catalog can be added at its end, as it stands in braces or is no "
                f"YAML; nothing was written; add this by hand, or write each catalog on lines of its own:\n{entry}"
            ) from None
        write_in_one_step(catalogs, text)
        written_files.insert(0, catalogs)
    write_in_one_step(path, pipeline)
    return [format_path(file) for file in written_files]


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
