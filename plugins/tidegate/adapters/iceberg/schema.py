"""The schema of an Iceberg table: whether it can be written, how it takes in columns, and the limits of their values.

A value that names a partition names a folder of the table's files, as ``column=value``. A file system takes 255 bytes
for a name: each try to write a longer one ends with the library's own words. In a store the whole key has a limit.
"""

import re
from collections.abc import Iterable
from urllib.parse import quote_plus, urlsplit

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform, TruncateTransform

from tidegate.adapters.iceberg.pyiceberg_private import check_schema_update
from tidegate.adapters.iceberg.types import is_known_to_spark, list_field_ids, read_table_struct, to_iceberg_type
from tidegate.adapters.port_errors import format_one_line
from tidegate.errors import CommitRefused, GiveUp, IncompatibleSchema
from tidegate.model.table_state import FolderLimit
from tidegate.schema.data_types import Column
from tidegate.schema.evolution import ChangeKind, EvolutionRules, find_schema_changes
from tidegate.sql.spark import unquote

FOLDER_SCHEMES = ("", "file", "hdfs", "viewfs")
MAX_NAME_BYTES = 255
MAX_KEY_BYTES = 1024
FILE_NAME_BYTES = 130  # what stands behind the folder in a key: a file's name, its hash in an object store's layout
DATA_PATH_PROPERTY = "write.data.path"
LAYOUT_PROPERTY = "write.object-storage.partitioned-paths"  # false: no folder is named by a partition
WIDEST_CHARACTER = 12  # bytes of one character, percent-encoded
TRUNCATE_PATTERN = re.compile(r"truncate\(\s*(\d+)\s*,(.+)\)", re.IGNORECASE)
NAME_PATTERN = re.compile(r"`(?:[^`]|``)+`|[^\s`(),]+")


def refuse_unreadable(name: str, table: Table) -> None:
    """`GiveUp` for a table that Spark does not open.

    It has no type for some columns, and refuses two names that differ in case alone.
    """
    schema = table.schema()
    columns_by_name = dict[str, str]()
    for column in schema.column_names:
        other_column = columns_by_name.setdefault(column.casefold(), column)
        if other_column != column:
            raise GiveUp(
                f"table={name} columns={other_column}, {column}: Spark compares names without case, and opens no "
                "table with both; nothing was written; rename or drop one of the two, or use another table"
            )
        column_type = schema.find_type(column)
        if not is_known_to_spark(column_type):
            raise GiveUp(
                f"table={name} column={column} type={column_type}: Spark opens no table with a column of this type; "
                "nothing was written; drop the column, or use another table"
            )


def evolve_schema(table: Table, name: str, columns: tuple[Column, ...], rules: EvolutionRules) -> list[str]:
    """Add missing columns, widen types, relax required ones; returns a sentence for each change.

    `IncompatibleSchema` names the column, both types and the way out; then nothing is changed. A name that a partition
    has, or had, cannot become another column's.
    """
    changes = find_schema_changes(name, read_table_struct(table), columns, rules)
    if not changes:
        return []
    update = table.update_schema(case_sensitive=False)
    try:
        for change in changes:
            if change.kind is ChangeKind.ADD:
                update.add_column(change.path, to_iceberg_type(change.type))
            elif change.kind is ChangeKind.WIDEN:
                widened = to_iceberg_type(change.type)
                assert widened.is_primitive
                update.update_column(change.path, widened)
            else:
                update.make_column_optional(change.path)
        # as the commit does before it sends them
        check_schema_update(update)
    except ValueError as error:
        raise IncompatibleSchema(
            f"table={name}: Iceberg refuses its changes ({', '.join(map(str, changes))}): {format_one_line(error)}; "
            "nothing was written; give the column another name in the pipeline file, or write to another table"
        ) from error
    try:
        update.commit()
    except (CommitFailedException, NoSuchTableError) as error:
        raise CommitRefused(f"table={name}: another writer changed it: {error}") from error
    return [str(change) for change in changes]


def list_limits(table: Table) -> tuple[FolderLimit, ...]:
    """By the partition spec of new files."""
    if table.properties.get(LAYOUT_PROPERTY) == "false":
        return ()
    location = table.properties.get(DATA_PATH_PROPERTY) or f"{table.location()}/data"
    paths = {field_id: path for path, field_id in list_field_ids(table.schema().fields).items()}
    partitions: list[tuple[str, tuple[str, ...], int | None]] = []
    for field in table.spec().fields:
        is_named_by_value = isinstance(field.transform, IdentityTransform | TruncateTransform)
        if is_named_by_value and field.source_id in paths:
            width = field.transform.width if isinstance(field.transform, TruncateTransform) else None
            partitions.append((field.name, paths[field.source_id], width))
    return tuple(_compute_limits(location, partitions))


def list_limits_of_new(location: str, partition_by: Iterable[str]) -> tuple[FolderLimit, ...]:
    """For a table to be made there, with `partition_by` of the pipeline file."""
    partitions: list[tuple[str, tuple[str, ...], int | None]] = []
    for text in map(str.strip, partition_by):
        truncation = TRUNCATE_PATTERN.fullmatch(text)
        if truncation is not None:
            column = unquote(truncation[2].strip())
            partitions.append((f"{column}_trunc", (column,), int(truncation[1])))
        elif NAME_PATTERN.fullmatch(text):
            partitions.append((unquote(text), (unquote(text),), None))
    return tuple(_compute_limits(f"{location}/data", partitions))


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
