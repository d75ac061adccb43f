"""What BigQuery's errors mean for a batch: retry, give up, merge again, or read the table's position first."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tidegate.adapters.port_errors import translate_errors
from tidegate.errors import GiveUp, OutcomeUnknown, RetryLater

# reasons of the REST API that pass by themselves
RETRYABLE_REASONS = {
    "backendError", "duplicate", "internalError", "jobBackendError", "jobInternalError", "jobRateLimitExceeded",
    "quotaExceeded", "rateLimitExceeded", "resourceInUse", "stopped", "tableUnavailable", "timeout",
}  # fmt: skip
# errors of two transactions that meet in one table: BigQuery's words, and those of the local server
CONFLICT_MESSAGES = (
    "could not serialize access", "due to concurrent update", "aborted due to concurrent", "transaction conflict",
    "write-write conflict", "conflict on tuple",
)  # fmt: skip
BILLED_LIMIT_REASON = "bytesBilledLimitExceeded"
COST_ADVICE = (
    "cluster the table by its key, partition it by a column of the key, let batches grow with merge.interval, or raise "
    "max_bytes_billed in catalogs.yaml"
)
TOO_MANY_PARTITIONS_MESSAGE = "too many partitions"  # a job changes 4,000 of them at most
# what is staged keeps its size: the batch would be merged as it is again
SMALLER_BATCH_ADVICE = (
    "lower merge.max_records, so that batches hold fewer records; this batch is staged already: drop the intermediate "
    "table (<table>_<pipeline>_tmp), and it is staged again"
)
PARTITION_ADVICE = (
    f"make the table again with larger partitions, as create.partition_by: [months(c)], or {SMALLER_BATCH_ADVICE}"
)
# how a job ends that ran into a limit of time: six hours, or less where the project or somebody sets one
TIME_LIMIT_MESSAGE = "timed out"
CANCELLED_REASON = "stopped"
TIME_LIMIT_REASONS = (CANCELLED_REASON, "timeout")
TOO_LARGE_REASON = "resourcesExceeded"
# rows that another writer has streamed (`tabledata.insertAll`, as sinks do) cannot be changed before they are stored
STREAMED_ROWS_MESSAGE = "streaming buffer"
STREAMED_ADVICE = (
    "BigQuery stores them by itself, at the latest 90 minutes after the last one was streamed; stop the writer that "
    "streams into the table, as a sink that was replaced"
)
QUEUE_FULL_MESSAGES = ("too many dml statements outstanding", "too many concurrent")  # with several reasons
# answers to a log-in that no retry changes; others may pass, as those of a metadata server that is restarted
LOGIN_REFUSAL_PATTERN = re.compile(r"invalid_grant|invalid_client|unauthorized_client|PERMISSION_DENIED")
MAX_SHOWN_CHARACTERS = 500  # letters of BigQuery's message


@dataclass(frozen=True)
class Service:
    """The service that answered, and what to do if it refuses us or lacks what was requested."""

    name: str
    if_forbidden: str = ""
    if_missing: str = ""


BIGQUERY = Service(
    "BigQuery",
    if_forbidden="give the identity the roles BigQuery Job User and BigQuery Data Editor",
    if_missing="create the dataset, or set location in catalogs.yaml to where it lies",
)


class JobFailed(Exception):
    """A job ended with an error: BigQuery's reason and message."""

    def __init__(self, job_id: str, reason: str, message: str) -> None:
        super().__init__(f"job={job_id} reason={reason}: {' '.join(message.split())[:MAX_SHOWN_CHARACTERS]}")
        self.reason = reason
        self.message = message

    @classmethod
    def from_job(cls, job: Any) -> "JobFailed":
        return cls(job.job_id, job.error_result.get("reason", ""), job.error_result.get("message", ""))

    @property
    def is_conflict(self) -> bool:
        """Whether another transaction changed the table at the same time."""
        return any(words in self.message.casefold() for words in CONFLICT_MESSAGES)

    @property
    def exceeds_billed_limit(self) -> bool:
        """Whether the job would read more than `max_bytes_billed`. BigQuery then reads and bills nothing."""
        return self.reason == BILLED_LIMIT_REASON or "exceeded limit for bytes billed" in self.message.casefold()

    @property
    def ran_out_of_time(self) -> bool:
        """Whether BigQuery ended it at a time limit."""
        return self.reason in TIME_LIMIT_REASONS and TIME_LIMIT_MESSAGE in self.message.casefold()

    @property
    def is_retryable(self) -> bool:
        """Whether the same job may succeed later."""
        waits = any(words in self.message.casefold() for words in QUEUE_FULL_MESSAGES)
        return self.is_conflict or waits or self.reason in RETRYABLE_REASONS


@contextmanager
def translate_client_errors(place: str, *, is_sent: bool = False, service: Service = BIGQUERY) -> Iterator[None]:
    """A refused log-in needs a person; other errors are retried. A failed job raises its own error.

    With `is_sent`, a missing answer is `OutcomeUnknown`.
    """
    from google.api_core import exceptions
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
    from requests.exceptions import RequestException

    try:
        yield
    except (exceptions.ServerError, exceptions.TooManyRequests, exceptions.RetryError) as error:
        raise _to_lost_answer_error(place, error, is_sent, service) from error
    except exceptions.PreconditionFailed as error:
        raise RetryLater(
            f"{place}: another writer changed it at the same time; it will be tried again: {_format_error(error)}"
        ) from error
    except exceptions.GoogleAPICallError as error:
        if get_reason(error) in RETRYABLE_REASONS:
            raise RetryLater(f"{place}: {service.name} refused it for now: {_format_error(error)}") from error
        way_out = service.if_forbidden if isinstance(error, exceptions.Forbidden | exceptions.Unauthorized) else ""
        way_out = service.if_missing if isinstance(error, exceptions.NotFound) else way_out
        raise GiveUp(
            f"{place}: {service.name} refused it: {_format_error(error)}{f'; {way_out}' if way_out else ''}"
        ) from error
    except GoogleAuthError as error:
        if isinstance(error, DefaultCredentialsError) or LOGIN_REFUSAL_PATTERN.search(str(error)):
            raise GiveUp(
                f"{place}: Google refused the log-in: {_format_error(error)}; correct the catalog's connection "
                "(google_cloud_default where it names none), or the identity of this machine"
            ) from error
        raise _to_lost_answer_error(place, error, is_sent, service) from error
    except (RequestException, ConnectionError, TimeoutError) as error:
        raise _to_lost_answer_error(place, error, is_sent, service) from error


def pass_over_missing() -> suppress:
    """Go on behind the block where what it asks for does not exist."""
    from google.api_core.exceptions import NotFound

    return suppress(NotFound)


def translate_job_error(place: str, error: JobFailed) -> RetryLater | GiveUp:
    """Says what the caller of a failed job does next."""
    lasting = _explain_limit(error)
    if lasting:
        return GiveUp(f"{place}: {lasting}")
    passing = _explain_interruption(error)
    if passing:
        return RetryLater(f"{place}: {passing}")
    if error.is_retryable:
        return RetryLater(f"{place}: BigQuery failed, it will be tried again: {error}")
    return GiveUp(f"{place}: BigQuery refused it: {error}; nothing was changed")


# for what nobody expects: each request and each failed job is translated where it is sent
translate_bigquery_errors = translate_errors(lambda *_: None)


def _explain_limit(error: JobFailed) -> str:
    if error.exceeds_billed_limit:
        return f"it would read more than max_bytes_billed, nothing was changed: {error}; {COST_ADVICE}"
    if TOO_MANY_PARTITIONS_MESSAGE in error.message.casefold():
        return f"its rows are in too many partitions, nothing was changed: {error}; {PARTITION_ADVICE}"
    if error.reason == TOO_LARGE_REASON and not error.is_retryable:
        return f"it is too large for BigQuery, nothing was changed: {error}; {SMALLER_BATCH_ADVICE}"
    return ""


def _explain_interruption(error: JobFailed) -> str:
    if STREAMED_ROWS_MESSAGE in error.message.casefold():
        return (
            "rows of it are still in BigQuery's streaming buffer, nothing was changed, it will be tried again: "
            f"{error}; {STREAMED_ADVICE}"
        )
    if error.ran_out_of_time:
        return (
            f"BigQuery ended it at a limit of time, it will be tried again: {error}; the limit is six hours, or the "
            f"project's default_query_job_timeout_ms; if it ends so each time, {SMALLER_BATCH_ADVICE}"
        )
    if error.reason == CANCELLED_REASON:
        return (
            f"somebody cancelled the job, it will be tried again: {error}; pause the pipeline if it is not to be sent "
            "again"
        )
    return ""


def get_reason(error: Any) -> str:
    """The REST API's reason in an error of the client, or empty."""
    first_error: dict[str, Any] = next(iter(getattr(error, "errors", None) or []), {})
    return str(first_error.get("reason", ""))


def _to_lost_answer_error(place: str, error: Exception, is_sent: bool, service: Service) -> RetryLater:
    kind = OutcomeUnknown if is_sent else RetryLater
    return kind(f"{place}: {service.name} gave no answer: {_format_error(error)}")


def _format_error(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:MAX_SHOWN_CHARACTERS]}"
