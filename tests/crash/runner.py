"""Processes that run one command of the product and meet a fault at a named point.

``python -m crash.runner`` imports everything once and then forks for each line of JSON on its standard input, before
anything was connected to, so that a run costs what the run costs and not three seconds of imports. `Runners` is the
test's side of it.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from crash.points import Journey, Point, build_fault

DEADLINE_SECONDS = 600
ROOT = Path(__file__).parents[2]
HEAVY = (
    "confluent_kafka", "google.cloud.bigquery", "pyspark.sql.connect.session", "tidegate.adapters.iceberg.destination",
    "tidegate.adapters.spark.connect",
    "tidegate.cli.commands.flush", "tidegate_spark.merge.job",
    "tidegate_spark.session", "tidegate_spark.stage.job",
)  # fmt: skip


@dataclass(frozen=True)
class EndedProcess:
    """A process that has ended. `code` is negative for the signal that ended it."""

    code: int
    output: str
    fault_happened: bool


@dataclass(frozen=True)
class Running:
    """A process of the product under test."""

    runners: "Runners"
    pid: int
    folder: Path

    def is_stopped(self) -> bool:
        """Whether SIGSTOP has stopped the process."""
        return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wait_for_end(self) -> EndedProcess:
        """Wait for its end."""
        code = self.runners.ask(wait=self.pid)
        assert code is not None, f"still running after {DEADLINE_SECONDS} s: {self.read_output()}"
        return EndedProcess(code, self.read_output(), (self.folder / "met").exists())

    def read_output(self) -> str:
        return (self.folder / "output").read_text()

    def list_passed_points(self) -> list[Point]:
        """The points of a run that ended by itself."""
        return [Point.parse(line) for line in (self.folder / "passed").read_text().splitlines()]


class Runners:
    """Starts processes, and ends those that still run when it is closed."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._number = folder, 0
        path = os.pathsep.join(str(ROOT / part) for part in ("tests", "plugins", "jobs", "."))
        self._server = subprocess.Popen(
            [sys.executable, "-m", "crash.runner"],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(
        self, environment: Mapping[str, str], *words: str, at: Point | None = None, kind: str = "none"
    ) -> Running:
        """Run one command in its own process; the fault happens at `at`."""
        self._number += 1
        folder = self._folder / str(self._number)
        folder.mkdir()
        pid = self.ask(
            words=words, environment=dict(environment), at=str(at) if at else None, kind=kind, folder=str(folder)
        )
        return Running(self, pid, folder)

    def run(
        self, environment: Mapping[str, str], *words: str, at: Point | None = None, kind: str = "none"
    ) -> EndedProcess:
        return self.start(environment, *words, at=at, kind=kind).wait_for_end()

    def ask(self, **request: Any) -> Any:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def close(self) -> None:
        self._server.communicate(timeout=DEADLINE_SECONDS)


def _serve() -> None:
    for module in HEAVY:
        importlib.import_module(module)
    running_pids: set[int] = set()
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            answer = _wait_for_exit(request["wait"])
            running_pids.discard(request["wait"])
        else:
            answer = os.fork() or _run_request(request)
            running_pids.add(answer)
        print(json.dumps(answer), flush=True)
    for pid in running_pids:
        os.kill(pid, signal.SIGKILL)


def _wait_for_exit(pid: int) -> int | None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        end_pid, status = os.waitpid(pid, os.WNOHANG)
        if end_pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return None


def _run_request(request: dict[str, Any]) -> NoReturn:
    """In the new process: run the command and end."""
    code, folder = 1, Path(request["folder"])
    try:
        _redirect_output(folder / "output")
        os.environ.clear()
        os.environ.update(request["environment"])
        code = _run(request, folder)
    except BaseException:  # whatever it is, this copy of the server must not go on as one
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _redirect_output(path: Path) -> None:
    null_input, output = os.open(os.devnull, os.O_RDONLY), os.open(path, os.O_WRONLY | os.O_CREAT)
    for target, source in ((0, null_input), (1, output), (2, output)):
        os.dup2(source, target)


def _run(request: dict[str, Any], folder: Path) -> int:
    from tidegate.cli import session as command_session
    from tidegate.cli.main import main

    def act_at_point(point: Point) -> None:
        if str(point) == request["at"]:
            (folder / "met").touch()
            act(point)

    act = build_fault(request["kind"], Point.parse(request["at"]), _end_process) if request["at"] else lambda _: None
    journey, assembled = Journey(act_at_point), command_session.assemble_checked_pipeline
    module: Any = command_session
    module.assemble_checked_pipeline = lambda *words: journey.open_session(assembled(*words))
    with journey.inside():
        code = main(request["words"])
    (folder / "passed").write_text("\n".join(map(str, journey.passed)))
    return code


def _end_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _serve()
