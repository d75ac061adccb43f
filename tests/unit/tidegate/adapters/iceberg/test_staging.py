"""How an attempt becomes complete, and what a clean-up leaves of an intermediate table's files."""

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import STAGED, TABLE, render_outcome
from file_replacement import replace_files
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from tidegate.adapters.iceberg import files, staging
from tidegate.adapters.iceberg.staging import MAX_COMMITS
from tidegate.errors import CommitRefused, RetryLater
from tidegate.model import resource_names
from tidegate.model.ownership import Ownership, TableKind


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """Three staged batches, of two files each in the first."""
    return stage_three(tmp_path)


@pytest.fixture
def viewed_kit(tmp_path: Path) -> Kit:
    """The same of a pipeline whose staging has a clock, and of which somebody has asked for a live view."""
    viewed_kit = stage_three(tmp_path, viewed=True)
    for _ in range(2):
        viewed_kit.port.staging.keep_for_readers(STAGED)
    return viewed_kit


def stage_three(folder: Path, **options: Any) -> Kit:
    iceberg_kit = build_iceberg_kit(folder)
    iceberg_kit.stage(1, "a1", 3, **options)
    iceberg_kit.stage(1, "a2", 2, **options)
    iceberg_kit.stage(2, "b", 2, **options)
    iceberg_kit.stage(3, "c", 4, **options)
    return iceberg_kit


def list_folders(kit: Kit) -> list[str]:
    data = Path(kit.load(STAGED).location().removeprefix("file://")) / "data"
    return sorted(path.name for path in data.iterdir() if path.is_dir())


def list_tags(kit: Kit) -> dict[str, str]:
    """The attempt that each tag of the intermediate table is on."""
    metadata = kit.load(STAGED).metadata
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    tags = {name: ref.snapshot_id for name, ref in metadata.refs.items() if name != "main"}
    return {name: snapshots[number].summary["tidegate.attempt"] for name, number in tags.items()}


def test_newest_complete_attempt_at_each_batch_has_a_tag_that_sql_can_read(viewed_kit: Kit) -> None:
    viewed_kit.stage(4, "killed", 1, finished=False, viewed=True)
    viewed_kit.stage(5, "bad", 1, bad=1, viewed=True)
    assert list_tags(viewed_kit) == {"tidegate_staged_1": "a2", "tidegate_staged_2": "b", "tidegate_staged_3": "c"}


def test_attempt_that_no_view_reads_has_no_tag(kit: Kit) -> None:
    assert list_tags(kit) == {}


def test_published_batches_go_at_once_where_nobody_has_asked_for_a_live_view(tmp_path: Path) -> None:
    unread_kit = stage_three(tmp_path, viewed=True)
    assert unread_kit.port.staging.clean_up(STAGED, 2)["batches"] == 2
    assert list_tags(unread_kit) == {"tidegate_staged_3": "c"}
    assert unread_kit.read_rows(STAGED) == [{"batch_number": 3, "n": n} for n in range(4)]


def let_time_pass(kit: Kit, ms: int) -> None:
    """As if that long ago each clean-up had run that has run so far."""
    table = kit.load(STAGED)
    seen_ms = json.loads(table.properties[resource_names.PUBLISHED_PROPERTY])
    with table.transaction() as transaction:
        text = json.dumps({batch: seen - ms for batch, seen in seen_ms.items()})
        transaction.set_properties({resource_names.PUBLISHED_PROPERTY: text})


@pytest.mark.guard(
    "published batches stay for live views that are reading",
    file="plugins/tidegate/adapters/iceberg/staging.py",
    text=" and ms <= now_ms - KEPT_MS",
    off="",
)
def test_published_batch_stays_whole_for_views_that_began_to_read_before_it_was_published(viewed_kit: Kit) -> None:
    """A view may have read the table as it was before, and reads what was staged for it minutes later."""
    clean_up = viewed_kit.port.staging.clean_up
    names = ["tidegate_staged_1", "tidegate_staged_2", "tidegate_staged_3"]
    before = viewed_kit.load(STAGED)
    for _ in range(2):
        assert clean_up(STAGED, 2)["files"] == 0
    let_time_pass(viewed_kit, staging.KEPT_MS // 2)
    assert clean_up(STAGED, 3)["files"] == 0
    assert sorted(list_tags(viewed_kit)) == names
    assert viewed_kit.port.staging.list_staged(STAGED, TABLE) == [], "for no step: dead letters would be sent again"
    assert viewed_kit.read_rows(STAGED) == before.scan().to_arrow().to_pylist()

    let_time_pass(viewed_kit, staging.KEPT_MS // 2)
    assert clean_up(STAGED, 3)["batches"] == 2
    assert sorted(list_tags(viewed_kit)) == names[2:]
    assert viewed_kit.read_rows(STAGED) == [{"batch_number": 3, "n": n} for n in range(4)]
    let_time_pass(viewed_kit, staging.KEPT_MS // 2)
    assert clean_up(STAGED, 3)["batches"] == 1
    assert (list_tags(viewed_kit), viewed_kit.read_rows(STAGED)) == ({}, [])
    idle = viewed_kit.load(STAGED).metadata_location
    assert clean_up(STAGED, 3)["batches"] == 0
    assert viewed_kit.load(STAGED).metadata_location == idle, "nothing new, nothing written"


def test_clean_up_leaves_no_folder_of_a_batch_whose_files_are_gone(kit: Kit) -> None:
    kit.port.staging.clean_up(STAGED, 2)
    assert list_folders(kit) == ["batch_number=1", "batch_number=2", "batch_number=3"], (
        "the third's snapshot knows them"
    )
    assert kit.read_rows(STAGED) == [{"batch_number": 3, "n": n} for n in range(4)]
    kit.stage(4, "d", 1)
    kit.port.staging.clean_up(STAGED, 3)
    kit.stage(5, "e", 1)
    kit.port.staging.clean_up(STAGED, 4)
    kit.port.staging.clean_up(STAGED, 5)
    kit.port.staging.clean_up(STAGED, 5)
    assert list_folders(kit) == []


def test_clean_up_is_tried_again_behind_what_is_staged_beside_it(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge that cleans up while batches are staged every few seconds finds the table changed more often than not."""
    drop_staged, numbers = staging._drop_staged, [4, 5]

    def stage_before(*words: Any) -> None:
        if numbers:
            number = numbers.pop(0)
            kit.stage(number, f"of-{number}", 2)
        drop_staged(*words)

    monkeypatch.setattr(staging, "_drop_staged", stage_before)
    assert kit.port.staging.clean_up(STAGED, 3)["batches"] == 3
    assert [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)] == [(4, "of-4"), (5, "of-5")]
    assert sorted(row["batch_number"] for row in kit.read_rows(STAGED)) == [4, 4, 5, 5]


def test_folder_that_somebody_writes_to_meanwhile_stays(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    late = Path(kit.load(STAGED).location().removeprefix("file://")) / "data" / "batch_number=1" / "late.parquet"
    remove = staging.remove_file

    def slowly(table: Any, location: str) -> None:
        remove(table, location)
        late.touch()

    monkeypatch.setattr(staging, "remove_file", slowly)
    kit.port.staging.clean_up(STAGED, 3)
    assert list_folders(kit) == ["batch_number=1"]
    assert late.exists()


class WritesBehindListing:
    """A file system in which somebody writes a file right after its folder was listed as empty."""

    def __init__(self, files: Any, late: Path, written: list[Path]) -> None:
        self._files, self._late, self._written = files, late, written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._files, name)

    def get_file_info(self, selector: Any) -> Any:
        listed = self._files.get_file_info(selector)
        if getattr(selector, "base_dir", "") == str(self._late.parent):
            self._late.touch()
            self._written.append(self._late)
        return listed


def test_folder_that_somebody_writes_to_right_behind_the_look_stays(kit: Kit) -> None:
    """The number of a batch that failed is free again, so that the next attempt writes there."""
    late = Path(kit.load(STAGED).location().removeprefix("file://")) / "data" / "batch_number=1" / "late.parquet"
    table, written = kit.load(STAGED), list[Path]()
    open_files = table.io.fs_by_scheme
    table.io.fs_by_scheme = lambda *place: WritesBehindListing(open_files(*place), late, written)
    for path in late.parent.iterdir():
        path.unlink()
    files.drop_empty_folders(table, {f"file://{late.parent}"})
    assert all(path.exists() for path in written)


def test_table_that_another_run_makes_anew_during_a_drop_keeps_its_files(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = kit.load(STAGED).catalog
    drop, old_files = catalog.drop_table, set(kit.files_below(kit.load(STAGED).location()))

    def drop_slowly(name: Any) -> None:
        drop(name)
        kit.stage(1, "anew", 2)
        kit.stage(2, "anew2", 3)

    monkeypatch.setattr(type(catalog), "drop_table", lambda _, name: drop_slowly(name))
    kit.port.staging.drop(STAGED)
    assert [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)] == [(1, "anew"), (2, "anew2")]
    assert len(kit.read_rows(STAGED)) == 5
    assert not old_files & set(kit.files_below(kit.load(STAGED).location()))


def test_drop_leaves_no_file_and_no_folder(kit: Kit) -> None:
    folder = Path(kit.load(STAGED).location().removeprefix("file://"))
    (folder / "data" / "batch_number=7" / "emptied").mkdir(parents=True)
    (folder / "data" / "batch_number=7" / "of-a-killed-job.parquet").touch()
    kit.port.staging.drop(STAGED)
    assert not folder.exists()
    assert folder.parent.is_dir()


def test_files_that_no_arrow_reads_are_removed_without_their_folders(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another reader of files, as FsspecFileIO is, makes no files."""
    monkeypatch.setattr(files, "PyArrowFileIO", type("Other", (PyArrowFileIO,), {}))
    kit.port.staging.clean_up(STAGED, 3)
    assert kit.bytes_on_disk is not None
    assert kit.bytes_on_disk(STAGED) == []


@pytest.mark.parametrize(("refusal_count", "completes"), [(2, True), (MAX_COMMITS, False)])
def test_attempt_is_completed_behind_commits_of_others_unless_they_never_end(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, refusal_count: int, completes: bool
) -> None:
    kit.stage(4, "counted", 2, finished=False)
    kit.count("counted", render_outcome(2))
    commit, refusals = staging.commit, [refusal_count]

    def commit_late(*args: Any) -> None:
        if refusals[0]:
            refusals[0] -= 1
            raise CommitRefused("the table has changed")
        commit(*args)

    monkeypatch.setattr(staging, "commit", commit_late)
    with nullcontext() if completes else pytest.raises(RetryLater, match=r"attempt=counted: other commits .* faster"):
        kit.port.staging.complete_attempt(STAGED, 4, "counted", {})
    staged = [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)]
    assert staged == [(1, "a2"), (2, "b"), (3, "c"), *([(4, "counted")] if completes else [])]


def compact_by_another_tool(kit: Kit) -> None:
    """One snapshot that says nothing of batches: the same rows in a file of its own for each of them."""
    table = kit.load(STAGED)
    replace_files(table, [task.file for task in table.scan().plan_files()], table.scan().to_arrow())


def test_snapshots_of_another_tools_compactions_go_with_their_files(kit: Kit) -> None:
    """It should leave these tables alone. Where it does not, a batch's bytes would stay for each of its nights."""
    snapshot_counts, file_counts = list[int](), list[int]()
    for batch in range(4, 16):
        kit.stage(batch, f"of-{batch}", 3)
        compact_by_another_tool(kit)
        kit.port.staging.clean_up(STAGED, batch - 1)
        waiting = kit.port.staging.list_staged(STAGED, TABLE)
        assert [(staged.batch, staged.attempt) for staged in waiting] == [(batch, f"of-{batch}")]
        pinned = kit.load(STAGED).scan(f"batch_number = {batch}", snapshot_id=waiting[0].snapshot_id)
        assert pinned.to_arrow().num_rows == kit.load(STAGED).scan(f"batch_number = {batch}").to_arrow().num_rows == 3
        snapshot_counts.append(len(kit.load(STAGED).metadata.snapshots))
        file_counts.append(len(kit.bytes_on_disk(STAGED)))
    assert (max(snapshot_counts[6:]), max(file_counts[6:])) <= (max(snapshot_counts[:6]), max(file_counts[:6]))
    assert max(snapshot_counts) <= 4


def test_snapshot_of_another_tool_that_somebody_has_tagged_stays(kit: Kit) -> None:
    compact_by_another_tool(kit)
    table = kit.load(STAGED)
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "mine").commit()
    for batch in (4, 5):
        kit.stage(batch, f"of-{batch}", 3)
        kit.port.staging.clean_up(STAGED, batch)
    tagged = kit.load(STAGED).metadata.refs["mine"].snapshot_id
    assert kit.load(STAGED).scan(snapshot_id=tagged).to_arrow().num_rows == 8


def test_note_of_a_backfill_is_read_where_the_catalog_keeps_names_in_lower_case(kit: Kit) -> None:
    catalog = kit.port.tables.catalogs.catalog("lake")
    owner = Ownership(TableKind.INTERMEDIATE, "shop", "shop.Orders")
    properties = {resource_names.BACKFILL_PROPERTY: "of orders", **owner.properties}
    catalog.create_table("shop.orders_shop_backfill_1", Schema(), properties=properties)
    assert kit.port.history.list_backfills("lake.shop.Orders", "shop") == ["of orders"]


def test_numbers_that_other_tables_took_are_told_beside_the_removed_batches(kit: Kit) -> None:
    kit.port.staging.clean_up(STAGED, 3)
    kit.stage(7, "of-7", 1)
    counts = kit.port.staging.clean_up(STAGED, 7)
    assert (counts["batches"], counts["passed"]) == (1, 4)
    kit.stage(8, "of-8", 1)
    assert "passed" not in kit.port.staging.clean_up(STAGED, 7) | kit.port.staging.clean_up(STAGED, 8)


def test_batch_is_counted_once_as_removed_whatever_runs_find_of_it_later(kit: Kit) -> None:
    """`compact` is due by this number: a quiet table would be measured again in each run."""
    kit.port.staging.clean_up(STAGED, 3)
    kit.stage(4, "no rows", 0)
    assert [kit.port.staging.clean_up(STAGED, 4)["batches"] for _ in range(3)] == [1, 0, 0]
    kit.stage(5, "rows", 2)
    assert [kit.port.staging.clean_up(STAGED, 5)["batches"] for _ in range(3)] == [1, 0, 0]


def test_batch_that_fails_for_a_bad_record_in_each_run_is_no_published_one(kit: Kit) -> None:
    kit.port.staging.clean_up(STAGED, 3)
    for attempt in ("x", "y", "z"):
        kit.stage(4, attempt, 1, bad=1)
        assert kit.port.staging.clean_up(STAGED, 3)["batches"] == 0
        assert kit.read_rows(STAGED) == []
