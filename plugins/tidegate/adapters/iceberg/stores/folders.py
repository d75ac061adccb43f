"""What lies below an Iceberg table's location, known to a snapshot or not, and how folders go that are empty."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pyarrow.fs import FileSelector, FileSystem
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.table import Table


def list_files_below(table: Table, location: str) -> list[str]:
    """The files below a location, checksums too; none of a store that Arrow does not read."""
    if not isinstance(table.io, PyArrowFileIO):
        return []
    files, path = _open(table, location)
    listing = files.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
    prefix = location.removesuffix(path)
    return [prefix + info.path for info in listing if info.is_file]


def drop_empty_folders(table: Table, locations: Iterable[str]) -> None:
    """Delete folders in which no file is left, those below others first, as nobody lists or reads them again.

    In an object store there are none, but Arrow puts an empty object in a folder's place when it deletes a file there.
    """
    if not isinstance(table.io, PyArrowFileIO):
        return
    for location in sorted(locations, key=len, reverse=True):
        files, path = _open(table, location)
        if _is_on_disk(location):
            with suppress(OSError):  # one in which somebody has just written a file stays, however late that is
                Path(path).rmdir()
            continue
        listing = files.get_file_info(FileSelector(path, recursive=True, allow_not_found=True))
        if not any(info.is_file for info in listing):
            with suppress(FileNotFoundError):
                files.delete_dir(path)


def list_folders(location: str) -> list[str]:
    """A folder and all below it on disk; of a store the one alone, as it deletes what is below with it."""
    if not _is_on_disk(location):
        return [location]
    top = location.removeprefix("file://").removeprefix("file:")
    return [top, *(str(path) for path in Path(top).rglob("*") if path.is_dir())]


def _is_on_disk(location: str) -> bool:
    return location.startswith("file:") or ":" not in location


def _open(table: Table, location: str) -> tuple[FileSystem, str]:
    assert isinstance(table.io, PyArrowFileIO)
    scheme, netloc, path = PyArrowFileIO.parse_location(location)
    return table.io.fs_by_scheme(scheme, netloc), path
