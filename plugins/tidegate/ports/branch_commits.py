"""The port to commits: branches that are written beside a table, and the one commit that publishes."""

from collections.abc import Callable
from typing import Protocol

from tidegate.errors import GiveUp
from tidegate.model.merge_input import MergeInput
from tidegate.model.position import Position
from tidegate.model.table_state import Head, Rollback, TableCommit, TableState

NO_BRANCHES_REASON = "the destination has no branches: a merge is written by the transaction that publishes it"


class BranchCommits(Protocol):
    """Writes a batch into a destination table: on a branch where there are some, then by compare-and-swap.

    The methods that do something here are those of a destination without branches, which writes nothing before it
    publishes, and where nothing tells of a rollback.
    """

    def has_branches(self, table: str) -> bool:
        """Whether a merge is written beside the table, and seen, before it is published; else the publish does both."""
        return False

    def seed(self, table: str, pipeline: str, position: Position) -> None:
        """Give a table without snapshots its first one, empty, with the starting position; refused if it has one."""
        ...

    def start_branch(self, table: str, state: TableState, branch: str) -> None:
        """Start `branch` at the snapshot that `state` was read from; `CommitRefused` if main has moved."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def read_head(self, table: str, branch: str) -> Head | None:
        """The branch's newest snapshot; None where the branch is gone."""
        ...

    def append_empty(self, table: str, branch: str, summary: dict[str, str]) -> None:
        """Put a snapshot without rows on `branch`."""
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def publish(self, table_commit: TableCommit) -> None:
        """Publish rows and position, or neither. `CommitRefused`: a requirement failed; `OutcomeUnknown`: no answer."""
        ...

    def reparent(
        self, table_commit: TableCommit, onto: int, keys: MergeInput | None, summary: dict[str, str] | None = None
    ) -> Head | None:
        """Put a branch onto a newer main, None where a merge with `keys` might differ; `keys` None: it appends.

        `summary` is what the snapshot tells beside what its writer counted; None leaves that as it is.
        """
        return None

    def drop_branch(self, table: str, branch: str) -> None:
        """Remove one branch; nothing happens where it is gone."""
        return

    def drop_branches(self, table: str, pipeline: str, up_to_batch: int, is_gone: Callable[[str], bool]) -> int:
        """Remove this pipeline's branches of batches up to that one, and of backfills that are gone; returns how many.

        `is_gone` is asked with the id of a backfill that has a branch, after the branches were read.
        """
        return 0

    def find_rollback(self, table: str, pipeline: str) -> Rollback | None:
        """What a rollback took from this pipeline; None where nothing tells of one, or the last publish is gone."""
        return None

    def undo_rollback(self, table: str, pipeline: str, rollback: Rollback, properties: dict[str, str]) -> None:
        """Make the last published snapshot main again and set `properties`, in one commit.

        `CommitRefused` unless main and the tag stand as in `rollback`; `OutcomeUnknown` when no answer came.
        """
        raise GiveUp(f"table={table}: {NO_BRANCHES_REASON}")

    def find_snapshots(self, table: str, attempt: str) -> list[int]:
        """The snapshots, on whatever branch or on none, that this attempt wrote."""
        return []

    def list_rolled_back(self, table: str, name: str) -> frozenset[str]:
        """What snapshots tell under this name in their summaries, where the table stands on none of them any more.

        A snapshot on which it may stand, as expiry took those in between, is none of them; none without a table.
        """
        return frozenset()
