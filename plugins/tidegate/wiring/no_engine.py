"""The engine of those who look at pipelines and run nothing: the doctor, and the page."""

from tidegate.errors import GiveUp
from tidegate.jobs.direct_job import DirectOutcome


class NoEngine:
    """The port `Engine` without Spark."""

    def run(self, job: object) -> None:
        """Refuse: who only looks starts no job."""
        raise GiveUp("the doctor and the page start no jobs")

    def run_direct(self, job: object) -> DirectOutcome:
        """The same."""
        raise GiveUp("the doctor and the page start no jobs")
