"""Which version of Iceberg's table format can be written, and which columns not: what cannot is refused in words."""

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


def refuse_newer_format(table: str, version: int) -> None:
    """GiveUp for an existing table whose format is newer than what is supported."""
    if version > NEWEST_SUPPORTED_VERSION:
        raise GiveUp(f"table={table} format-version={version}: {UNSUPPORTED_REASON}")
