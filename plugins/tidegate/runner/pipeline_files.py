"""All pipeline or publication files of an include folder, read together: two may need one table, or one topic."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.config.publication_file import load_publications
from tidegate.errors import ConfigurationError
from tidegate.settings import FileStamp, read_file_stamp
from tidegate.spec.pipeline import Pipeline
from tidegate.spec.publication import Publication
from tidegate.wiring.pipeline import find_file

LOOK_SECONDS = 1.0  # seconds for which the files of others are believed: hundreds ask for theirs one after the other
Described = TypeVar("Described")


class FilesReadTogether(Generic[Described]):
    """Files that are read again when one of them has changed."""

    kind: str
    load_all: Callable[[Path], list[tuple[str, Described | ConfigurationError]]]

    def __init__(self, include: Path) -> None:
        self._include = include
        self._lock = threading.Lock()
        self._looked_at = float("-inf")
        self._stamps: dict[Path, FileStamp] | None = None
        self._loaded: dict[str, Described | ConfigurationError] = {}

    def load(self, name: str) -> Described:
        """Return the one of that name; `ConfigurationError` if its file is wrong, or needs what another one has."""
        with self._lock:
            self._reread(name)
            load_result = self._loaded.get(name)
        if isinstance(load_result, ConfigurationError):
            # a kept one keeps the frames of each time that it is raised
            raise ConfigurationError(*load_result.problems)
        if load_result is None:
            find_file(self._include, self.kind, name)
            raise ConfigurationError(f"{self.kind}={name}: its file appeared just now; it is read again")
        return load_result

    def _reread(self, name: str) -> None:
        # if the file of that name or a shared one has changed; or, checked once a second, any other
        now = time.monotonic()
        known = self._stamps
        own_folder = self._include / f"{self.kind}s"
        shared_files = [*self._include.glob("*.yaml")]
        is_young = now - self._looked_at < LOOK_SECONDS
        looked_at = [own_folder / f"{name}.yaml", *shared_files]
        if known is not None and is_young and all(read_file_stamp(file) == known.get(file) for file in looked_at):
            return
        files = [*shared_files, *own_folder.glob("*.y*ml"), *(self._include / "pipelines").glob("publish_*.yaml")]
        stamps = {file: read_file_stamp(file) for file in files}
        self._looked_at = now
        if stamps != known:
            self._loaded = dict(self.load_all(self._include))
            self._stamps = stamps


class PipelineFiles(FilesReadTogether[Pipeline]):
    """The pipelines of an include folder."""

    kind = "pipeline"
    load_all = staticmethod(load_all_pipelines)


class PublicationFiles(FilesReadTogether[Publication]):
    """The publications of an include folder."""

    kind = "publication"
    load_all = staticmethod(load_publications)
