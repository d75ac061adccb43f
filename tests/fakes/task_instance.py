"""A task instance of Airflow, as far as operators push results through it."""

from typing import Any


class PushedResults:
    """A task instance that keeps what is pushed."""

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        """Keep one result by its key."""
        self.pushed[key] = value
