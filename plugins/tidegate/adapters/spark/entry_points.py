"""How a worker meets the job code: a job by its verb, and the configuration that may hold secrets beside it."""

import importlib
import json
import re
import sqlite3
import sys
import threading
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import ModuleType

from tidegate.adapters.server_probe import Patience
from tidegate.errors import RetryLater
from tidegate.jobs.maintain_job import MaintainJob
from tidegate.jobs.publish_job import PublishJob
from tidegate.jobs.stage_job import KAFKA_CONF, StageJob
from tidegate.jobs.statements_job import StatementsJob
from tidegate.ports.session import Job
from tidegate.redaction import redact_in_session
from tidegate.settings import find_product_folder

# the modules of `tidegate_spark` whose `run` does the job
MODULES = {
    StageJob: "stage.job",
    StatementsJob: "merge.job",
    MaintainJob: "merge.maintain_job",
    PublishJob: "publish.job",
}
VERBS = {StageJob: "stage", StatementsJob: "merge", MaintainJob: "maintain", PublishJob: "publish"}
JOBS_FOLDER = find_product_folder() / "jobs"
# PySpark's packages import each other in circles: a second thread that imports them meanwhile sees half of them
_imports = threading.Lock()


def get_verb(job: Job) -> str:
    """``stage``, ``merge``, ``maintain`` or ``publish``: the file in ``jobs/``, and the word for messages."""
    return VERBS[type(job)]


def import_spark_side(*names: str) -> list[ModuleType]:
    """Modules of `tidegate_spark`, by name and only here: worker and job code share no import, only a job's JSON.

    Threads may call at once.
    """
    with _imports:
        if str(JOBS_FOLDER) not in sys.path:
            sys.path.append(str(JOBS_FOLDER))
        return [importlib.import_module(f"tidegate_spark.{name}") for name in names]


def build_private_conf(catalogs: Mapping[str, str], kafka: Mapping[str, str]) -> dict[str, str]:
    """Session configuration with secrets, and the names that Spark must redact."""
    consumer = {f"kafka.{name}": value for name, value in kafka.items()}
    return redact_in_session({**catalogs, KAFKA_CONF: json.dumps(consumer)})


CATALOG_URI_PATTERN = re.compile(r"spark\.sql\.catalog\.([^.]+)\.uri")
SQLITE_PREFIX = "jdbc:sqlite:"
LOCK_SECONDS = 8.0  # a commit holds the lock for milliseconds, and many may stand in front of this look


def require_free_catalogs(conf: Mapping[str, str]) -> None:
    """`RetryLater` where another program keeps the lock of a SQLite catalog of the session.

    Takes each lock for a moment; writes nothing. Skips a file that is not on this machine.
    """
    seconds = max(LOCK_SECONDS, Patience.seconds)
    for key, uri in conf.items():
        match = CATALOG_URI_PATTERN.fullmatch(key)
        if match and uri.startswith(SQLITE_PREFIX):
            path = Path(uri.removeprefix(SQLITE_PREFIX).partition("?")[0])
            if path.is_file() and _is_locked(path, seconds):
                raise RetryLater(
                    f"catalog={match[1]} file={path}: another program has kept its lock for {seconds:.0f} s, so "
                    "nothing can be committed; end that program; it will be tried again"
                )


def _is_locked(path: Path, seconds: float) -> bool:
    with closing(sqlite3.connect(path, timeout=seconds, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")
        except sqlite3.DatabaseError as error:  # what else is wrong with it the job says
            return error.sqlite_errorcode == sqlite3.SQLITE_BUSY
    return False
