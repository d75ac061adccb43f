"""Owns what a server of the stack is: how it starts, how one knows that it answers, and what its log says if not."""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local.errors import StackError, find_relevant_line
from local.layout import JARS, PYTHON, ROOT, RunDir
from local.ports import HOST
from local.processes import MARK_VARIABLE, start_process

# What a caller's own work with Airflow, Spark or make would otherwise change in the servers.
REMOVED_VARIABLES = (
    "AIRFLOW__",
    "AIRFLOW_HOME",
    "SPARK_",
    "PYSPARK_",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONDONTWRITEBYTECODE",  # each task would compile half a second of modules anew
    "MAKE",
    "MFLAGS",
    "VIRTUAL_ENV",
)
PROBE_VARIABLE = "TIDEGATE_PROBE_ADDRESS"
JVM_OPTIONS_VARIABLE = "TIDEGATE_STACK_JVM_OPTIONS"
PROBE_POLL_SECONDS = 0.2
PROBE_TIMEOUT_SECONDS = 90


def do_nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True)
class Server:
    """One process of the stack. `variable` is the name of its process id in the env file, or None.

    `prepare` runs once before the first start. `probe` gets the time of the start, in seconds since 1970, and tells
    whether the server really answers.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    log: Path
    probe: Callable[[float], bool]
    env: Mapping[str, str]
    variable: str | None = None
    prepare: Callable[[], None] = do_nothing
    patience: float = 240  # on a busy machine a JVM needs minutes

    def start(self, mark: str) -> "subprocess.Popen[bytes]":
        """Start the process under the stack's mark, with nothing of the caller's terminal."""
        return start_process(self.command, {**self.env, MARK_VARIABLE: f"{mark}:{self.name}"}, self.folder, self.log)

    def wait_until_it_answers(self, process: "subprocess.Popen[bytes]", give_up: Callable[[], bool]) -> None:
        """Return when the probe succeeds; StackError when the process ends or the patience does."""
        start_seconds, since = time.monotonic(), time.time()
        while not self.probe(since):
            seconds = time.monotonic() - start_seconds
            if (code := process.poll()) is not None:
                raise self.build_error(f"exited with code={code} after {seconds:.0f} s")
            if seconds > self.patience or give_up():
                raise self.build_error(f"does not answer after {seconds:.0f} s")
            time.sleep(PROBE_POLL_SECONDS)

    def build_error(self, outcome: str) -> StackError:
        """An error with the server's name, its log, and the log line that most likely has the reason."""
        return StackError(f"{self.name} {outcome}: {find_relevant_line(self.log)} (log: {self.log})")


def build_clean_environment() -> dict[str, str]:
    """The caller's environment without what would change the servers, the checkout's commands first on the path."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(REMOVED_VARIABLES)}
    direct = ",".join(filter(None, [environment.get("no_proxy") or environment.get("NO_PROXY"), HOST, "localhost"]))
    path = f"{PYTHON.parent}{os.pathsep}{environment.get('PATH', '')}"
    return {**environment, "PATH": path, "PYTHONUNBUFFERED": "1", "no_proxy": direct, "NO_PROXY": direct}


def build_java_command(jars: str, *arguments: str) -> tuple[str, ...]:
    """A command of the user's Java over one set of the jars that `make setup` fetched."""
    return (find_java(), *list_extra_jvm_options(), "-cp", f"{JARS / jars}/*", *arguments)


def build_program_command(jar: Path, *options: str) -> tuple[str, ...]:
    """A command of the user's Java for a program that is one jar, which names what else it needs."""
    return (find_java(), *list_extra_jvm_options(), *options, "-jar", str(jar))


def find_java() -> str:
    """The user's Java: that of JAVA_HOME, or the first on the path."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


def list_extra_jvm_options() -> list[str]:
    """Options for the JVM of every server of a stack; for stacks that live for minutes, which others need than days."""
    return os.environ.get(JVM_OPTIONS_VARIABLE, "").split()


def run_probe(name: str, module: str, address: str, run: RunDir) -> bool:
    """Run a probe module as a process of its own, so that no client library lives in the supervisor; True on exit 0.

    It finds the address, which may hold a secret, in its environment. `name` is the server's.
    """
    command = [str(PYTHON), "-m", module]
    with (run.logs / f"{name}_probe.log").open("wb") as output:
        try:
            probe = subprocess.run(
                command,
                cwd=ROOT,
                env={**build_clean_environment(), PROBE_VARIABLE: address},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                timeout=PROBE_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
    return probe.returncode == 0


def run_logged(command: Sequence[str], folder: Path, log: Path, env: Mapping[str, str] | None = None) -> int:
    """Run a tool of a server's to its end, with its words in the server's log; its exit code."""
    with log.open("ab") as output:
        process = subprocess.run(
            command, cwd=folder, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False
        )
    return process.returncode


def create_log(run: RunDir, name: str) -> Path:
    """The log of a server, emptied: a message about this start must not quote the last one."""
    run.logs.mkdir(parents=True, exist_ok=True)
    log = run.logs / f"{name}.log"
    log.write_bytes(b"")
    return log
