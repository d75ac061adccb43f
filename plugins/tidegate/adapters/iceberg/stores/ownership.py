"""The mark on the product's own Iceberg tables, looked at before they are written."""

from collections.abc import Collection

from pyiceberg.table import Table

from tidegate.adapters.iceberg.table.format_version import NEWEST_SUPPORTED_VERSION
from tidegate.errors import GiveUp
from tidegate.model.ownership import KIND_PROPERTY, STAGING_KINDS, Ownership, TableKind, check_kind, check_mark
from tidegate.sql.spark import quote_name

COMMITTED_KINDS = (*STAGING_KINDS, TableKind.BATCHES)  # tables that PyIceberg must commit to in each flush


def claim(table: Table, name: str, owner: Ownership) -> dict[str, str]:
    """The properties of a table that is ours; `GiveUp` for a table of somebody else, or of another format.

    So it is for one that somebody has made one of a newer Iceberg, if not only Spark writes it.
    """
    properties = table.metadata.properties
    check_mark(name, owner, owner.properties, properties)
    if owner.kind in COMMITTED_KINDS and table.metadata.format_version > NEWEST_SUPPORTED_VERSION:
        raise GiveUp(
            f"table={name} format-version={table.metadata.format_version} kind={owner.kind}: somebody has changed its "
            "format, and PyIceberg cannot commit to it any more; drop it when no batch waits, and it is made anew: "
            f"DROP TABLE {quote_name(name)} PURGE"
        )
    return dict(properties)


def check_removable(table: Table, kinds: Collection[str]) -> None:
    """`GiveUp` before anything is removed from a table that is not ours."""
    check_kind(".".join(table.name()), table.metadata.properties.get(KIND_PROPERTY), kinds)
