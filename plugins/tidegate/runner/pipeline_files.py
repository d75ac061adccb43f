"""All pipeline files of an include folder, read together: what is wrong may be that two of them need one table."""

import os
import threading
from pathlib import Path

from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Pipeline
from tidegate.wiring.pipeline import find_pipeline_file


class PipelineFiles:
    """They are read again when one of them has changed, and not for each pipeline that asks."""

    def __init__(self, include: Path) -> None:
        self._include, self._lock = include, threading.Lock()
        self._signature: object = None
        self._loaded: dict[str, Pipeline | ConfigurationError] = {}

    def load(self, name: str) -> Pipeline:
        """One pipeline; ConfigurationError where its file is wrong, or needs a table that another pipeline has."""
        with self._lock:
            signature = self._sign()
            if signature != self._signature:
                self._loaded, self._signature = dict(load_all_pipelines(self._include)), signature
            loaded = self._loaded.get(name)
        if isinstance(loaded, ConfigurationError):
            raise ConfigurationError(*loaded.problems)  # a kept one keeps the frames of each time that it is raised
        if loaded is None:
            find_pipeline_file(self._include, name)
            raise ConfigurationError(f"pipeline={name}: its file appeared just now; it is read again")
        return loaded

    def _sign(self) -> object:
        files = (*self._include.glob("*.yaml"), *(self._include / "pipelines").glob("*.y*ml"))
        return [(file.name, stat.st_mtime_ns, stat.st_size) for file in sorted(files) if (stat := _stat(file))]


def _stat(file: Path) -> os.stat_result | None:
    try:
        return file.stat()
    except FileNotFoundError:
        return None
