"""Which version of Iceberg's table format can be written: newer ones are refused in words."""

from tidegate.errors import GiveUp

NEWEST_SUPPORTED_VERSION = 2
UNSUPPORTED_REASON = (
    "deletion vectors, row ids and default values are not supported yet, and PyIceberg cannot commit to such a table; "
    "use a table of format 2"
)


def refuse_newer_format(table: str, version: int) -> None:
    """GiveUp for an existing table whose format is newer than what is supported."""
    if version > NEWEST_SUPPORTED_VERSION:
        raise GiveUp(f"table={table} format-version={version}: {UNSUPPORTED_REASON}")
