"""A schema registry that requires a log-in and a role: Apicurio's, with its own users."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlsplit

from background_server import hold_server
from fault_proxy import Answer, FaultProxy, Request, run_fault_proxy

from local.layout import RunDir
from local.ports import HOST, choose_ports, is_answering
from local.registry import server

ROLES = {"reader": "sr-readonly", "writer": "sr-developer", "nobody": "none"}
PASSWORD = "s3cret-w0rd"
PAGE = Path(__file__).parents[1] / "docs" / "security.md"
DOCUMENTED_REQUEST = re.compile(r"`(GET|POST) (/[^`]+)`")
REFUSAL = {"error_code": 40301, "message": "User is denied this operation"}


@dataclass
class GuardedRegistry:
    """`proxy` stands before it; `refused` are documented requests that it answers as Confluent's does."""

    proxy: FaultProxy
    refused: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.proxy.answer = self._answer

    def build_connection(self, user: str, password: str = PASSWORD) -> str:
        """The Airflow connection of a user."""
        url = f"{self.proxy.address}{server.CONFLUENT_PATH}"
        return json.dumps({"conn_type": "http", "login": user, "password": password, "extra": {"url": url}})

    def build_url(self, user: str) -> str:
        """The address for clients that take a log-in from there, past the proxy."""
        return f"http://{user}:{PASSWORD}@{urlsplit(self.proxy.backend).netloc}{server.CONFLUENT_PATH}"

    def list_seen(self) -> set[str]:
        """The requests as they are documented, or as they came where they are not."""
        return {name_request(request) for request in self.proxy.requests}

    def _answer(self, request: Request) -> Answer | None:
        if name_request(request) not in self.refused:
            return None
        content = json.dumps(REFUSAL).encode()
        kind = ("Content-Type", "application/vnd.schemaregistry.v1+json")
        return 403, [kind, ("Content-Length", str(len(content)))], content


def list_documented() -> list[str]:
    """The requests of docs/security.md."""
    section = PAGE.read_text().partition("## The schema registry")[2].partition("\n## ")[0]
    return [f"{method} {path}" for method, path in DOCUMENTED_REQUEST.findall(section)]


def name_request(request: Request) -> str:
    """A request by its name in docs/security.md, or as it came."""
    path = urlsplit(request.path).path.removeprefix(server.CONFLUENT_PATH)
    request_text = f"{request.method} {path}"
    for name in list_documented():
        pattern = re.sub(r"<number>", r"\\d+", re.sub(r"<subject>", "[^/]+", name))
        if re.fullmatch(pattern, request_text):
            return name
    return request_text


@contextmanager
def run_guarded_registry(folder: Path) -> Iterator[GuardedRegistry]:
    """The registry, running, behind a proxy; both end with the block."""
    port = choose_ports(["guarded_registry"])["guarded_registry"]
    registry_server = server.build_server(RunDir(folder), port)
    (registry_server.folder / "config").mkdir(parents=True)
    (registry_server.folder / "config" / "application.properties").write_text(_build_settings())
    with (
        hold_server(replace(registry_server, probe=lambda _: is_answering(port))),
        run_fault_proxy(f"http://{HOST}:{port}") as proxy,
    ):
        yield GuardedRegistry(proxy)


def _build_settings() -> str:
    embedded = "quarkus.security.users.embedded"
    settings = {
        "quarkus.http.auth.basic": "true",
        "apicurio.auth.role-based-authorization": "true",
        f"{embedded}.plain-text": "true",
        **{f"{embedded}.users.{user}": PASSWORD for user in ROLES},
        **{f"{embedded}.roles.{user}": role for user, role in ROLES.items()},
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
