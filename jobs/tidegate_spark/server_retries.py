"""How long Spark's client waits for a server that has gone, or does not answer any more, in the middle of a job."""

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyspark.sql.connect.client.retries import DefaultPolicy

if TYPE_CHECKING:
    from pyspark.sql.connect.client import SparkConnectClient

MAX_DOWN_SECONDS = 30.0  # a server that starts again takes less, and knows nothing of its old sessions
# the client's own default waits up to a minute between two tries; the sum of the pauses stays at its ten minutes
MAX_PAUSE_MS = 10_000
MAX_RETRIES = 65
# A question costs a server nothing, and waits for no job. One that collects garbage, or whose machine is busy or moved,
# answers within three minutes; one that is frozen, or cut off, does not.
QUESTION_SECONDS = 30.0
MAX_UNANSWERED = 6
UNANSWERED_CODES = ("DEADLINE_EXCEEDED", "UNAVAILABLE")  # of gRPC; any other one is an answer


class RetryWhileListening(DefaultPolicy):  # type: ignore[misc]  # pyspark's own class has no types here
    """Spark's own policy, ten minutes for requests that fail, but 30 s for a port at which nobody listens.

    `is_refused` says whether the server's port takes no connection now.
    """

    def __init__(self, is_refused: Callable[[], bool]) -> None:
        super().__init__(max_retries=MAX_RETRIES, max_backoff=MAX_PAUSE_MS)
        self._is_refused = is_refused
        self._refused_since: float | None = None

    def can_retry(self, e: BaseException) -> bool:
        """Whether to ask again after this error: not if the server itself is gone."""
        return super().can_retry(e) and not self._is_gone()

    def _is_gone(self) -> bool:
        if not self._is_refused():
            self._refused_since = None
            return False
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        return now - self._refused_since >= MAX_DOWN_SECONDS


class ServerWatch:
    """Asks a session's server beside its job, and ends the session's requests if the server does not answer.

    A job may say nothing for hours, and Spark's client waits without a limit, also for a frozen server. A small request
    every half a minute shows whether it lives. Rounds are counted, not time: this process may have been frozen itself.

    `silent_seconds`: for how long nothing was answered when the requests were ended; 0 while they are not.
    """

    silent_seconds = 0.0

    def __init__(self, is_refused: Callable[[], bool]) -> None:
        self._is_refused = is_refused
        self._ended = threading.Event()

    def __enter__(self) -> "ServerWatch":
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def begin(self, client: "SparkConnectClient") -> None:
        """Watch over a client that has asked nothing yet."""
        client.set_retry_policies([RetryWhileListening(self._is_refused)])
        threading.Thread(target=self._watch, args=(client,), name="watch", daemon=True).start()

    def _watch(self, client: "SparkConnectClient") -> None:
        unanswered = 0
        pause = QUESTION_SECONDS
        while not self._ended.wait(pause):
            begin_seconds = time.monotonic()
            unanswered = 0 if is_answering(client) else unanswered + 1
            if unanswered >= MAX_UNANSWERED and not self._ended.is_set():
                self.silent_seconds = QUESTION_SECONDS * MAX_UNANSWERED
                client._channel.close()  # ends every request that waits
                return
            pause = max(0.0, QUESTION_SECONDS - (time.monotonic() - begin_seconds))


def is_answering(client: "SparkConnectClient") -> bool:
    """Whether the server answers a small question, be it with an error; also if the session is closed."""
    question = client._config_request_with_metadata()
    question.operation.get.SetInParent()
    try:
        client._internal_stub.Config(question, metadata=client._builder.metadata(), timeout=QUESTION_SECONDS)
    except Exception as error:  # gRPC's, or that the channel is closed
        code = getattr(error, "code", None)
        return code is None or code().name not in UNANSWERED_CODES
    return True
