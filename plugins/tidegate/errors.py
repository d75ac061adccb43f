"""What can go wrong on a record's way, arranged by what the caller does next.

    TidegateError
    ├── RetryLater              a passing fault: the same call may succeed unchanged
    │   ├── TopicsUnavailable   partitions have no leader that answers: tables that read other topics can go on
    │   ├── OutcomeUnknown      a commit was sent and no answer came: read the position back first
    │   └── SomeTablesDelayed   as SomeTablesFailed, and what stopped one of the tables may pass
    ├── GiveUp                  repeating changes nothing: a person must act
    │   ├── ConfigurationError  the pipeline file, a catalog or a connection is wrong
    │   ├── BadRecord           a record that cannot be decoded, under tolerance none
    │   ├── IncompatibleSchema  the table cannot take the pipeline's columns by any change that is allowed
    │   ├── RecordRefused       a record that is sent is larger than brokers or their client take
    │   ├── AuditFailed         a batch breaks a condition that its table must keep
    │   ├── PositionLost        the log, the topic or the table no longer fits the position
    │   └── SomeTablesFailed    the others are published; the failed ones keep what is staged, the refused ones wait
    ├── NothingToDo             no work: the step is skipped
    │   ├── NotTried            work that is left alone for now: what failed before may fail still
    │   └── HeldForApproval     a batch waits on its branch until a person approves or rejects it
    └── PublishedElsewhere      another run published first: nothing to repair

Each message says what happened, names the values as ``name=value`` and ends with what to do next.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar

Result = TypeVar("Result")


class TidegateError(Exception):
    """Root of every error that the product raises on purpose."""


class RetryLater(TidegateError):
    """A passing fault: the same call may succeed unchanged."""


class TopicsUnavailable(RetryLater):
    """Partitions have no leader that answers; `topics` are theirs, and others can be read."""

    def __init__(self, message: str, topics: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.topics = tuple(topics)


class OutcomeUnknown(RetryLater):
    """A commit was sent and its answer was lost; the position tells whether it happened."""


class GiveUp(TidegateError):
    """Repeating changes nothing: a person must act."""


class ConfigurationError(GiveUp):
    """A pipeline file, a catalog or a connection is wrong; `problems` holds one line for each mistake."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class BadRecord(GiveUp):
    """A record that cannot be decoded while `errors.tolerance` is none."""


class IncompatibleSchema(GiveUp):
    """The destination cannot hold the pipeline's columns, or its key, without a change that could lose something."""


class RecordRefused(GiveUp):
    """Brokers refuse a record that is sent to them, and would again; `record` is the one."""

    def __init__(self, message: str, record: Any = None) -> None:
        super().__init__(message)
        self.record = record


class AuditFailed(GiveUp):
    """A batch breaks a condition that must hold before it is published."""


class Unverifiable(GiveUp):
    """A table whose rows its log cannot tell, now or ever."""


class PositionLost(GiveUp):
    """The log, the topic, the cluster or the table no longer fits the recorded position."""


class SomeTables(TidegateError):
    """Some tables of a pipeline failed, or were refused; `published` are the others' results."""

    def __init__(self, message: str, published: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.published = published


class SomeTablesFailed(SomeTables, GiveUp):
    """None of the failed tables succeeds by trying again."""


class SomeTablesDelayed(SomeTables, RetryLater):
    """At least one of them failed in passing: a repeat call does its work."""


class NothingToDo(TidegateError):
    """There is no work: the step is skipped."""


class TableRemoved(NothingToDo):
    """The pipeline file no longer names the table: what was planned or staged for it stays."""


class NotTried(NothingToDo):
    """The work was left alone: whether what failed before is over is not known."""


class TooFewRecords(NotTried):
    """Too few records wait to begin: a later run has the work."""


class HeldForApproval(NothingToDo):
    """A rule of the table's `approve` holds a batch; `is_new`: by this very call, so that somebody should be told."""

    def __init__(self, message: str, *, is_new: bool = False) -> None:
        super().__init__(message)
        self.is_new = is_new


class PublishedElsewhere(TidegateError):
    """Another run published first: this one changed nothing, and nothing needs repair."""


def find_kind(name: str) -> type[TidegateError] | None:
    """Return the class of that name, for an error that came as text; None for a foreign one."""
    pending_kinds = [TidegateError]
    while pending_kinds:
        kind = pending_kinds.pop()
        if kind.__name__ == name:
            return kind
        pending_kinds += kind.__subclasses__()
    return None


def join_tables(
    message: str, kinds: Iterable[type[TidegateError] | None], published: tuple[Any, ...] = ()
) -> SomeTables:
    """Return the error of several tables: to be tried again if one of them is."""
    is_passing = any(kind is not None and issubclass(kind, RetryLater) for kind in kinds)
    return (SomeTablesDelayed if is_passing else SomeTablesFailed)(message, published)


def join_failures(failures: Collection[TidegateError], published: tuple[Any, ...] = ()) -> TidegateError:
    """Return one error with a line for each table's reason; the only one as it is, if no other table has a result."""
    if len(failures) == 1 and not published:
        return next(iter(failures))
    return join_tables("\n".join(dict.fromkeys(map(str, failures))), map(type, failures), published)


def try_tables(tables: Iterable[str], work: Callable[[str], Result]) -> tuple[list[Result], dict[str, TidegateError]]:
    """Do the work for each table, also behind one that fails; return the results, and the errors by table."""
    results = list[Result]()
    failures = dict[str, TidegateError]()
    for table in tables:
        try:
            results.append(work(table))
        except TidegateError as failure:
            failures[table] = failure
    return results, failures


def join_errors(errors: Sequence[TidegateError]) -> TidegateError:
    """Return one error with a line for each reason: of the kind of the first that may pass, else of the first."""
    first = next((error for error in errors if isinstance(error, RetryLater)), errors[0])
    reasons = dict.fromkeys(map(str, errors))
    return first if len(reasons) == 1 else type(first)("\n".join(reasons))


class CommitRefused(Exception):
    """A requirement of the commit did not hold: load the table again and decide."""
