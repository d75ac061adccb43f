"""A schema registry for tests: the REST protocol that the real client speaks, in memory, on a free port."""

import json
import re
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from background_server import start_serving, stop_serving

VERSIONS = re.compile(r"/subjects/([^/?]+)/versions/?(\d+|latest)?(?:\?.*)?$")
LOOKUP = re.compile(r"/subjects/([^/?]+)(?:\?.*)?$")
BY_GUID = re.compile(r"/schemas/guids/([0-9a-f-]+)(?:\?.*)?$")
BY_ID = re.compile(r"/schemas/ids/(\d+)(?:\?.*)?$")


class SchemaRegistry:
    """Subjects with their versions. `login` is what a client must send; None requires no log-in."""

    def __init__(self, login: tuple[str, str] | None = None, has_guids: bool = True) -> None:
        self.login, self.has_guids = login, has_guids
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.page: str | None = None  # what a proxy answers in its place
        handler = type("Handler", (_Handler,), {"registry": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = start_serving(self._server)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        stop_serving(self._server, self._thread)

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        number = next((n for n, known in self.schemas.items() if known == schema), len(self.schemas) + 1)
        self.schemas[number] = schema
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def version(self, subject: str, number: str) -> dict[str, Any] | None:
        versions = self.subjects.get(subject, [])
        at = len(versions) if number == "latest" else int(number)
        if not 1 <= at <= len(versions):
            return None
        return {"subject": subject, "version": at, **self.ids(versions[at - 1]), **self.schemas[versions[at - 1]]}

    def ids(self, number: int) -> dict[str, Any]:
        """A schema's number, and the GUID that headers hold."""
        text = json.dumps(self.schemas[number], sort_keys=True)
        return {"id": number, "guid": str(uuid.uuid5(uuid.NAMESPACE_OID, text))} if self.has_guids else {"id": number}


class _Handler(BaseHTTPRequestHandler):
    registry: SchemaRegistry

    def do_GET(self) -> None:
        self.registry.asked.append(self.path)
        if not self._may_enter():
            return
        if match := VERSIONS.match(self.path):
            subject, number = match.groups()
            if number is None:
                versions = self.registry.subjects.get(subject)
                self._answer(versions and list(range(1, len(versions) + 1)))
            else:
                self._answer(self.registry.version(subject, number))
        elif match := BY_GUID.match(self.path):
            known = self.registry.schemas
            self._answer(next((known[n] for n in known if self.registry.ids(n).get("guid") == match[1]), None))
        elif match := BY_ID.match(self.path):
            self._answer(self.registry.schemas.get(int(match[1])))
        else:
            self._answer(None)

    def do_POST(self) -> None:
        if not self._may_enter():
            return
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        schema = {k: body[k] for k in ("schema", "schemaType", "references") if body.get(k)}
        if match := VERSIONS.match(self.path):
            self._answer({**self.registry.ids(self.registry.register(match[1], schema)), **schema})
        elif match := LOOKUP.match(self.path):
            versions = self.registry.subjects.get(match[1], [])
            versions_with_schema = [n for n in versions if self.registry.schemas[n] == schema]
            ids = self.registry.ids(versions_with_schema[0]) if versions_with_schema else {}
            at = versions_with_schema and {
                "subject": match[1],
                "version": versions.index(versions_with_schema[0]) + 1,
                **ids,
                **schema,
            }
            self._answer(at or None)
        else:
            self._answer(None)

    def _may_enter(self) -> bool:
        import base64

        login = self.registry.login
        credentials = "Basic " + base64.b64encode(":".join(login or ()).encode()).decode()
        if login is None or self.headers.get("Authorization") == credentials:
            return True
        self._send(401, {"error_code": 40101, "message": "Unauthorized"})
        return False

    def _answer(self, data: Any) -> None:
        missing = {"error_code": 40401, "message": "Subject or version not found."}
        self._send(404 if data is None else 200, missing if data is None else data)

    def _send(self, status: int, data: Any) -> None:
        page = self.registry.page
        body = (json.dumps(data) if page is None else page).encode()
        status = status if page is None else 200
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
