"""Spark entry point: ``spark-submit serve.py``, a Spark Connect server whose sessions share what Spark generates.

Spark's own (``SparkConnectServer``) gives each session a class loader, for jars that a user may add, and lets nobody
choose otherwise. Spark keeps generated code by class loader, and each job has a session of its own: every one
generated, and the JVM compiled, what the one before it had: a third of the CPU of small flushes. No job adds jars.
"""

import os
import time

from pyspark.sql import SparkSession

CONF = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
    "spark.sql.codegen.cache.maxEntries": "1000",  # of 100, several pipelines push out each other's
}
LOOK_SECONDS = 1.0

if __name__ == "__main__":
    jvm = os.getppid()
    builder = SparkSession.builder.appName("Tidegate's Spark Connect server")
    for name, value in CONF.items():
        builder = builder.config(name, value)
    builder.getOrCreate()
    while os.getppid() == jvm:  # it outlives neither a stop nor a kill of the server
        time.sleep(LOOK_SECONDS)
