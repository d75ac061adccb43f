"""What of Iceberg's formats PyIceberg cannot read or write; refuses it in a sentence."""

import pydantic

from tidegate.adapters.port_errors import format_one_line
from tidegate.errors import GiveUp

ROW_ID_VERSION = 3  # the first format with row ids, and with one vector of deletes for a data file

# Iceberg's own columns in Spark. A table with one of the first names cannot be merged into; of one with any of them
# Spark reads no whole row, and so rewrites no file. A merge into a table with row ids reads the last one too.
MERGE_COLUMNS = ("_file", "_partition", "_pos", "_row_id", "_spec_id")
UPDATED_COLUMN = "_last_updated_sequence_number"
READ_COLUMNS = ("_deleted", UPDATED_COLUMN)
PATH_ENDS = ("#", "?")  # what PyIceberg reads as the end of a location's path, as in an address of the web
DAMAGED = ("json_invalid", "missing")  # of an answer that is no table's metadata: it may be another one next time


def list_reserved_columns(version: int, *, rewrites_files: bool) -> tuple[str, ...]:
    """Names that no column of a table of that format may have, if rows are merged into it."""
    if rewrites_files:
        return (*MERGE_COLUMNS, *READ_COLUMNS)
    return (*MERGE_COLUMNS, UPDATED_COLUMN) if version >= ROW_ID_VERSION else MERGE_COLUMNS


class UnknownMetadata(Exception):
    """PyIceberg does not know a part of a table's metadata: no pipeline can write the table."""


def refuse_removal_of_rows(table: str, version: int, kind: str) -> None:
    """`GiveUp` for a table of ours that somebody has upgraded: only Spark could still take rows out of it."""
    if version >= ROW_ID_VERSION:
        raise GiveUp(
            f"table={table} format-version={version} kind={kind}: somebody has changed its format, and PyIceberg "
            "removes no rows from it any more, so what it remembers stays for ever; copy it into a table of format 2: "
            "see docs/operations.md#a-table-of-format-3"
        )


def refuse_cut_path(table: str, location: str) -> None:
    """`GiveUp` for a path that PyIceberg would cut short: it would read, write and delete at another one."""
    if any(character in location for character in PATH_ENDS):
        raise GiveUp(
            f"table={table}: its files lie at location={location}, and PyIceberg takes # and ? for the end of a path; "
            "nothing was changed; use a table whose name and location have neither"
        )


def find_unknown_metadata(error: Exception) -> UnknownMetadata | None:
    """Why PyIceberg does not know a table's type or format; None for other errors."""
    cause = error.args[0] if error.args and isinstance(error.args[0], pydantic.ValidationError) else error
    if not isinstance(cause, pydantic.ValidationError):
        return UnknownMetadata(format_one_line(error))
    first = cause.errors()[0]
    if first["type"] in DAMAGED:
        return None
    return UnknownMetadata(f"{'.'.join(map(str, first['loc']))}: {first['msg'].removeprefix('Value error, ')}")
