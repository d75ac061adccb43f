"""How long the values of a table's partitions may be: each names a folder of its files, as ``column=value``.

A file system's folder has a name of 255 bytes at most; longer ones end a write with the library's own words, in each
try. In a store the whole key has a limit.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote_plus, urlsplit

from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, TruncateTransform

from tidegate.model.table_state import FolderLimit
from tidegate.sql.spark import unquote

FOLDER_SCHEMES = ("", "file", "hdfs", "viewfs")
MAX_NAME_BYTES, MAX_KEY_BYTES = 255, 1024
FILE_NAME_BYTES = 130  # what stands behind the folder in a key: a file's name, its hash in an object store's layout
DATA_PATH_PROPERTY = "write.data.path"
LAYOUT_PROPERTY = "write.object-storage.partitioned-paths"  # false: no folder is named by a partition
WIDEST_CHARACTER = 12  # bytes of one character, percent-encoded
TRUNCATE_PATTERN = re.compile(r"truncate\(\s*(\d+)\s*,(.+)\)", re.IGNORECASE)
NAME_PATTERN = re.compile(r"`(?:[^`]|``)+`|[^\s`(),]+")


def list_limits(table: Table) -> tuple[FolderLimit, ...]:
    """Those of the spec that new files are written by."""
    if table.properties.get(LAYOUT_PROPERTY) == "false":
        return ()
    location = table.properties.get(DATA_PATH_PROPERTY) or f"{table.location()}/data"
    known_ids = table.schema()._lazy_id_to_field
    partitions: list[tuple[str, tuple[str, ...], int | None]] = []
    for field in table.spec().fields:
        is_named_by_value = isinstance(field.transform, IdentityTransform | TruncateTransform)
        if is_named_by_value and field.source_id in known_ids:
            width = field.transform.width if isinstance(field.transform, TruncateTransform) else None
            partitions.append((field.name, _find_path(table, field.source_id), width))
    return tuple(_compute_limits(location, partitions))


def list_limits_of_new(location: str, partition_by: Iterable[str]) -> tuple[FolderLimit, ...]:
    """Those of a table that is made there, with partitions as a pipeline file has them."""
    partitions: list[tuple[str, tuple[str, ...], int | None]] = []
    for text in map(str.strip, partition_by):
        truncation = TRUNCATE_PATTERN.fullmatch(text)
        if truncation is not None:
            column = unquote(truncation[2].strip())
            partitions.append((f"{column}_trunc", (column,), int(truncation[1])))
        elif NAME_PATTERN.fullmatch(text):
            partitions.append((unquote(text), (unquote(text),), None))
    return tuple(_compute_limits(f"{location}/data", partitions))


def _find_path(table: Table, field_id: int) -> tuple[str, ...]:
    """The names of a field and of the structs that it lies in; a name may have dots in it."""
    parents = table.schema()._lazy_id_to_parent
    path = [field_id]
    while (parent := parents.get(path[0])) is not None:
        path.insert(0, parent)
    return tuple(table.schema().find_field(number).name for number in path)


def _compute_limits(
    location: str, partitions: Iterable[tuple[str, tuple[str, ...], int | None]]
) -> Iterable[FolderLimit]:
    parts = urlsplit(location)
    for name, column, width in partitions:
        used_bytes = len(quote_plus(name)) + len("=")
        if parts.scheme in FOLDER_SCHEMES:
            max_bytes = MAX_NAME_BYTES - used_bytes
        else:
            max_bytes = MAX_KEY_BYTES - FILE_NAME_BYTES - len(parts.path.encode()) - used_bytes
        if width is None or width * WIDEST_CHARACTER > max_bytes:
            yield FolderLimit(column, width, max_bytes)
