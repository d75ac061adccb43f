"""What facts about a Spark server mean: jars of another Spark, extensions that were forgotten, another version."""

from types import SimpleNamespace
from typing import Any

import pytest
from seeded_mistakes import require_found
from tidegate.adapters.spark import probe
from tidegate.adapters.spark.probe import check_spark_catalog, judge_server
from tidegate.diagnosis.finding import Severity

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
RUNTIME = "iceberg-spark-runtime-4.1_2.13-1.12.0.jar"
KAFKA = "spark-sql-kafka-0-10_2.13-4.1.1.jar"
AVRO = "spark-avro_2.13-4.1.1.jar"
FACTS = {
    "version": "4.1.1",
    "client_version": "4.1.1",
    "extensions": EXTENSIONS,
    "jars": [RUNTIME, KAFKA, AVRO, "sqlite-jdbc-3.50.3.0.jar", "kafka-clients-3.9.1.jar", "classes.jar"],
    "missing": [],
}


def test_server_of_the_local_stack_is_right() -> None:
    assert list(judge_server("s", FACTS)) == []


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("spark-of-other-version", {"version": "3.5.6"}),
        ("iceberg-jar-missing", {"missing": ["iceberg-spark-runtime"]}),
        ("kafka-jar-missing", {"missing": ["spark-sql-kafka-0-10"]}),
        ("iceberg-jar-twice", {"jars": [RUNTIME, KAFKA, "iceberg-spark-runtime-4.0_2.13-1.11.0.jar"]}),
        ("kafka-jar-of-other-spark", {"jars": [RUNTIME, "spark-sql-kafka-0-10_2.13-4.0.0.jar"]}),
        ("scala-mixed", {"jars": [RUNTIME, "spark-avro_2.12-4.1.1.jar"]}),
        ("extensions-missing", {"extensions": ""}),
    ],
)
def test_mistake_of_a_server_is_found(name: str, changed: dict[str, Any]) -> None:
    require_found(name, judge_server("s", {**FACTS, **changed}))


def test_patch_version_of_another_day_is_a_warning() -> None:
    findings = list(judge_server("s", {**FACTS, "version": "4.1.2", "jars": [RUNTIME]}))
    assert [(finding.check, finding.severity) for finding in findings] == [("spark.version", Severity.WARNING)]


@pytest.mark.parametrize("file", ["spark-sql-kafka-0-10_2.13-4.1.10.jar", "iceberg-spark-runtime-4.10_2.13-1.12.0.jar"])
def test_version_that_only_begins_like_the_servers_is_another(file: str) -> None:
    [finding] = judge_server("s", {**FACTS, "jars": [file]})
    assert f"jar={file} is made for Spark 4.1" in finding.cause


def test_catalog_that_spark_does_not_reach_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = SimpleNamespace(find_catalog_problem=lambda *_: "No suitable driver")
    monkeypatch.setattr(probe, "import_server_facts", lambda: facts)
    require_found("catalog-not-seen-by-spark", check_spark_catalog("sc://s", "connection=spark", {}, "lake"))
