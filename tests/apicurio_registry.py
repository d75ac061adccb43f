"""Apicurio Registry for tests, in memory, on a free port: the used part of its own API, v2 and v3."""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from background_server import start_serving, stop_serving

VERSION = r"/groups/([^/]+)/artifacts/([^/]+)/versions"
PAGE = 2  # however many are asked for, so that pages are followed


class ApicurioServer:
    """Artifacts with their versions; a version's two ids differ, and the second one identifies its content."""

    def __init__(self, api: int) -> None:
        self.api = api
        self.versions: list[dict[str, Any]] = []
        self.contents: dict[int, Any] = {}
        handler = type("Handler", (_Handler,), {"server_of": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = start_serving(self._server)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/apis/registry/v{self.api}"

    def close(self) -> None:
        stop_serving(self._server, self._thread)

    def register(self, artifact: str, schema: Any, group: str = "default", **fields: Any) -> dict[str, Any]:
        """The new version with its `globalId` and `contentId`; `references` are what the schema refers to by name."""
        number = len(self.versions) + 1
        common_fields = {"groupId": group, "artifactId": artifact, "version": str(number), "state": "ENABLED"}
        kind = "artifactType" if self.api == 3 else "type"
        version = {
            **common_fields,
            kind: "AVRO",
            "globalId": 7000 + number,
            "contentId": 40 + number,
            "references": [],
            **fields,
        }
        self.versions.append(version)
        self.contents[version["contentId"]] = schema
        return version

    def answer(self, path: str) -> Any:
        """The answer at a path below the API's address; None if there is nothing."""
        url = urlsplit(path)
        if match := re.fullmatch(r"/ids/contentIds/(\d+)(/references)?", url.path):
            content = int(match[1])
            known = next(v for v in self.versions if v["contentId"] == content)
            return known["references"] if match[2] else self.contents.get(content)
        if match := re.fullmatch(VERSION, url.path):
            known = [v for v in self.versions if (v["groupId"], v["artifactId"]) == match.groups()]
            begin = int(parse_qs(url.query)["offset"][0])
            return {"count": len(known), "versions": known[begin : begin + PAGE]} if known else None
        content_path = VERSION + r"/(\w+)" + ("/content" if self.api == 3 else "")
        if match := re.fullmatch(content_path, url.path):
            return next(self.contents[v["contentId"]] for v in self.versions if v["version"] == match[3])
        return [] if url.path.endswith("/references") else None


class _Handler(BaseHTTPRequestHandler):
    server_of: ApicurioServer

    def do_GET(self) -> None:
        base = f"/apis/registry/v{self.server_of.api}"
        data = self.server_of.answer(self.path.removeprefix(base)) if self.path.startswith(base) else None
        body = json.dumps({"error_code": 404, "message": "No artifact"} if data is None else data).encode()
        self.send_response(404 if data is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass
