"""Keys to an object store, and log-ins to a REST catalog, that end after some seconds.

The catalog's server of these tests knows one pair of keys and every log-in, and the store like S3 checks no keys. So
proxies do it. The one before the catalog puts keys of its own into each answer that loads a table, and answers who asks
for newer ones; the one before the store refuses those that have ended, in the words of Amazon's S3.
"""

import itertools
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from fault_proxy import Answer, FaultProxy, Request

from local.lake import s3

ENDED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
TOKEN_HEADER = "x-amz-security-token"
RENEWED_AT = "client.refresh-credentials-endpoint"
# where a server puts them: among a table's settings, or in a part of the answer that is theirs alone
IN_CONFIG, IN_CREDENTIALS = "config", "storage-credentials"


@dataclass
class ExpiringKeys:
    """Each pair of keys lasts for `seconds`.

    Without `renewable` no answer says where to get newer ones. `used` are the keys of requests to the store, in
    order; `refused` are other keys; `renewals` counts the requests for newer ones.
    """

    rest: FaultProxy
    store: FaultProxy
    seconds: float
    place: str = IN_CONFIG
    renewable: bool = True
    renewals: int = 0
    used: list[str] = field(default_factory=list)
    refused: list[Request] = field(default_factory=list)
    _ends: dict[str, float] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.rest.answer, self.store.answer = self._answer_of_catalog, self._answer_of_store

    def _answer_of_catalog(self, request: Request) -> Answer:
        path = urlsplit(request.path).path
        if path.endswith("/credentials"):
            self.renewals += 1
            return build_json_answer(200, [], {"storage-credentials": [self._issue_for_bucket()]})
        status, headers, content = self.rest.forward(request)
        is_load = request.method == "GET" and "/tables/" in path
        is_creation = request.method == "POST" and path.endswith("/tables")
        if status != 200 or not (is_load or is_creation):
            return status, headers, content
        table = path if is_load else f"{path}/{json.loads(request.body)['name']}"
        return build_json_answer(status, headers, self._add_keys(json.loads(content), f"{table}/credentials"))

    def _add_keys(self, loaded: dict[str, Any], renewed_at: str) -> dict[str, Any]:
        """The answer to who loads a table, with keys to its files."""
        config = {**loaded.get("config", {}), **({RENEWED_AT: renewed_at} if self.renewable else {})}
        if self.place == IN_CREDENTIALS:
            return {**loaded, "config": config, "storage-credentials": [self._issue_for_bucket()]}
        return {**loaded, "config": {**config, **self._issue()}}

    def _issue_for_bucket(self) -> dict[str, Any]:
        return {"prefix": f"s3://{s3.BUCKET}", "config": self._issue()}

    def _issue(self) -> dict[str, str]:
        ends = time.time() + self.seconds
        with self._lock:
            number = next(self._numbers)
            self._ends[f"key-{number}"] = ends
        return {
            "s3.access-key-id": f"key-{number}",
            "s3.secret-access-key": f"secret-{number}",
            "s3.session-token": f"token-{number}",
            "s3.session-token-expires-at-ms": str(int(ends * 1000)),
        }

    def _answer_of_store(self, request: Request) -> Answer | None:
        """A refusal; None where the keys are good, and the store answers itself."""
        key, token = request.access_key or "", request.headers.get(TOKEN_HEADER, "")
        with self._lock:
            if time.time() < self._ends.get(key, 0.0) and token.removeprefix("token-") == key.removeprefix("key-"):
                self.used.append(key)
                return None
            self.refused.append(request)
        content = b"" if request.method == "HEAD" else ENDED
        return 400, [("Content-Type", "application/xml"), ("Content-Length", str(len(content)))], content


@dataclass
class ExpiringTokens:
    """Each log-in to the catalog lasts for `seconds`.

    `issued` counts them, `refused` are the requests with an expired one.
    """

    rest: FaultProxy
    seconds: int
    issued: int = 0
    refused: list[Request] = field(default_factory=list)
    _ends: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.rest.answer = self._answer

    def _answer(self, request: Request) -> Answer | None:
        with self._lock:
            if request.path.endswith("/oauth/tokens"):
                return build_json_answer(200, [], self._issue())
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            if time.time() < self._ends.get(token, 0.0):
                return None
            self.refused.append(request)
        error = {"message": "the token has expired", "type": "NotAuthorizedException", "code": 401}
        return build_json_answer(401, [], {"error": error})

    def _issue(self) -> dict[str, Any]:
        self.issued += 1
        token = f"log-in-{self.issued}"
        self._ends[token] = time.time() + self.seconds
        kind = "urn:ietf:params:oauth:token-type:access_token"
        return {"access_token": token, "token_type": "bearer", "issued_token_type": kind, "expires_in": self.seconds}


def build_json_answer(status: int, headers: list[tuple[str, str]], document: dict[str, Any]) -> Answer:
    """An answer with this content, and with those of the headers that are still true."""
    content = json.dumps(document).encode()
    headers_to_send = [
        (name, value) for name, value in headers if name.lower() not in ("content-length", "content-type")
    ]
    own_headers = [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
    return status, [*headers_to_send, *own_headers], content
