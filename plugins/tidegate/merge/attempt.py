"""One try to publish: one commit makes a branch main and sets the properties that record it, or nothing changes.

cut → write → check the head → audit → read the table again → swap.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard, TypeVar

from tidegate.errors import CommitRefused, GiveUp, OutcomeUnknown, RetryLater, TidegateError
from tidegate.jobs.statements_job import StatementsJob
from tidegate.merge.audits import BatchAudits, check_audits, require_answers
from tidegate.merge.hold import Diff, build_hold_of_rows, find_equal_hold, keep_hold, raise_held
from tidegate.merge.owed import render_dead_letter_statements
from tidegate.merge.write_mode import WRITTEN_AS_PROPERTY
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.position import Position
from tidegate.model.table_state import Head, Reparenting, StagedSource, TableCommit, TableState
from tidegate.ports.session import Session
from tidegate.table.position import check_home
from tidegate.table.session import TableSession

Result = TypeVar("Result")
log = logging.getLogger(__name__)
# before each further cut; a burst of other commits, such as a compaction, is over by then
RETRY_PAUSES_SECONDS = (0.0, 1.0, 2.0, 4.0)
MAX_ROUNDS = len(RETRY_PAUSES_SECONDS) + 1  # then the task's own retry takes over
# Commits of one publish. They follow each other so fast that even a busy writer leaves room for one.
MAX_SWAP_ATTEMPTS = 20
ATTEMPT_PROPERTY = "tidegate.attempt"

Guard = Callable[[TableSession], None]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One try to publish: of a batch, a backfill's slice, a replay, a rebase or a renewed position."""

    table: TableSession  # as it was read before anything was written
    prefix: str  # the beginning of its messages
    batch: int
    id: str  # in the summary of each snapshot that it writes on `branch`
    branch: str
    guard: Guard  # called with each later reading of the table; raises if another run was faster
    properties: dict[str, str] = field(default_factory=dict)  # set on the table in the commit that publishes
    summary: dict[str, str] = field(default_factory=dict)
    tag: str | None = None  # moves in the commit that publishes, if there is one
    audits: BatchAudits | None = None  # what must hold on the branch before it becomes main
    memory: str | None = None  # the table of remembered deletes or changes that the statements write on `branch` too
    source: StagedSource | None = None  # the staged rows that the statements read
    batch_in_turn: StagedBatch | None = None  # whose rows these are, if they move the position
    conf: dict[str, str] = field(default_factory=dict)
    min_added_rows: int = 0  # if more than 0, a write without a snapshot is an error
    # how the branch may be put onto a newer main; None: the statements run again
    reparenting: Reparenting | None = None
    moves_home: bool = False  # the file may name other tables of the pipeline's own than before

    @property
    def session(self) -> Session:
        return self.table.session

    @property
    def state(self) -> TableState:
        return self.table.require_state()

    @property
    def own_summary(self) -> dict[str, str]:
        return {**self.summary, "tidegate.pipeline": self.table.pipeline.name}

    @property
    def written_summary(self) -> dict[str, str]:
        return {**self.own_summary, ATTEMPT_PROPERTY: self.id}

    def is_own_head(self, head: Head | None, parent_id: int | None) -> TypeGuard[Head]:
        """Whether this attempt wrote the snapshot, directly above that parent."""
        return head is not None and head.summary.get(ATTEMPT_PROPERTY) == self.id and head.parent_id == parent_id


def begin_attempt(table: TableSession, batch: int, guard: Guard, prefix: str = "") -> Attempt:
    """Begin an attempt that moves position and tag, on a branch of its own; nothing is written yet."""
    attempt_id = table.session.new_attempt()
    pipeline = table.pipeline.name
    return Attempt(
        table=table,
        prefix=prefix or table.prefix,
        batch=batch,
        id=attempt_id,
        branch=resource_names.name_branch(pipeline, batch, attempt_id),
        guard=guard,
        tag=resource_names.name_tag(pipeline),
    )


def begin_attempt_beside(table: TableSession, number: int, guard: Guard, prefix: str, backfill: str) -> Attempt:
    """Begin an attempt that leaves position and tag alone: slice `number` of a backfill, or a part of a replay."""
    attempt_id = table.session.new_attempt()
    branch = resource_names.name_backfill_branch(table.pipeline.name, backfill, number=number, attempt=attempt_id)
    return Attempt(table=table, prefix=prefix, batch=number, id=attempt_id, branch=branch, guard=guard)


def make_first_snapshot(table: TableSession, position: Position) -> None:
    """Give a table without snapshots one to cut from, empty, with `position`.

    One that was replaced gets no position: its rollback stays without an answer until the attempt is published.
    """
    if table.require_state().is_rolled_back:
        table.session.commits.append_empty(table.name, "main", {})
    else:
        table.session.commits.seed(table.name, table.pipeline.name, position)


def retry_commits(session: Session, place: str, try_commit: Callable[[], Result]) -> Result:
    """Call `try_commit` until no commit is refused, with growing pauses; each round has to read the table again."""
    for pause in (*RETRY_PAUSES_SECONDS, None):
        try:
            return try_commit()
        except CommitRefused as refusal:
            log.info("cut again: %s: %s", place, refusal)
        if pause:
            session.pause(pause)
    raise RetryLater(f"{place}: other writers moved main {MAX_ROUNDS} times during the merge; it will be tried again")


def publish_attempt(attempt: Attempt, *statements: str) -> Head:
    """Run the statements on a branch, make it main, and return its snapshot. A failure drops the branch.

    Whatever is published comes this way, so that each attempt pays what it owes besides its rows (`owed.py`):

    1. The rows are written and checked, and audits hold.
    2. `HeldForApproval` if a rule of `approve` holds the batch: the branch stays.
    3. Dead letters of a batch in turn are written, or marked as read again. Not before: a batch that is refused, and
       then left out, has neither read nor set aside a record. A destination without branches writes them with the rows.
    4. What the statements remember on the branch of `memory` becomes its main, then the branch becomes main. Its
       snapshot counts rows and bytes: `account` reads them.
    """
    staged_batch = attempt.batch_in_turn
    letters = render_dead_letter_statements(attempt.table, staged_batch) if staged_batch else ()
    is_later = bool(letters) and attempt.table.has_branches
    # 1.
    head = _write_on_branch(attempt, *(() if is_later else letters), *statements)
    if staged_batch:
        written_as = attempt.summary.get(WRITTEN_AS_PROPERTY, "")
        rows = staged_batch.counts.staged
        log.info("%s: %s snapshot=%s rows=%s", written_as, attempt.prefix, head.snapshot_id, rows)
    # 2.
    if attempt.audits and attempt.audits.asks_diff and staged_batch:
        attempt = _hold_unapproved(attempt, attempt.audits, staged_batch)
    # 3.
    if is_later:
        with _drop_branch_on_failure(attempt):
            pipeline = attempt.table.pipeline.name
            attempt.session.engine.run(StatementsJob(pipeline, attempt.batch, letters, table=attempt.table.name))
    # 4.
    return _swap(attempt, head)


def try_attempt(attempt: Attempt, *statements: str) -> tuple[Any, ...]:
    """Run the statements on a branch and return the answers to the attempt's questions; publish nothing."""
    assert attempt.audits is not None
    try:
        _write_on_branch(attempt, *statements)
        return require_answers(attempt.session.staging, attempt.prefix, attempt.audits)
    finally:
        with suppress(TidegateError):  # clean_up drops it behind the publish of its batch
            attempt.session.commits.drop_branch(attempt.table.name, attempt.branch)
        _drop_memory_branch(attempt)


def _hold_unapproved(attempt: Attempt, asked: BatchAudits, staged_batch: StagedBatch) -> Attempt:
    """Return the attempt, which from now on stops if an approval is taken back."""
    with _drop_branch_on_failure(attempt):
        diff = Diff.from_json(str(require_answers(attempt.session.staging, attempt.prefix, asked)[-1]))
        table = attempt.table.refresh()
        attempt.guard(table)
        state = table.require_state()
        # the diff was made against main, which is the cut only if it has not moved since
        if (state.uuid, state.snapshot_id) != (attempt.state.uuid, attempt.state.snapshot_id):
            raise CommitRefused(f"{attempt.prefix}: main moved to snapshot={state.snapshot_id}")
        hold = build_hold_of_rows(table, staged_batch, diff, attempt.branch)
        kept = None if hold is None else find_equal_hold(table, hold)
    if hold is not None:
        _drop_memory_branch(attempt)  # the merge that publishes remembers anew
        if kept is None:
            # without an answer the branch stays: the table may wait for it
            keep_hold(table, hold)
        else:  # another run holds it already, or a person has not answered yet
            attempt.session.commits.drop_branch(table.name, attempt.branch)
        raise_held(table, kept or hold, is_new=kept is None)

    def check_still_approved(table_now: TableSession) -> None:
        attempt.guard(table_now)
        if build_hold_of_rows(table_now, staged_batch, diff, attempt.branch) is not None:
            raise CommitRefused(f"{attempt.prefix}: its approval counts no more")

    return replace(attempt, guard=check_still_approved)


def _write_on_branch(attempt: Attempt, *statements: str) -> Head:
    # a destination without branches gets nothing yet: its swap runs the statements
    if not attempt.table.has_branches:
        before = attempt.state.snapshot_id or 0
        return Head(before + 1, before, attempt.own_summary, statements)
    with _drop_branch_on_failure(attempt):
        attempt.session.commits.start_branch(attempt.table.name, attempt.state, attempt.branch)
        log.info("cut: %s branch=%s from snapshot=%s", attempt.prefix, attempt.branch, attempt.state.snapshot_id)
        if statements:
            questions = attempt.audits.request if attempt.audits else None
            summary = {f"spark.sql.iceberg.snapshot-property.{k}": v for k, v in attempt.written_summary.items()}
            conf = {**attempt.conf, **summary}
            pipeline = attempt.table.pipeline.name
            attempt.session.engine.run(
                StatementsJob(
                    pipeline, attempt.batch, statements, conf=conf, questions=questions, table=attempt.table.name
                )
            )
        head = _find_head(attempt, is_written=bool(statements))
        if statements and attempt.audits:
            check_audits(attempt.session.staging, attempt.prefix, attempt.audits)
        return head


def _find_head(attempt: Attempt, *, is_written: bool) -> Head:
    commits = attempt.session.commits
    head = commits.read_head(attempt.table.name, attempt.branch)
    if head is not None and head.snapshot_id == attempt.state.snapshot_id:
        if is_written:
            _check_changed_nothing(attempt)
        commits.append_empty(attempt.table.name, attempt.branch, attempt.written_summary)
        head = commits.read_head(attempt.table.name, attempt.branch)
    if not attempt.is_own_head(head, attempt.state.snapshot_id):
        raise RetryLater(
            f"{attempt.prefix}: branch={attempt.branch} is not as this attempt left it; it will be merged again"
        )
    return head


def _check_changed_nothing(attempt: Attempt) -> None:
    # a branch that has not moved means "no change" only if nothing was written elsewhere
    elsewhere = attempt.session.commits.find_snapshots(attempt.table.name, attempt.id)
    if elsewhere:
        raise GiveUp(
            f"{attempt.prefix}: Spark wrote snapshot={elsewhere[0]} outside of branch={attempt.branch}, as it does "
            "when spark.wap.id is set and the table has write.wap.enabled=true; nothing was published; remove "
            "spark.wap.* from the settings of Spark's sessions and server, then flush again"
        )
    if attempt.min_added_rows:
        raise RetryLater(
            f"{attempt.prefix}: Spark wrote no snapshot for staged={attempt.min_added_rows} rows; nothing was "
            "published; it will be merged again"
        )


@contextmanager
def _drop_branch_on_failure(attempt: Attempt) -> Iterator[None]:
    try:
        yield
    except Exception:
        _drop_memory_branch(attempt)
        try:
            # no later attempt uses it, and it would keep its files alive; if a job makes it again, clean_up drops that
            attempt.session.commits.drop_branch(attempt.table.name, attempt.branch)
        except Exception as error:  # the first failure is the one to report
            log.warning(
                "branch not dropped, clean_up drops it later: %s branch=%s: %s", attempt.prefix, attempt.branch, error
            )
        raise


def _drop_memory_branch(attempt: Attempt) -> None:
    if attempt.memory:
        with suppress(Exception):  # clean_up drops it behind the publish of its batch
            attempt.session.commits.drop_branch(attempt.memory, attempt.branch)


def _swap(attempt: Attempt, head: Head) -> Head:
    """Make `head` main and return it as it then stands.

    1. Read the table. After a lost answer it may have this commit already: then return.
    2. Stop if the guard raises: another run was faster.
    3. If main has moved, put the branch onto the newer main.
    4. Remember, then commit. If that is refused or not answered, begin again; after a pause, unless main has moved.
       `CommitRefused` asks for another merge if others have remembered more meanwhile.
    """
    with _drop_branch_on_failure(attempt):
        if not attempt.moves_home:
            check_home(attempt.table)
        table_commit = _build_commit(attempt, head)
        pauses = iter((*RETRY_PAUSES_SECONDS, 0.0))
        is_remembered = False
        for _ in range(MAX_SWAP_ATTEMPTS):
            # 1.
            table = attempt.table.refresh()
            if table.state is None:
                raise CommitRefused(f"{attempt.prefix}: the table is gone")
            state = table.state
            if state.uuid == table_commit.uuid and _carries_commit(attempt, table_commit, state):
                return _read_published_head(attempt, head)
            # 2.
            attempt.guard(table)
            pause: float | None = 0.0
            # 3.
            if state.snapshot_id != table_commit.cut or state.schema_id != table_commit.schema_id:
                moved_commit = _reparent_branch(attempt, table_commit, state)
                if moved_commit is None:
                    continue
                head = moved_commit
                table_commit = replace(table_commit, cut=moved_commit.parent_id or 0, head=moved_commit.snapshot_id)
            elif (pause := next(pauses, None)) is None:
                break
            # 4.
            with suppress(OutcomeUnknown):
                if attempt.memory and not is_remembered:
                    # not behind the publish: a run that dies between the two would publish what nobody remembers
                    attempt.session.commits.fast_forward(attempt.memory, attempt.branch, attempt.id)
                    is_remembered = True
                with suppress(CommitRefused):
                    attempt.session.commits.publish(table_commit)
                    return _read_published_head(attempt, head)
            if pause:
                attempt.session.pause(pause)
        raise RetryLater(f"{attempt.prefix}: the catalog refused the publish each time; it will be tried again")


def _read_published_head(attempt: Attempt, head: Head) -> Head:
    if attempt.table.has_branches:
        return head
    tag = resource_names.name_tag(attempt.table.pipeline.name)
    published_head = attempt.session.commits.read_head(attempt.table.name, tag)
    return (
        replace(published_head, summary={**attempt.own_summary, **published_head.summary}) if published_head else head
    )


def _build_commit(attempt: Attempt, head: Head) -> TableCommit:
    state = attempt.state
    if state.snapshot_id is None:
        raise CommitRefused(f"{attempt.prefix}: no snapshot to cut from")
    # only where the position moves: a backfill recognises its own commit by having no properties
    home = {} if attempt.tag is None else resource_names.describe_home(attempt.table.pipeline)
    audits = attempt.audits if head.statements else None  # else they were asked on the branch
    return TableCommit(
        table=attempt.table.name,
        uuid=state.uuid,
        schema_id=state.schema_id,
        cut=state.snapshot_id,
        branch=attempt.branch,
        head=head.snapshot_id,
        properties={**attempt.properties, **home},
        tag=attempt.tag,
        pipeline=attempt.table.pipeline.name,
        attempt=attempt.id,
        statements=head.statements,
        source=attempt.source if head.statements else None,
        audits=tuple(zip(audits.request.queries, audits.texts, strict=True)) if audits else (),
    )


def _reparent_branch(attempt: Attempt, table_commit: TableCommit, state: TableState) -> Head | None:
    """Put the written rows onto the newer main. None if main moved again; `CommitRefused` asks for another merge."""
    merge_again = CommitRefused(f"{attempt.prefix}: main moved to snapshot={state.snapshot_id}")
    before = attempt.state
    recorded = [(it.uuid, it.schema_id, it.recorded_position) for it in (before, state)]
    is_same = recorded[0] == recorded[1] and not before.is_rolled_back and not state.is_rolled_back
    if attempt.reparenting is None or state.snapshot_id is None or not is_same:
        raise merge_again
    try:
        head = attempt.session.commits.reparent(
            table_commit, state.snapshot_id, attempt.reparenting.keys, attempt.written_summary
        )
    except CommitRefused:
        return None
    except Exception as error:  # whatever failed, a merge onto the newer main still works
        log.warning("not put onto a newer main: %s: %s", attempt.prefix, error)
        raise merge_again from error
    if not attempt.is_own_head(head, state.snapshot_id):
        raise merge_again
    log.info("put onto a newer main: %s snapshot=%s parent=%s", attempt.prefix, head.snapshot_id, head.parent_id)
    return head


def _carries_commit(attempt: Attempt, table_commit: TableCommit, state: TableState) -> bool:
    commits = attempt.session.commits
    if not table_commit.properties and attempt.table.has_branches:
        return state.snapshot_id == table_commit.head
    if not table_commit.properties:
        last = commits.read_head(attempt.table.name, resource_names.name_tag(attempt.table.pipeline.name))
        return last is not None and last.summary.get(ATTEMPT_PROPERTY) == table_commit.attempt
    if any(state.marks.get(key) != value for key, value in table_commit.properties.items()):
        return False
    if table_commit.tag is None:
        return True
    tagged = commits.read_head(attempt.table.name, table_commit.tag)
    if tagged is None or tagged.summary.get(ATTEMPT_PROPERTY) != table_commit.attempt:
        return False
    return tagged.snapshot_id == table_commit.head
