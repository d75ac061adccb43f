"""The swap: one commit makes a written branch main and sets the properties that record it, or nothing changes.

cut → write → check the head → audit → read the table again → publish. A batch, a backfill and a rebase all end in this.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TypeGuard, TypeVar

from tidegate.errors import CommitRefused, GiveUp, OutcomeUnknown, RetryLater
from tidegate.jobs.merge_job import MergeJob
from tidegate.merge.audits import BatchAudits, check_audits
from tidegate.model import resource_names
from tidegate.model.table_state import Reparenting, StagedSource
from tidegate.ports.context import Head, Ports, TableCommit, TableState

Result = TypeVar("Result")
log = logging.getLogger(__name__)
# before each further cut; a burst of other commits, such as a compaction, is over by then
RETRY_PAUSES_SECONDS = (0.0, 1.0, 2.0, 4.0)
MAX_ROUNDS = len(RETRY_PAUSES_SECONDS) + 1  # then the task's own retry takes over
# Commits of one publish. They follow each other so fast that even a busy writer leaves room for one.
MAX_SWAP_ATTEMPTS = 20
ATTEMPT_PROPERTY = "tidegate.attempt"


@dataclass(frozen=True)
class Swap:
    """One attempt to publish.

    - `message_prefix`: the beginning of its messages.
    - `table`, `state`: the table, and how it was read before anything was written.
    - `branch`, `attempt`: where the rows are written, and the id in the summary of their snapshot.
    - `properties`: set on the table in the commit that publishes. `tag`: moves in that commit, if there is one.
    - `guard`: called with each later reading of the table; raises if another run was faster.
    - `summary`: goes into each snapshot that is written.
    - `audits`: what must hold on the branch before it becomes main.
    - `source`, `conf`: the staged rows that the statements read, and Spark's settings for them.
    - `min_added_rows`: how many rows the statements add to any table. More than 0 makes a write without a snapshot an
      error.
    - `reparenting`: how the branch may be put onto a newer main. None: the statements run again when main has moved.
    """

    ports: Ports
    message_prefix: str
    table: str
    state: TableState
    branch: str
    attempt: str
    properties: dict[str, str]
    guard: Callable[[TableState | None], None]
    summary: dict[str, str] = field(default_factory=dict)
    tag: str | None = None
    audits: BatchAudits | None = None
    source: StagedSource | None = None
    conf: dict[str, str] = field(default_factory=dict)
    min_added_rows: int = 0
    reparenting: Reparenting | None = None

    @property
    def written_summary(self) -> dict[str, str]:
        """The summary of each snapshot that this attempt writes; `is_own_head` recognises it by that."""
        return {**self.summary, ATTEMPT_PROPERTY: self.attempt}

    def is_own_head(self, head: Head | None, parent_id: int | None) -> TypeGuard[Head]:
        """Whether this attempt wrote the snapshot, right above that parent."""
        return head is not None and head.summary.get(ATTEMPT_PROPERTY) == self.attempt and head.parent_id == parent_id


def retry_commits(ports: Ports, place: str, try_commit: Callable[[], Result]) -> Result:
    """Call `try_commit` until no commit is refused, with growing pauses; each round has to read the table again."""
    for pause in (*RETRY_PAUSES_SECONDS, None):
        try:
            return try_commit()
        except CommitRefused as refusal:
            log.info("cut again: %s: %s", place, refusal)
        if pause:
            ports.pause(pause)
    raise RetryLater(f"{place}: other writers moved main {MAX_ROUNDS} times during the merge; it will be tried again")


def write_on_branch(swap: Swap, batch: int, *statements: str) -> Head:
    """Cut the branch, run the statements on it, and return the one snapshot that they made.

    Statements that change nothing make no snapshot in Spark; an empty one is put in its place. A destination without
    branches gets nothing yet: its publish runs the statements. A failure drops the branch.
    """
    if not swap.ports.commits.has_branches(swap.table):
        before = swap.state.snapshot_id or 0
        return Head(before + 1, before, swap.summary, statements)
    with _drop_branch_on_failure(swap):
        _cut_branch(swap)
        if statements:
            audits = swap.audits.request if swap.audits else None
            conf = _build_write_conf(swap)
            swap.ports.engine.run(
                MergeJob(swap.ports.pipeline.name, batch, statements, conf=conf, audits=audits, table=swap.table)
            )
        head = _find_head(swap, is_written=bool(statements))
        if statements and swap.audits:
            check_audits(swap.ports.staging, swap.message_prefix, swap.audits)
        return head


def _cut_branch(swap: Swap) -> None:
    """Cut the branch from the snapshot that the table was read at."""
    swap.ports.commits.start_branch(swap.table, swap.state, swap.branch)
    log.info("cut: %s branch=%s from snapshot=%s", swap.message_prefix, swap.branch, swap.state.snapshot_id)


def _build_write_conf(swap: Swap) -> dict[str, str]:
    """Spark's settings for the statements, with the summary of the snapshot that they make."""
    summary_conf = {f"spark.sql.iceberg.snapshot-property.{key}": value for key, value in swap.written_summary.items()}
    return {**swap.conf, **summary_conf}


def _find_head(swap: Swap, *, is_written: bool) -> Head:
    """The one snapshot that was made on the branch, or an empty one; `RetryLater` where anything else was."""
    commits = swap.ports.commits
    head = commits.read_head(swap.table, swap.branch)
    if head is not None and head.snapshot_id == swap.state.snapshot_id:
        if is_written:
            _check_changed_nothing(swap)
        commits.append_empty(swap.table, swap.branch, swap.written_summary)
        head = commits.read_head(swap.table, swap.branch)
    if not swap.is_own_head(head, swap.state.snapshot_id):
        raise RetryLater(
            f"{swap.message_prefix}: branch={swap.branch} is not as this attempt left it; it will be merged again"
        )
    return head


def _check_changed_nothing(swap: Swap) -> None:
    """A branch that has not moved means "no change" only if nothing was written elsewhere, and nothing had to be."""
    elsewhere = swap.ports.commits.find_snapshots(swap.table, swap.attempt)
    if elsewhere:
        raise GiveUp(
            f"{swap.message_prefix}: Spark wrote snapshot={elsewhere[0]} outside of branch={swap.branch}, as it does "
            "when spark.wap.id is set and the table has write.wap.enabled=true; nothing was published; remove "
            "spark.wap.* from the settings of Spark's sessions and server, then flush again"
        )
    if swap.min_added_rows:
        raise RetryLater(
            f"{swap.message_prefix}: Spark wrote no snapshot for staged={swap.min_added_rows} rows; nothing was "
            "published; it will be merged again"
        )


@contextmanager
def _drop_branch_on_failure(swap: Swap) -> Iterator[None]:
    """Drop the attempt's branch when it fails: no later attempt uses it, and it would keep its files alive.

    A job that still runs may make the branch again; clean_up drops that with its batch.
    """
    try:
        yield
    except Exception:
        try:
            swap.ports.commits.drop_branch(swap.table, swap.branch)
        except Exception as error:  # the first failure is the one to report
            log.warning(
                "branch not dropped, clean_up drops it later: %s branch=%s: %s", swap.message_prefix, swap.branch, error
            )
        raise


def publish_head(swap: Swap, head: Head) -> Head:
    """Make `head` main and return it as it then stands, with what changed. A failure drops the branch.

    1. Read the table. After a lost answer it may have this very commit already: then return.
    2. Stop if the guard raises: another run was faster.
    3. If main has moved, put the branch onto the newer main.
    4. Commit. If that is refused or not answered, begin again; after a pause, unless main has moved.
    """
    with _drop_branch_on_failure(swap):
        table_commit = _build_commit(swap, head)
        pauses = iter((*RETRY_PAUSES_SECONDS, 0.0))
        for _ in range(MAX_SWAP_ATTEMPTS):
            state = _read_state(swap)
            if state.uuid == table_commit.uuid and _carries_commit(swap, table_commit, state):
                return _read_published_head(swap, head)
            swap.guard(state)
            pause: float | None = 0.0
            if _has_main_moved(table_commit, state):
                moved_commit = _reparent_branch(swap, table_commit, state)
                if moved_commit is None:
                    continue
                head = moved_commit
                table_commit = replace(table_commit, cut=moved_commit.parent_id or 0, head=moved_commit.snapshot_id)
            elif (pause := next(pauses, None)) is None:
                break
            with suppress(CommitRefused, OutcomeUnknown):
                swap.ports.commits.publish(table_commit)
                return _read_published_head(swap, head)
            if pause:
                swap.ports.pause(pause)
        raise RetryLater(f"{swap.message_prefix}: the catalog refused the publish each time; it will be tried again")


def _read_published_head(swap: Swap, head: Head) -> Head:
    """What was published: the branch's head, or, without branches, what the commit itself has written."""
    if swap.ports.commits.has_branches(swap.table):
        return head
    published_head = swap.ports.commits.read_head(swap.table, resource_names.name_tag(swap.ports.pipeline.name))
    return replace(published_head, summary={**swap.summary, **published_head.summary}) if published_head else head


def _build_commit(swap: Swap, head: Head) -> TableCommit:
    """The compare-and-swap that makes `head` main."""
    state = swap.state
    if state.snapshot_id is None:
        raise CommitRefused(f"{swap.message_prefix}: no snapshot to cut from")
    return TableCommit(
        table=swap.table,
        uuid=state.uuid,
        schema_id=state.schema_id,
        cut=state.snapshot_id,
        branch=swap.branch,
        head=head.snapshot_id,
        properties=swap.properties,
        tag=swap.tag,
        pipeline=swap.ports.pipeline.name,
        attempt=swap.attempt,
        statements=head.statements,
        source=swap.source if head.statements else None,
        audits=_find_publish_audits(swap, head),
    )


def _find_publish_audits(swap: Swap, head: Head) -> tuple[tuple[str, str], ...]:
    """The audits, if the publish itself must ask them: in a destination without branches."""
    if swap.audits is None or not head.statements:
        return ()
    return tuple(zip(swap.audits.request.questions, swap.audits.texts, strict=True))


def _read_state(swap: Swap) -> TableState:
    state = swap.ports.tables.read_state(swap.table, swap.ports.pipeline.name)
    if state is None:
        raise CommitRefused(f"{swap.message_prefix}: the table is gone")
    return state


def _has_main_moved(table_commit: TableCommit, state: TableState) -> bool:
    return state.snapshot_id != table_commit.cut or state.schema_id != table_commit.schema_id


def _reparent_branch(swap: Swap, table_commit: TableCommit, state: TableState) -> Head | None:
    """Put the written rows onto the newer main. None if main moved again; `CommitRefused` asks for another merge."""
    merge_again = CommitRefused(f"{swap.message_prefix}: main moved to snapshot={state.snapshot_id}")
    if swap.reparenting is None or state.snapshot_id is None or not _is_same_except_main(swap.state, state):
        raise merge_again
    try:
        head = swap.ports.commits.reparent(table_commit, state.snapshot_id, swap.reparenting.keys, swap.written_summary)
    except CommitRefused:
        return None
    except Exception as error:  # whatever failed, a merge onto the newer main still works
        log.warning("not put onto a newer main: %s: %s", swap.message_prefix, error)
        raise merge_again from error
    if not swap.is_own_head(head, state.snapshot_id):
        raise merge_again
    log.info("put onto a newer main: %s snapshot=%s parent=%s", swap.message_prefix, head.snapshot_id, head.parent_id)
    return head


def _is_same_except_main(before: TableState, now: TableState) -> bool:
    if now.is_rolled_back or before.is_rolled_back:
        return False
    return (before.uuid, before.schema_id, before.recorded_position) == (now.uuid, now.schema_id, now.recorded_position)


def _carries_commit(swap: Swap, table_commit: TableCommit, state: TableState) -> bool:
    """Whether the table carries this commit's properties, and its tag is on this very snapshot."""
    if not table_commit.properties:
        return _is_newest_commit(swap, table_commit, state)
    if any(state.marks.get(key) != value for key, value in table_commit.properties.items()):
        return False
    if table_commit.tag is None:
        return True
    tagged = swap.ports.commits.read_head(swap.table, table_commit.tag)
    if tagged is None or tagged.summary.get(ATTEMPT_PROPERTY) != table_commit.attempt:
        return False
    return tagged.snapshot_id == table_commit.head


def _is_newest_commit(swap: Swap, table_commit: TableCommit, state: TableState) -> bool:
    """Whether this commit, which sets no property, is the table's last one.

    A commit behind which another writer has committed is not recognised; the caller may merge again.
    """
    commits = swap.ports.commits
    pipeline = swap.ports.pipeline.name
    if commits.has_branches(swap.table):
        return state.snapshot_id == table_commit.head
    last = commits.read_head(swap.table, resource_names.name_tag(pipeline))
    return last is not None and last.summary.get(ATTEMPT_PROPERTY) == table_commit.attempt
