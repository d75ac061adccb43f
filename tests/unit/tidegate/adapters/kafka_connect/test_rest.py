"""A connector's configuration is read from the Connect worker's REST address, with a log-in that nobody sees."""

import base64
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from background_server import start_serving, stop_serving
from tidegate.adapters.kafka_connect.rest import fetch_connector
from tidegate.errors import ConfigurationError, RetryLater
from tidegate.migration.connector_config import read_config

CONNECTOR = {"name": "a", "config": {"connector.class": "org.apache.iceberg.connect.IcebergSinkConnector"}, "tasks": []}
LOGIN = "Basic " + base64.b64encode(b"u:geh/eim").decode()


class Worker(BaseHTTPRequestHandler):
    """Answers for one connector, and wants a log-in for another."""

    def do_GET(self) -> None:
        secured = self.path == "/connectors/secured" and self.headers.get("Authorization") != LOGIN
        status = 401 if secured else 200 if self.path in ("/connectors/a", "/connectors/secured") else 404
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(CONNECTOR if status == 200 else {"error_code": status}).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@pytest.fixture(scope="module")
def worker() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Worker)
    thread = start_serving(server)
    yield f"127.0.0.1:{server.server_port}"
    stop_serving(server, thread)


def test_connector_is_read(worker: str) -> None:
    assert read_config(fetch_connector(f"http://{worker}/connectors/a"), "x").name == "a"
    assert read_config(fetch_connector(f"http://u:geh%2Feim@{worker}/connectors/secured"), "x").name == "a"


def test_refusals_name_the_place_and_no_secret(worker: str) -> None:
    with pytest.raises(ConfigurationError, match="the log-in was refused") as error_info:
        fetch_connector(f"http://u:geheim@{worker}/connectors/secured")
    with pytest.raises(ConfigurationError, match=f"connector=http://{worker}/connectors/b: there is no such connector"):
        fetch_connector(f"http://{worker}/connectors/b")
    with pytest.raises(RetryLater, match="cannot be asked") as closed:
        fetch_connector("http://u:geheim@127.0.0.1:1/connectors/a")
    assert "geheim" not in f"{error_info.value}{closed.value}"


@pytest.mark.parametrize(
    "password", ["1/geheim", "1?geheim", "geheim/1", "ge?heim", "ge#heim", "[geheim", "geheim\u2100"]
)
def test_address_whose_password_ends_its_host_is_refused_and_not_shown(password: str) -> None:
    with pytest.raises(ConfigurationError, match="%2F for a slash") as error_info:
        fetch_connector(f"http://u:{password}@127.0.0.1:1/connectors/a")
    assert "heim" not in str(error_info.value)
