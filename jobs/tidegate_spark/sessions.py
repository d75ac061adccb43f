"""The Spark session of one job: its configuration, and where it comes from."""

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress

from pyspark.sql import SparkSession
from tidegate.jobs import JOB_CONF

# What the product's statements rely on, whatever the server's defaults are.
RELIED_ON = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.caseSensitive": "false",
}


CATALOG_CLASS = "spark.tidegate.catalog.class"  # of a server that shares catalogs among sessions: see serve.py
ICEBERG_CATALOG = "org.apache.iceberg.spark.SparkCatalog"


def configure(spark: SparkSession, conf: Mapping[str, str]) -> None:
    """Set session configuration."""
    for key, value in conf.items():
        spark.conf.set(key, value)


def given() -> str:
    """The job of a submitted program: its argument or, where that would be too long, a value of its configuration."""
    if len(sys.argv) > 1:
        return sys.argv[1]
    return str(SparkSession.builder.getOrCreate().conf.get(JOB_CONF))


def submitted(name: str) -> SparkSession:
    """The session of a job that runs under spark-submit; its catalogs come with the submit's properties file."""
    spark = SparkSession.builder.appName(name).getOrCreate()
    configure(spark, RELIED_ON)
    return spark


def connected(remote: str, conf: Mapping[str, str]) -> SparkSession:
    """A new session of a Spark Connect server; nothing of other sessions is seen in it."""
    # Airflow switches this logger on; every session that closes would be three warnings about its own end
    logging.getLogger("pyspark.sql.connect.logging").disabled = True
    spark = SparkSession.builder.remote(remote).create()
    shared = spark.conf.get(CATALOG_CLASS, ICEBERG_CATALOG)
    catalogs = {name: shared for name, value in conf.items() if value == ICEBERG_CATALOG}
    configure(spark, {**RELIED_ON, **conf, **catalogs})
    return spark


def close(spark: SparkSession) -> None:
    """End a session on its server; one that is already gone is closed too."""
    with suppress(Exception):  # the server may have died: what the job did is found by attempt, not by this answer
        spark.stop()
