"""Owns the measuring: CPU seconds and memory of a process with all that it started, and children that are measured."""

import json
import os
import resource
import subprocess
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from local import processes
from local.errors import last_relevant_line
from local.layout import PYTHON, ROOT
from local.processes import MARK, Identity

SAMPLE_SECONDS = 0.1
CHILD_SECONDS = 1800
MEBIBYTE = 1 << 20


def tree(pid: int) -> list[psutil.Process]:
    """The process and everything below it; empty when it has gone."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(pid: int) -> float:
    """User and system time of the process and all below it since their start, ended children included."""
    total = 0.0
    for process in tree(pid):
        try:
            spent = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += spent.user + spent.system + spent.children_user + spent.children_system
    return total


def resident_mb(pid: int) -> int:
    """Resident memory of the process and all below it, in MiB."""
    total = 0
    for process in tree(pid):
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
            self.mb = max(self.mb, resident_mb(self._pid))
            self._stop.wait(SAMPLE_SECONDS)


@dataclass(frozen=True)
class Child:
    """A child process that has ended well. `cpu` counts it and the processes that it waited for."""

    wall: float
    cpu: float
    peak_mb: int
    said: dict[str, Any]


def run(module: str, request: Mapping[str, Any], env: Mapping[str, str], log: Path) -> Child:
    """Run a module of this package as a process of its own; RuntimeError with the log's telling line if it fails.

    It gets the request as JSON, with the time of its start, and leaves its answer in the file that `answer` names.
    However this call ends, nothing of the child is left.
    """
    answer = log.with_suffix(".json")
    answer.unlink(missing_ok=True)
    mark = uuid.uuid4().hex
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()  # one clock for all processes of a Linux machine
    asked = json.dumps({**request, "started": started, "answer": str(answer)})
    command: Sequence[str] = [str(PYTHON), "-m", module, asked]
    child = processes.start(command, {**env, "PYTHONPATH": _path(), MARK: mark}, ROOT, log)
    leader = Identity.of(child.pid, mark)
    try:
        with Peak(child.pid) as peak:
            _wait(child, module)
        wall = time.monotonic() - started
    finally:
        processes.end_all(mark, [leader], patience=2)
        child.wait()
    if child.returncode or not answer.exists():
        raise RuntimeError(f"{module} exited with code={child.returncode}: {last_relevant_line(log)} (log: {log})")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Child(wall, cpu, peak.mb, json.loads(answer.read_text()))


def _wait(child: "subprocess.Popen[bytes]", module: str) -> None:
    try:
        child.wait(CHILD_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{module} has not ended after {CHILD_SECONDS} s") from error


def _path() -> str:
    return os.pathsep.join(str(ROOT / folder) for folder in ("plugins", "jobs", "."))
