"""How long Spark's client goes on asking a server that has gone in the middle of a job."""

import time
from collections.abc import Callable

from pyspark.sql.connect.client.retries import DefaultPolicy

GONE_SECONDS = 30.0  # a server that starts again takes less, and knows nothing of its old sessions
# the client's own default waits up to a minute between two tries; the sum of the pauses stays at its ten minutes
MAX_PAUSE_MS, MAX_RETRIES = 10_000, 65


class RetryWhileListening(DefaultPolicy):  # type: ignore[misc]  # pyspark's own class has no types here
    """Spark's own policy, ten minutes for a network that fails, but 30 s for a port at which nobody listens.

    `is_refused` says whether the server's port takes no connection now.
    """

    def __init__(self, is_refused: Callable[[], bool]) -> None:
        super().__init__(max_retries=MAX_RETRIES, max_backoff=MAX_PAUSE_MS)
        self._is_refused = is_refused
        self._refused_since: float | None = None

    def can_retry(self, e: BaseException) -> bool:
        """Whether to ask again after this error: not where the server itself is gone."""
        return super().can_retry(e) and not self._is_gone()

    def _is_gone(self) -> bool:
        if not self._is_refused():
            self._refused_since = None
            return False
        now = time.monotonic()
        self._refused_since = self._refused_since or now
        return now - self._refused_since >= GONE_SECONDS
