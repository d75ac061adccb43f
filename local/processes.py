"""Owns starting and ending processes: detached from the caller, never mistaken for others, ended with all they started.

Every process of a stack, and whatever it starts, carries a mark in its environment: `<stack>` for the supervisor,
`<stack>:<server>` for a server; and each server leads a session of its own. So also a grandchild whose parent was
killed is found: by the mark, or by the session when it wrote a title over its environment, as Airflow's workers do.
A recycled process id is never mistaken for ours: an id counts only together with the mark or with the time of birth.
"""

import contextlib
import os
import subprocess
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

MARK_VARIABLE = "TIDEGATE_STACK_MARK"
BIRTH_TOLERANCE_SECONDS = 0.05


@dataclass(frozen=True)
class Identity:
    """A process that cannot be mistaken for a later one with the same id."""

    pid: int
    born: float
    mark: str

    @classmethod
    def from_pid(cls, pid: int, mark: str) -> "Identity":
        """The identity of a process that was just started; psutil.NoSuchProcess if it has already ended."""
        return cls(pid, psutil.Process(pid).create_time(), mark)

    def find_process(self) -> psutil.Process | None:
        """The process, or None when it has ended or its id belongs to another one by now."""
        try:
            process = psutil.Process(self.pid)
            is_same_process = (
                _read_mark(process) == self.mark or abs(process.create_time() - self.born) < BIRTH_TOLERANCE_SECONDS
            )
            return process if is_same_process and process.status() != psutil.STATUS_ZOMBIE else None
        except psutil.NoSuchProcess:
            return None

    def is_leader_of(self, session: int) -> bool:
        """Whether a session's number still means this process's session: nothing else has been born with its id."""
        try:
            return (
                session == self.pid and abs(psutil.Process(session).create_time() - self.born) < BIRTH_TOLERANCE_SECONDS
            )
        except psutil.NoSuchProcess:
            return session == self.pid


def start_process(command: Sequence[str], env: Mapping[str, str], folder: Path, log: Path) -> "subprocess.Popen[bytes]":
    """Start a process in its own session, with nothing of the caller's terminal: no input, all output in `log`."""
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        return subprocess.Popen(
            command, env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )


def find_processes(mark: str, leaders: Collection[Identity]) -> list[psutil.Process]:
    """Every process with this mark or one below it, or in a session of one of the leaders; never the caller itself."""
    processes = (process for process in psutil.process_iter() if process.pid != os.getpid())
    return [process for process in processes if _is_member(process, mark, leaders)]


def end_processes(processes: Iterable[psutil.Process], patience: float) -> None:
    """Ask them all to end, wait, and kill those that are still there after `patience` seconds."""
    alive = list(processes)
    for process in alive:
        _send_signal(process, "terminate")
    _, stubborn = psutil.wait_procs(alive, timeout=patience)
    for process in stubborn:
        _send_signal(process, "kill")
    psutil.wait_procs(stubborn, timeout=5)


def end_all_processes(mark: str, leaders: Collection[Identity], patience: float) -> None:
    """End everything that belongs to the mark or the leaders, also what was started while the others were ending."""
    deadline = time.monotonic() + patience
    while (processes := find_processes(mark, leaders)) and time.monotonic() < deadline + 10:
        end_processes(processes, max(0.0, deadline - time.monotonic()))


def _is_member(process: psutil.Process, mark: str, leaders: Collection[Identity]) -> bool:
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        session = os.getsid(process.pid)
    except (psutil.Error, OSError):
        return False
    return f"{_read_mark(process)}:".startswith(f"{mark}:") or any(leader.is_leader_of(session) for leader in leaders)


def _read_mark(process: psutil.Process) -> str | None:
    try:
        return process.environ().get(MARK_VARIABLE)
    except (psutil.Error, OSError):
        return None


def _send_signal(process: psutil.Process, verb: str) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        getattr(process, verb)()
