"""Forty and more mistakes of a first hour: for each one the check that finds it, its sentence, and the way out.

The tests that sow them name them: `require_found("topic-missing", findings)`.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

ERROR, WARNING = "error", "warning"


class Mistake(NamedTuple):
    """What a finding must say: parts of its cause and of its advice."""

    check: str
    severity: str
    cause: str
    advice: str


MISTAKES = {
    # files and settings
    "folder-missing": Mistake("files.environment", ERROR, "no such folder", "set TIDEGATE_INCLUDE"),
    "unknown-key": Mistake("files.pipelines", ERROR, "one.yaml:2: source.topic=", "did you mean topics"),
    "no-tables": Mistake("files.pipelines", ERROR, "tables: missing", "add it"),
    "catalog-not-declared": Mistake("files.pipelines", ERROR, "tables[0].name=sea.shop.one", "lake"),
    "bad-interval": Mistake("files.pipelines", ERROR, "merge.interval=often", "60s"),
    "bad-type": Mistake("files.pipelines", ERROR, "source.value.schema", "BIGINT"),
    "unknown-format": Mistake("files.pipelines", ERROR, "source.value.format=jsno", "did you mean json"),
    "key-without-type": Mistake("files.pipelines", ERROR, "source.key.fields[1]=nobody", "add it there"),
    "yaml-broken": Mistake("files.pipelines", ERROR, "one.yaml:", ""),
    "two-owners": Mistake("files.pipelines", ERROR, "pipeline one needs lake.shop.one_one_tmp too", "rename"),
    "shared-group": Mistake("files.pipelines", ERROR, "pipeline one commits its offsets of", "name another group"),
    "catalog-variable-unset": Mistake("files.catalogs", ERROR, "${NOWHERE_SET} is not set", "export it"),
    "catalog-type-unknown": Mistake("files.catalogs", ERROR, "lake.type=icebreg", ""),
    "catalog-relative-path": Mistake("files.catalogs", ERROR, "Spark cannot share it", "absolute paths"),
    "publication-key-unknown": Mistake("files.publications", ERROR, "out.yaml", "did you mean"),
    "secret-in-catalogs": Mistake("files.secrets", ERROR, "a secret in a file", "put it into an Airflow connection"),
    "secret-in-kafka": Mistake("files.secrets", ERROR, "sasl.password", "put it into an Airflow connection"),
    "secret-in-notes": Mistake("files.secrets", ERROR, "notes.txt:2: file=notes.txt holds", "change it"),
    "private-key-in-folder": Mistake("files.secrets", ERROR, "client.pem:1:", "put it into an Airflow connection"),
    "connection-missing": Mistake(
        "files.connections", ERROR, "connection=kafka_other: not found", "AIRFLOW_CONN_KAFKA_OTHER"
    ),
    "connection-unreadable": Mistake(
        "files.connections", ERROR, "AIRFLOW_CONN_KAFKA_DEFAULT: cannot be read", "JSON form"
    ),
    # brokers
    "kafka-without-servers": Mistake(
        "kafka.reachable", ERROR, "bootstrap.servers is missing", "add it to the connection's extra"
    ),
    "kafka-setting-unknown": Mistake(
        "kafka.reachable", ERROR, "refuses the connection's settings", "correct the extra"
    ),
    "kafka-java-refuses": Mistake(
        "kafka.reachable", ERROR, "enable.ssl.certificate.verification=false", "ssl.ca.location"
    ),
    "kafka-down": Mistake(
        "kafka.reachable", ERROR, "took no connection: Connection refused", "check that the server runs"
    ),
    "kafka-silent": Mistake("kafka.reachable", ERROR, "gave no answer within", "its address"),
    "kafka-password-wrong": Mistake(
        "kafka.reachable", ERROR, "refuse the log-in", "check user, password and mechanism"
    ),
    "kafka-without-tls": Mistake("kafka.reachable", ERROR, "their addresses", "security.protocol"),
    "kafka-authority-wrong": Mistake("kafka.reachable", ERROR, "refuse the log-in", "certificate's authority"),
    "broker-advertises-nowhere": Mistake("kafka.reachable", ERROR, "broker=2 of", "advertised.listeners"),
    "topic-missing": Mistake(
        "kafka.topics", ERROR, "topic=nowhere does not exist", "create it, or correct source.topics"
    ),
    "pattern-matches-nothing": Mistake(
        "kafka.topics", ERROR, "topic_pattern=none\\..* matches no topic", "create a topic"
    ),
    "topic-without-right": Mistake("kafka.topics", ERROR, "topic=salaries", "READ"),
    "topic-without-leader": Mistake("kafka.topics", ERROR, "it has no leader", "start one of them"),
    "group-without-right": Mistake("kafka.group", ERROR, "group=elsewhere", "READ on the group"),
    "topic-not-compacted": Mistake("pipeline.position", ERROR, "cleanup.policy=delete", "allow_uncompacted"),
    "records-of-tomorrow": Mistake("kafka.clock", WARNING, "ahead_seconds=86400", "NTP"),
    # schema registry
    "registry-silent": Mistake("catalog.tables", ERROR, "gave no answer within", "its address"),
    "registry-down": Mistake("registry.schema", ERROR, "took no connection", "check that the server runs"),
    "registry-password-wrong": Mistake("registry.schema", ERROR, "status=401", "check the connection's login"),
    "subject-missing": Mistake("registry.schema", ERROR, "subject=t.one-value", "register a schema"),
    "schema-of-other-kind": Mistake("registry.schema", ERROR, "is of type JSON", "correct value.format"),
    "schema-without-column": Mistake(
        "registry.schema", ERROR, "value.schema has name STRING", "leave value.schema out"
    ),
    # catalogs
    "catalog-silent": Mistake("catalog.reachable", ERROR, "gave no answer within", "its address"),
    "catalog-folder-missing": Mistake("catalog.reachable", ERROR, "of its SQLite file does not exist", "mount it"),
    "catalog-down": Mistake("catalog.reachable", ERROR, "took no connection", "check that the server runs"),
    "catalog-password-wrong": Mistake("catalog.reachable", ERROR, "the log-in or its rights were refused", "the login"),
    "warehouse-not-writable": Mistake("catalog.commit", ERROR, "did not answer during a trial commit", "its warehouse"),
    "catalog-read-only": Mistake("catalog.commit", ERROR, "a trial commit failed: ", "the rights of a writer"),
    "table-missing": Mistake("catalog.tables", ERROR, "table=lake.shop.one does not exist", "create it"),
    "table-of-other-type": Mistake(
        "catalog.tables",
        ERROR,
        "column=id: incompatible change from type=STRING",
        "correct the schema in the pipeline file",
    ),
    # positions
    "topic-recreated": Mistake("pipeline.position", ERROR, "topic", "rebase"),
    # Spark
    "spark-nowhere": Mistake("files.connections", ERROR, "SPARK_REMOTE is not set", "make up"),
    "spark-connection-type": Mistake(
        "spark.reachable", ERROR, "mode connect needs the type spark_connect", "spark.mode: submit"
    ),
    "spark-down": Mistake("spark.reachable", ERROR, "took no connection", "check that the server runs"),
    "spark-silent": Mistake("spark.reachable", ERROR, "gave no answer within", "see its log"),
    "spark-stuck": Mistake("spark.reachable", ERROR, "gave no answer within", "see its log"),
    "spark-token-wrong": Mistake("spark.reachable", ERROR, "refuses the log-in", "check the token"),
    "spark-of-other-version": Mistake("spark.version", ERROR, "version=3.5.6", "run Spark 4.1.1"),
    "iceberg-jar-missing": Mistake("spark.jars", ERROR, "Spark has no iceberg-spark-runtime", "tidegate jars"),
    "kafka-jar-missing": Mistake("spark.jars", ERROR, "Spark has no spark-sql-kafka-0-10", "tidegate jars"),
    "iceberg-jar-twice": Mistake("spark.jars", ERROR, "iceberg-spark-runtime twice", "no others of these"),
    "kafka-jar-of-other-spark": Mistake(
        "spark.jars", ERROR, "jar=spark-sql-kafka-0-10_2.13-4.0.0.jar is made for", "tidegate jars"
    ),
    "scala-mixed": Mistake("spark.jars", ERROR, "two Scala versions", "tidegate jars"),
    "extensions-missing": Mistake("spark.jars", ERROR, "spark.sql.extensions=none", "IcebergSparkSessionExtensions"),
    "catalog-not-seen-by-spark": Mistake("spark.catalogs", ERROR, "cannot read catalog=lake", "driver"),
    "java-missing": Mistake("spark.reachable", ERROR, "spark-submit does not start", "install a JDK"),
    # Airflow
    "airflow-old": Mistake("airflow.environment", ERROR, "airflow=3.2.1 is too old", "install Airflow 3.3"),
    "airflow-database-down": Mistake("airflow.environment", ERROR, "database does not answer", "airflow db migrate"),
    "plugin-not-found": Mistake("airflow.plugin", ERROR, "has not loaded Tidegate's plugin", "plugins_folder"),
    "dags-not-found": Mistake("airflow.plugin", ERROR, "has no DAG file of Tidegate", "dags_folder"),
    "scheduler-dead": Mistake("airflow.services", ERROR, "SchedulerJob", "airflow scheduler"),
    "triggerer-missing": Mistake("airflow.services", ERROR, "TriggererJob", "airflow triggerer"),
}


def require_found(name: str, findings: Iterable[Any]) -> Any:
    """The finding of a mistake; AssertionError shows all findings where there is none."""
    check, severity, cause, advice = MISTAKES[name]
    findings = list(findings)
    for finding in findings:
        if (
            finding.check == check
            and finding.severity == severity
            and cause in finding.cause
            and advice in finding.advice
        ):
            assert finding.advice, f"{name}: no way out: {finding.cause}"
            assert len(finding.cause.splitlines()) == 1
            return finding
    lines = "\n".join(f"{line.severity} {line.check}: {line.cause} | {line.advice}" for line in findings)
    raise AssertionError(f"mistake={name} was not found as {MISTAKES[name]}; found:\n{lines}")
