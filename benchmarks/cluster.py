"""Owns a standalone Spark cluster on this machine: a master, and workers of one or more cores."""

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from local import ports, processes
from local.layout import JARS, LOG4J, PYTHON
from local.processes import Identity
from local.server import build_clean_environment
from local.spark import JVM_OPTIONS

DEPLOY = "org.apache.spark.deploy"
DEADLINE_SECONDS, POLL_SECONDS = 90.0, 0.2
MEMORY = "2g"


@contextmanager
def start_cluster(folder: Path, workers: Sequence[int]) -> Iterator[str]:
    """A master's address, once a worker with each of these numbers of cores has registered; it ends with the block."""
    folder.mkdir(parents=True)
    mark, log = uuid.uuid4().hex, folder / "master.log"
    port_numbers = ports.choose_ports(["bench_master", "bench_master_page"])
    port, page = (str(number) for number in port_numbers.values())
    address = f"spark://{ports.HOST}:{port}"
    leaders = []
    try:
        master = ["master.Master", "--host", ports.HOST, "--port", port, "--webui-port", page]
        leaders.append(_start(master, folder, log, mark))
        for number, cores in enumerate(workers):
            worker = ["worker.Worker", "--host", ports.HOST, "--cores", str(cores), "--memory", MEMORY]
            worker += ["--webui-port", "0", "--work-dir", str(folder / f"work-{number}"), address]
            leaders.append(_start(worker, folder, folder / f"worker-{number}.log", mark))
        _wait(log, len(workers))
        yield address
    finally:
        processes.end_all_processes(mark, leaders, 10)


def build_executor_conf(count: int, cores: int) -> dict[str, str]:
    """An application's configuration for so many executors of so many cores, with the jars of the driver."""
    return {
        "spark.cores.max": str(count * cores),
        "spark.executor.cores": str(cores),
        "spark.executor.memory": MEMORY,
        "spark.executor.extraClassPath": f"{JARS / 'spark'}/*",
        "spark.executor.extraJavaOptions": " ".join([*JVM_OPTIONS, f"-Dlog4j2.configurationFile={LOG4J}"]),
    }


def _start(words: list[str], folder: Path, log: Path, mark: str) -> Identity:
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError("pyspark is not installed: run make setup")
    home = Path(next(iter(spec.submodule_search_locations)))
    env = {
        **build_clean_environment(),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": str(PYTHON),
        "SPARK_LOCAL_IP": ports.HOST,
    }
    env |= {"SPARK_DAEMON_MEMORY": "512m", processes.MARK_VARIABLE: mark}
    env |= {"SPARK_DAEMON_JAVA_OPTS": f"-Dlog4j2.configurationFile={_write_log_settings(folder)}"}
    command = [os.fspath(home / "bin" / "spark-class"), f"{DEPLOY}.{words[0]}", *words[1:]]
    return Identity.from_pid(processes.start_process(command, env, folder, log).pid, mark)


def _write_log_settings(folder: Path) -> Path:
    """Logging at INFO: the master says there which workers it has."""
    path = folder / "log4j2.properties"
    path.write_text(
        "rootLogger.level=info\nrootLogger.appenderRef.console.ref=console\nappender.console.type=Console\n"
        "appender.console.name=console\nappender.console.layout.type=PatternLayout\n"
        "appender.console.layout.pattern=%d %p %c{1}: %m%n\n"
    )
    return path


def _wait(log: Path, workers: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while log.read_text(errors="replace").count("Registering worker") < workers:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the standalone cluster has not come up within {DEADLINE_SECONDS:.0f} s (log: {log})")
        time.sleep(POLL_SECONDS)
