"""A notifier of Airflow's that keeps what it was told."""

from typing import Any, ClassVar

from airflow.sdk.bases.notifier import BaseNotifier


class KeepingNotifier(BaseNotifier):
    """Keeps its text, rendered, and the run it was called for."""

    template_fields = ("text",)
    notifications: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        """Keep it."""
        self.notifications.append((self.text, context["run_id"]))


class BrokenNotifier(BaseNotifier):
    """Cannot be told while it is broken; keeps what it was told, by its name."""

    template_fields = ("text",)
    broken: ClassVar[set[str]] = set()
    notifications: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, name: str, text: str = "") -> None:
        super().__init__()
        self.name, self.text = name, text

    def notify(self, context: Any) -> None:
        """Keep it, or fail as a server that refuses."""
        if self.name in self.broken:
            raise ConnectionError(f"{self.name} refuses")
        self.notifications.append((self.name, self.text))
