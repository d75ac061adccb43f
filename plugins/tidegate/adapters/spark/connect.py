"""Spark through Connect: each job in a session of its own on a server that is already warm."""

import importlib
import sys
import threading
from collections.abc import Mapping
from types import ModuleType

from tidegate.adapters.port_errors import to_unexpected_error
from tidegate.adapters.server_probe import Server, find_connection_failure, require_server
from tidegate.adapters.spark.entry_points import JOBS_FOLDER, format_table, get_module, get_verb, require_free_catalogs
from tidegate.adapters.spark.rpc_status import (
    LOGIN_ADVICE,
    find_status,
    format_spark_error,
    is_session_lost,
    read_server_trace,
)
from tidegate.errors import ConfigurationError, RetryLater, TidegateError
from tidegate.jobs.lasting_failures import (
    build_refused_right_error,
    describe_memory_failure,
    find_lasting_failure,
    find_refused_right,
)
from tidegate.ports.session import Job
from tidegate.redaction import mask_addresses

# PySpark's packages import each other in circles: a second thread that imports them meanwhile sees half of them
_imports = threading.Lock()


def import_job_modules(job: Job) -> tuple[ModuleType, ModuleType, ModuleType]:
    """The modules of sessions, of the job, and of retries. Threads may call at once."""
    with _imports:
        if str(JOBS_FOLDER) not in sys.path:
            sys.path.append(str(JOBS_FOLDER))
        # by name and only here: worker and job code share no import, only the job's JSON
        sessions, work, retries = (
            importlib.import_module(name)
            for name in ("tidegate_spark.session", get_module(job), "tidegate_spark.server_retries")
        )
        return sessions, work, retries


class ConnectEngine:
    """Implements the port `Engine`. `conf` may hold secrets and goes only into the session.

    `place`: where the server's address stands, for messages.
    """

    def __init__(self, remote: str, conf: Mapping[str, str], place: str = "") -> None:
        self._remote = remote
        self._conf = conf
        self._server = Server.from_uri("Spark", place, remote)

    def run(self, job: Job) -> None:
        """`RetryLater` where Spark fails, no server answers, or a catalog is locked.

        `ConfigurationError` where the server refuses the log-in, or the catalog's database a right; `GiveUp` for what
        no retry
        changes.
        """
        require_server(self._server)
        require_free_catalogs(self._conf)
        sessions, work, retries = import_job_modules(job)
        with retries.ServerWatch(self._server.is_refused) as watch:
            try:
                spark = sessions.connect_session(self._remote, self._conf, watch)
                try:
                    work.run(spark, job)
                finally:
                    sessions.close(spark)
            except Exception as error:
                if watch.silent_seconds:
                    raise self._describe_silence(job, watch.silent_seconds) from error
                if isinstance(error, TidegateError):
                    raise
                raise self._translate_error(job, error) from error

    def _describe_silence(self, job: Job, seconds: float) -> RetryLater:
        return RetryLater(
            f"pipeline={job.pipeline} batch={job.batch}: {self._server} has answered nothing for {seconds:.0f} s in "
            f"the middle of {get_verb(job)}; no incomplete batch was published; see whether the server, its "
            "machine or the network stands still, and start the server again if it does; it will be tried again"
        )

    def _translate_error(self, job: Job, error: Exception) -> TidegateError:
        from pyspark.errors import PySparkException

        place = f"pipeline={job.pipeline} batch={job.batch}"
        if not isinstance(error, PySparkException) and not type(error).__module__.startswith("grpc"):
            return to_unexpected_error(get_verb(job), place, error)
        refusal = find_connection_failure(self._server.addresses)
        if refusal is not None:
            return RetryLater(
                f"{place}: {self._server} went away in the middle of {get_verb(job)}: {refusal}; no incomplete batch "
                "was published; start the server, and see its log; it will be tried again"
            )
        status = find_status(error)
        if status is not None and status.is_login_refused():
            return ConfigurationError(
                f"{self._server} refuses the log-in: {status.details}; nothing was changed; {LOGIN_ADVICE}"
            )
        text = mask_addresses(format_spark_error(error))
        if refusal := find_refused_right(f"{text}\n{read_server_trace(error)}"):
            return build_refused_right_error(f"{place}{format_table(job)} {get_verb(job)}", refusal)
        if is_session_lost(text):
            return RetryLater(
                f"{place}: Spark was restarted during {get_verb(job)}, or ended its session: {self._server}; no "
                "incomplete batch was published; the batch will be tried again"
            )
        lasting = find_lasting_failure(place, (get_verb(job),), text)
        advice = describe_memory_failure((get_verb(job),), text)
        return lasting or RetryLater(f"{place}: Spark failed in {get_verb(job)}: {text[:500]}{advice}")
