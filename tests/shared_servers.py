"""The servers that all processes of a test run share: a broker and a Spark server; and a Spark server for one test.

A server costs most of its CPU in its first minutes, when it loads classes and compiles what it runs. The processes of a
run (the parts of ``make servers``) have one broker and one Spark server together: each test has sessions, a catalog,
topics and a state topic of its own. The groups of pipelines are shared, as tests give them the same names: each looks
at the offsets of its own topics. Tests that kill or freeze a Spark server, or count what it keeps or starts, take the
other one, one at a time; tests that do so with brokers start their own.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from local.server import JVM_OPTIONS_VARIABLE
from local.stack import Stack, start_stack, stop_stack

BROKER, SHARED, ALONE = "kafka", "spark", "spark-alone"
# The shared server lives long enough for the JVM's second compiler, at the bounds of local/spark.py: for the tests of
# ten files it took 430 CPU s in place of 500. Servers of one test, and brokers, take less without.
FIRST_COMPILER_ALONE = "-XX:TieredStopAtLevel=1"
FOLDER = "servers"
KEPT_VARIABLE = "TIDEGATE_TEST_STACK"


@dataclass(frozen=True)
class SplitStack(Stack):
    """A broker, and the Spark server of the stack in `run_dir`."""

    broker: Any  # a stack, or whatever else has its variables

    @property
    def variables(self) -> dict[str, str]:
        return {**self.broker.variables, **super().variables}


def is_worker() -> bool:
    """Whether this process runs a part of the tests of another one."""
    return "PYTEST_XDIST_WORKER" in os.environ


def find_folder(factory: pytest.TempPathFactory) -> Path:
    """Where the servers of the run lie, the same for all of its processes."""
    if kept_folder := os.environ.get(KEPT_VARIABLE):
        return Path(kept_folder)
    base_folder = factory.getbasetemp()
    return (base_folder.parent if is_worker() else base_folder) / FOLDER


def find_owner() -> int | None:
    """The process with which the servers of the run end; None where a developer keeps them."""
    if os.environ.get(KEPT_VARIABLE):
        return None
    return os.getppid() if is_worker() else os.getpid()


def start_broker(folder: Path) -> Stack:
    """The broker of the run, started by whichever process asks first; it ends with the run, or with a kill of it."""
    return start_stack(folder / BROKER, parts={"kafka"}, tied_to=find_owner())


def start_spark(broker: Any, folder: Path, name: str) -> SplitStack:
    """The server of that name, started by whichever process asks first; it ends with the run, or with a kill of it."""
    options = os.environ.get(JVM_OPTIONS_VARIABLE, "").split()
    with pytest.MonkeyPatch.context() as patch:
        if name == SHARED:
            patch.setenv(JVM_OPTIONS_VARIABLE, " ".join(option for option in options if option != FIRST_COMPILER_ALONE))
        stack = start_stack(folder / name, parts={"spark"}, tied_to=find_owner())
    return SplitStack(stack.run_dir, broker)


@contextmanager
def hold_alone(broker: Stack, folder: Path) -> Iterator[SplitStack]:
    """The server that no other test uses meanwhile; another process that wants it waits."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{ALONE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield start_spark(broker, folder, ALONE)


def stop_servers(factory: pytest.TempPathFactory) -> None:
    """End the servers, in the process whose workers have ended. Servers that a developer keeps stay."""
    if is_worker() or os.environ.get(KEPT_VARIABLE):
        return
    for name in (SHARED, ALONE, BROKER):
        stop_stack(find_folder(factory) / name)
