"""What a failing catalog or file store means for a batch: it passes and the table is read again, or a person acts."""

import re

from pyiceberg import exceptions
from sqlalchemy.exc import DBAPIError, OperationalError

from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.adapters.iceberg.format_version import UnknownMetadata
from tidegate.adapters.port_errors import format_one_line, translate_errors
from tidegate.errors import ConfigurationError, GiveUp, OutcomeUnknown, RetryLater, TidegateError

# OSError is also what every HTTP client and PyArrow's file systems raise
RETRYABLE_ERRORS = (
    OSError,
    OperationalError,
    exceptions.ServerError,
    exceptions.ServiceUnavailableError,
    exceptions.TooManyRequestsError,
)
ACCESS_ERRORS = (exceptions.OAuthError, exceptions.UnauthorizedError, exceptions.ForbiddenError, PermissionError)
ACCESS_STATUS_CODES = (401, 403)
# PostgreSQL's codes for a refused log-in, a missing database and missing rights; without an answer to a statement, as
# at the log-in itself, psycopg2 has its text only
ACCESS_SQLSTATES = ("28000", "28P01", "3D000", "42501")
DATABASE_ACCESS_PATTERN = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|FATAL: +(role|database) .* does not exist"
    r"|permission denied",
    re.IGNORECASE,
)
STORE_ACCESS_PATTERN = re.compile(
    r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|INVALID_CLIENT_TOKEN_ID|SIGNATURE_\w+)"
)
OAUTH_ACCESS_PATTERN = re.compile(r"invalid_client|unauthorized_client|invalid_grant")


def judge_error(catalogs: Catalogs, verb: str, table: str, error: Exception) -> TidegateError | None:
    """The product's error for one of PyIceberg, its database or its file store; None for an unexpected one."""
    if is_access_error(error):
        login = catalogs.describe_login(table.split(".", 1)[0])
        return ConfigurationError(
            f"{login}: the log-in or its rights were refused during {verb} of table={table}: {format_one_line(error)}; "
            "correct the login, the password or the rights there"
        )
    if isinstance(error, UnknownMetadata):
        return GiveUp(
            f"table={table}: PyIceberg cannot read its metadata: {error}; its format or a type in it is not "
            "supported yet; use a table of format 2 or 3 without it"
        )
    if isinstance(error, exceptions.BadRequestError):
        return GiveUp(
            f"table={table}: the catalog refuses the request of {verb}: {format_one_line(error)}; nothing was changed; "
            "use a name and columns that this catalog takes, or see its log"
        )
    if isinstance(error, exceptions.CommitStateUnknownException):
        return OutcomeUnknown(
            f"table={table}: the catalog gave no answer during {verb}, and the commit may have been made; it will be "
            f"tried again: {format_one_line(error)}"
        )
    # a missing file is judged below: a clean-up or an expiry may have removed it since the metadata was read
    if isinstance(error, RETRYABLE_ERRORS) and not isinstance(error, FileNotFoundError):
        text = format_one_line(error)
        return RetryLater(
            f"table={table}: catalog or files did not answer during {verb}: {text}; see that the servers of the "
            "catalog run, and that its warehouse can be read and written; it will be tried again"
        )
    return _judge_race(verb, table, error)


def _judge_race(verb: str, table: str, error: Exception) -> RetryLater | None:
    text = format_one_line(error)
    if isinstance(error, FileNotFoundError):
        return RetryLater(
            f"table={table}: a file disappeared during {verb}, as clean-ups and expiries remove files: {text}"
        )
    if isinstance(error, exceptions.CommitFailedException):
        return RetryLater(f"table={table}: another writer changed it during {verb}; it will be tried again: {text}")
    if isinstance(error, exceptions.NoSuchTableError | exceptions.NoSuchNamespaceError):
        return RetryLater(f"table={table}: a table was dropped during {verb}; it will be tried again: {text}")
    return None


# for a port that has its catalogs as `catalogs`
translate_iceberg_errors = translate_errors(
    lambda port, verb, table, error: judge_error(port.catalogs, verb, table, error)
)


def is_access_error(error: Exception) -> bool:
    """Whether the login or a right is refused, by a catalog, its database or the file store: no retry helps."""
    if isinstance(error, ACCESS_ERRORS):
        return True
    if isinstance(error, DBAPIError):
        code = getattr(error.orig, "pgcode", None)
        return code in ACCESS_SQLSTATES or bool(DATABASE_ACCESS_PATTERN.search(str(error.orig)))
    if isinstance(error, OSError):
        response = getattr(error, "response", None)  # an HTTP client's
        status = getattr(response, "status_code", None)
        is_client = status == 400 and bool(OAUTH_ACCESS_PATTERN.search(getattr(response, "text", "")))
        return status in ACCESS_STATUS_CODES or is_client or bool(STORE_ACCESS_PATTERN.search(str(error)))
    return False
