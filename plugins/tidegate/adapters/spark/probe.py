"""Whether Spark is there and fit for the jobs: a Connect server by small statements, spark-submit by its version."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.adapters.server_probe import Server, require_server
from tidegate.adapters.spark.connect import LOGIN_ADVICE, find_login_refusal, format_spark_error
from tidegate.adapters.spark.entry_points import import_spark_side
from tidegate.adapters.spark.submit import SPARK_EXTENSIONS, build_environment, find_spark_submit, require_master
from tidegate.diagnosis.finding import Finding, make_error, make_ok, make_warning
from tidegate.errors import ConfigurationError, RetryLater

JAR_NAMES = ("iceberg-spark-runtime", "spark-sql-kafka-0-10", "spark-avro")
JAR_PATTERN = re.compile(
    rf"(?P<name>{'|'.join(JAR_NAMES)})(-(?P<spark>\d+\.\d+))?_(?P<scala>\d+\.\d+)-(?P<version>\d[\w.]*).*\.jar"
)


def import_server_facts() -> Any:
    return import_spark_side("server_facts")[0]


def check_connect(remote: str, place: str) -> Iterator[Finding]:
    """By a session that is closed again. `remote` may hold a token."""
    server = Server.from_uri("Spark", place, remote)
    require_server(server)
    try:
        facts = import_server_facts().read_server_facts(remote, server.is_refused)
    except Exception as error:
        details = find_login_refusal(error)
        if details is not None:
            raise ConfigurationError(f"{server} refuses the log-in: {details}; {LOGIN_ADVICE}") from error
        raise RetryLater(f"{server} runs no statement: {format_spark_error(error)}; see the server's log") from error
    yield make_ok("spark.reachable", f"{server}: it runs statements")
    yield from judge_server(str(server), facts)


def check_spark_catalog(remote: str, place: str, conf: Mapping[str, str], catalog: str) -> Iterator[Finding]:
    """A catalog as a job's session sees it. `conf` may hold secrets."""
    server = Server.from_uri("Spark", place, remote)
    problem = import_server_facts().find_catalog_problem(remote, conf, server.is_refused, catalog)
    if not problem:
        yield make_ok("spark.catalogs", f"{server} catalog={catalog}: Spark reads it")
        return
    advice = "check that Spark's machines reach the catalog and its files, and that its driver is among the jars"
    yield make_error("spark.catalogs", f"{server}: Spark cannot read catalog={catalog}: {problem}; {advice}")


def check_submit(master: str) -> Iterator[Finding]:
    """By its version, which starts Java."""
    require_master(master)
    command = [str(find_spark_submit()), "--version"]
    completed = subprocess.run(command, env=build_environment(), capture_output=True, text=True, check=False)
    if completed.returncode:
        reason = (completed.stderr.strip().splitlines() or ["no output"])[-1]
        advice = "install a JDK of version 17 or newer, or set JAVA_HOME to it"
        raise ConfigurationError(f"file={command[0]}: spark-submit does not start: {reason}; {advice}")
    yield make_ok("spark.reachable", f"file={command[0]} master={master}: spark-submit starts")


def judge_server(place: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    """What a Connect server lacks and no job would name; `facts` from `read_server_facts`."""
    version = facts["version"]
    if version != facts["client_version"]:
        text = f"{place}: Spark version={version}, and this environment has pyspark={facts['client_version']}"
        is_minor = version.split(".")[:2] != facts["client_version"].split(".")[:2]
        make = make_error if is_minor else make_warning
        yield make("spark.version", f"{text}; run Spark {facts['client_version']} there")
    yield from _judge_jars(place, facts)
    if SPARK_EXTENSIONS not in facts["extensions"]:
        text = f"{place}: spark.sql.extensions={facts['extensions'] or 'none'} lacks Iceberg's"
        yield make_error("spark.jars", f"{text}; start Spark with spark.sql.extensions={SPARK_EXTENSIONS}")


def _judge_jars(place: str, facts: Mapping[str, Any]) -> Iterator[Finding]:
    # jobs with missing, doubled or foreign jars fail with errors of Java's
    version = facts["version"]
    jars = [match for match in map(JAR_PATTERN.fullmatch, facts["jars"]) if match]
    faults = [f"Spark has no {name}" for name in facts["missing"]]
    for name in JAR_NAMES:
        named_jars = [jar[0] for jar in jars if jar["name"] == name]
        if len(named_jars) > 1:
            faults.append(f"Spark has {name} twice: jars={', '.join(named_jars)}")
    for jar in jars:
        made_for = jar["spark"] or jar["version"]
        if not f"{version}.".startswith(f"{made_for}."):
            faults.append(f"jar={jar[0]} is made for Spark {made_for}, and version={version} runs it")
    if len({jar["scala"] for jar in jars}) > 1:
        faults.append(f"jars of two Scala versions: jars={', '.join(jar[0] for jar in jars)}")
    advice = "fetch the jars with `tidegate jars`, put them, no others of these, into Spark's jars/, and restart it"
    for fault in faults:
        yield make_error("spark.jars", f"{place}: wrong jars: {fault}; {advice}")
