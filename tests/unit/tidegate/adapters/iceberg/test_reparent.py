"""What a merge wrote is put onto a newer main only where the files prove that it would be written there just so."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from contract_words import FIRST, PIPELINE, START
from fakes.format_3 import append_rows, upgrade
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestEntryStatus
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import IntegerType, LongType, NestedField, StringType, StructType
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.destination import build_iceberg_destination
from tidegate.adapters.iceberg.reparent import NewParent, ReparentedSnapshot, WrittenFiles
from tidegate.errors import CommitRefused
from tidegate.model import resource_names
from tidegate.model.batch import StagedPart
from tidegate.model.table_state import TableCommit
from tidegate.ports.destination import Destination

TABLE, STAGED = "lake.shop.orders", "lake.shop.orders_shop_tmp"
SCHEMA = Schema(
    NestedField(1, "id", StringType()), NestedField(2, "n", IntegerType()), NestedField(3, "part", StringType())
)
BY_PART = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "part"))
STAGED_SCHEMA = Schema(
    NestedField(1, "batch_number", LongType()),
    NestedField(2, "key", StructType(NestedField(3, "id", StringType(), required=False))),
)
BY_BATCH = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "batch_number"))
DELETES = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": "2147483545"}),
    ]
)
Rows = list[tuple[str, int, str]]
THERE: Rows = [("a", 1, "x"), ("b", 1, "x"), ("c", 1, "y"), ("d", 1, "y")]


@dataclass
class Lake:
    """A table of two partitions with a file in each, a staged batch of keys, and the hands of Spark and of others."""

    port: Destination
    load: Callable[[str], Table]

    def read_rows(self) -> Rows:
        return sorted((row["id"], row["n"], row["part"]) for row in self.load(TABLE).scan().to_arrow().to_pylist())

    def append(self, *rows: tuple[str, int, str], branch: str = "main") -> None:
        self.load(TABLE).append(_build_arrow_table(rows), branch=branch)

    def stage(self, *keys: str | None) -> dict[str, Any]:
        """Keys as a batch of two files; what a merge of them is filled with."""
        staged = self.load(STAGED)
        with staged.transaction() as change, change.update_snapshot().fast_append() as files:
            for half in (keys[::2], keys[1::2]):
                files.append_data_file(_build_staged_file(staged, half))
        snapshot = staged.refresh().current_snapshot().snapshot_id
        parts = [StagedPart(1, "a1")]
        return {
            "source": STAGED, "snapshot_id": snapshot, "parts": parts, "leaves": [("id",)], "keys": [("id", "id")]
        }  # fmt: skip

    def merge(self, added: Rows, deleted: tuple[str, ...] = (), attempt: str = "m1") -> TableCommit:
        """Rows added and keys deleted by position on a branch, as Spark's merge on read does it."""
        state, branch = self.port.tables.read_state(TABLE, PIPELINE), resource_names.name_branch(PIPELINE, 1, attempt)
        assert state is not None
        self.port.commits.start_branch(TABLE, state, branch)
        table = self.load(TABLE)
        files = _write_files(table, added)
        deletes, replaced = _write_position_deletes(table, state.snapshot_id, deleted)
        entries = {(ManifestContent.DATA, 1): files, (ManifestContent.DELETES, 1): deletes}
        by_spec = {
            (kind, table.spec().spec_id): file_entries for (kind, _), file_entries in entries.items() if file_entries
        }
        at = table.metadata.snapshot_by_id(state.snapshot_id)
        producer = ReparentedSnapshot(table, at, NewParent(state.snapshot_id), WrittenFiles(by_spec, replaced))
        counts = {"added-data-files": len(files), "added-delete-files": len(deletes), "added-records": len(added)}
        summary = {**FIRST.to_properties(PIPELINE), "tidegate.attempt": attempt}
        summary |= {name: str(count) for name, count in counts.items() if count}
        producer._head = at.model_copy(update={"summary": at.summary.model_copy()})
        producer._head.summary._additional_properties = summary
        cut = TableCommit(
            table=TABLE, uuid=state.uuid, schema_id=state.schema_id, cut=state.snapshot_id, branch=branch,
            head=state.snapshot_id, properties=FIRST.to_properties(PIPELINE), tag=resource_names.name_tag(PIPELINE),
        )  # fmt: skip
        snapshot = producer._commit()[0][0]
        table.catalog.commit_table(table, (), (snapshot, _build_branch(branch, snapshot.snapshot.snapshot_id)))
        head = self.port.commits.read_head(TABLE, branch)
        assert head is not None
        return TableCommit(**{**cut.__dict__, "head": head.snapshot_id})

    def onto_newest(self, table_commit: TableCommit, keys: dict[str, Any] | None) -> TableCommit | None:
        """The commit of the same rows on main as it is now."""
        newest = self.port.tables.read_state(TABLE, PIPELINE).snapshot_id
        head = self.port.commits.reparent(table_commit, newest, keys)
        if head is None:
            return None
        assert head.parent_id == newest
        return TableCommit(**{**table_commit.__dict__, "cut": newest, "head": head.snapshot_id})


def _build_branch(branch: str, snapshot_id: int) -> Any:
    from tidegate.adapters.iceberg.commit import SnapshotRefType, _build_reference

    return _build_reference(branch, SnapshotRefType.BRANCH, snapshot_id)


def _build_arrow_table(rows: Any) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(("id", "n", "part"), row, strict=True)) for row in rows], schema=SCHEMA.as_arrow()
    )


def _write_files(table: Table, rows: Rows) -> list[DataFile]:
    return list(_dataframe_to_data_files(table.metadata, _build_arrow_table(rows), table.io)) if rows else []


def _build_staged_file(table: Table, keys: tuple[str | None, ...]) -> DataFile:
    """A file with its statistics, which are all that is read of it."""
    known = sorted(key for key in keys if key is not None)
    ends = [{3: end.encode()} for end in (known[0], known[-1])] if known else [{}, {}]
    return DataFile.from_args(
        content=DataFileContent.DATA, file_path=f"{table.location()}/data/{'-'.join(map(str, keys))}.parquet",
        file_format=FileFormat.PARQUET, partition=Record(1), record_count=len(keys), file_size_in_bytes=1,
        null_value_counts={3: len(keys) - len(known)}, lower_bounds=ends[0], upper_bounds=ends[1],
    )  # fmt: skip


def _write_position_deletes(
    table: Table, snapshot_id: int, keys: tuple[str, ...]
) -> tuple[list[DataFile], frozenset[str]]:
    """One delete file for each data file that holds one of the keys, with the places of those that it replaces."""
    delete_files, replaced = [], set()
    for task in table.scan(snapshot_id=snapshot_id).plan_files():
        path = task.file.file_path
        ids = pq.read_table(path.removeprefix("file://"))["id"].to_pylist()
        before = {file.file_path for file in task.delete_files}
        deleted_places = {at for old in before for at in pq.read_table(old.removeprefix("file://"))["pos"].to_pylist()}
        new = {place for place, key in enumerate(ids) if key in keys} - deleted_places
        if not new:
            continue
        replaced |= before
        places = sorted(new | deleted_places)
        target = f"{table.location()}/data/deletes-{uuid.uuid4()}.parquet"
        local = target.removeprefix("file://")
        pq.write_table(pa.table([[path] * len(places), places], schema=DELETES), local)
        bounds = {2147483546: path.encode()}
        file = DataFile.from_args(
            content=DataFileContent.POSITION_DELETES, file_path=target, file_format=FileFormat.PARQUET,
            partition=task.file.partition, record_count=len(places), file_size_in_bytes=Path(local).stat().st_size,
            lower_bounds=bounds, upper_bounds=bounds,
        )  # fmt: skip
        file.spec_id = task.file.spec_id
        delete_files.append(file)
    return delete_files, frozenset(replaced)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    properties = {
        "type": "sql", "uri": f"sqlite:///{tmp_path / 'catalog.db'}", "warehouse": f"file://{tmp_path / 'warehouse'}",
    }  # fmt: skip
    catalog = (catalogs := Catalogs({"lake": properties})).catalog("lake")
    catalog.create_namespace("shop")
    catalog.create_table("shop.orders", SCHEMA, partition_spec=BY_PART, properties={"format-version": "2"})
    catalog.create_table("shop.orders_shop_tmp", STAGED_SCHEMA, partition_spec=BY_BATCH)
    lake = Lake(build_iceberg_destination(catalogs), lambda name: catalog.load_table(name.removeprefix("lake.")))
    lake.port.commits.seed(TABLE, PIPELINE, START)
    lake.append(*THERE)
    return lake


def test_appended_rows_stand_beside_whatever_others_wrote(lake: Lake) -> None:
    table_commit = lake.merge([("e", 2, "x"), ("f", 2, "z")])
    lake.append(("e", 0, "x"), ("f", 0, "y"))
    lake.load(TABLE).delete("part = 'y'")  # files that others remove are no matter to rows that are only added
    moved_commit = lake.onto_newest(table_commit, None)
    assert moved_commit is not None
    lake.port.commits.publish(moved_commit)
    assert lake.read_rows() == sorted([*THERE[:2], ("e", 0, "x"), ("e", 2, "x"), ("f", 2, "z")])
    assert lake.port.tables.read_state(TABLE, PIPELINE).position == FIRST


def test_replaced_and_deleted_rows_stay_so_above_files_with_other_keys(lake: Lake) -> None:
    keys = lake.stage("b", "c", "e", "f")
    table_commit = lake.merge([("b", 2, "y"), ("e", 2, "x")], deleted=("b", "c"))
    for n in range(3):
        lake.append((f"k{n}", 0, "x"), (f"a{n}", 0, "y"))
    moved_commit = lake.onto_newest(table_commit, keys)
    assert moved_commit is not None
    assert lake.load(TABLE).metadata.snapshot_by_id(table_commit.head) is None
    lake.append(("z", 0, "x"))
    with pytest.raises(CommitRefused):
        lake.port.commits.publish(moved_commit)  # it is a compare-and-swap as ever
    second_commit = lake.onto_newest(moved_commit, keys)
    assert second_commit is not None
    lake.port.commits.publish(second_commit)
    foreign = [row for n in range(3) for row in ((f"k{n}", 0, "x"), (f"a{n}", 0, "y"))]
    assert lake.read_rows() == sorted([THERE[0], THERE[3], ("b", 2, "y"), ("e", 2, "x"), ("z", 0, "x"), *foreign])


def test_snapshot_says_which_files_and_rows_it_added_and_what_the_table_holds(lake: Lake) -> None:
    table_commit = lake.merge([("b", 2, "y"), ("e", 2, "x")], deleted=("b",))
    before = lake.port.commits.read_head(TABLE, table_commit.branch).summary
    lake.append(("k", 0, "x"))
    newest = lake.load(TABLE).current_snapshot()
    moved_commit = lake.onto_newest(table_commit, lake.stage("b", "e"))
    assert moved_commit is not None
    table = lake.load(TABLE)
    snapshot = table.metadata.snapshot_by_id(moved_commit.head)
    own = [m for m in snapshot.manifests(table.io) if m.added_snapshot_id == moved_commit.head]
    entries = [e for m in own for e in m.fetch_manifest_entry(table.io)]
    assert {(e.snapshot_id, e.sequence_number, e.status) for e in entries} == {
        (moved_commit.head, snapshot.sequence_number, ManifestEntryStatus.ADDED)
    }
    assert sorted(m.content.name for m in own) == ["DATA", "DELETES"]
    assert snapshot.sequence_number > newest.sequence_number
    summary = snapshot.summary.additional_properties
    assert {k: v for k, v in before.items() if k.startswith(("tidegate", "added"))}.items() <= summary.items()
    assert (summary["total-records"], summary["total-data-files"], summary["total-delete-files"]) == ("7", "5", "1")


def test_delete_files_that_were_replaced_are_removed_and_those_of_other_files_stay(lake: Lake) -> None:
    lake.port.commits.publish(lake.merge([("e", 2, "x")], deleted=("a", "c"), attempt="m0"))
    table_commit = lake.merge([("f", 3, "y")], deleted=("b",), attempt="m1")  # the file of x has both deletes now
    lake.append(("k", 0, "x"))
    moved_commit = lake.onto_newest(table_commit, lake.stage("b", "f"))
    assert moved_commit is not None
    lake.port.commits.publish(moved_commit)
    assert _count_deletes(lake) == [1, 2]
    summary = lake.port.commits.read_head(TABLE, "main").summary
    assert (summary["total-delete-files"], summary["removed-delete-files"], summary["removed-position-deletes"]) == (
        "2",
        "1",
        "1",
    )
    assert lake.read_rows() == sorted([THERE[3], ("e", 2, "x"), ("f", 3, "y"), ("k", 0, "x")])
    moved_commit = lake.port.commits.reparent(
        merge := lake.merge([], deleted=("d",)), merge.cut, lake.stage("d", "d"), {}
    )
    assert moved_commit is not None
    lake.port.commits.publish(TableCommit(**{**merge.__dict__, "head": moved_commit.snapshot_id}))
    assert _count_deletes(lake) == [2, 2]
    assert lake.read_rows() == sorted([("e", 2, "x"), ("f", 3, "y"), ("k", 0, "x")])


def test_delete_file_that_somebody_else_replaced_meanwhile_is_not_missed(lake: Lake) -> None:
    lake.port.commits.publish(lake.merge([], deleted=("a",), attempt="m0"))
    table_commit = lake.merge([("f", 3, "y")], deleted=("b",), attempt="m1")
    lake.port.commits.publish(lake.merge([], deleted=("b",), attempt="other"))  # a writer that keeps no position
    moved_commit = lake.onto_newest(table_commit, lake.stage("b", "f"))
    assert moved_commit is not None
    assert "removed-delete-files" not in lake.port.commits.read_head(TABLE, moved_commit.branch).summary
    lake.port.commits.publish(moved_commit)
    assert _count_deletes(lake) == [2, 2]
    assert lake.read_rows() == sorted([*THERE[2:], ("f", 3, "y")])


@pytest.mark.parametrize(("merges", "most"), [("true", 8), ("false", 100)])
def test_manifests_stay_few_however_many_snapshots_are_written_again(lake: Lake, merges: str, most: int) -> None:
    """Spark merges them in its own snapshot, which is written again without what it merged."""
    with lake.load(TABLE).transaction() as change:
        change.set_properties({"commit.manifest.min-count-to-merge": "4", "commit.manifest-merge.enabled": merges})
    for number in range(12):
        table_commit = lake.merge([(f"e{number}", number, "x")], deleted=("a", f"e{number - 3}"), attempt=f"m{number}")
        head = lake.port.commits.reparent(table_commit, table_commit.cut, lake.stage("a", "f"), {})
        assert head is not None
        lake.port.commits.publish(TableCommit(**{**table_commit.__dict__, "head": head.snapshot_id}))
    assert lake.read_rows() == sorted([*THERE[1:], *((f"e{number}", number, "x") for number in range(9, 12))])
    assert _count_deletes(lake) == [1] * 10
    table = lake.load(TABLE)
    manifests = table.current_snapshot().manifests(table.io)
    assert (len(manifests) > 8, len(manifests) <= most) == (merges == "false", True)
    live = [entry for manifest in manifests for entry in manifest.fetch_manifest_entry(table.io)]
    sequence_numbers = {snapshot.snapshot_id: snapshot.sequence_number for snapshot in table.metadata.snapshots}
    assert [sequence_numbers[entry.snapshot_id] for entry in live] == [entry.sequence_number for entry in live]
    assert len({entry.sequence_number for entry in live}) == 13  # that of the first rows, and one for each merge


def _count_deletes(lake: Lake) -> list[int]:
    """The number of places in each delete file of main."""
    table = lake.load(TABLE)
    entries = table.inspect.delete_files().to_pylist()
    return sorted(entry["record_count"] for entry in entries)


REFUSED: dict[str, tuple[tuple[Any, ...], Callable[[Lake], Any]]] = {
    "a key of the batch was written": (("b", "e"), lambda lake: lake.append(("b", 9, "x"))),
    "a key between two of the batch": (("b", "e"), lambda lake: lake.append(("c2", 9, "x"))),
    "a key that is missing": (("b", None), lambda lake: lake.append((None, 9, "x"))),
    "nothing is known of the keys": ((None, None), lambda lake: lake.append(("z", 9, "x"))),
    "a file that deletes name is gone": (("b", "e"), lambda lake: lake.load(TABLE).delete("part = 'x'")),
    "a file was written anew": (("b", "e"), lambda lake: lake.load(TABLE).overwrite(_build_arrow_table(THERE))),
    "the table has format 3": (("b", "e"), lambda lake: _append_in_format_3(lake, ("z", 0, "x"))),
}


def _append_in_format_3(lake: Lake, *rows: tuple[str, int, str]) -> None:
    upgrade(lake.port.tables.catalogs, TABLE)
    append_rows(lake.load(TABLE), "main", _build_arrow_table(rows).to_pylist())


@pytest.mark.guard(
    "rows are reattached to a newer main only if no new file can hold their keys",
    file="plugins/tidegate/adapters/iceberg/reparent.py",
    text="    if ranges is not None and not _are_files_outside(table, added_files, ranges):\n",
    off="    if False:\n",
    case="a key between two of the batch",
)
@pytest.mark.guard(
    "deletes are reattached to a newer main only if the files that they name exist",
    file="plugins/tidegate/adapters/iceberg/reparent.py",
    text="    if has_deletes and (went or ranges is None):\n",
    off="    if has_deletes and ranges is None:\n",
    case="a file that deletes name is gone",
)
@pytest.mark.guard(
    "vectors of deletes are not reattached to a newer main",
    file="plugins/tidegate/adapters/iceberg/reparent.py",
    text="    if table.metadata.format_version != FORMAT_VERSION or head is None",
    off="    if head is None",
    case="the table has format 3",
)
@pytest.mark.parametrize("case", REFUSED)
def test_rows_are_merged_again_where(lake: Lake, case: str) -> None:
    keys, happens = REFUSED[case]
    table_commit = lake.merge([("b", 2, "y")], deleted=("b",))
    happens(lake)
    before = lake.load(TABLE).metadata.refs
    assert lake.onto_newest(table_commit, lake.stage(*keys)) is None
    assert lake.load(TABLE).metadata.refs == before


@pytest.mark.guard(
    "rows are not reattached to a main that was rolled back",
    file="plugins/tidegate/adapters/iceberg/reparent.py",
    text=" or cut not in ancestors:\n",
    off=":\n",
)
def test_rows_are_merged_again_where_a_rollback_brought_deleted_rows_back(lake: Lake) -> None:
    first = lake.load(TABLE).current_snapshot().snapshot_id
    lake.port.commits.publish(lake.merge([], deleted=("b",), attempt="m0"))  # no file goes, and none comes
    table_commit = lake.merge([("b", 2, "x")])
    lake.load(TABLE).manage_snapshots().set_current_snapshot(first).commit()
    assert lake.onto_newest(table_commit, lake.stage("b", "b")) is None


@pytest.mark.guard(
    "files that hold copies of others' rows are not reattached to a newer main",
    file="plugins/tidegate/adapters/iceberg/reparent.py",
    text="ManifestEntryStatus.DELETED and content == DataFileContent.POSITION_DELETES:\n",
    off="ManifestEntryStatus.DELETED:\n",
)
def test_deletes_without_keys_and_rewritten_files_are_merged_again(lake: Lake) -> None:
    deletes = lake.merge([("b", 2, "y")], deleted=("b",), attempt="m1")
    state = lake.port.tables.read_state(TABLE, PIPELINE)
    branch = resource_names.name_branch(PIPELINE, 1, "m2")
    lake.port.commits.start_branch(TABLE, state, branch)
    lake.load(TABLE).delete("id = 'b'", branch=branch)  # copies the file's other rows
    head = lake.port.commits.read_head(TABLE, branch).snapshot_id
    copies = TableCommit(**{**deletes.__dict__, "branch": branch, "head": head})
    lake.append(("z", 0, "x"))
    assert lake.onto_newest(deletes, None) is None
    assert lake.onto_newest(copies, lake.stage("b", "b")) is None


def test_snapshot_tells_what_it_is_given_beside_what_its_writer_counted(lake: Lake) -> None:
    table_commit, keys = lake.merge([("e", 2, "x"), ("f", 2, "x")]), lake.stage("e", "f")
    before = lake.port.commits.read_head(TABLE, table_commit.branch)
    summary = {"tidegate.shop.timestamps": '{"t":{"0":7}}', "tidegate.attempt": "other"}
    head = lake.port.commits.reparent(table_commit, table_commit.cut, keys, summary)
    assert head.parent_id == table_commit.cut
    assert head.summary == {**before.summary, **summary}
    refs = lake.port.tables.catalogs.table(TABLE).metadata
    assert [s.snapshot_id for s in refs.snapshots if s.snapshot_id == before.snapshot_id] == []


def test_branch_that_moved_meanwhile_is_left_as_it_is(lake: Lake) -> None:
    table_commit, keys = lake.merge([("e", 2, "x")]), lake.stage("e", "e")
    lake.append(("z", 0, "x"))
    newest = lake.port.tables.read_state(TABLE, PIPELINE).snapshot_id
    lake.append(("late", 0, "x"), branch=table_commit.branch)
    head = lake.port.commits.read_head(TABLE, table_commit.branch)
    files = _list_metadata_files(lake)
    with pytest.raises(CommitRefused):
        lake.port.commits.reparent(table_commit, newest, keys)
    assert lake.port.commits.read_head(TABLE, table_commit.branch) == head
    assert _list_metadata_files(lake) == files  # manifests that no snapshot has are deleted


def test_named_branch_takes_the_place_of_main(lake: Lake) -> None:
    lake.port = build_iceberg_destination(lake.port.tables.catalogs, {TABLE: "staging"})
    lake.port.commits.publish(lake.merge([("e", 2, "x")], attempt="m0"))
    table_commit, keys = lake.merge([("f", 2, "x")]), lake.stage("f", "f")
    lake.append(("z", 0, "x"), branch="staging")
    lake.append(("f", 0, "x"))  # main is of no concern
    moved_commit = lake.onto_newest(table_commit, keys)
    assert moved_commit is not None
    lake.port.commits.publish(moved_commit)
    rows = lake.load(TABLE).scan().use_ref("staging").to_arrow()["id"].to_pylist()
    assert sorted(rows) == ["a", "b", "c", "d", "e", "f", "z"]


def _list_metadata_files(lake: Lake) -> list[str]:
    folder = Path(lake.load(TABLE).location().removeprefix("file://")) / "metadata"
    return sorted(path.name for path in folder.glob("*.avro"))
