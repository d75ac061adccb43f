"""What a person can change so that work which failed may succeed: the files of a pipeline, and its tables."""

import hashlib
from collections.abc import Collection, Iterator
from pathlib import Path

from tidegate.model.table_state import TableState
from tidegate.ports.context import Ports
from tidegate.settings import walk_files

FOLDERS_OF_OTHER_FILES = (
    "pipelines",
    "publications",
)  # of include/: what lies there belongs to one pipeline or publication each


def digest_work_inputs(ports: Ports, include: Path, tables: Collection[str] = ()) -> str:
    """A digest of the include folder, without other pipelines' files, and of how these tables stand, or else all.

    It changes with a file, with a table's schema, rows, position or the properties that are the pipeline's. Metadata is
    read once for each table, and no row. Raises what `TableStore.read_state` raises.
    """
    pipeline = ports.pipeline
    digest = hashlib.sha256()
    for file in sorted(_find_files(include, pipeline.name)):
        digest.update(f"{file.relative_to(include)}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    for table in sorted(tables) or [table.name for table in pipeline.tables]:
        digest.update(repr(_describe_state(ports.tables.read_state(table, pipeline.name))).encode())
    return digest.hexdigest()[:32]


def _find_files(include: Path, pipeline: str) -> Iterator[Path]:
    """Hidden files are an editor's, git's, or a file system's: Kubernetes gives their folder another name each time."""
    for file in walk_files(include):
        parts = file.relative_to(include).parts
        is_own = parts[0] not in FOLDERS_OF_OTHER_FILES or (parts[0] == "pipelines" and file.stem == pipeline)
        if is_own and not any(part.startswith(".") for part in parts):
            yield file


def _describe_state(state: TableState | None) -> object:
    if state is None:
        return None
    return state.uuid, state.snapshot_id, state.columns, state.struct, state.position, sorted(state.marks.items())
