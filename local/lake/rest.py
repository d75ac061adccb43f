"""Owns the REST catalog: Iceberg's own server for tests over a JDBC catalog, on PostgreSQL or on a SQLite file."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from functools import partial

from local.errors import StackError
from local.lake import s3
from local.layout import JARS, RunDir
from local.ports import HOST
from local.server import Server, build_clean_environment, build_java_command, create_log, do_nothing

MAIN_CLASS = "org.apache.iceberg.rest.RESTCatalogServer"
HEAP_SIZE = "256m"
QUIET = f"-Dorg.slf4j.simpleLogger.log.{MAIN_CLASS}=warn"  # it would log its properties, passwords too
DATABASE_DEADLINE_SECONDS = 60


def build_server(
    run: RunDir, port: int, properties: Mapping[str, str], database: Callable[[], bool] | None = None
) -> Server:
    """The server on `port` over a catalog with these properties, in Iceberg's words.

    It starts when its `database` answers, where that is a server too.
    """
    if not (JARS / "rest").exists():
        raise StackError("rest: its jars are not there: run make setup WITH=rest")
    folder = run.path / "rest"
    default_settings = {
        "uri": f"jdbc:sqlite:{folder / 'catalog.db'}?busy_timeout=30000",
        "warehouse": f"file://{run.path}/lake/rest",
    }
    settings = {"rest.port": str(port), "jdbc.schema-version": "V1", **default_settings, **properties}
    return Server(
        name="rest",
        command=build_java_command("rest", f"-Xmx{HEAP_SIZE}", QUIET, MAIN_CLASS),
        folder=folder,
        log=create_log(run, "rest"),
        probe=lambda _: _is_answering(port),
        env={**build_clean_environment(), **{_name_variable(name): value for name, value in settings.items()}},
        variable="REST_PID",
        prepare=partial(_await_database, database) if database else do_nothing,
    )


def build_store_properties(endpoint: str, access_key: str, secret_key: str) -> dict[str, str]:
    """The properties of the bucket, in which the server itself writes metadata files."""
    return {
        "warehouse": f"s3://{s3.BUCKET}/warehouse",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": endpoint,
        "s3.path-style-access": "true",
        "client.region": s3.REGION,
        "s3.access-key-id": access_key,
        "s3.secret-access-key": secret_key,
    }


def _name_variable(name: str) -> str:
    """The environment variable of a property. A variable is not visible in a list of processes."""
    return "CATALOG_" + name.upper().replace("-", "__").replace(".", "_")


def _await_database(is_ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DATABASE_DEADLINE_SECONDS
    while not is_ready():
        if time.monotonic() > deadline:
            raise StackError(f"rest: its database does not answer after {DATABASE_DEADLINE_SECONDS} s")
        time.sleep(0.2)


def _is_answering(port: int) -> bool:
    """Whether it lists namespaces, which also makes it use its database."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{HOST}:{port}/v1/namespaces", timeout=10) as answer:
            return "namespaces" in json.load(answer)
    except (urllib.error.URLError, OSError, ValueError):
        return False
