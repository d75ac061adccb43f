"""A Spark Connect server with a token behind TLS, by the very nginx.conf of deploy/kubernetes: as people run it."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nginx
import pytest
from background_server import tie_to_test
from conftest import Workbench, _run_stack, wait_until

from local.kafka.security import make_certificates
from local.ports import HOST, choose_ports, is_answering

SETTINGS = Path(__file__).parents[2] / "deploy" / "kubernetes" / "nginx.conf"
CONNECTION = "AIRFLOW_CONN_SPARK_DEFAULT"
TRUSTED = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"  # gRPC's own variable


class TlsBench(Workbench):
    """A workbench whose Spark server is reached through the proxy alone."""

    def __init__(self, shared: Workbench, spark: Any, port: int, authority: Path) -> None:
        super().__init__(shared.stack, shared.admin, shared._producer, shared.folder / "tls")
        token = json.loads(spark.variables[CONNECTION])["password"]
        self.token = token
        self.connection: dict[str, Any] = {
            "conn_type": "spark_connect", "host": f"sc://{HOST}", "port": port, "password": token,
            "extra": {"use_ssl": True},
        }  # fmt: skip
        self.more = {TRUSTED: str(authority)}

    def build_environment(self) -> dict[str, str]:
        return {**super().build_environment(), CONNECTION: json.dumps(self.connection), **self.more}


@pytest.fixture(scope="module")
def guarded_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    if nginx.find() is None:
        pytest.skip(f"skipped: {nginx.MISSING}")
    with _run_stack(tmp_path_factory, "spark", "secure") as running:
        yield running


@pytest.fixture
def bench(workbench: Workbench, guarded_spark: Any, tmp_path: Path) -> Iterator[TlsBench]:
    port = choose_ports(["tls"])["tls"]
    spark = urlsplit(guarded_spark.spark_remote).port
    folder = tmp_path / "proxy"
    folder.mkdir()
    make_certificates(folder)
    (folder / "broker.crt").rename(folder / "tls.crt")
    (folder / "broker.key").rename(folder / "tls.key")
    places = {
        "15443": f"{HOST}:{port}",
        f"{HOST}:15002": f"{HOST}:{spark}",
        "/etc/tls": str(folder),
        "/tmp/": f"{folder}/",
    }
    text, replacements = re.subn("|".join(places), lambda word: places[word[0]], SETTINGS.read_text())
    assert replacements == 10, "the settings name other places"
    (folder / "nginx.conf").write_text(text)
    program = [str(nginx.find()), "-c", str(folder / "nginx.conf"), "-p", str(folder), "-g", "daemon off;"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(tie_to_test(program), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_until(lambda: is_answering(port) or process.poll() is not None, "the proxy answers", 30)
        assert process.poll() is None, (folder / "log").read_text()
        yield TlsBench(workbench, guarded_spark, port, folder / "ca.pem")
    finally:
        process.terminate()
        process.wait()


# the proxy's settings fit the server's; run, a token that is refused through it is refused as without it
@pytest.mark.repeats("unit/deploy/test_kubernetes.py::test_ports_fit_from_the_service_to_the_server")
def test_flush_goes_through_tls_with_the_token_and_nobody_gets_in_without(bench: TlsBench) -> None:
    topic = bench.topic()
    bench.pipeline("guarded", [topic], key={"fields": ["id"], "schema": "id BIGINT"},
                   value={"schema": "id BIGINT, name STRING"})  # fmt: skip
    bench.produce(topic, *(({"id": n}, {"id": n, "name": f"n{n}"}) for n in range(4)), ({"id": 0}, None))
    right = bench.connection
    for password, words in ((None, "No authentication token provided"), ("wrong", "Invalid authentication token")):
        bench.connection = {**right, "password": password}
        process = bench.run_process("flush", "guarded")
        assert (process.returncode, words in process.stderr) == (1, True), process.stderr
        assert "refuses the log-in" in process.stderr
    bench.connection = right
    process = bench.run_process("flush", "guarded")
    assert process.returncode == 0, process.stderr
    assert bench.read_rows("shop.guarded") == [{"id": n, "name": f"n{n}"} for n in (1, 2, 3)]
    assert bench.token not in process.stdout + process.stderr
