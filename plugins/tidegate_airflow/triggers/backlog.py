"""Watches, in the triggerer, how many records wait, and calls for a flush: one poller for all that share brokers."""

import asyncio
import json
from collections.abc import AsyncIterator, Hashable
from functools import partial
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent
from tidegate.monitoring.backlog import BacklogPoller, MonitoredPipeline
from tidegate.ports.broker import Broker

from tidegate_airflow.connections import resolve_connection

# Which pipelines a poller looks after: triggers of the same brokers live in one process and enter themselves here.
_monitored_pipelines: dict[Hashable, dict[int, MonitoredPipeline]] = {}


class BacklogTrigger(BaseEventTrigger):
    """Fires when `threshold` records of a pipeline wait beyond what its group has committed.

    `kafka`: a connection id or settings without secrets. `watch`: a `MonitoredPipeline` as data.
    """

    def __init__(self, kafka: str | dict[str, str], watch: dict[str, Any]) -> None:
        super().__init__()
        self.kafka = kafka
        self.watch = watch

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return how the triggerer makes it again; never a secret."""
        return f"{__name__}.{type(self).__name__}", {"kafka": self.kafka, "watch": self.watch}

    def shared_stream_key(self) -> Hashable:
        """Return the brokers: pipelines that name the same ones share a poller."""
        return _format_broker_key(self.kafka)

    @classmethod
    async def open_shared_stream(cls, kwargs: dict[str, Any]) -> AsyncIterator[dict[str, int]]:
        """Poll every second for all entered pipelines; yield those that are to flush.

        Never ends: a fault is logged, and the connection is looked up anew after a while.
        """
        key = _format_broker_key(kwargs["kafka"])
        poller = BacklogPoller(key, partial(_open_broker, kwargs["kafka"]))
        while True:
            watches = tuple(_monitored_pipelines.get(key, {}).values())
            calls, pause = await asyncio.to_thread(poller.look, watches)
            if calls:
                yield calls
            await asyncio.sleep(pause)

    async def filter_shared_stream(self, shared_stream: AsyncIterator[dict[str, int]]) -> AsyncIterator[TriggerEvent]:
        watch = MonitoredPipeline.from_dict(self.watch)
        entered = _monitored_pipelines.setdefault(_format_broker_key(self.kafka), {})
        entered[id(self)] = watch
        try:
            async for calls in shared_stream:
                if watch.pipeline in calls:
                    yield TriggerEvent({"pipeline": watch.pipeline, "waiting": calls[watch.pipeline]})
        finally:
            entered.pop(id(self), None)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        async for event in self.filter_shared_stream(self.open_shared_stream(self.serialize()[1])):
            yield event


def _open_broker(kafka: str | dict[str, str]) -> Broker:
    # in a thread: the import loads a library of C, and what it raises is logged like any other fault
    from tidegate.adapters.kafka.broker import KafkaBroker

    return KafkaBroker.open(kafka, resolve_connection)


def _format_broker_key(kafka: str | dict[str, str]) -> str:
    return kafka if isinstance(kafka, str) else json.dumps(kafka, sort_keys=True)
