"""Spark through Connect: each job in a session of its own on a server that is already warm."""

from collections.abc import Mapping

from tidegate.adapters.port_errors import to_unexpected_error
from tidegate.adapters.server_probe import Server, find_connection_failure, require_server
from tidegate.adapters.spark.entry_points import MODULES, get_verb, import_spark_side, require_free_catalogs
from tidegate.errors import ConfigurationError, RetryLater, TidegateError
from tidegate.jobs.lasting_failures import (
    build_passing_failure,
    build_refused_right_error,
    find_lasting_failure,
    find_refused_right,
)
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.ports.session import Job
from tidegate.redaction import mask_addresses

REFUSED_CODES = ("UNAUTHENTICATED", "PERMISSION_DENIED")
LOGIN_ADVICE = "check the token (the connection's password), and that the server was started with it"
RAW_PREFIX = "<_"  # of the text by which gRPC's errors describe themselves: <_InactiveRpcError of RPC that …
# what Spark says of a session that a server does not know: the one that made it has gone, or has ended it
LOST_SESSION_CLASSES = ("INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_NOT_FOUND", "[NO_ACTIVE_SESSION]")
CAUSE_PREFIX = "Caused by: "  # of a line of the server's stack trace, before the error's class and words


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
        no retry changes.
        """
        require_server(self._server)
        require_free_catalogs(self._conf)
        sessions, work, retries = import_spark_side("session", MODULES[type(job)], "server_retries")
        with retries.ServerWatch(self._server.is_refused) as watch:
            try:
                spark = sessions.connect_session(self._remote, self._conf, watch)
                try:
                    work.run(spark, job)
                finally:
                    sessions.close(spark)
            except Exception as error:
                if watch.silent_seconds:
                    raise RetryLater(
                        f"pipeline={job.pipeline} batch={job.batch}: {self._server} has answered nothing for "
                        f"{watch.silent_seconds:.0f} s in the middle of {get_verb(job)}; no incomplete batch was "
                        "published; see whether the server, its machine or the network stands still, and start the "
                        "server again if it does; it will be tried again"
                    ) from error
                if isinstance(error, TidegateError):
                    raise
                raise self._translate_error(job, error) from error

    def _translate_error(self, job: Job, error: Exception) -> TidegateError:
        from pyspark.errors import PySparkException

        place = f"pipeline={job.pipeline} batch={job.batch}"
        verb = get_verb(job)
        if not isinstance(error, PySparkException) and not type(error).__module__.startswith("grpc"):
            return to_unexpected_error(verb, place, error)
        refusal = find_connection_failure(self._server.addresses)
        if refusal is not None:
            return RetryLater(
                f"{place}: {self._server} went away in the middle of {verb}: {refusal}; no incomplete batch "
                "was published; start the server, and see its log; it will be tried again"
            )
        details = find_login_refusal(error)
        if details is not None:
            return ConfigurationError(
                f"{self._server} refuses the log-in: {details}; nothing was changed; {LOGIN_ADVICE}"
            )
        text = mask_addresses(format_spark_error(error))
        if refusal := find_refused_right(f"{text}\n{read_server_trace(error)}"):
            table = f" table={job.table}" if isinstance(job, MaintainJob) else ""  # it has no batch
            return build_refused_right_error(f"{place}{table} {verb}", refusal)
        if any(name in text for name in LOST_SESSION_CLASSES):
            return RetryLater(
                f"{place}: Spark was restarted during {verb}, or ended its session: {self._server}; no "
                "incomplete batch was published; the batch will be tried again"
            )
        lasting = find_lasting_failure(place, verb, text)
        return lasting or build_passing_failure(place, verb, text, failed=f": Spark failed in {verb}")


def find_login_refusal(error: BaseException) -> str | None:
    """The server's own words where it does not know the caller, or does not let it in."""
    code, details = _find_status(error) or ("", "")
    return details if code in REFUSED_CODES else None


def _find_status(error: BaseException) -> tuple[str, str] | None:
    """The code by its name, and the server's own words, if gRPC raised the error behind one of Spark's client."""
    exception: BaseException | None = error
    while exception is not None:
        is_grpc = type(exception).__module__.startswith("grpc")
        if is_grpc and hasattr(exception, "code") and hasattr(exception, "details"):
            code = exception.code()
            return getattr(code, "name", str(code)), str(exception.details() or "")
        exception = exception.__cause__ or exception.__context__  # also where `raise ... from None` hides the context
    return None


def format_spark_error(error: BaseException) -> str:
    """Its first line and the first cause; of a bare gRPC error the code and the server's words."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    status = _find_status(error) if lines[0].startswith(RAW_PREFIX) else None
    if status:
        return ": ".join(status)
    # the innermost cause: what is raised around it may say nothing but that it failed
    trace = read_server_trace(error).splitlines()
    causes = [line.removeprefix(CAUSE_PREFIX) for line in trace if line.startswith(CAUSE_PREFIX)]
    cause = causes[-1].partition(": ")[2].strip() if causes else ""
    return f"{lines[0]}: {cause}" if cause and cause not in lines[0] else lines[0]


def read_server_trace(error: BaseException) -> str:
    """The server's stack trace; empty without one."""
    read_trace = getattr(error, "getStackTrace", None)
    return str(read_trace() or "") if read_trace else ""
