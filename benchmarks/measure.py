"""Owns the measuring: CPU seconds and memory of a process with all that it started, and children that are measured."""

import json
import os
import resource
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from local import processes
from local.errors import find_relevant_line
from local.layout import PYTHON, ROOT
from local.processes import MARK_VARIABLE, Identity

SAMPLE_SECONDS = 0.1
CHILD_SECONDS = 1800
MEBIBYTE = 1 << 20


def list_processes(pid: int) -> list[psutil.Process]:
    """The process and everything below it; empty when it has gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def count_cpu_seconds(pid: int) -> float:
    """User and system time of the process and all below it since their start, ended children included."""
    total = 0.0
    for process in list_processes(pid):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def measure_resident_mb(pid: int) -> int:
    """Resident memory of the process and all below it, in MiB."""
    total = 0
    for process in list_processes(pid):
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return int(total // MEBIBYTE)


class Peak:
    """The largest resident memory of a process tree while the block runs."""

    def __init__(self, pid: int) -> None:
        self.mb = 0
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Peak":
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.mb = max(self.mb, measure_resident_mb(self._pid))
            self._stop.wait(SAMPLE_SECONDS)


@dataclass(frozen=True)
class Spent:
    """What a process took. `cpu` counts it and the processes that it waited for; `code` is how it ended."""

    wall: float
    cpu: float
    peak_mb: int
    code: int


@dataclass(frozen=True)
class Child:
    """A process of this package that has ended well, and what it said."""

    wall: float
    cpu: float
    peak_mb: int
    said: dict[str, Any]


def run(
    module: str, request: Mapping[str, Any], env: Mapping[str, str], log: Path, limit: float = CHILD_SECONDS
) -> Child:
    """Run a module of this package as a process of its own; RuntimeError with the log's telling line if it fails.

    It gets the request as JSON, with the time of its start, and leaves its answer in the file that `answer` names.
    """
    answer = log.with_suffix(".json")
    answer.unlink(missing_ok=True)
    # one clock for all processes of a Linux machine
    argument = json.dumps({**request, "started": time.monotonic(), "answer": str(answer)})
    usage = follow([str(PYTHON), "-m", module, argument], {**env, "PYTHONPATH": _build_python_path()}, log, limit)
    if usage.code or not answer.exists():
        raise RuntimeError(f"{module} exited with code={usage.code}: {find_relevant_line(log)} (log: {log})")
    return Child(usage.wall, usage.cpu, usage.peak_mb, json.loads(answer.read_text()))


def follow(
    command: Sequence[str],
    env: Mapping[str, str],
    log: Path,
    limit: float = CHILD_SECONDS,
    is_done: Callable[[], bool] = lambda: False,
) -> Spent:
    """Run a command until it ends, or until `is_done` says that its work is; RuntimeError when neither comes in time.

    However this call ends, nothing of the child is left.
    """
    mark, before = uuid.uuid4().hex, resource.getrusage(resource.RUSAGE_CHILDREN)
    start_seconds = time.monotonic()
    child = processes.start_process(command, {**env, MARK_VARIABLE: mark}, ROOT, log)
    leader = Identity.from_pid(child.pid, mark)
    try:
        with Peak(child.pid) as peak:
            is_stopped = _wait(child, start_seconds + limit, is_done, log)
        wall = time.monotonic() - start_seconds
    finally:
        processes.end_all_processes(mark, [leader], patience=10)
        child.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(wall, cpu, peak.mb, 0 if is_stopped else child.returncode)


def _wait(child: "subprocess.Popen[bytes]", deadline: float, is_done: Callable[[], bool], log: Path) -> bool:
    """Whether the work was done before the child ended."""
    while True:
        try:
            child.wait(SAMPLE_SECONDS)
            return False
        except subprocess.TimeoutExpired as error:
            if is_done():
                return True
            if time.monotonic() > deadline:
                raise RuntimeError(f"it has not ended in time: {find_relevant_line(log)} (log: {log})") from error


def _build_python_path() -> str:
    return os.pathsep.join(str(ROOT / folder) for folder in ("plugins", "jobs", "."))
