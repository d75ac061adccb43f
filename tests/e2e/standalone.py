"""A Spark standalone cluster of one master and one worker, on free ports."""

import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from background_server import tie_to_test
from e2e.airflow_client import wait_until


@contextmanager
def run_standalone_cluster(folder: Path) -> Iterator[str]:
    """Yield the address ``spark://host:port`` of a running cluster; both processes are ended afterwards."""
    port, page, worker_page = (_find_free_port() for _ in range(3))
    place = ("--host", "127.0.0.1")
    master = _start(
        folder,
        "master",
        "org.apache.spark.deploy.master.Master",
        *place,
        "--port",
        str(port),
        "--webui-port",
        str(page),
    )
    worker = None
    try:
        wait_until(lambda: _is_listening(port), "the Spark master")
        size = ("--cores", "2", "--memory", "2g", "--webui-port", str(worker_page), "--work-dir", str(folder / "work"))
        address = f"spark://127.0.0.1:{port}"
        worker = _start(folder, "worker", "org.apache.spark.deploy.worker.Worker", *place, *size, address)
        log = folder / "worker.log"
        wait_until(lambda: "Successfully registered with master" in log.read_text(), "the Spark worker")
        yield address
    finally:
        for process in filter(None, (worker, master)):
            process.terminate()
            process.wait(60)


def _start(folder: Path, name: str, main: str, *arguments: str) -> "subprocess.Popen[bytes]":
    folder.mkdir(parents=True, exist_ok=True)
    spec = find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
    with (folder / f"{name}.log").open("wb") as log:
        command = [str(home / "bin" / "spark-class"), main, *arguments]
        return subprocess.Popen(tie_to_test(command), env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
