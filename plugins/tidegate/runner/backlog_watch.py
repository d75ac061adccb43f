"""Calls for a flush as soon as enough records wait: one small request a second to the brokers for all pipelines."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.connections import Resolve
from tidegate.monitoring.backlog import BacklogMonitor, MonitoredPipeline
from tidegate.monitoring.failure_streak import is_worth_telling
from tidegate.ports.broker import Broker

log = logging.getLogger(__name__)
POLL_SECONDS = 1.0
RETRY_SECONDS = 15.0


class BacklogWatch:
    """The thread that looks at one Kafka cluster. `list_calls` returns what is watched, with the worker to call."""

    def __init__(
        self,
        kafka: str | dict[str, str],
        resolve: Resolve,
        list_calls: Callable[[], Mapping[MonitoredPipeline, Callable[[], None]]],
        stop: threading.Event,
    ) -> None:
        self._kafka = kafka
        self._resolve = resolve
        self._list_calls = list_calls
        self._stop = stop
        self._monitor = BacklogMonitor(time.monotonic)
        self._broker: Broker | None = None
        self._retired = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="tidegate backlog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def retire(self) -> None:
        """End, and close the client of the brokers: no pipeline watches them any more."""
        self._retired.set()

    def join(self, seconds: float) -> bool:
        """Wait for its end; return whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _loop(self) -> None:
        pause = 0.0
        failures = 0
        while not self._stop.wait(pause) and not self._retired.is_set():
            try:
                self._poll()
                pause = POLL_SECONDS
                failures = 0
            except Exception as fault:  # it must outlive whatever happens to brokers and connections
                self._broker = None
                pause = RETRY_SECONDS
                failures = failures + 1
                if is_worth_telling(failures):
                    log.warning("the backlog cannot be read, next try in %.0f s: %s", RETRY_SECONDS, fault)

    def _poll(self) -> None:
        calls = self._list_calls()
        if not calls:
            return
        if self._broker is None:
            self._broker = KafkaBroker.open(self._kafka, self._resolve)
        due_pipelines = self._monitor.poll(self._broker, tuple(calls))
        for pipeline, reason in self._monitor.failures.items():
            log.warning("backlog unknown: pipeline=%s: %s", pipeline, reason)
        for watched_pipeline, call in calls.items():
            if watched_pipeline.pipeline in due_pipelines:
                call()
