"""A notifier of Airflow's that keeps what it was told."""

from typing import Any, ClassVar

from airflow.sdk.bases.notifier import BaseNotifier


class KeepingNotifier(BaseNotifier):
    """Keeps its text, rendered, and the run it was called for."""

    template_fields = ("text",)
    kept: ClassVar[list[tuple[str, str]]] = []

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        """Keep it."""
        self.kept.append((self.text, context["run_id"]))
