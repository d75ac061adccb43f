"""Owns the schema registry's server: its schemas lie in a file, so a start after a crash finds them again."""

import json
import urllib.error
import urllib.request

from local.errors import StackError
from local.layout import RunDir
from local.ports import HOST
from local.registry import archive
from local.server import Server, build_clean_environment, build_program_command, create_log

ADDRESS = "REGISTRY_URL"
CONNECTION = "AIRFLOW_CONN_SCHEMA_REGISTRY_DEFAULT"
CONFLUENT_PATH = "/apis/ccompat/v7"
HEAP_SIZE = "256m"


def build_url(port: int) -> str:
    """Where clients of Confluent's registry find it; its own API is at `/apis/registry/v3`."""
    return f"http://{HOST}:{port}{CONFLUENT_PATH}"


def build_variables(port: int) -> dict[str, str]:
    """The environment variables for users: the address, and the connection that formats use by default."""
    return {ADDRESS: build_url(port), CONNECTION: json.dumps({"conn_type": "http", "extra": {"url": build_url(port)}})}


def build_server(run: RunDir, port: int) -> Server:
    """The server on `port`."""
    if not archive.is_built():
        raise StackError("registry: its program is not there: run make setup WITH=registry")
    folder = run.path / "registry"
    settings = {
        "QUARKUS_HTTP_HOST": HOST,
        "QUARKUS_HTTP_PORT": str(port),
        "QUARKUS_HTTP_ACCESS_LOG_ENABLED": "false",
        "APICURIO_STORAGE_KIND": "sql",
        "APICURIO_STORAGE_SQL_KIND": "h2",
        "APICURIO_DATASOURCE_URL": f"jdbc:h2:file:{folder / 'schemas'}",
    }
    return Server(
        name="registry",
        command=build_program_command(archive.find_program(), f"-Xmx{HEAP_SIZE}"),
        folder=folder,
        log=create_log(run, "registry"),
        probe=lambda _: _is_answering(port),
        env={**build_clean_environment(), **settings},
        variable="REGISTRY_PID",
    )


def _is_answering(port: int) -> bool:
    """Whether it lists subjects, which also makes it use its file."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{build_url(port)}/subjects", timeout=10) as answer:
            return isinstance(json.load(answer), list)
    except (urllib.error.URLError, OSError, ValueError):
        return False
