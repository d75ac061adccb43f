"""A task instance of Airflow, as far as operators push results through it, and the state that its tries share."""

import json
from typing import Any


class PushedResults:
    """A task instance that keeps what is pushed."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        """Keep one result by its key."""
        self.pushed[key] = value


class KeptState(dict[str, Any]):
    """Airflow's store of a task's state, which outlives its tries."""

    def set(self, key: str, value: Any) -> None:
        """Keep a value that JSON can hold."""
        self[key] = json.loads(json.dumps(value))

    def delete(self, key: str) -> None:
        """Forget a value."""
        self.pop(key, None)
