"""An action before it is done: what it would do to rows, offsets and dead letters, and how to do exactly that."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tidegate.errors import TidegateError, join_tables
from tidegate.model.offsets import format_names


@dataclass(frozen=True)
class ActionPart:
    """One table's part of an action.

    - `facts`: what would be done to the table, as plain data.
    - `perform`: does it, in the name of its argument; refuses if the state is not the one of the preview.
    - `expected_batch`: the batch number in the preview. Offsets can return to a former value, a batch number cannot.
    """

    table: str
    facts: dict[str, Any]
    perform: Callable[[str], None]
    expected_batch: int | None = None


@dataclass(frozen=True)
class ProposedAction:
    """What a person is asked to confirm.

    - `preview`, `subject`: what would be done, for people and for programs; `parts`: by table. A preview holds nothing
      of a record's content: Airflow keeps it among results and in logs.
    - `full_preview`: with the content, for a terminal; may be empty.
    - `success_message`: the sentence afterwards.
    - `pinned_params`: ask for exactly this action again, where the given ones (a time, for instance) may change
      meaning.
    - `refuse`: called before any change; raises if no table may be changed.
    """

    preview: str
    subject: dict[str, Any]
    parts: tuple[ActionPart, ...]
    question: str
    success_message: str
    pinned_params: dict[str, Any] = field(default_factory=dict)
    full_preview: str = ""
    refuse: Callable[[], None] = lambda: None

    @property
    def data(self) -> dict[str, Any]:
        return {**self.subject, "tables": [{"table": part.table, **part.facts} for part in self.parts]}

    @property
    def digest(self) -> str:
        """Equal for two proposals that would do the same to the same state."""
        facts = {name: value for name, value in self.data.items() if name not in self.pinned_params}
        batches = {part.table: part.expected_batch for part in self.parts if part.expected_batch is not None}
        return compute_digest([facts, batches])

    def perform(self, by: str) -> None:
        """Do it, table by table.

        `SomeTablesDelayed` or `SomeTablesFailed` if a table fails after others were done: it names both.
        """
        self.refuse()
        done: list[str] = []
        for part in self.parts:
            try:
                part.perform(by)
            except TidegateError as error:
                if not done:
                    raise
                raise join_tables(
                    f"done for tables={format_names(done)}, and not for table={part.table} and those after it; "
                    f"another try does the rest: {error}",
                    [type(error)],
                ) from error
            done.append(part.table)


def compute_digest(facts: list[Any]) -> str:
    """Sixteen hexadecimal digits."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]
