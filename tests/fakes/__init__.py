"""In-memory doubles of the ports, faithful enough to run whole flushes, and doubles named for the fault they have.

A `World` is one broker, one lake and one clock; `World.open_session` opens a pipeline for a runner. Every call passes
through a hook, so that a test can kill the runner, or let another one run, between any two calls.
"""

from fakes.broker import MemoryBroker, Partition, Record
from fakes.clock import Clock, Crash
from fakes.faults import (
    AnswerLostAfterPublish,
    AnswerLostBeforePublish,
    BusyTable,
    CannotCleanUp,
    CannotRecord,
    FailsOneMerge,
    FailsToMerge,
    ForgetsToFinish,
    LosesARecord,
    RefusesPublish,
)
from fakes.lake import MemoryDestination
from fakes.pipelines import build_pipeline, build_table
from fakes.record_decoder import BAD
from fakes.spark import MemoryEngine, StructuredSql
from fakes.tables import MemoryTable, Row, Snapshot
from fakes.world import CrashAt, Hook, PauseAt, Watched, World, build_session

__all__ = [
    "BAD",
    "AnswerLostAfterPublish",
    "AnswerLostBeforePublish",
    "BusyTable",
    "CannotCleanUp",
    "CannotRecord",
    "Clock",
    "Crash",
    "CrashAt",
    "FailsOneMerge",
    "FailsToMerge",
    "ForgetsToFinish",
    "Hook",
    "LosesARecord",
    "MemoryBroker",
    "MemoryDestination",
    "MemoryEngine",
    "MemoryTable",
    "Partition",
    "PauseAt",
    "Record",
    "RefusesPublish",
    "Row",
    "Snapshot",
    "StructuredSql",
    "Watched",
    "World",
    "build_pipeline",
    "build_session",
    "build_table",
]
