"""What is counted of a batch's records in the one pass that writes their rows."""

import uuid
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql.utils import is_remote


class PassCounts:
    """The aggregates of one pass: `observe` the records, write them, `read` from what was written.

    Through Connect an `Observation` would ask the server whether the records are a stream, for which it analyses the
    whole plan: a sixth of what a small stage costs. By name the counts come with the answer to the write.
    """

    def __init__(self) -> None:
        self._name = uuid.uuid4().hex
        self._observation = None if is_remote() else Observation(self._name)

    def observe(self, records: DataFrame, aggregates: Sequence[Column]) -> DataFrame:
        """The records, with `aggregates` computed over all of them while they pass; read them after the action."""
        return records.observe(self._observation or self._name, *aggregates)

    def read(self, written: DataFrame) -> dict[str, Any]:
        """What was counted, once `written`, which came of the records, has been written; empty where it was lost."""
        if self._observation is not None:
            return dict(self._observation.get)
        done = written.executionInfo
        return dict(next((counts for name, counts in done.flows if name == self._name), {})) if done else {}
