"""What can go wrong on a record's way, arranged by what the caller does next.

    TidegateError
    ├── RetryLater              a passing fault: the same call may succeed unchanged
    │   └── OutcomeUnknown      a commit was sent and no answer came: read the position back first
    ├── GiveUp                  repeating changes nothing: a person must act
    │   ├── ConfigurationError  the pipeline file, a catalog or a connection is wrong
    │   ├── BadRecord           a record that cannot be decoded, under tolerance none
    │   ├── IncompatibleSchema  the table cannot take the pipeline's columns by any change that is allowed
    │   ├── AuditFailed         a batch breaks a condition that its table must keep
    │   ├── PositionLost        the log, the topic or the table no longer fits the position
    │   └── SomeTablesFailed    the others are published; the failed ones keep what is staged, the refused ones wait
    ├── NothingToDo             no work: the step is skipped
    └── PublishedElsewhere      another run published first: nothing to repair

Each message says what happened, names the values as ``name=value`` and ends with what to do next.
"""

from typing import Any


class TidegateError(Exception):
    """Root of every error that the product raises on purpose."""


class RetryLater(TidegateError):
    """A passing fault: the same call may succeed unchanged."""


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


class AuditFailed(GiveUp):
    """A batch breaks a condition that must hold before it is published."""


class PositionLost(GiveUp):
    """The log, the topic, the cluster or the table no longer fits the recorded position."""


class SomeTablesFailed(GiveUp):
    """Some tables of a pipeline failed, or were refused; `published` is what became of the others."""

    def __init__(self, message: str, published: tuple[Any, ...] = ()) -> None:
        super().__init__(message)
        self.published = published


class NothingToDo(TidegateError):
    """There is no work: the step is skipped."""


class PublishedElsewhere(TidegateError):
    """Another run published first: this one changed nothing, and nothing needs repair."""
