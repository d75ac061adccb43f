"""An action before it is done: what it would do to rows, offsets and dead letters, and how to do exactly that."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class ProposedAction:
    """What a person is asked to confirm.

    `preview` says for people what would be done, `data` for programs; `done` is the sentence afterwards. `perform` does
    it, by whom its argument names, and refuses where that is no longer what was shown. `pins` are words of the form
    that ask for the same again where the words that were given may mean something else a moment later. `stands_on` is
    what else must be as it was shown, by table: offsets can come back to where they were, a batch's number does not.
    """

    preview: str
    data: dict[str, Any]
    question: str
    done: str
    perform: Callable[[str], None]
    pins: dict[str, Any] = field(default_factory=dict)
    stands_on: dict[str, int] = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """Equal for two proposals that would do the same to the same state."""
        facts = {name: value for name, value in self.data.items() if name not in self.pins}
        return hashlib.sha256(json.dumps([facts, self.stands_on], sort_keys=True).encode()).hexdigest()[:16]
