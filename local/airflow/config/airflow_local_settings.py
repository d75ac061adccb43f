"""Owns what Airflow runs while it starts: waiting for SQLite's lock, and a head start for tasks.

The local executor forks a process per task from the scheduler, and a Celery worker from itself. What is imported here
is there at once in every task, which saves a second or more each. Importing is safe before a fork: none of these starts
a thread or opens a channel until it is used. Only third-party libraries stand here, so that an edit of our own code is
seen by the next task.
"""

import contextlib
import importlib
import sys

PRELOADED_MODULES = (
    "airflow.providers.standard.decorators.python",
    "airflow.sdk.definitions.decorators",
    "confluent_kafka.admin",
    "jinja2",
    "pyarrow.compute",
    "pyarrow.parquet",
    "pyiceberg.catalog.sql",
    "pyiceberg.io.pyarrow",
    "pyiceberg.table",
    "pyspark.sql.connect.session",
    "pyspark.sql.connect.functions",
    "pydantic",
    "sqlglot.dialects.spark",
    "yaml",
)

# One writer waits for the other. The API server waits less: it writes its audit log in its event loop, and when another
# of its requests holds the lock, that one can't end before the loop goes on. Both wait until this time is over.
sqlite_connect_args = {"timeout": 20 if sys.argv[1:2] == ["api-server"] else 60}

if sys.argv[1:2] in (["scheduler"], ["celery"]):
    for module in PRELOADED_MODULES:
        with contextlib.suppress(ImportError):  # a task that needs it says so with a better message
            importlib.import_module(module)
