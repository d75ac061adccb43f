"""The Spark session of one job: its configuration, where it comes from, and statements that make missing tables."""

import atexit
import logging
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from tidegate.errors import ConfigurationError
from tidegate.jobs.stage_job import FAILURE_CONF, JOB_CONF, JobFailure
from tidegate.redaction import CORE_REGEX, CORE_REGEX_KEY
from tidegate.sql.spark import quote_name, render_literal

if TYPE_CHECKING:  # a submitted program has no Connect client
    from pyspark.sql.connect.client import SparkConnectClient

    from tidegate_spark.server_retries import ServerWatch

# What the product's statements rely on, whatever the server's defaults are.
SESSION_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.variant.allowDuplicateKeys": "true",  # the last one counts, as in objects that are read as structs
    "spark.sql.caseSensitive": "false",
    # days before 1582, parts of a second and types as they are, on a server for Hive or for older jobs, too
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.avro.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.legacy.json.allowEmptyString.enabled": "false",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variable.substitute": "false",  # keys stand in statements, and ${name} in one is a part of it
    # how statements are spelled: a backslash escapes, backquotes hold a name and double quotes a text
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enforceReservedKeywords": "false",
}
# Spark's client would say so of each session: raw literals, which it advises, are no way for the texts of records
warnings.filterwarnings("ignore", r"The SQL config 'spark\.sql\.parser\.escapedStringLiterals' has been deprecated")
SECRET_PREFIX = "spark.tidegate.secret."
CATALOG_PREFIX = "spark.sql.catalog."
SECRET_PATTERN = re.compile(CORE_REGEX)
DEFAULT_REDACTION_REGEX = "(?i)secret|password|token|access[.]?key"  # where spark.redaction.regex is not set
CATALOG_CLASS = "spark.tidegate.catalog.class"  # of a server that shares catalogs among sessions: see serve.py
CLOSING_SECONDS = 10.0
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def configure(spark: SparkSession, conf: Mapping[str, str]) -> None:
    """Set session configuration; on a Connect server in one request instead of one for each setting."""
    set_all = getattr(spark.conf, "_set_all", None)
    if set_all is not None and conf:
        set_all(dict(conf), silent=False)
        return
    for key, value in conf.items():
        spark.conf.set(key, value)


def read_job_argument() -> str:
    """Return the job of a submitted program: its argument or, if that is too long, a value of its configuration."""
    if len(sys.argv) > 1:
        return sys.argv[1]
    return str(SparkSession.builder.getOrCreate().conf.get(JOB_CONF))


def open_submitted_session(name: str) -> SparkSession:
    """Open the session of a job that runs under spark-submit; its catalogs come with the properties file."""
    spark = SparkSession.builder.appName(name).getOrCreate()
    configure(spark, SESSION_CONF)
    return spark


@contextmanager
def record_failure() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        session = SparkSession.getActiveSession()
        path = "" if session is None else session.conf.get(FAILURE_CONF, "")
        if path:
            Path(path).write_text(JobFailure.from_error(error).to_json(), encoding="utf-8")
        raise


def read_private_conf(spark: SparkSession, name: str) -> str:
    """Read a secret setting: under its own name if the job is submitted, without ``spark.`` in a session."""
    value = spark.conf.get(name.removeprefix("spark."), None)
    return str(spark.conf.get(name) if value is None else value)


def connect_session(remote: str, conf: Mapping[str, str], watch: "ServerWatch | None" = None) -> SparkSession:
    """Open a new, isolated session of a Spark Connect server.

    `watch` limits how long the server is waited for; by default ten minutes, and for ever in a job.
    """
    spark = open_session(remote, watch)
    try:
        check_event_log(spark, conf)
        # Spark writes each setting of a session that begins with `spark` to the event log of every job, and hides only
        # those of the server's own configuration
        hidden = {name.removeprefix("spark.") if name.startswith(SECRET_PREFIX) else name: conf[name] for name in conf}
        shared = spark.conf.get(CATALOG_CLASS, ICEBERG_CATALOG)
        catalogs = {name: shared for name, value in conf.items() if value == ICEBERG_CATALOG}
        configure(spark, {**hidden, **catalogs, **SESSION_CONF})
    except BaseException:
        close(spark)
        raise
    return spark


def open_session(remote: str, watch: "ServerWatch | None" = None) -> SparkSession:
    # Airflow switches this logger on; every session that closes would be three warnings about its own end
    logging.getLogger("pyspark.sql.connect.logging").disabled = True
    spark = SparkSession.builder.remote(remote).create()
    spark.client.close = _leave_open
    atexit.unregister(spark.client._cleanup_ml_cache)  # it would keep each client, and ask its server when all ends
    if watch:
        watch.begin(spark.client)
    return spark


def check_event_log(spark: SparkSession, conf: Mapping[str, str]) -> None:
    """Raise `ConfigurationError` for a server that would write a catalog's secret to its event log.

    Call before `configure`.
    """
    secrets = [name for name in conf if name.startswith(CATALOG_PREFIX) and SECRET_PATTERN.search(name)]
    if not secrets or spark.conf.get("spark.eventLog.enabled", "false") != "true":
        return
    hides = re.compile(str(spark.conf.get(CORE_REGEX_KEY, DEFAULT_REDACTION_REGEX)))
    names = [name for name in secrets if spark.conf.get(name, None) is None or not hides.search(name)]
    if names:
        raise ConfigurationError(
            f"the Spark Connect server writes an event log, which would show settings={', '.join(names)}; nothing was "
            "sent to it; set spark.eventLog.enabled=false in the server's own configuration; or set there each of "
            "these settings to any text, as only those that the server has too are hidden, and "
            f"{CORE_REGEX_KEY}={CORE_REGEX}"
        )


def close(spark: SparkSession) -> None:
    """End a session on its server; one that is already gone is closed too.

    A server that does not answer within `CLOSING_SECONDS` ends the session itself, after an idle hour.
    """
    client = spark.client
    telling = threading.Thread(target=_end_on_server, args=(client,), name="close", daemon=True)
    telling.start()
    try:
        telling.join(CLOSING_SECONDS)
    finally:
        spark.release_session_on_close = False  # told, or in vain
        with suppress(Exception):
            spark.stop()
        client._channel.close()  # ends every request that still waits
        client._closed = True


def _end_on_server(client: "SparkConnectClient") -> None:
    with suppress(Exception):  # the server may have died: what the job did is found by attempt, not by this answer
        release_results()
    with suppress(Exception):
        client.release_session()


def _leave_open() -> None:
    """Replace the `close` that a session's finalizer calls.

    The client's own takes a lock and waits for threads. A finalizer may run in a thread that holds that lock, or in one
    that is waited for: the process would stand still for ever.
    """


def release_results() -> None:
    """Wait until the server was told that the results of this process's statements have arrived.

    The client tells it in the background. A session that ends before leaves abandoned statements, with their plans, on
    the server.
    """
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Results

    with Results._lock:  # only to take the threads: its own `shutdown` holds it for as long as they wait
        threads = Results._release_thread_pool_instance
        Results._release_thread_pool_instance = None
    if threads is not None:
        threads.shutdown()


def set_table_properties(spark: SparkSession, table: str, properties: Mapping[str, str]) -> None:
    assigned = ", ".join(f"{render_literal(name)} = {render_literal(value)}" for name, value in properties.items())
    spark.sql(f"ALTER TABLE {quote_name(table)} SET TBLPROPERTIES ({assigned})")


NAMESPACE_PREFIX = "CREATE NAMESPACE IF NOT EXISTS "
CREATE_PREFIXES = (NAMESPACE_PREFIX, "CREATE TABLE IF NOT EXISTS ")
QUOTED_PART_PATTERN = re.compile(r"`(?:[^`]|``)+`")


def execute(spark: SparkSession, statement: str) -> None:
    """Run one statement. One that creates what is missing is run again if it fails: another run may have made it.

    Some catalogs make no namespace in one that is missing: those above it are made first then.
    """
    try:
        spark.sql(statement)
    except PySparkException:
        if not statement.lstrip().startswith(CREATE_PREFIXES):
            raise
        is_namespace = statement.lstrip().startswith(NAMESPACE_PREFIX)
        parts = QUOTED_PART_PATTERN.findall(statement) if is_namespace else []
        for count in range(2, len(parts)):
            with suppress(PySparkException):  # one that is there needs no right to make it
                spark.sql(NAMESPACE_PREFIX + ".".join(parts[:count]))
        spark.sql(statement)
