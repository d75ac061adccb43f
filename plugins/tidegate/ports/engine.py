"""The port to Spark, or whatever runs a job."""

from typing import Protocol

from tidegate.jobs.direct_job import DirectJob, DirectOutcome
from tidegate.jobs.job import Job


class Engine(Protocol):
    """Spark."""

    def run(self, job: Job) -> None:
        """Run one job to its end. What it produced is found in the destination, by attempt.

        An error does not say that nothing was produced: look there first. A repeat call runs the job a second time,
        so each call is given an attempt of its own.
        """
        ...

    def run_direct(self, job: DirectJob) -> DirectOutcome:
        """Run a direct job to its end, and return what it counted. What it wrote is found as after `run`.

        What it counted is nowhere else: after an error the branch that it wrote is of no use any more.
        """
        ...
