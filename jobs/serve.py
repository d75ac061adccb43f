"""Spark entry point: ``spark-submit serve.py``, a Spark Connect server whose sessions share code and catalogs.

Spark's own (``SparkConnectServer``) gives each session a class loader, for jars that a user may add, and lets nobody
choose otherwise. Spark keeps generated code by class loader, and each job has a session of its own: every one
generated, and the JVM compiled, what the one before it had: a third of the CPU of small flushes. No job adds jars.

Spark also makes each session's catalogs anew, and never closes them, so that the connections of a JDBC catalog add up.
Jobs name the class in `SharedCatalog.java` instead of Iceberg's own where the server says that it has it.
"""

import os
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

CONF = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
    "spark.sql.codegen.cache.maxEntries": "1000",  # of 100, several pipelines push out each other's
    # what tidegate.redaction says; Spark's own knows neither `credential` nor an object store's keys
    "spark.redaction.regex": "(?i)secret|passw(or)?d|passphrase|token|credential|authorization|jaas|user[._-]?info"
    "|connection[._-]string|(access|account|private|shared)[._-]?key",
}
CATALOG_CLASS = "spark.tidegate.catalog.class"  # `tidegate_spark.sessions` asks for it
SOURCE = Path(__file__).with_name("SharedCatalog.java")
LOOK_SECONDS = 1.0


def compile_catalog(jvm: Any, folder: Path) -> str:
    """Give the server's class loader the shared catalog, compiled by Spark's own compiler; the class's name."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cookFile(str(SOURCE))
    jar = folder / "shared-catalog.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for name, code in dict(compiler.getBytecodes()).items():
            archive.writestr(name.replace(".", "/") + ".class", bytes(code))
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    for name in dict(compiler.getBytecodes()):
        loader.loadClass(name)
    return f"tidegate.{SOURCE.stem}"


def shared_catalog() -> dict[str, str]:
    """What tells jobs of the shared catalog; nothing on a server without Iceberg, or with one that has changed."""
    SparkContext._ensure_initialized()
    try:
        with tempfile.TemporaryDirectory(prefix="tidegate-catalog-") as folder:
            return {CATALOG_CLASS: compile_catalog(SparkContext._jvm, Path(folder))}
    except Exception as error:
        reason = str(getattr(error, "java_exception", error)).splitlines()[0]
        print(f"Sessions share no catalog, and each keeps its connections: class={SOURCE.stem}: {reason}", flush=True)
        return {}


if __name__ == "__main__":
    jvm = os.getppid()
    builder = SparkSession.builder.appName("Tidegate's Spark Connect server")
    for name, value in {**CONF, **shared_catalog()}.items():
        builder = builder.config(name, value)
    builder.getOrCreate()
    while os.getppid() == jvm:  # it outlives neither a stop nor a kill of the server
        time.sleep(LOOK_SECONDS)
