"""The versions of Iceberg's table format that can be written; refuses the others in a sentence."""

import pydantic

from tidegate.adapters.port_errors import format_one_line
from tidegate.errors import GiveUp

NEWEST_SUPPORTED_VERSION = 2
UNSUPPORTED_REASON = (
    "deletion vectors, row ids and default values are not supported yet, and PyIceberg cannot commit to such a table; "
    "use a table of format 2"
)

# Iceberg's own columns in Spark. A table with one of the first names cannot be merged into; of one with any of them
# Spark reads no whole row, and so rewrites no file.
MERGE_COLUMNS = ("_file", "_partition", "_pos", "_row_id", "_spec_id")
READ_COLUMNS = ("_deleted", "_last_updated_sequence_number")
PATH_ENDS = ("#", "?")  # what PyIceberg reads as the end of a location's path, as in an address of the web
DAMAGED = ("json_invalid", "missing")  # of an answer that is no table's metadata: it may be another one next time


class UnknownMetadata(Exception):
    """PyIceberg does not know a part of a table's metadata: no pipeline can write the table."""


def refuse_newer_format(table: str, version: int) -> None:
    """`GiveUp` for a newer format than what is supported."""
    if version > NEWEST_SUPPORTED_VERSION:
        raise GiveUp(
            f"table={table} format-version={version}: {UNSUPPORTED_REASON}; one that was of format 2 before is copied, "
            "and the pipeline goes on in the copy: see docs/operations.md#a-table-of-format-3"
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
