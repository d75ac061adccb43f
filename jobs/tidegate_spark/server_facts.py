"""What a Spark Connect server tells of itself in small statements: version, settings, jars, and its catalogs."""

from collections.abc import Callable, Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.version import __version__

from tidegate_spark.server_retries import ServerWatch
from tidegate_spark.session import close, connect_session, open_session

CLASSES = {
    "iceberg-spark-runtime": "org.apache.iceberg.IcebergBuild",
    "spark-sql-kafka-0-10": "org.apache.spark.sql.kafka010.KafkaSourceProvider",
}
MAX_PROBLEM_CHARACTERS = 400


def read_server_facts(remote: str, is_refused: Callable[[], bool]) -> dict[str, Any]:
    """Return facts by name. `is_refused` says whether the server's port takes no connection now."""
    with ServerWatch(is_refused) as watch:
        spark = open_session(remote, watch)
        try:
            return {
                "version": spark.version,
                "client_version": __version__,
                "extensions": _get_setting(spark, "spark.sql.extensions"),
                "jars": _list_jars(spark),
                "missing": [
                    n for n, name in CLASSES.items() if not _call_static(spark, "java.lang.Class", "forName", name)
                ],
            }
        finally:
            close(spark)


def _get_setting(spark: SparkSession, name: str) -> str:
    return str(spark.conf.get(name, "") or "")


def _list_jars(spark: SparkSession) -> list[str]:
    paths = _call_static(spark, "java.lang.System", "getProperty", "java.class.path").split(":")
    paths += _get_setting(spark, "spark.jars").split(",")
    packages = [package.strip().split(":") for package in _get_setting(spark, "spark.jars.packages").split(",")]
    paths += [f"{package[1]}-{package[2]}.jar" for package in packages if len(package) == 3]
    return sorted({name for name in (path.rpartition("/")[2] for path in paths) if name.endswith(".jar")})


def _call_static(spark: SparkSession, name: str, method: str, *arguments: str) -> str:
    words = ", ".join(f"'{word}'" for word in (name, method, *arguments))
    try:
        return str(spark.sql(f"SELECT reflect({words})").collect()[0][0] or "")
    except PySparkException:
        return ""


def find_catalog_problem(remote: str, conf: Mapping[str, str], is_refused: Callable[[], bool], catalog: str) -> str:
    """Return the first line of Spark's error with a catalog in a job's session; empty if it lists its namespaces."""
    with ServerWatch(is_refused) as watch:
        spark = connect_session(remote, conf, watch)
        try:
            _ = spark.sql(f"SHOW NAMESPACES IN `{catalog}`").collect()
        except PySparkException as error:
            return (str(error).strip().splitlines() or [type(error).__name__])[0][:MAX_PROBLEM_CHARACTERS]
        finally:
            close(spark)
    return ""
