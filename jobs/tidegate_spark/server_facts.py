"""What a Spark Connect server tells of itself in small statements: version, settings, jars, clock, and its catalogs."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.version import __version__
from tidegate.errors import ConfigurationError

from tidegate_spark.server_retries import ServerWatch
from tidegate_spark.session import check_event_log, close, connect_session, open_session

REPORTED_SETTINGS = (
    "spark.master",
    "spark.sql.extensions",
    "spark.sql.session.timeZone",
    "spark.driver.memory",
    "spark.executor.memory",
    "spark.driver.extraJavaOptions",
    "spark.executor.extraJavaOptions",
    "spark.jars",
    "spark.jars.packages",
)
ICEBERG_CLASS = "org.apache.iceberg.IcebergBuild"
KAFKA_SOURCE_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
MAX_PROBLEM_CHARACTERS = 400


def read_server_facts(remote: str, conf: Mapping[str, str], is_refused: Callable[[], bool]) -> dict[str, Any]:
    """Facts by name, as plain values. `conf` is what jobs get for their session, secrets included.

    `is_refused` says whether the server's port takes no connection now.
    """
    with ServerWatch(is_refused) as watch:
        spark = open_session(remote, watch)
        try:
            return _read_facts(spark, conf)
        finally:
            close(spark)


def _read_facts(spark: SparkSession, conf: Mapping[str, str]) -> dict[str, Any]:
    settings = {name: str(spark.conf.get(name, "") or "") for name in REPORTED_SETTINGS}
    return {
        "version": spark.version,
        "client_version": __version__,
        "settings": settings,
        "jars": _list_jars(spark, settings),
        "iceberg_version": _call_static(spark, ICEBERG_CLASS, "version"),
        "has_kafka_source": _has_class(spark, KAFKA_SOURCE_CLASS),
        "skew_seconds": _measure_skew(spark),
        "event_log_problem": _find_event_log_problem(spark, conf),
    }


def _list_jars(spark: SparkSession, settings: Mapping[str, str]) -> list[str]:
    """File names on the driver's class path, and of jars that the server was given."""
    path = _call_static(spark, "java.lang.System", "getProperty", "java.class.path")
    jar_paths = settings["spark.jars"].split(",")
    packages = [f"{name}-{version}.jar" for _, name, version in _split_packages(settings["spark.jars.packages"])]
    names = {path.rpartition("/")[2] for path in (*path.split(":"), *jar_paths)}
    return sorted(name for name in names | set(packages) if name.endswith(".jar"))


def _split_packages(text: str) -> list[tuple[str, str, str]]:
    parts = [package.strip().split(":") for package in text.split(",") if package.count(":") == 2]
    return [(group, name, version) for group, name, version in parts]


def _call_static(spark: SparkSession, name: str, method: str, *arguments: str) -> str:
    """The answer of a static method of the server's; empty where there is no such class."""
    words = ", ".join(f"'{word}'" for word in (name, method, *arguments))
    try:
        return str(spark.sql(f"SELECT reflect({words})").collect()[0][0] or "")
    except PySparkException:
        return ""


def _has_class(spark: SparkSession, name: str) -> bool:
    return bool(_call_static(spark, "java.lang.Class", "forName", name))


def _measure_skew(spark: SparkSession) -> float:
    """Seconds by which the server's clock is ahead of ours; the way there and back counts half."""
    begin_seconds = time.time()
    micros = spark.sql("SELECT unix_micros(current_timestamp())").collect()[0][0]
    return float(micros) / 1e6 - (begin_seconds + time.time()) / 2


def _find_event_log_problem(spark: SparkSession, conf: Mapping[str, str]) -> str:
    try:
        check_event_log(spark, conf)
    except ConfigurationError as problem:
        return str(problem)
    return ""


def try_catalogs(
    remote: str, conf: Mapping[str, str], is_refused: Callable[[], bool], catalogs: Iterable[str]
) -> Iterator[tuple[str, str]]:
    """Each catalog with the first line of what Spark says against it; empty where it lists its namespaces."""
    with ServerWatch(is_refused) as watch:
        spark = connect_session(remote, conf, watch)
        try:
            for name in catalogs:
                yield name, _find_catalog_problem(spark, name)
        finally:
            close(spark)


def _find_catalog_problem(spark: SparkSession, name: str) -> str:
    try:
        _ = spark.sql(f"SHOW NAMESPACES IN `{name}`").collect()
    except PySparkException as error:
        return (str(error).strip().splitlines() or [type(error).__name__])[0][:MAX_PROBLEM_CHARACTERS]
    return ""
