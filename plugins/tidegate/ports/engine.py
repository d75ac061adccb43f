"""The port to Spark, or whatever runs a job."""

from typing import Protocol

from tidegate.jobs.job import Job


class Engine(Protocol):
    """Spark."""

    def run(self, job: Job) -> None:
        """Run one job to its end. What it produced is found in the destination, by attempt.

        An error does not say that nothing was produced: look there first. A repeat call runs the job a second time,
        so each call is given an attempt of its own.
        """
        ...
