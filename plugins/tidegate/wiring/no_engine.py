"""The engine of those who look at pipelines and run nothing: the doctor, and the page."""

from tidegate.errors import GiveUp


class NoEngine:
    """The port `Engine` without Spark."""

    def run(self, job: object) -> None:
        """Refuse: who only looks starts no job."""
        raise GiveUp("the doctor and the page start no jobs")
