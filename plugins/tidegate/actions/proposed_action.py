"""An action before it is done: what it would do to rows, offsets and dead letters, and how to do exactly that."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ProposedAction:
    """What a person is asked to confirm.

    - `preview`, `data`: what would be done, for people and for programs. `success_message`: the sentence afterwards.
    - `perform`: does it, in the name of its argument. It refuses if the state is no longer the one in the preview.
    - `pinned_params`: parameters that ask for exactly this action again. The given ones (a time, for instance) may mean
      something else a moment later.
    - `expected_batches`: each table's batch number in the preview. Offsets can return to a former value, a batch number
      cannot.
    """

    preview: str
    data: dict[str, Any]
    question: str
    success_message: str
    perform: Callable[[str], None]
    pinned_params: dict[str, Any] = field(default_factory=dict)
    expected_batches: dict[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Equal for two proposals that would do the same to the same state."""
        facts = {name: value for name, value in self.data.items() if name not in self.pinned_params}
        return hashlib.sha256(json.dumps([facts, self.expected_batches], sort_keys=True).encode()).hexdigest()[:16]
