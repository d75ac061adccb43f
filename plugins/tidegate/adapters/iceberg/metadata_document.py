"""Changes the JSON document of a table's metadata as a commit does, and keeps all else of it as it was read.

PyIceberg reads metadata of format 3 and writes none, nor the manifest lists of that format: apache/iceberg-python#1551,
with the pull requests #3551 (metadata), #3623 (upgrades) and #3624 (manifests and their lists). A catalog in a database
leaves the writing to its client. A REST server writes itself, and gets requirements and updates alone.

This module goes, with `write_documents` of `pyiceberg_private`, when a release of PyIceberg has all three, and
tests/unit/tidegate/adapters/iceberg/test_metadata_document.py passes through its own writer.
"""

import json
from collections.abc import Iterable
from functools import singledispatch
from typing import Any

from pyiceberg.table import TableProperties
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)

Document = dict[str, Any]
MAIN = "main"
LAST_ADDED = -1
PER_SNAPSHOT = ("snapshots", "snapshot-log", "statistics", "partition-statistics")
RETENTION_FIELDS = ("max_ref_age_ms", "max_snapshot_age_ms", "min_snapshots_to_keep")


def apply_updates(document: Document, updates: Iterable[TableUpdate], location: str, now_ms: int) -> Document:
    """The next document after the one read from `location`; nothing of `document` is changed.

    Trusts that the updates can be applied: PyIceberg has applied them to its own model before. It overlooks one thing,
    which is a `ValueError`: a snapshot whose sequence number another one has taken.
    """
    changed = {**document}
    head = document.get("current-snapshot-id", -1)
    if "refs" not in document and head not in (None, -1):  # of a writer that knew no branches
        changed["refs"] = {MAIN: {"snapshot-id": head, "type": "branch"}}
    for update in updates:
        _apply(update, changed, now_ms)
    changed["last-updated-ms"] = now_ms
    entry = {"metadata-file": location, "timestamp-ms": document["last-updated-ms"]}
    texts = changed.get("properties", {})
    limit = texts.get(
        TableProperties.METADATA_PREVIOUS_VERSIONS_MAX, TableProperties.METADATA_PREVIOUS_VERSIONS_MAX_DEFAULT
    )
    changed["metadata-log"] = [*document.get("metadata-log", []), entry][-max(1, int(limit)) :]
    return changed


@singledispatch
def _apply(update: Any, document: Document, now_ms: int) -> None:
    raise NotImplementedError(f"update={update.action}: no commit to a table of format 3 needs it")


@_apply.register
def _(update: UpgradeFormatVersionUpdate, document: Document, now_ms: int) -> None:
    # snapshots from before have no row ids; the next one gives them to all rows
    if update.format_version != document["format-version"]:
        document |= {"format-version": update.format_version, "next-row-id": 0}


@_apply.register
def _(update: SetPropertiesUpdate, document: Document, now_ms: int) -> None:
    document["properties"] = {**document.get("properties", {}), **update.updates}


@_apply.register
def _(update: RemovePropertiesUpdate, document: Document, now_ms: int) -> None:
    properties = document.get("properties", {})
    document["properties"] = {name: value for name, value in properties.items() if name not in update.removals}


@_apply.register
def _(update: AddSchemaUpdate, document: Document, now_ms: int) -> None:
    document["schemas"] = [*document["schemas"], json.loads(update.schema_.model_dump_json())]
    document["last-column-id"] = max(document["last-column-id"], update.schema_.highest_field_id)


@_apply.register
def _(update: SetCurrentSchemaUpdate, document: Document, now_ms: int) -> None:
    newest = document["schemas"][-1]["schema-id"]
    document["current-schema-id"] = newest if update.schema_id == LAST_ADDED else update.schema_id


@_apply.register
def _(update: AddSnapshotUpdate, document: Document, now_ms: int) -> None:
    snapshot = update.snapshot
    taken = document["last-sequence-number"]
    # as Iceberg's Java library checks it; PyIceberg does so for format 2 alone
    if snapshot.parent_snapshot_id is not None and (snapshot.sequence_number or 0) <= taken:
        raise ValueError(f"sequence number {snapshot.sequence_number} is taken: the last one is {taken}")
    document["snapshots"] = [*document.get("snapshots", []), json.loads(snapshot.model_dump_json())]
    document["last-sequence-number"] = snapshot.sequence_number
    if snapshot.added_rows is not None:
        document["next-row-id"] += snapshot.added_rows


@_apply.register
def _(update: SetSnapshotRefUpdate, document: Document, now_ms: int) -> None:
    references = document.get("refs", {})
    ages = {name.replace("_", "-"): getattr(update, name) for name in RETENTION_FIELDS}
    reference = {"snapshot-id": update.snapshot_id, "type": update.type.value}
    reference |= {name: age for name, age in ages.items() if age is not None}
    if references.get(update.ref_name) == reference:
        return
    document["refs"] = {**references, update.ref_name: reference}
    if update.ref_name == MAIN:
        document["current-snapshot-id"] = update.snapshot_id
        entry = {"snapshot-id": update.snapshot_id, "timestamp-ms": now_ms}
        document["snapshot-log"] = [*document.get("snapshot-log", []), entry]


@_apply.register
def _(update: RemoveSnapshotRefUpdate, document: Document, now_ms: int) -> None:
    references = document.get("refs", {})
    document["refs"] = {name: reference for name, reference in references.items() if name != update.ref_name}


@_apply.register
def _(update: RemoveSnapshotsUpdate, document: Document, now_ms: int) -> None:
    gone = set(update.snapshot_ids)
    for name in PER_SNAPSHOT:
        if name in document:
            document[name] = [entry for entry in document[name] if entry["snapshot-id"] not in gone]
    references = document.get("refs", {})
    document["refs"] = {name: ref for name, ref in references.items() if ref["snapshot-id"] not in gone}
