"""Spark entry point: ``spark-submit serve.py``, a Spark Connect server whose sessions share code and catalogs.

Spark's own server gives each session a class loader, and keeps generated code by class loader, so that each job
generated and compiled anew what the one before it had: a third of the CPU of small flushes. No job adds jars.

Spark also makes each session's catalogs anew, and never closes them: connections of a JDBC catalog add up. Jobs name
the class in `SharedCatalog.java` instead, if the server has it. `AllocatorPlugin.java`, `SorterPlugin.java` and
`ShutdownHooks.java` release what else sessions and tasks would leave.
"""

import os
import tempfile
import time
import zipfile
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

SERVER_CONF = {
    "spark.sql.artifact.isolation.enabled": "false",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "false",
    "spark.sql.codegen.cache.maxEntries": "1000",  # of 100, several pipelines push out each other's
    # The parser keeps some 10 KB for each state that it meets, 160 MB for the first pipeline of Debezium's JSON, and
    # would keep all of them for ever. This is in percent of the driver's memory.
    "spark.sql.parser.manageParserCaches": "true",
    "spark.sql.parser.parserDfaCacheFlushRatio": "20",
    # no job has models, and what their cache leaves behind is removed here
    "spark.connect.session.connectML.mlCache.memoryControl.enabled": "false",
    # Of a statement that its session has left behind Spark remembers the plan, with the keys that a merge names: of the
    # last 10,000 by default. It only refuses to run such a statement again.
    "spark.connect.execute.manager.abandonedTombstonesSize": "100",
    # No flush uses another's consumers. Each holds sockets and what it fetched last; Spark's default is 5 m.
    "spark.kafka.consumer.cache.timeout": "1m",
    "spark.kafka.consumer.fetchedData.cache.timeout": "1m",
    # a slow event would stand in the log with all settings of its session, secrets too
    "spark.scheduler.listenerbus.logSlowEvent": "false",
    # what tidegate.redaction says; Spark's own knows neither `credential` nor an object store's keys
    "spark.redaction.regex": "(?i)secret|passw(or)?d|passphrase|token|credential|authorization|jaas|user[._-]?info"
    "|connection[._-]string|(access|account|api|private|shared)[._-]?key",
}
CATALOG_CLASS = "spark.tidegate.catalog.class"  # `tidegate_spark.session` asks for it
LOCAL_FILES_CONF = "spark.hadoop.fs.file.impl"
SOURCE_FOLDER = Path(__file__).parent
CATALOG = "SharedCatalog"
ALLOCATOR = "AllocatorPlugin"
LOCAL_FILES = "LocalFiles"
SORTER = "SorterPlugin"
HOOKS = "ShutdownHooks"
MISSING_CLASS_MESSAGES = {
    CATALOG: "Sessions share no catalog, and each keeps its connections",
    ALLOCATOR: "Readers leave their allocators in memory",
    SORTER: "Tasks leave their sorters in memory",
    LOCAL_FILES: "Each file on local disk starts a process",
    HOOKS: "Each compaction leaves its session in memory",
}
# where Spark makes a folder for each session at its end, and leaves it
MODEL_CACHE_FOLDER = "spark_connect_model_cache"
CHECK_SECONDS = 1.0
MIN_FOLDER_AGE_SECONDS = 10.0


def compile_class(jvm: Any, name: str, jar: Path) -> str:
    """Compile a class of this folder with Spark's own compiler into the server's class loader; return its full name."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cookFile(str(SOURCE_FOLDER / f"{name}.java"))
    code = dict(compiler.getBytecodes())
    with zipfile.ZipFile(jar, "w") as archive:
        for part, content in code.items():
            archive.writestr(part.replace(".", "/") + ".class", bytes(content))
    loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
    for part in code:
        loader.loadClass(part)
    return f"tidegate.{name}"


def find_compiled(name: str, folder: Path) -> tuple[str, str]:
    """Return the class and the jar that has it; empty on a server without Iceberg, or with a changed one."""
    jar = folder / f"{name}.jar"
    try:
        return compile_class(SparkContext._jvm, name, jar), jar.as_uri()
    except Exception as error:
        reason = str(getattr(error, "java_exception", error)).splitlines()[0]
        print(f"{MISSING_CLASS_MESSAGES[name]}: class={name}: {reason}", flush=True)
        return "", ""


def configure_classes(folder: Path) -> dict[str, str]:
    """Return the settings of sessions and executors for the classes beside this file; executors fetch the jar."""
    conf: dict[str, str] = {}
    catalog, _ = find_compiled(CATALOG, folder)
    if catalog:
        conf[CATALOG_CLASS] = catalog
    spark_conf = SparkConf()
    # executors in other JVMs would look for the class before they have fetched it
    if spark_conf.get("spark.master", "").partition("[")[0] == "local" and not spark_conf.contains(LOCAL_FILES_CONF):
        files, _ = find_compiled(LOCAL_FILES, folder)
        if files:
            conf[LOCAL_FILES_CONF] = files
    plugins = [found for name in (ALLOCATOR, SORTER) if (found := find_compiled(name, folder))[0]]
    if plugins:
        conf["spark.plugins"] = ",".join(name for name, _ in plugins)
        conf["spark.jars"] = ",".join(filter(None, [spark_conf.get("spark.jars", ""), *(jar for _, jar in plugins)]))
    return conf


def find_hook_removal(folder: Path) -> Callable[[], object] | None:
    """Return what removes the shutdown hooks of ended thread pools; None if the class cannot be had."""
    name, _ = find_compiled(HOOKS, folder)
    if not name:
        return None
    jvm = SparkContext._jvm
    new_array = SparkContext._gateway.new_array
    hook_class = jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(name)
    method = hook_class.getMethod("removeEnded", new_array(jvm.java.lang.Class, 0))
    return partial(method.invoke, None, new_array(jvm.java.lang.Object, 0))


def remove_hooks(removal: Callable[[], object] | None) -> Callable[[], object] | None:
    """Remove the hooks; return None, after a line that says why, if this JVM does not let its hooks be listed."""
    try:
        if removal is not None:
            removal()
    except Exception as error:
        reason = str(getattr(error, "java_exception", error)).splitlines()[0]
        print(f"{MISSING_CLASS_MESSAGES[HOOKS]}: {reason}", flush=True)
        return None
    return removal


def remove_empty_folders(parent: Path) -> None:
    with suppress(FileNotFoundError):
        for folder in parent.iterdir():
            with suppress(OSError):
                if time.time() - folder.stat().st_mtime > MIN_FOLDER_AGE_SECONDS:
                    folder.rmdir()


def serve(folder: Path, temporary: Path) -> None:
    """Run the server until its JVM ends; executors that start late fetch what is in the folder.

    Not by Connect's plugin: it would take requests before there is a session to make theirs from.
    """
    jvm = os.getppid()
    builder = SparkSession.builder.appName("Tidegate's Spark Connect server")
    for name, value in {**SERVER_CONF, **configure_classes(folder)}.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    SparkContext._jvm.org.apache.spark.sql.connect.service.SparkConnectService.start(session.sparkContext._jsc.sc())
    hook_removal = find_hook_removal(folder)
    while os.getppid() == jvm:  # it outlives neither a stop nor a kill of the server
        remove_empty_folders(temporary / MODEL_CACHE_FOLDER)
        hook_removal = remove_hooks(hook_removal)
        time.sleep(CHECK_SECONDS)


if __name__ == "__main__":
    SparkContext._ensure_initialized()
    place = Path(SparkContext._jvm.java.lang.System.getProperty("java.io.tmpdir"))
    with tempfile.TemporaryDirectory(prefix="tidegate-classes-", dir=place) as class_folder:
        serve(Path(class_folder), place)
