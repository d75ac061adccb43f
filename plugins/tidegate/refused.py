"""Tables that cannot go on, while the others of their pipeline do: found by `plan`, told at the end of the run."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.batch import Refusal
from tidegate.errors import GiveUp, SomeTablesFailed
from tidegate.pipeline import Table
from tidegate.ports import Ports, TableState
from tidegate.position import Position

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refused:
    """One table that cannot go on, and why."""

    table: Table
    state: TableState | None
    error: GiveUp

    @property
    def position(self) -> Position | None:
        """Where it was last known to stand."""
        return self.state.recorded if self.state else None

    @property
    def end(self) -> Position | None:
        """The same: nothing that is staged for it counts."""
        return self.position


def told(ports: Ports, refused: Sequence[Refused], *, has_work: bool) -> tuple[Refusal, ...]:
    """The refusals as they travel with a plan.

    Raised instead: the reason where all tables are refused, `SomeTablesFailed` where the others have no work.
    """
    if refused and len(refused) == len(ports.pipeline.tables):
        raise refused[0].error
    refusals = tuple(Refusal(one.table.name, type(one.error).__name__, str(one.error)) for one in refused)
    if refusals and not has_work:
        raise SomeTablesFailed(in_words(ports, refusals))
    for refusal in refusals:
        log.warning(refusal.message)
    return refusals


def in_words(ports: Ports, refusals: Sequence[Refusal]) -> str:
    """A line that names the tables that are refused, and one for each reason."""
    tables = ", ".join(refusal.table for refusal in refusals)
    reasons = dict.fromkeys(refusal.message for refusal in refusals)
    head = f"pipeline={ports.pipeline.name}: tables={tables} cannot go on and were left as they are, the others go on:"
    return "\n".join([head, *reasons])
