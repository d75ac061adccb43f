"""Whether Spark is there and fit for the jobs: a Connect server by small statements, spark-submit by its files."""

import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tidegate.adapters.server_greeting import SILENCE_SECONDS, Greeting, is_silent
from tidegate.adapters.server_probe import Server, find_connection_failure
from tidegate.adapters.spark.entry_points import JOBS_FOLDER
from tidegate.adapters.spark.rpc_status import LOGIN_ADVICE, find_status, format_spark_error
from tidegate.adapters.spark.submit import SPARK_EXTENSIONS, find_spark_home
from tidegate.diagnosis.finding import Finding, make_error, make_ok
from tidegate.diagnosis.spark import (
    AVRO_SOURCE,
    JARS_ADVICE,
    KAFKA_SOURCE,
    RUNTIME_PREFIX,
    SparkFacts,
    judge_catalog,
    judge_extensions,
    judge_jars,
    judge_server,
    judge_version,
    parse_jar,
)

REACHABLE_ADVICE = "check that Spark runs, and that the address is the right one"
VERSION_PATTERN = re.compile(r"spark-core_[\d.]+-(\d[\w.]*)\.jar")
JAVA_PATTERN = re.compile(r'version "(\d+)')
MIN_JAVA = 17
JAVA_SECONDS = 8


def check_connect(remote: str, place: str, conf: Mapping[str, str], uses_avro: bool) -> Iterator[Finding]:
    """A Connect server, by a session that is closed again. `remote` and `conf` may hold secrets."""
    server = Server.from_uri("Spark", place, remote)
    refusal = find_connection_failure(server.addresses)
    if refusal is not None:
        yield make_error("spark.reachable", f"{server} took no connection: {refusal}", REACHABLE_ADVICE)
        return
    if is_silent(server, Greeting.GRPC, uses_tls="use_ssl=true" in remote.lower()):
        cause = f"{server} took a connection and said nothing for {SILENCE_SECONDS:.0f} s"
        yield make_error("spark.reachable", cause, REACHABLE_ADVICE)
        return
    try:
        facts = SparkFacts(**import_server_facts().read_server_facts(remote, conf, server.is_refused))
    except Exception as error:
        status = find_status(error)
        if status is not None and status.is_login_refused():
            yield make_error("spark.login", f"{server} refuses the log-in: {status.details}", LOGIN_ADVICE)
            return
        reason = format_spark_error(error)
        yield make_error("spark.reachable", f"{server} does not run a statement: {reason}", "see the server's log")
        return
    yield make_ok("spark.reachable", f"{server}: it runs statements")
    yield from judge_server(str(server), facts, uses_avro)


def check_spark_catalogs(
    remote: str, place: str, conf: Mapping[str, str], catalogs: Sequence[str]
) -> Iterator[Finding]:
    """Each catalog as a job's session sees it."""
    server = Server.from_uri("Spark", place, remote)
    for name, problem in import_server_facts().try_catalogs(remote, conf, server.is_refused, catalogs):
        yield judge_catalog(str(server), name, problem)


def import_server_facts() -> Any:
    """By name and only here: the worker and the job code share no import."""
    if str(JOBS_FOLDER) not in sys.path:
        sys.path.append(str(JOBS_FOLDER))
    return importlib.import_module("tidegate_spark.server_facts")


def check_submit(master: str, jars: str, conf: Mapping[str, str]) -> Iterator[Finding]:
    """An installation of spark-submit: its files, Java, and the master's address."""
    home = find_spark_home()
    place = f"SPARK_HOME={home} master={master}"
    if not (home / "bin" / "spark-submit").exists():
        yield make_error("spark.settings", f"{place}: it has no bin/spark-submit", "set SPARK_HOME to Spark's folder")
        return
    if master.startswith("spark://"):
        server = Server.from_list("Spark", "master", master.removeprefix("spark://"))
        refusal = find_connection_failure(server.addresses)
        if refusal is not None:
            yield make_error("spark.reachable", f"{server} took no connection: {refusal}", REACHABLE_ADVICE)
    yield from _check_java(place)
    jar_names = [path.name for path in sorted((home / "jars").glob("*.jar"))]
    version = next((match[1] for name in jar_names if (match := VERSION_PATTERN.fullmatch(name))), "")
    yield from judge_version(place, version, _find_client_version(version))
    names = [*jar_names, *(Path(jar).name for jar in jars.split(",") if jar)]
    parsed_jars = [jar for jar in map(parse_jar, names) if jar]
    missing = [
        name
        for name in (RUNTIME_PREFIX, KAFKA_SOURCE, AVRO_SOURCE)
        if not any(j.name.startswith(name) for j in parsed_jars)
    ]
    if missing:
        yield make_error("spark.jars", f"{place}: jars={', '.join(missing)} are missing", JARS_ADVICE)
    yield from judge_jars(place, version, parsed_jars)
    yield from judge_extensions(place, conf.get("spark.sql.extensions", SPARK_EXTENSIONS))


def _find_client_version(default: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    for package in ("pyspark", "pyspark-client"):
        try:
            return version(package)
        except PackageNotFoundError:
            continue
    return default


def _check_java(place: str) -> Iterator[Finding]:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install a JDK of version {MIN_JAVA} or newer, or set JAVA_HOME to it"
    if java is None or not Path(java).exists():
        yield make_error("spark.settings", f"{place}: there is no java, JAVA_HOME={home or 'not set'}", advice)
        return
    completed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=JAVA_SECONDS, check=False)
    match = JAVA_PATTERN.search(completed.stderr + completed.stdout)
    if match is not None and int(match[1]) < MIN_JAVA:
        yield make_error("spark.settings", f"{place}: java={java} version={match[1]} is too old", advice)
