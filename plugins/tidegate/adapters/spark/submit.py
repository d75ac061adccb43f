"""Spark through spark-submit: each job an application of its own, for clusters without a Connect server."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tidegate.adapters.server_probe import Server, require_server
from tidegate.adapters.spark.entry_points import JOBS_FOLDER, get_verb, require_free_catalogs
from tidegate.adapters.spark.target import SubmitTarget
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.jobs.lasting_failures import build_passing_failure
from tidegate.jobs.stage_job import FAILURE_CONF, JOB_CONF, JobFailure
from tidegate.ports.session import Job
from tidegate.redaction import mask_addresses, redact_in_application
from tidegate.schema.avro_limits import JAVA_OPTIONS, add_limits
from tidegate.settings import PACKAGE, is_checkout

SPARK_EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
# Spark walks a plan by recursion: that of a strict JSON column needs most of the megabyte which Java gives a thread.
STACK_OPTION = "-Xss4m"
# What a Connect session leaves in its process; each would turn a submitted driver into a Connect client.
CONNECT_VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_LOCAL_REMOTE")
LOG_PREFIX_PATTERN = re.compile(r"^\d\d/\d\d/\d\d \d\d:\d\d:\d\d [A-Z]+ ")  # of Spark's log, before what happened
FOLDER_PREFIX = "tidegate-submit-"
FOLDER_LOCK = "lock"
MAX_ARGUMENT_CHARACTERS = 100_000  # Linux takes 128 KiB
# of a checkout's jobs/ and plugins/; installed, both packages lie beside each other
SPARK_SIDE_FOLDER = JOBS_FOLDER if is_checkout() else PACKAGE.parent
LIBRARY_PATTERNS = (
    (PACKAGE.parent, "tidegate/*.py"),
    *((PACKAGE.parent, f"tidegate/{name}/*.py") for name in ("formats", "jobs", "model", "spec", "schema", "sql")),
    (SPARK_SIDE_FOLDER, "tidegate_spark/**/*.py"),
)


class SubmitEngine:
    """Implements the port `Engine` with a spark-submit process; `jars` and `conf` go with every job."""

    def __init__(self, target: SubmitTarget, jars: str, conf: Mapping[str, str]) -> None:
        self._target = target
        self._jars = jars
        self._conf = conf

    def run(self, job: Job) -> None:
        """Raises the error that ended the job, or `RetryLater` with the last error line."""
        if self._target.refusal:
            raise ConfigurationError(self._target.refusal)
        verb = get_verb(job)
        master = self._target.master
        require_master(master)
        require_free_catalogs(self._conf)
        with pack_files({**self._conf, **build_job_conf(job)}, self._target.keytab) as files:
            command = [str(find_spark_submit()), "--master", master, *self._target.options]
            command += ["--keytab", files.keytab] if files.keytab else []
            command += ["--properties-file", files.properties]
            command += ["--name", f"tidegate {verb} {job.pipeline} {job.batch}", "--py-files", files.libraries]
            command += ["--jars", self._jars] if self._jars else []
            command += [get_application(job), *build_arguments(job)]
            process = subprocess.run(
                command, env=build_environment(), capture_output=True, text=True, errors="replace", check=False
            )
            if process.returncode:
                output = (process.stdout + process.stderr).splitlines()
                errors = [line for line in output if "Error" in line or "Exception" in line]
                last_line = LOG_PREFIX_PATTERN.sub("", (errors or output or ["no output"])[-1])
                reason = mask_addresses(last_line)[:500]
                place = f"pipeline={job.pipeline} batch={job.batch}: {verb}"
                raise files.read_failure(place, verb) or build_passing_failure(place, verb, reason, failed=" failed")


def require_master(master: str) -> None:
    """`RetryLater` where a standalone cluster's master takes no connection: spark-submit would knock for a minute."""
    if master.startswith("spark://"):
        require_server(Server.from_list("Spark", "master", master.removeprefix("spark://")))


def get_application(job: Job) -> str:
    return str(JOBS_FOLDER / f"{get_verb(job)}.py")


def build_arguments(job: Job) -> list[str]:
    """The job, unless it is longer than an argument may be."""
    return [] if build_job_conf(job) else [job.to_json()]


def build_job_conf(job: Job) -> dict[str, str]:
    """Holds a job too long for an argument: many columns, or descriptors of messages."""
    text = job.to_json()
    return {JOB_CONF: text} if len(text) > MAX_ARGUMENT_CHARACTERS else {}


@dataclass(frozen=True)
class PackedFiles:
    """The paths of a job's files: its input, and where its driver, on this machine, leaves why it failed."""

    properties: str
    libraries: str
    failure: str
    keytab: str = ""

    def read_failure(self, place: str, verb: str) -> TidegateError | None:
        """None for a job that left none, because it never began or was killed."""
        path = Path(self.failure)
        return JobFailure.from_json(path.read_text(encoding="utf-8")).to_error(place, verb) if path.exists() else None


@contextmanager
def pack_files(conf: Mapping[str, str], keytab: bytes | None = None) -> Iterator[PackedFiles]:
    """A properties file with `conf`, readable by this user only, and the libraries as one zip; all removed after."""
    with open_private_folder() as folder:
        failure = str(folder / "failure.json")
        properties = folder / "spark.properties"
        properties.touch(mode=0o600)
        settings = redact_in_application(_add_defaults({**conf, FAILURE_CONF: failure}))
        # as java.util.Properties reads a value
        escaped = {key: value.replace("\\", "\\\\").replace("\n", "\\n") for key, value in settings.items()}
        lines = [f"{key} {value}" for key, value in escaped.items()]
        properties.write_text("\n".join(lines) + "\n", encoding="utf-8")
        libraries = folder / "tidegate.zip"
        with zipfile.ZipFile(libraries, "w") as archive:
            for root, pattern in LIBRARY_PATTERNS:
                for source in sorted(root.glob(pattern)):
                    archive.write(source, source.relative_to(root).as_posix())
        keytab_file = folder / "keytab"
        if keytab is not None:
            keytab_file.touch(mode=0o600)
            keytab_file.write_bytes(keytab)
        yield PackedFiles(str(properties), str(libraries), failure, str(keytab_file) if keytab is not None else "")


def _add_defaults(conf: Mapping[str, str]) -> dict[str, str]:
    conf = add_limits({"spark.sql.extensions": SPARK_EXTENSIONS, **conf})
    stacks = {name: f"{STACK_OPTION} {conf[name]}" for name in JAVA_OPTIONS if "-Xss" not in conf[name]}
    return {**conf, **stacks}


def find_spark_submit() -> Path:
    """`ConfigurationError` without such a program."""
    spark_submit = find_spark_home() / "bin" / "spark-submit"
    if not spark_submit.exists():
        raise ConfigurationError(
            f"SPARK_HOME={find_spark_home()}: it has no bin/spark-submit; set it to Spark's folder"
        )
    return spark_submit


def find_spark_home() -> Path:
    """`SPARK_HOME`, else the Spark that came with the pyspark package."""
    home = os.environ.get("SPARK_HOME")
    spec = find_spec("pyspark")
    if home:
        return Path(home)
    if spec is None or spec.origin is None:
        raise ConfigurationError(
            "pyspark is not installed and SPARK_HOME is not set; run: make setup, or: pip install 'tidegate[spark]'"
        )
    return Path(spec.origin).parent


def build_environment() -> dict[str, str]:
    # the executors' Python must be the driver's
    inherited_variables = {key: value for key, value in os.environ.items() if key not in CONNECT_VARIABLES}
    return {"PYSPARK_PYTHON": sys.executable, **inherited_variables, "SPARK_HOME": str(find_spark_home())}


@contextmanager
def open_private_folder() -> Iterator[Path]:
    """A folder for a submitted job, secrets too: readable by this user alone, and removed afterwards."""
    # a killed process leaves its folder: each holds a lock in its own, which ends with the process
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        with suppress(OSError), (folder / FOLDER_LOCK).open() as lock:  # of another user, just made, or held
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX) as name:
        folder = Path(name)
        young = folder / f"{FOLDER_LOCK}.new"
        with young.open("w") as locked_file:
            fcntl.flock(locked_file, fcntl.LOCK_EX)
            young.rename(folder / FOLDER_LOCK)  # from now on others may try it
            yield folder
