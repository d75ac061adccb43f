"""Metadata that states of a table share: as PyIceberg makes it, and none of it is changed or copied."""

import copy
from pathlib import Path
from typing import Any

import pyarrow
import pydantic
import pytest
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import TABLE
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AddSortOrderUpdate,
    RemovePropertiesUpdate,
    RemoveSnapshotRefUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.types import LongType
from tidegate.adapters.iceberg.commit import commit
from tidegate.adapters.iceberg.pyiceberg_private import share_metadata

SNAPSHOTS = 12


@pytest.fixture
def table(tmp_path: Path) -> Table:
    kit: Kit = build_iceberg_kit(tmp_path)
    table = kit.seed_table().load(TABLE)
    rows = pyarrow.table(
        {field.name: pyarrow.nulls(2, field.type) for field in table.schema().as_arrow()},
        schema=pyarrow.schema([field.with_nullable(True) for field in table.schema().as_arrow()]),
    )
    for number in range(SNAPSHOTS):
        table.append(rows, snapshot_properties={"number": str(number)})
    return kit.load(TABLE)


def build_updates(table: Table) -> tuple[TableUpdate, ...]:
    """Of each kind that a commit of this product sends, and of PyIceberg's own transactions."""
    transaction = table.transaction()
    with transaction.update_schema() as schema:
        schema.add_column("later", LongType())
    with transaction.update_snapshot(snapshot_properties={"number": "last"}).fast_append():
        pass
    oldest = table.metadata.snapshots[0].snapshot_id
    tag = {"type": SnapshotRefType.TAG, "max_ref_age_ms": None}
    ages = {"max_snapshot_age_ms": None, "min_snapshots_to_keep": None}
    return (
        *transaction._updates,
        SetPropertiesUpdate(updates={"first": "1", "second": "2"}),
        RemovePropertiesUpdate(removals=["second"]),
        SetSnapshotRefUpdate(ref_name="kept", snapshot_id=oldest, **tag, **ages),
        SetSnapshotRefUpdate(ref_name="gone", snapshot_id=oldest, **tag, **ages),
        RemoveSnapshotRefUpdate(ref_name="gone"),
        AddSortOrderUpdate(sort_order=table.sort_order()),
    )


def describe(metadata: TableMetadata) -> dict[str, Any]:
    """All of it but the time of the last change."""
    return metadata.model_dump(mode="json", exclude={"last_updated_ms"})


def test_updates_make_what_pyiceberg_makes_and_leave_what_was_there(table: Table) -> None:
    plain = type(table.metadata).__mro__[2].model_validate_json(table.metadata.model_dump_json())
    assert (len(plain.snapshots), plain.model_dump_json()) == (SNAPSHOTS + 1, table.metadata.model_dump_json())
    before, updates = copy.deepcopy(describe(plain)), build_updates(table)
    shared = share_metadata(plain.model_copy(deep=True))
    assert describe(update_table_metadata(shared, updates)) == describe(update_table_metadata(plain, updates))
    assert describe(shared) == before
    assert describe(table.metadata) == before, "a transaction leaves the table that it is of as it was"


def test_commit_and_transaction_copy_nothing_in_depth(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Any, memo: Any = None) -> Any:
        raise AssertionError(f"{type(self).__name__} was copied")

    monkeypatch.setattr(pydantic.BaseModel, "__deepcopy__", refuse)
    commit(table, build_updates(table))
    table.append(table.scan().to_arrow().slice(0, 1))
    assert [len(table.metadata.snapshots), table.metadata.properties["first"]] == [SNAPSHOTS + 3, "1"]
    assert sorted(table.metadata.refs) == sorted({*table.refs(), "kept"})
