"""Spark through Connect: each job in a session of its own on a server that is already warm."""

import importlib
import sys
from collections.abc import Mapping

from tidegate.adapters.port_errors import to_unexpected_error
from tidegate.adapters.spark.entry_points import JOBS_FOLDER, get_module, get_verb
from tidegate.errors import RetryLater, TidegateError
from tidegate.jobs.job import Job


class ConnectEngine:
    """Implements the port `Engine`. `conf` may hold secrets and goes into the session, nowhere else."""

    def __init__(self, remote: str, conf: Mapping[str, str]) -> None:
        self._remote = remote
        self._conf = conf

    def run(self, job: Job) -> None:
        """Run the job; `RetryLater` when Spark fails, with Spark's own first line."""
        if str(JOBS_FOLDER) not in sys.path:
            sys.path.append(str(JOBS_FOLDER))
        from pyspark.errors import PySparkException

        # by name and only here: the worker and the job code share no import, just the job's JSON
        sessions = importlib.import_module("tidegate_spark.session")
        work = importlib.import_module(get_module(job))
        try:
            spark = sessions.connect_session(self._remote, self._conf)
            try:
                work.run(spark, job)
            finally:
                sessions.close(spark)
        except PySparkException as error:
            raise RetryLater(_describe_failure(job, error)) from error
        except TidegateError:
            raise
        except Exception as error:
            if type(error).__module__.startswith("grpc"):
                raise RetryLater(_describe_failure(job, error)) from error
            raise to_unexpected_error(get_verb(job), f"pipeline={job.pipeline} batch={job.batch}", error) from error


def _describe_failure(job: Job, error: Exception) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"pipeline={job.pipeline} batch={job.batch}: Spark failed in {get_verb(job)}: {lines[0][:500]}"
