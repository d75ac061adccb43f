"""Owns bringing a stack up and down, for `make up`, for the demo and for tests; several can run beside each other.

stack = start_stack(tmp_path, parts={"kafka", "spark"})
... stack.kafka_bootstrap, stack.spark_remote, stack.build_environment() ...
stack.stop()
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from local import processes
from local.errors import StackError, find_relevant_line
from local.kafka.cluster import ADMIN_FILE
from local.lake import postgres
from local.layout import PYTHON, ROOT, RunDir, find_include_dir, find_run_dir
from local.processes import MARK_VARIABLE, Identity
from local.server import build_clean_environment
from local.state import FAILED, UP, State, read_env_file
from local.supervisor import Request

PARTS = (
    *("kafka", "spark", "brokers", "secure", "postgres", "s3", "rest", "registry", "bigquery"),
    *("airflow", "schedulers", "celery", "rabbitmq"),
)
MIN_FREE_BYTES = 1_000_000_000
UP_TIMEOUT_SECONDS = 600.0
SUPERVISOR_TIMEOUT_SECONDS = 30.0
POLL_SECONDS = 0.1
# Detached on purpose; a handle that is dropped while its process runs would be a resource warning.
_SUPERVISORS: "list[subprocess.Popen[bytes]]" = []


@dataclass(frozen=True)
class Stack:
    """A running stack. Addresses stay the same when a server is restarted; process ids change."""

    run_dir: Path

    @property
    def variables(self) -> dict[str, str]:
        """The variables in the env file; StackError when the stack is not up."""
        try:
            return read_env_file(RunDir(self.run_dir).env_file)
        except OSError as error:
            raise StackError(f"no stack is up in run_dir={self.run_dir}: run make up") from error

    @property
    def kafka_bootstrap(self) -> str:
        """host:port of the broker."""
        return self.variables["KAFKA_BOOTSTRAP"]

    @property
    def kafka_admin(self) -> dict[str, str]:
        """librdkafka's settings of who may create topics and write into them: an administrator's, where brokers ask."""
        file = self.variables.get(ADMIN_FILE)
        if file is None:
            return {"bootstrap.servers": self.kafka_bootstrap}
        return dict(line.split("=", 1) for line in Path(file).read_text().splitlines())

    @property
    def spark_remote(self) -> str:
        """sc:// address of the Spark Connect server."""
        return self.variables["SPARK_REMOTE"]

    @property
    def airflow_url(self) -> str:
        """http:// address of Airflow's UI and API."""
        return self.variables["AIRFLOW_URL"]

    @property
    def bigquery_endpoint(self) -> str:
        """http:// address of the server that answers like BigQuery."""
        return self.variables["BIGQUERY_ENDPOINT"]

    def build_environment(self) -> dict[str, str]:
        """The caller's environment with this stack's variables, for commands that work on it."""
        return {**os.environ, **self.variables}

    def stop(self) -> None:
        """End this stack; nothing happens when it is down already."""
        stop_stack(self.run_dir)


def start_stack(
    run_dir: Path | None = None,
    parts: Collection[str] = ("kafka", "spark"),
    *,
    include: Path | None = None,
    tied_to: int | None = None,
    report: Callable[[str], None] = lambda line: None,
) -> Stack:
    """Start a stack and return when every server answers; an equal or larger one that is up already is returned.

    `include` is the folder of pipeline files that Airflow reads. With a process id in `tied_to`, the stack goes down
    when that process has gone. StackError says what failed; nothing then runs.
    """
    run = RunDir((run_dir or find_run_dir()).resolve())
    if unknown := sorted(set(parts) - set(PARTS)):
        raise StackError(f"unknown parts={unknown}: use some of {', '.join(PARTS)}")
    with _lock_run_dir(run):
        state = _read_running_state(run)
        if state:
            _check_same(state, parts)
            report(f"already up: {', '.join(state.parts)} (addresses in {run.env_file})")
            return Stack(run.path)
        _end_stack(run)
        _check_disk(run.path)
        request = Request(
            run_dir=str(run.path),
            parts=[part for part in PARTS if part in parts],
            include=str(include or find_include_dir()),
            owner=Identity.from_pid(tied_to, "") if tied_to else None,
        )
        _start_supervisor(run, request, report)
    return Stack(run.path)


def stop_stack(run_dir: Path | None = None) -> bool:
    """End the stack of this folder and all it started; False when none was up. Logs and Airflow's home stay."""
    run = RunDir((run_dir or find_run_dir()).resolve())
    if not run.path.exists():
        return False
    with _lock_run_dir(run):
        return _end_stack(run)


def is_up(run_dir: Path | None = None) -> bool:
    """Whether a stack is up in this folder."""
    return _read_running_state(RunDir((run_dir or find_run_dir()).resolve())) is not None


def _read_running_state(run: RunDir) -> State | None:
    state = State.read(run.state_file)
    return state if state and state.phase == UP and state.supervisor.find_process() else None


def _check_same(state: State, parts: Collection[str]) -> None:
    missing = [part for part in parts if part not in state.parts]
    if missing:
        raise StackError(f"up without {', '.join(missing)}: run make down first, then make up again")


def _check_disk(path: Path) -> None:
    free = shutil.disk_usage(path).free
    if free < MIN_FREE_BYTES:
        raise StackError(
            f"disk full: {free // 1_000_000} MB free under {path}, {MIN_FREE_BYTES // 1_000_000} MB needed"
        )


def _start_supervisor(run: RunDir, request: Request, report: Callable[[str], None]) -> None:
    run.logs.mkdir(exist_ok=True)
    # the default catalog's tables hold positions in a broker's log, and this one begins with an empty log
    shutil.rmtree(run.path / "lake", ignore_errors=True)
    log = run.logs / "supervisor.log"
    log.write_bytes(b"")
    mark = uuid.uuid4().hex
    command = [str(PYTHON), "-m", "local.supervisor", json.dumps(asdict(request))]
    supervisor = processes.start_process(command, {**build_clean_environment(), MARK_VARIABLE: mark}, ROOT, log)
    _SUPERVISORS.append(supervisor)
    try:
        _await_servers(run, lambda: supervisor.poll() is not None, log, report)
    except BaseException:  # also Ctrl-C: what was started does not stay behind
        supervisor.terminate()
        _wait_until(lambda: supervisor.poll() is not None, SUPERVISOR_TIMEOUT_SECONDS)
        state = State.read(run.state_file)
        processes.end_all_processes(mark, state.servers.values() if state else [], 0)
        run.state_file.unlink(missing_ok=True)
        raise


def _await_servers(run: RunDir, check_ended: Callable[[], bool], log: Path, report: Callable[[str], None]) -> None:
    """Wait until every server answers, and report each server that does."""
    reported_names: set[str] = set()
    deadline = time.monotonic() + UP_TIMEOUT_SECONDS
    while True:
        has_ended = check_ended()
        state = State.read(run.state_file)
        for name, seconds in (state.ready if state else {}).items():
            if name not in reported_names:
                reported_names.add(name)
                report(f"{name} answers after {seconds} s")
        if state and state.phase == UP and not has_ended:
            return
        if state and state.phase == FAILED and has_ended:
            raise StackError(state.message)
        if has_ended or time.monotonic() > deadline:
            reason = "its supervisor ended" if has_ended else f"no answer after {UP_TIMEOUT_SECONDS:.0f} s"
            raise StackError(f"the stack did not come up, {reason}: {find_relevant_line(log)} (log: {log})")
        time.sleep(POLL_SECONDS)


def _end_stack(run: RunDir) -> bool:
    """End the processes in the state file: first the supervisor, which ends its servers, then those that still run."""
    state = State.read(run.state_file)
    if not state:
        return False
    if supervisor := state.supervisor.find_process():
        processes.end_processes([supervisor], SUPERVISOR_TIMEOUT_SECONDS)
    processes.end_all_processes(state.mark, state.servers.values(), 2)
    run.env_file.unlink(missing_ok=True)
    run.state_file.unlink(missing_ok=True)
    for data in ("kafka", "spark", "rest", "s3", "registry", "bigquery", "redis", "rabbitmq"):
        shutil.rmtree(run.path / data, ignore_errors=True)
    postgres.remove_folder(run)
    return state.phase != FAILED


def _wait_until(condition: Callable[[], bool], patience: float) -> None:
    deadline = time.monotonic() + patience
    while not condition() and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


@contextlib.contextmanager
def _lock_run_dir(run: RunDir) -> Iterator[None]:
    """One start or stop of a run folder at a time; a second one waits."""
    run.path.mkdir(parents=True, exist_ok=True)
    with run.lock_file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
