"""What facts about a Spark server mean: jars of another Spark, settings that were forgotten, a clock that is wrong."""

from dataclasses import replace
from typing import Any

import pytest
from seeded_mistakes import require_found
from tidegate.diagnosis.finding import Severity
from tidegate.diagnosis.spark import SparkFacts, judge_catalog, judge_conf, judge_server, parse_jar, parse_megabytes
from tidegate.schema.avro_limits import AVRO_LIMITS

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
RUNTIME = "iceberg-spark-runtime-4.1_2.13-1.12.0.jar"
KAFKA = "spark-sql-kafka-0-10_2.13-4.1.1.jar"
AVRO = "spark-avro_2.13-4.1.1.jar"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.sql.extensions": EXTENSIONS,
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "4g",
    "spark.driver.extraJavaOptions": " ".join(f"-D{name}=1" for name in AVRO_LIMITS),
}
FACTS = SparkFacts(
    version="4.1.1",
    client_version="4.1.1",
    settings=SETTINGS,
    jars=(RUNTIME, KAFKA, AVRO, "sqlite-jdbc-3.50.3.0.jar", "kafka-clients-3.9.1.jar"),
    iceberg_version="1.12.0",
    skew_seconds=0.1,
)


def remove_setting(name: str) -> dict[str, str]:
    return {key: value for key, value in SETTINGS.items() if key != name}


def test_server_of_the_local_stack_is_right() -> None:
    assert {finding.severity for finding in judge_server("s", FACTS, True)} == {Severity.OK}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("spark-of-other-version", {"version": "3.5.6"}),
        ("iceberg-jar-missing", {"iceberg_version": ""}),
        ("kafka-jar-missing", {"has_kafka_source": False}),
        ("iceberg-jar-twice", {"jars": (RUNTIME, KAFKA, "iceberg-spark-runtime-4.0_2.13-1.11.0.jar")}),
        ("kafka-jar-of-other-spark", {"jars": (RUNTIME, "spark-sql-kafka-0-10_2.13-4.0.0.jar")}),
        ("scala-mixed", {"jars": (RUNTIME, "spark-avro_2.12-4.1.1.jar")}),
        ("extensions-missing", {"settings": remove_setting("spark.sql.extensions")}),
        ("spark-event-log", {"event_log_problem": "the server writes an event log; set spark.redaction.regex"}),
        ("spark-in-berlin", {"settings": {**SETTINGS, "spark.sql.session.timeZone": "Europe/Berlin"}}),
        ("spark-without-memory", {"settings": {**SETTINGS, "spark.driver.memory": "512m"}}),
        ("avro-without-limits", {"settings": remove_setting("spark.driver.extraJavaOptions")}),
        ("spark-clock", {"skew_seconds": 90.2}),
    ],
)
def test_mistake_of_a_server_is_found(name: str, changed: dict[str, Any]) -> None:
    require_found(name, judge_server("s", replace(FACTS, **changed), True))


def test_clock_that_is_behind_is_wrong_too() -> None:
    [finding] = [
        spark_finding
        for spark_finding in judge_server("s", replace(FACTS, skew_seconds=-6), False)
        if spark_finding.check == "spark.clock"
    ]
    assert finding.severity is Severity.WARNING


def test_patch_version_of_another_day_is_a_warning() -> None:
    [finding] = [
        spark_finding
        for spark_finding in judge_server("s", replace(FACTS, version="4.1.2"), False)
        if spark_finding.check == "spark.version"
    ]
    assert finding.severity is Severity.WARNING


def test_executors_of_a_cluster_need_the_limits_and_not_the_driver_alone() -> None:
    facts = replace(FACTS, settings={**SETTINGS, "spark.master": "spark://m:7077"})
    finding = require_found("avro-without-limits", judge_server("s", facts, True))
    assert "spark.executor.extraJavaOptions" in finding.cause
    assert not [
        spark_finding for spark_finding in judge_server("s", facts, False) if spark_finding.severity is Severity.WARNING
    ]


def test_catalog_that_spark_does_not_reach_is_found() -> None:
    require_found("catalog-not-seen-by-spark", [judge_catalog("s", "lake", "No suitable driver")])


def test_setting_that_changes_what_is_written_is_found_and_others_are_left_alone() -> None:
    conf = {"spark.sql.session.timeZone": "Europe/Berlin", "spark.sql.ansi.enabled": "TRUE", "spark.x": "1"}
    [findings] = judge_conf("file=one.yaml", conf)
    require_found("spark-conf-overrides", [findings])


@pytest.mark.parametrize(
    ("file", "parts"),
    [
        (RUNTIME, ("iceberg-spark-runtime-4.1", "2.13", "1.12.0")),
        (KAFKA, ("spark-sql-kafka-0-10", "2.13", "4.1.1")),
        ("postgresql-42.7.7.jar", ("postgresql", "", "42.7.7")),
        ("x_2.13-1.0-SNAPSHOT.jar", ("x", "2.13", "1.0-SNAPSHOT")),
    ],
)
def test_jar_is_read_by_its_name(file: str, parts: tuple[str, str, str]) -> None:
    jar = parse_jar(file)
    assert jar is not None
    assert (jar.name, jar.scala, jar.version) == parts


def test_file_without_a_version_is_no_jar_to_judge() -> None:
    assert parse_jar("classes.jar") is None


@pytest.mark.parametrize(("text", "megabytes"), [("1g", 1024), ("512m", 512), ("2048K", 2), ("much", None)])
def test_memory_is_read_as_spark_reads_it(text: str, megabytes: float | None) -> None:
    assert parse_megabytes(text) == megabytes
