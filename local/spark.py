"""Owns the Spark Connect server: one long-lived driver on this machine that every flush shares."""

import json
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

import psutil

from local.errors import StackError
from local.layout import JARS, LOG4J, PYTHON, ROOT, RunDir
from local.ports import HOST, is_answering
from local.server import Server, build_clean_environment, create_log, list_extra_jvm_options, run_probe

GIBIBYTE = 1024**3
LOCAL_NAME = "localhost"
TOKEN_VARIABLE = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
# A server lives for days and runs short jobs. By default its JVM compiles for the highest speed whatever ran 5,000
# times, which is half of the CPU time of small flushes. From 40,000 times on it pays.
JVM_OPTIONS = (
    "-XX:+UseParallelGC",
    "-XX:Tier4InvocationThreshold=40000",
    "-XX:Tier4MinInvocationThreshold=4800",
    "-XX:Tier4CompileThreshold=120000",
    "-XX:Tier4BackEdgeThreshold=320000",
    # Spark walks a plan by recursion: that of a strict JSON column needs most of the megabyte which Java gives a thread
    "-Xss4m",
    # without these, ten corrupt bytes of Avro ask for gigabytes and end the JVM, and with it every pipeline's server
    "-Dorg.apache.avro.limits.bytes.maxLength=67108864",
    "-Dorg.apache.avro.limits.string.maxLength=67108864",
    "-Dorg.apache.avro.limits.collectionItems.maxLength=10000000",
)


def build_remote(port: int, token: str = "") -> str:
    """The address of its users. With a token the host is a name: Spark's client sends one without TLS only there."""
    return f"sc://{LOCAL_NAME}:{port}/;token={token}" if token else f"sc://{HOST}:{port}"


def build_connection(port: int, token: str = "") -> dict[str, str]:
    """The Airflow connection of its users, by environment variable."""
    host = f"sc://{LOCAL_NAME if token else HOST}"
    connection = {"conn_type": "spark_connect", "host": host, "port": port, **({"password": token} if token else {})}
    return {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection)}


def build_server(run: RunDir, port: int, token: str = "") -> Server:
    """The server, with its gRPC service on `port`; jars and SQL extensions are fixed at its start, catalogs are not.

    With a `token` it answers nobody without it.
    """
    folder = run.path / "spark"
    home = _find_spark_home()
    confs = [part for name, value in _build_settings(folder, port).items() for part in ("--conf", f"{name}={value}")]
    return Server(
        name="spark",
        command=(str(home / "bin" / "spark-submit"), "--master", "local[*]", *confs, str(ROOT / "jobs" / "serve.py")),
        folder=folder,
        log=create_log(run, "spark"),
        probe=lambda _: is_answering(port) and run_probe("spark", "local.spark_probe", build_remote(port, token), run),
        env={
            **build_clean_environment(),
            "SPARK_HOME": str(home),
            "PYSPARK_PYTHON": str(PYTHON),
            "SPARK_LOCAL_IP": HOST,
            **({TOKEN_VARIABLE: token} if token else {}),
        },
        variable="SPARK_PID",
        prepare=lambda: _empty_folder(folder),
    )


def _find_spark_home() -> Path:
    spec = find_spec("pyspark")
    if not spec or not spec.submodule_search_locations:
        raise StackError("spark: pyspark is not installed: run make setup")
    return Path(next(iter(spec.submodule_search_locations)))


def _build_settings(folder: Path, port: int) -> dict[str, str]:
    java = (
        *JVM_OPTIONS,
        *list_extra_jvm_options(),
        f"-Dlog4j2.configurationFile={LOG4J}",
        f"-Dderby.system.home={folder}",
        f"-Djava.io.tmpdir={folder / 'tmp'}",
    )
    return {
        "spark.connect.grpc.binding.address": HOST,
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": HOST,
        "spark.driver.host": HOST,
        "spark.driver.memory": f"{_choose_driver_gigabytes()}g",
        "spark.driver.extraClassPath": _build_class_path(),
        "spark.driver.extraJavaOptions": " ".join(java),
        "spark.local.dir": str(folder / "tmp"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",  # for few cores; the default of 200 is for clusters
        "spark.sql.ui.retainedExecutions": "50",  # kept in memory, with the keys that a merge names; default 1000
        # of jobs and stages 1000 each are kept by default, and 100,000 tasks, also where no UI shows them
        "spark.ui.retainedJobs": "200",
        "spark.ui.retainedStages": "200",
        "spark.ui.retainedTasks": "5000",
        "spark.ui.enabled": "false",
    }


def _build_class_path() -> str:
    """The jars of every stack, and the object store's client where `make setup WITH=s3` has fetched it."""
    return os.pathsep.join(f"{JARS / name}/*" for name in ("spark", "s3"))


def _choose_driver_gigabytes() -> int:
    """4 GB, or a quarter of a machine that has less than 16, but never less than one."""
    return max(1, min(4, psutil.virtual_memory().total // GIBIBYTE // 4))


def _empty_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
