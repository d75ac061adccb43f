"""A table of thousands of snapshots is read in steps that grow with their number, and no faster: steps are counted."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.types import LongType, NestedField, StructType
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.files import measure_files
from tidegate.adapters.iceberg.lineage import Lineage, find_emptied_columns
from tidegate.adapters.iceberg.snapshots import IcebergSnapshots
from tidegate.adapters.iceberg.table_state import build_state, find_values_rolled_back, list_branch_pipelines
from tidegate.model.position import Position

COUNT = 2000
PASSES = 12  # over all snapshots: a look for each parent in all of them is COUNT / 2


class Counted(list[Snapshot]):
    """Snapshots that count how often one of them is looked at in passing."""

    steps = 0

    def __iter__(self) -> Iterator[Snapshot]:
        for snapshot in super().__iter__():
            self.steps += 1
            yield snapshot


def build_position(batch: int) -> dict[str, str]:
    return Position({"orders": {0: batch}}, batch).to_properties("sales")


def build_snapshot(number: int, summary: dict[str, str] | None = None) -> Snapshot:
    """Number 1 is the first, and each is made from the one before it."""
    return Snapshot(
        snapshot_id=number, parent_snapshot_id=number - 1 or None, sequence_number=number, timestamp_ms=number,
        manifest_list="none", summary=Summary(Operation.APPEND, **{"added-records": "1", **(summary or {})}),
    )  # fmt: skip


def build_snapshots(**summaries: dict[str, str]) -> list[Snapshot]:
    return [build_snapshot(number, summaries.get(f"at_{number}")) for number in range(1, COUNT + 1)]


def build_reference(number: int, is_tag: bool) -> SnapshotRef:
    kind = SnapshotRefType.TAG if is_tag else SnapshotRefType.BRANCH
    return SnapshotRef(snapshot_id=number, snapshot_ref_type=kind)


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Table]:
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("shop")
    iceberg_table = catalog.create_table("shop.orders", Schema(NestedField(1, "id", LongType())))

    def with_snapshots(snapshots: list[Snapshot], properties: dict[str, str] | None = None, **refs: int) -> Table:
        """A table of these snapshots, the last of which is main's."""
        heads = {"main": snapshots[-1].snapshot_id, **refs}
        tags = {name for name in refs if name.startswith("tidegate_")}
        changed = {
            "snapshots": Counted(snapshots),
            "current_snapshot_id": heads["main"],
            "properties": properties or {},
            "refs": {name: build_reference(n, name in tags) for name, n in heads.items()},
        }
        metadata = iceberg_table.metadata.model_copy(update=changed)
        return Table(iceberg_table.name(), metadata, iceberg_table.metadata_location, iceberg_table.io, catalog)

    return with_snapshots


def pick(parent: int, source: int, number: int = COUNT + 1) -> Snapshot:
    """What `cherrypick_snapshot` makes of an append of another line."""
    return build_snapshot(number, {"source-snapshot-id": str(source)}).model_copy(update={"parent_snapshot_id": parent})


OURS = build_snapshots(at_1970=build_position(6), at_1980=build_position(7), at_1990=build_position(8))
PICKED: dict[str, tuple[list[Snapshot], int, tuple[int | None, int | None]]] = {
    "nothing": (OURS, 1985, (7, None)),
    "a batch of ours": ([*OURS, pick(1975, 1990)], COUNT + 1, (None, 8)),
    "a batch of ours, and others wrote since": (
        [*OURS, pick(1975, 1980), build_snapshot(COUNT + 2)],
        COUNT + 2,
        (None, 7),
    ),
    "a batch of ours, which was published on": (
        [*OURS, pick(1975, 1980), build_snapshot(COUNT + 2, build_position(9))],
        COUNT + 2,
        (9, None),
    ),
    "a snapshot of somebody else": ([*OURS, pick(1975, 1991)], COUNT + 1, (6, None)),
    "a snapshot that has expired": ([*OURS[:1989], *OURS[1990:], pick(1975, 1990)], COUNT + 1, (6, None)),
}


@pytest.mark.parametrize("case", PICKED)
def test_position_behind_rows_that_were_picked_onto_main_is_not_gone_back_to(
    table: Callable[..., Table], case: str
) -> None:
    """Read again from there, an appended table would have these rows twice."""
    snapshots, main, (batch, picked_batch) = PICKED[case]
    state = build_state(table(snapshots, build_position(9), main=main, tidegate_sales=1995), "sales")
    assert (state.is_rolled_back, state.position and state.position.batch, state.cherry_picked_batch) == (
        True,
        batch,
        picked_batch,
    )
    assert state.recorded_position is not None
    assert state.recorded_position.batch == 9


def count_steps(table: Table) -> int:
    return table.metadata.snapshots.steps  # type: ignore[attr-defined]


CASES: dict[str, tuple[dict[str, str], dict[str, int], tuple[int | None, bool]]] = {
    "tag on the newest": (build_position(7), {"tidegate_sales": COUNT}, (7, False)),
    "tag on the oldest": (build_position(7), {"tidegate_sales": 1}, (7, False)),
    "property removed": ({}, {"tidegate_sales": 1}, (3, False)),
    "property and tag removed": ({}, {}, (3, True)),
    "rolled back": (build_position(7), {"main": COUNT - 1, "tidegate_sales": COUNT}, (3, True)),
    "attempt made main": (build_position(7), {"tidegate_sales": COUNT - 3}, (9, False)),
    "no pipeline of ours": ({}, {}, (None, False)),
}


@pytest.mark.parametrize("case", CASES)
def test_state_is_read_in_steps_that_grow_with_the_snapshots(table: Callable[..., Table], case: str) -> None:
    properties, refs, (batch, rolled_back) = CASES[case]
    summaries = {} if case == "no pipeline of ours" else {"at_1": build_position(3)}
    summaries |= {f"at_{COUNT - 1}": build_position(9)} if case == "attempt made main" else {}
    iceberg_table = table(build_snapshots(**summaries), properties, **refs)
    state = build_state(iceberg_table, "sales")
    assert (state.position and state.position.batch, state.is_rolled_back, state.is_untraceable) == (
        batch,
        rolled_back,
        False,
    )
    assert 0 < count_steps(iceberg_table) <= PASSES * COUNT


def test_state_of_a_table_in_use_walks_to_the_tag_and_no_farther(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    walked_ids = []
    look_up = Lineage.get_snapshot
    monkeypatch.setattr(
        Lineage, "get_snapshot", lambda self, number: walked_ids.append(number) or look_up(self, number)
    )
    iceberg_table = table(build_snapshots(), build_position(7), tidegate_sales=COUNT - 2)
    assert not build_state(iceberg_table, "sales").is_rolled_back
    assert walked_ids == [COUNT - 1, COUNT - 2]


@pytest.mark.parametrize("case", CASES)
def test_tag_that_is_gone_is_told_apart_from_one_that_main_has_left(table: Callable[..., Table], case: str) -> None:
    properties, refs, _ = CASES[case]
    summaries = {} if case == "no pipeline of ours" else {"at_1": build_position(3)}
    state = build_state(table(build_snapshots(**summaries), properties, **refs), "sales")
    assert state.is_untagged == (case == "property and tag removed")


def test_history_that_was_cut_off_by_expiry_is_told(table: Callable[..., Table]) -> None:
    iceberg_table = table(
        [build_snapshot(1, build_position(3)), *build_snapshots()[99:]], build_position(3), tidegate_sales=1
    )
    state = build_state(iceberg_table, "sales")
    assert (state.is_rolled_back, state.is_untraceable) == (True, True)


def build_fork(parent: int, summary: dict[str, str]) -> Snapshot:
    """The newest snapshot, which descends from an older one."""
    return build_snapshot(COUNT + 1, summary).model_copy(update={"parent_snapshot_id": parent})


ORPHAN = build_snapshot(100).model_copy(update={"parent_snapshot_id": None})  # PyIceberg forgets what has expired
TWO = build_snapshots(at_1990={"told": "a"}, at_1980={"told": "b"})
LEFT: dict[str, tuple[list[Snapshot], dict[str, int], str, set[str]]] = {
    "on main": (TWO, {}, "main", set()),
    "behind main": (TWO, {"main": 1985}, "main", {"a"}),
    "on main and off it": ([*TWO, build_fork(1970, {"told": "a"})], {"main": COUNT}, "main", set()),
    "of a named branch": (TWO, {"audited": 1985}, "audited", {"a"}),
    "older than what expiry left": (
        [build_snapshot(50, {"told": "a"}), *build_snapshots()[99:]],
        {"kept": 50},
        "main",
        set(),
    ),
    "newer than where expiry cut": (
        [*build_snapshots()[99:], build_fork(120, {"told": "a"})],
        {"main": COUNT},
        "main",
        {"a"},
    ),
    "picked": ([*TWO, build_fork(1985, {"source-snapshot-id": "1990"})], {}, "main", set()),
    "older than what PyIceberg's expiry left": (
        [build_snapshot(50, {"told": "a"}), ORPHAN, *build_snapshots()[100:]],
        {"kept": 50},
        "main",
        set(),
    ),
    "behind main, without numbers": (
        [s.model_copy(update={"sequence_number": 0}) for s in TWO],
        {"main": 1985},
        "main",
        {"a"},
    ),
    "of a table that was replaced": (
        [*TWO, build_snapshot(COUNT + 1).model_copy(update={"parent_snapshot_id": None})],
        {},
        "main",
        {"a", "b"},
    ),
    "newer than where PyIceberg's expiry cut": (
        [ORPHAN, *build_snapshots()[100:], build_fork(120, {"told": "a"})],
        {"main": COUNT},
        "main",
        {"a"},
    ),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_a_branch_has_left_is_told_and_nothing_that_it_may_stand_on(
    table: Callable[..., Table], case: str
) -> None:
    snapshots, refs, branch, rolled_back = LEFT[case]
    iceberg_table = table(snapshots, **refs)
    assert find_values_rolled_back(iceberg_table, branch, "told") == rolled_back
    assert find_values_rolled_back(iceberg_table, branch, "never told") == frozenset()
    assert count_steps(iceberg_table) <= PASSES * COUNT


def test_depth_of_the_oldest_tag_is_counted_in_steps_that_grow_with_the_snapshots(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Snapshot, "manifests", lambda self, io: [])
    iceberg_table = table(build_snapshots(), tidegate_sales=2, tidegate_other=COUNT - 4)
    assert measure_files(iceberg_table).snapshots_since_tag == COUNT - 1
    assert count_steps(iceberg_table) <= PASSES * COUNT


def test_publication_sees_how_far_it_is_behind_in_steps_that_grow_with_the_snapshots(
    table: Callable[..., Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    iceberg_table = table(build_snapshots())
    monkeypatch.setattr(Catalogs, "table", lambda self, name: iceberg_table)
    snapshots = IcebergSnapshots(Catalogs({}))
    assert snapshots.measure_lag("lake.shop.orders", 1, COUNT).snapshots == COUNT - 1
    line = snapshots.list_ancestors("lake.shop.orders", COUNT)
    assert [snapshot.snapshot_id for snapshot in line] == [*range(COUNT, 0, -1)]
    assert count_steps(iceberg_table) <= PASSES * COUNT


def test_pipelines_of_a_table_are_found_in_steps_that_grow_with_the_snapshots(table: Callable[..., Table]) -> None:
    iceberg_table = table(build_snapshots(), build_position(7), tidegate_sales=COUNT - 9, theirs=COUNT - 3)
    assert list_branch_pipelines(iceberg_table, "main") == ("sales",)
    assert count_steps(iceberg_table) <= PASSES * COUNT


ID, N, NEW_N = NestedField(1, "id", LongType()), NestedField(2, "n", LongType()), NestedField(7, "n", LongType())
COPY = NestedField(7, "copy", LongType())
WITHOUT_PART, WITH_PART, WITH_NEW_PART = (
    NestedField(3, "s", StructType(NestedField(4, "a", LongType()), *parts)) for parts in ((), (N,), (NEW_N,))
)
WITH, WITHOUT, AGAIN = (ID, N), (ID,), (ID, NEW_N)
APPENDED, OVERWRITTEN, REPLACED, DELETED = Operation.APPEND, Operation.OVERWRITE, Operation.REPLACE, Operation.DELETE
PART, OTHER_PART, MORE, DELETES, UNCOUNTED = (
    "an UPDATE of a part",
    "of the rest",
    "an INSERT",
    "a DELETE",
    "a stranger's",
)
OPERATIONS = {PART: OVERWRITTEN, OTHER_PART: OVERWRITTEN, MORE: APPENDED, DELETES: OVERWRITTEN, UNCOUNTED: OVERWRITTEN}
COUNTS = {
    PART: {"added-records": "2", "total-records": "7", "total-position-deletes": "2"},
    OTHER_PART: {"added-records": "3", "total-records": "10", "total-position-deletes": "5"},
    MORE: {"added-records": "4", "total-records": "11", "total-position-deletes": "2"},
    DELETES: {"total-records": "14", "total-position-deletes": "6", "added-position-deletes": "1"},
    UNCOUNTED: {},
    APPENDED: {"added-records": "5", "total-records": "10"},
    OVERWRITTEN: {"added-records": "5", "total-records": "10", "total-position-deletes": "5"},
    REPLACED: {"added-records": "5", "total-records": "5"},
    DELETED: {"total-records": "0"},
}
EMPTIED: dict[str, tuple[list[tuple[NestedField, ...]], list[tuple[int, Operation | str]], set[tuple[str, ...]]]] = {
    "never dropped": ([WITH], [(0, APPENDED)], set()),
    "dropped": ([WITH, WITHOUT], [(0, APPENDED)], set()),
    "dropped and added again": ([WITH, WITHOUT, AGAIN], [(0, APPENDED)], {("n",)}),
    "and rows appended since": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (2, APPENDED)], {("n",)}),
    "and compacted since": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (2, REPLACED)], {("n",)}),
    "and overwritten while it was gone": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (1, OVERWRITTEN)], {("n",)}),
    "and filled": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (2, OVERWRITTEN)], set()),
    "and filled, and rows appended": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (2, OVERWRITTEN), (2, APPENDED)], set()),
    "and filled in one partition": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (2, PART)], {("n",)}),
    "and filled in one, and rows appended": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (2, PART), (2, MORE)], {("n",)}),
    "and filled in one after the other": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (2, PART), (2, OTHER_PART)], set()),
    "and filled where rows lacked it": (
        [WITH, WITHOUT, AGAIN],
        [(0, APPENDED), (2, MORE), (2, OVERWRITTEN), (2, DELETES)],
        set(),
    ),
    "and overwritten by who counts nothing": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (2, UNCOUNTED)], set()),
    "of a table without rows": ([WITH, WITHOUT, AGAIN], [(0, APPENDED), (1, DELETED), (2, APPENDED)], set()),
    "that no row was written with": ([WITH, WITHOUT, AGAIN], [(1, APPENDED), (2, APPENDED)], set()),
    "for one that had the values under another name": (
        [(ID, N, COPY), (ID, COPY), (ID, NEW_N)],
        [(0, APPENDED), (2, APPENDED)],
        set(),
    ),
    "for one that was filled under another name": (
        [(ID, N), (ID, N, COPY), (ID, COPY), (ID, NEW_N)],
        [(0, APPENDED), (1, OVERWRITTEN), (3, APPENDED)],
        set(),
    ),
    "for one that was not filled under another name": (
        [(ID, N), (ID, N, COPY), (ID, COPY), (ID, NEW_N)],
        [(0, APPENDED), (1, APPENDED), (3, APPENDED)],
        {("n",)},
    ),
    "a part of a struct": (
        [(ID, WITH_PART), (ID, WITHOUT_PART), (ID, WITH_NEW_PART)],
        [(0, APPENDED), (2, APPENDED)],
        {("s", "n")},
    ),
}


@pytest.mark.parametrize("case", EMPTIED)
def test_column_that_was_dropped_and_added_again_is_empty_until_somebody_fills_it(
    table: Callable[..., Table], case: str
) -> None:
    schemas, versions, emptied = EMPTIED[case]
    snapshots = [
        build_snapshot(number).model_copy(
            update={"schema_id": schema, "summary": Summary(OPERATIONS.get(kind, kind), **COUNTS[kind])}
        )
        for number, (schema, kind) in enumerate(versions, 1)
    ]
    iceberg_table = table(snapshots)
    schemas_by_id = [Schema(*fields, schema_id=number) for number, fields in enumerate(schemas)]
    metadata = iceberg_table.metadata.model_copy(
        update={"schemas": schemas_by_id, "current_schema_id": len(schemas_by_id) - 1}
    )
    assert find_emptied_columns(metadata, reversed(snapshots)) == emptied
    changed = Table(
        iceberg_table.name(), metadata, iceberg_table.metadata_location, iceberg_table.io, iceberg_table.catalog
    )
    assert build_state(changed, "sales").emptied_columns == emptied
