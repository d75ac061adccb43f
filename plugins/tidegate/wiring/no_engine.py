"""The engine of those who start no Spark job: the doctor, the page, and heartbeats beside flushes."""

from tidegate.errors import GiveUp


class NoEngine:
    """The port `Engine` without Spark."""

    def run(self, job: object) -> None:
        """Refuse: who only looks starts no job."""
        raise GiveUp("the doctor and the page start no jobs")
