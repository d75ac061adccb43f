"""The mark on the product's own Iceberg tables: looked at before they are written, and set on those of version 0.1."""

import logging
from collections.abc import Collection
from contextlib import suppress

from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from tidegate.adapters.iceberg.table.commit import commit
from tidegate.adapters.iceberg.table.format_version import NEWEST_SUPPORTED_VERSION
from tidegate.adapters.iceberg.table.state import read_summary
from tidegate.errors import CommitRefused, GiveUp
from tidegate.model.ownership import (
    KIND_PROPERTY,
    PIPELINE,
    SHAPE_PROPERTY,
    STAGING_KINDS,
    Mark,
    Ownership,
    TableKind,
    check_kind,
    check_recognised,
    compare_mark,
    refuse_other_mark,
)
from tidegate.sql.spark import quote_name

COMMITTED_KINDS = (*STAGING_KINDS, TableKind.BATCHES)  # tables that PyIceberg must commit to in each flush
log = logging.getLogger(__name__)


def claim(table: Table, name: str, owner: Ownership) -> dict[str, str]:
    """The properties of a table that is ours; one of version 0.1 is marked. `GiveUp` for a table of somebody else.

    So it is for one that somebody has made one of a newer format, if not only Spark writes it.
    """
    properties = table.metadata.properties
    refuse_other_mark(name, owner, owner.properties, properties)
    if owner.kind in COMMITTED_KINDS and table.metadata.format_version > NEWEST_SUPPORTED_VERSION:
        raise GiveUp(
            f"table={name} format-version={table.metadata.format_version} kind={owner.kind}: somebody has changed its "
            "format, and PyIceberg cannot commit to it any more; drop it when no batch waits, and it is made anew: "
            f"DROP TABLE {quote_name(name)} PURGE"
        )
    if compare_mark(owner.properties, properties) is Mark.MISSING:
        check_recognised(name, owner, table.schema().column_names, properties.get(SHAPE_PROPERTY))
        _check_staged_by(table, name, owner)
        with suppress(CommitRefused):  # others write it too; the next look marks it
            commit(
                table,
                (AssertTableUUID(uuid=table.metadata.table_uuid),),
                (SetPropertiesUpdate(updates=owner.properties),),
            )
            log.info("marked a table of version 0.1: table=%s %s", name, owner.words)
    return dict(properties)


def _check_staged_by(table: Table, name: str, owner: Ownership) -> None:
    """What is staged tells the pipeline that it was staged by."""
    pipelines = {read_summary(snapshot).get(PIPELINE, owner.pipeline) for snapshot in table.metadata.snapshots}
    if owner.kind is TableKind.INTERMEDIATE and pipelines - {owner.pipeline}:
        other_pipelines = ", ".join(sorted(pipelines - {owner.pipeline}))
        raise GiveUp(
            f"table={name} is needed as {owner.words}, and pipeline={other_pipelines} stages its rows there; nothing "
            "was changed; rename one of the two pipelines"
        )


def check_removable(table: Table, kinds: Collection[str]) -> None:
    """`GiveUp` before anything is removed from a table that is not ours."""
    properties = table.metadata.properties
    check_kind(".".join(table.name()), properties.get(KIND_PROPERTY), properties.get(SHAPE_PROPERTY), kinds)
