"""How an attempt becomes complete, and what a clean-up leaves of an intermediate table's folders."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract.test_destination import Kit, build_iceberg_kit
from contract_words import STAGED, TABLE, render_outcome
from pyiceberg.io.pyarrow import PyArrowFileIO
from tidegate.adapters.iceberg.ports.staging import MAX_COMMITS
from tidegate.adapters.iceberg.stores import staging
from tidegate.adapters.iceberg.table import commit as iceberg_commit
from tidegate.errors import CommitRefused, RetryLater
from tidegate.model.ownership import Ownership, TableKind


@pytest.fixture
def kit(tmp_path: Path) -> Kit:
    """Three staged batches, of two files each in the first."""
    iceberg_kit = build_iceberg_kit(tmp_path)
    iceberg_kit.stage(1, "a1", 3)
    iceberg_kit.stage(1, "a2", 2)
    iceberg_kit.stage(2, "b", 2)
    iceberg_kit.stage(3, "c", 4)
    return iceberg_kit


def list_folders(kit: Kit) -> list[str]:
    data = Path(kit.load(STAGED).location().removeprefix("file://")) / "data"
    return sorted(path.name for path in data.iterdir() if path.is_dir())


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


def test_files_that_no_arrow_reads_are_removed_without_their_folders(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another reader of files, as FsspecFileIO is, makes no folders."""
    monkeypatch.setattr(staging, "PyArrowFileIO", type("Other", (PyArrowFileIO,), {}))
    kit.port.staging.clean_up(STAGED, 3)
    assert kit.bytes_on_disk is not None
    assert kit.bytes_on_disk(STAGED) == []


@pytest.mark.parametrize(("refusal_count", "completes"), [(2, True), (MAX_COMMITS, False)])
def test_attempt_is_completed_behind_commits_of_others_unless_they_never_end(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, refusal_count: int, completes: bool
) -> None:
    kit.stage(4, "counted", 2, finished=False)
    kit.count("counted", render_outcome(2))
    commit, refusals = iceberg_commit.commit, [refusal_count]

    def commit_late(*args: Any) -> None:
        if refusals[0]:
            refusals[0] -= 1
            raise CommitRefused("the table has changed")
        commit(*args)

    monkeypatch.setattr(iceberg_commit, "commit", commit_late)
    with nullcontext() if completes else pytest.raises(RetryLater, match=r"attempt=counted: other commits .* faster"):
        kit.port.staging.complete_attempt(STAGED, 4, "counted", {})
    staged = [(s.batch, s.attempt) for s in kit.port.staging.list_staged(STAGED, TABLE)]
    assert staged == [(1, "a2"), (2, "b"), (3, "c"), *([(4, "counted")] if completes else [])]


def test_mark_is_of_one_pipeline_and_one_table(kit: Kit) -> None:
    own = Ownership(TableKind.INTERMEDIATE, "shop", "shop.orders")
    with kit.load(STAGED).transaction() as change:
        change.set_properties(own.properties)
    assert kit.port.tables.has_mark(STAGED, own)
    assert not kit.port.tables.has_mark(STAGED, replace(own, pipeline="shop_x"))
    assert not kit.port.tables.has_mark(STAGED, replace(own, table="shop.copy"))
    assert not kit.port.tables.has_mark(f"{STAGED}_missing", own)
