"""Owns the server that answers like BigQuery: DuckDB behind BigQuery's REST API, forgetting all when it goes down."""

import shutil
import urllib.error
import urllib.request

from local.bigquery import environment
from local.errors import StackError
from local.layout import ROOT, RunDir
from local.ports import HOST
from local.server import Server, build_clean_environment, create_log

PROJECT = "test-proj"


def build_server(run: RunDir, port: int, grpc_port: int) -> Server:
    """The server of project `test-proj`, with REST on `port` and gRPC on `grpc_port`."""
    if not environment.is_built():
        raise StackError("bigquery: its environment is not there: run make setup WITH=bigquery (needs Python 3.13)")
    folder = run.path / "bigquery"
    address = ("--host", HOST, "--port", str(port), "--grpc-port", str(grpc_port))
    place = ("--project", PROJECT, "--data-dir", str(folder / "data"))
    launcher = str(ROOT / "local" / "bigquery" / "launcher.py")
    return Server(
        name="bigquery",
        command=(str(environment.PYTHON), launcher, "serve", *address, *place),
        folder=folder,
        log=create_log(run, "bigquery"),
        probe=lambda _: _is_answering(port),
        env={**build_clean_environment(), "HOME": str(folder)},
        variable="BIGQUERY_PID",
        prepare=lambda: _empty_folder(run),
    )


def _is_answering(port: int) -> bool:
    """Whether it lists datasets, which also makes it open its database."""
    address = f"http://{HOST}:{port}/bigquery/v2/projects/{PROJECT}/datasets"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=10) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _empty_folder(run: RunDir) -> None:
    shutil.rmtree(run.path / "bigquery", ignore_errors=True)
    (run.path / "bigquery" / "data").mkdir(parents=True)
