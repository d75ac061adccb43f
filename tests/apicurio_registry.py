"""Apicurio Registry for tests: the part of its own API, v2 and v3, that is asked, in memory, on a free port."""

import json
import re
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from background_server import start_serving, stop_serving

VERSION = r"/groups/([^/]+)/artifacts/([^/]+)/versions"
PAGE = 2  # however many are asked for, so that pages are followed


class ApicurioServer:
    """Artifacts with their versions; a version's two ids differ, and its content is told by the second."""

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

    def register(self, artifact: str, schema: Any, group: str = "default", **more: Any) -> dict[str, Any]:
        """The new version with its `globalId` and `contentId`; `references` are what the schema refers to by name."""
        number = len(self.versions) + 1
        told = {"groupId": group, "artifactId": artifact, "version": str(number), "state": "ENABLED"}
        kind = "artifactType" if self.api == 3 else "type"
        made = {**told, kind: "AVRO", "globalId": 7000 + number, "contentId": 40 + number, "references": [], **more}
        self.versions.append(made)
        self.contents[made["contentId"]] = schema
        return made

    def answer(self, path: str) -> Any:
        """What is told at a path below the API's address; None where there is nothing."""
        asked = urlsplit(path)
        if found := re.fullmatch(r"/ids/contentIds/(\d+)(/references)?", asked.path):
            content = int(found[1])
            known = next(v for v in self.versions if v["contentId"] == content)
            return known["references"] if found[2] else self.contents.get(content)
        if found := re.fullmatch(VERSION, asked.path):
            known = [v for v in self.versions if (v["groupId"], v["artifactId"]) == found.groups()]
            begin = int(parse_qs(asked.query)["offset"][0])
            return {"count": len(known), "versions": known[begin : begin + PAGE]} if known else None
        content_path = VERSION + r"/(\w+)" + ("/content" if self.api == 3 else "")
        if found := re.fullmatch(content_path, asked.path):
            return next(self.contents[v["contentId"]] for v in self.versions if v["version"] == found[3])
        return [] if asked.path.endswith("/references") else None


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
