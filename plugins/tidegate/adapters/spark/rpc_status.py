"""gRPC's own answer of a Spark Connect server, where Spark itself did not say it better."""

from collections.abc import Iterator
from dataclasses import dataclass

REFUSED_CODES = ("UNAUTHENTICATED", "PERMISSION_DENIED")
LOGIN_ADVICE = "check the token (the connection's password), and that the server was started with it"
RAW_PREFIX = "<_"  # of the text by which gRPC's errors describe themselves: <_InactiveRpcError of RPC that …
# what Spark says of a session that a server does not know: the one that made it has gone, or has ended it
LOST_SESSION_CLASSES = ("INVALID_HANDLE.SESSION_", "INVALID_HANDLE.OPERATION_NOT_FOUND", "[NO_ACTIVE_SESSION]")
CAUSE_PREFIX = "Caused by: "  # of a line of the server's stack trace, before the error's class and words


@dataclass(frozen=True)
class RpcStatus:
    """A code by its name in gRPC, and the server's own words."""

    code: str
    details: str

    def is_login_refused(self) -> bool:
        """Whether the server does not know the caller, or does not let it in."""
        return self.code in REFUSED_CODES


def find_status(error: BaseException) -> RpcStatus | None:
    """The status behind an error of Spark's client, if gRPC raised it."""
    for exception in _walk_causes(error):
        if (
            type(exception).__module__.startswith("grpc")
            and hasattr(exception, "code")
            and hasattr(exception, "details")
        ):
            code = exception.code()
            return RpcStatus(getattr(code, "name", str(code)), str(exception.details() or ""))
    return None


def format_spark_error(error: BaseException) -> str:
    """Its first line and the first cause; of a bare gRPC error the code and the server's words."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    status = find_status(error) if lines[0].startswith(RAW_PREFIX) else None
    if status:
        return f"{status.code}: {status.details}"
    cause = _find_first_cause(error)
    return lines[0] if cause is None or cause in lines[0] else f"{lines[0]}: {cause}"


def is_session_lost(text: str) -> bool:
    """`text`: from `format_spark_error`."""
    return any(name in text for name in LOST_SESSION_CLASSES)


def read_server_trace(error: BaseException) -> str:
    """The server's stack trace; empty without one."""
    read_trace = getattr(error, "getStackTrace", None)
    return str(read_trace() or "") if read_trace else ""


def _find_first_cause(error: BaseException) -> str | None:
    lines = read_server_trace(error).splitlines()
    # the innermost one: what is raised around it may say nothing but that it failed
    causes = [line.removeprefix(CAUSE_PREFIX) for line in lines if line.startswith(CAUSE_PREFIX)]
    _, _, text = causes[-1].partition(": ") if causes else ("", "", "")
    return text.strip() or None


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    current: BaseException | None = error
    while current is not None:
        yield current
        # also where `raise ... from None` hides the context
        current = current.__cause__ or current.__context__
