"""A store like S3 that requires a signature and a policy: moto, which checks users and rights.

Where moto judges otherwise than Amazon's S3: a request that deletes many objects needs `s3:DeleteObject` on the bucket,
in place of each object, and conditions are not known. The first is given; listings are read out of its log instead.
"""

import json
import re
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from background_server import hold_server
from fault_proxy import Request
from lake_servers import LakeCatalog

from local.lake import s3
from local.lake.catalog import VARIABLE, describe_catalog
from local.layout import RunDir
from local.ports import HOST, choose_ports

USER, POLICY = "flusher", "tidegate"
IAM_SCOPE = "AWS4-HMAC-SHA256 Credential=admin/20260101/us-east-1/iam/aws4_request, SignedHeaders=host, Signature=0"
FROM_NOW_ON, NEVER = b"0", b"inf"  # after how many requests moto begins to look at rights
PAGE = Path(__file__).parents[1] / "docs" / "security.md"
COLOUR = re.compile(r"\x1b\[[0-9;]*m")  # of lines about what was refused
LOGGED_REQUEST = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1\.\d" (?P<status>\d+)')


@dataclass(frozen=True)
class GuardedStore:
    """One user's keys, and the log of requests with the status of each answer."""

    address: str
    access_key: str
    secret_key: str
    log: Path

    def describe(self, folder: Path) -> LakeCatalog:
        """A catalog in a file of the folder, with its tables' files here."""
        keys = {"s3.access-key-id": self.access_key, "s3.secret-access-key": self.secret_key}
        connection = {VARIABLE: json.dumps({"conn_type": "generic", "extra": keys})}
        return LakeCatalog(describe_catalog({"S3_ENDPOINT": self.address, **connection}, folder), connection)

    def allow(self, prefix: str, without: Collection[str] = ()) -> None:
        """Give the user the documented policy below a prefix, without these actions, in place of what there was."""
        document = json.dumps(_adapt_to_moto(read_documented_policy(s3.BUCKET, prefix), without))
        with self.open():
            call_iam(self.address, "PutUserPolicy", UserName=USER, PolicyName=POLICY, PolicyDocument=document)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Nobody's rights are looked at meanwhile: for the test's own hands."""
        _post(f"{self.address}/moto-api/reset-auth", NEVER)
        try:
            yield
        finally:
            _post(f"{self.address}/moto-api/reset-auth", FROM_NOW_ON)

    def put_object(self, location: str, content: bytes) -> None:
        """An object, whatever the user may do."""
        request = urllib.request.Request(f"{self.address}/{location.removeprefix('s3://')}", method="PUT", data=content)
        with self.open():
            _send(request)

    def read_log(self) -> list[tuple[str, str, int]]:
        """Method, path and status of each request for objects since the start."""
        requests = [
            (log_entry["method"], log_entry["path"], int(log_entry["status"])) for log_entry in _find_requests(self.log)
        ]
        return [request for request in requests if request[1].startswith(f"/{s3.BUCKET}")]

    def list_refusals(self) -> list[tuple[str, str]]:
        """Method and path of what was refused; a refusal to delete many objects is not told by a status."""
        return [(method, path) for method, path, status in self.read_log() if status == 403]

    def list_aborts(self) -> list[int]:
        """The status of each answer to who gave up an upload in parts."""
        return [status for method, path, status in self.read_log() if method == "DELETE" and "uploadId=" in path]

    def list_listed_prefixes(self) -> set[str]:
        """What was asked for by listings."""
        queries = (urllib.parse.urlsplit(path).query for method, path, _ in self.read_log() if method == "GET")
        queries_of_lists = (urllib.parse.parse_qs(query) for query in queries if "list-type" in query)
        return {query.get("prefix", [""])[0] for query in queries_of_lists}


def read_documented_policy(bucket: str, prefix: str) -> dict[str, Any]:
    """The policy of docs/security.md, for this bucket and prefix."""
    section = PAGE.read_text().partition("## The object store")[2].partition("\n## ")[0]
    text = section.partition("```json\n")[2].partition("```")[0]
    policy: dict[str, Any] = json.loads(text.replace("my-bucket", bucket).replace("warehouse/", f"{prefix}/"))
    return policy


def list_documented_actions() -> list[str]:
    """The actions that it allows."""
    return [action for statement in read_documented_policy("b", "p")["Statement"] for action in statement["Action"]]


def find_action(request: Request) -> str:
    """The action that a store asks for a request; the request itself where it is none of those that are documented."""
    place = urllib.parse.urlsplit(request.path)
    query = urllib.parse.parse_qs(place.query, keep_blank_values=True)
    has_key = "/" in place.path.strip("/")
    if has_key and request.method in ("GET", "HEAD"):
        return "s3:GetObject"
    if has_key and (request.method == "PUT" or (request.method == "POST" and {"uploads", "uploadId"} & set(query))):
        return "s3:PutObject"
    if has_key and request.method == "DELETE":
        return "s3:AbortMultipartUpload" if "uploadId" in query else "s3:DeleteObject"
    if request.method == "POST" and "delete" in query:
        return "s3:DeleteObject"
    is_list = request.method == "GET" and query.get("list-type") == ["2"]
    return "s3:ListBucket" if is_list else f"{request.method} {request.path}"


def call_iam(address: str, action: str, **arguments: str) -> str:
    """What moto's IAM answers."""
    words = {"Action": action, "Version": "2010-05-08", **arguments}
    request = urllib.request.Request(address, data=urllib.parse.urlencode(words).encode())
    request.add_header("Authorization", IAM_SCOPE)
    return _send(request)


@contextmanager
def run_guarded_store(folder: Path) -> Iterator[GuardedStore]:
    """The store, running, with its bucket and a user without a right; it ends with the block."""
    port = choose_ports(["guarded_s3"])["guarded_s3"]
    address, server = f"http://{HOST}:{port}", s3.build_server(RunDir(folder), port)
    server.folder.mkdir(parents=True)
    with hold_server(server):
        call_iam(address, "CreateUser", UserName=USER)
        answer = call_iam(address, "CreateAccessKey", UserName=USER)
        names = ("AccessKeyId", "SecretAccessKey")
        key, secret = (re.findall(f"<{name}>([^<]+)</{name}>", answer)[0] for name in names)
        _post(f"{address}/moto-api/reset-auth", FROM_NOW_ON)
        yield GuardedStore(address, key, secret, server.log)


def _adapt_to_moto(policy: Mapping[str, Any], without: Collection[str]) -> dict[str, Any]:
    statements = []
    for statement in policy["Statement"]:
        actions = [action for action in statement["Action"] if action not in without]
        adapted = {name: value for name, value in statement.items() if name != "Condition"}
        statements += [{**adapted, "Action": actions}] if actions else []
        if "s3:DeleteObject" in actions:
            bucket = statement["Resource"].partition("/")[0]
            statements.append({"Effect": "Allow", "Action": ["s3:DeleteObject"], "Resource": bucket})
    return {**policy, "Statement": statements}


def _find_requests(log: Path) -> Iterator["re.Match[str]"]:
    return LOGGED_REQUEST.finditer(COLOUR.sub("", log.read_text(errors="replace")))


def _post(address: str, content: bytes) -> None:
    _send(urllib.request.Request(address, data=content, headers={"Content-Type": "text/plain"}, method="POST"))


def _send(request: urllib.request.Request) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=60) as answer:
        text: str = answer.read().decode()
    return text
