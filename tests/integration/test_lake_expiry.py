"""Keys of a store and log-ins of a catalog that expire in the middle of a merge: the runner asks for newer ones."""

import json
import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from expiring_keys import IN_CONFIG, IN_CREDENTIALS, ExpiringKeys, ExpiringTokens
from fault_proxy import FaultProxy, Request, delay, run_fault_proxy
from lake_servers import LakeBench, LakeCatalog, list_files
from tidegate.errors import RetryLater

from local.lake.catalog import VARIABLE

# `make test-long` has a merge of ten minutes under keys that last for one
KEY_SECONDS, MERGE_SECONDS = float(os.environ.get("KEY_SECONDS", "10")), float(os.environ.get("MERGE_SECONDS", "40"))
# with room for a commit on a busy machine: who renews a key early uses it as long as it lasts
SHORT_KEY_SECONDS, SHORT_MERGE_SECONDS = 12.0, 20.0
LONGEST_WAIT_SECONDS = 15.0  # of a client for one answer; beyond it would send its request again
FEWEST_UPLOADS = 4  # of a merge that is made to last
ONE_TASK = {"conf": {"spark.sql.shuffle.partitions": "1"}}  # its uploads wait for each other
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
STAGED = "shop.p_p_tmp"
DELEGATION_HEADER = "x-iceberg-access-delegation"


@dataclass
class Lake:
    """A pipeline `p` on a catalog and a store behind proxies, and the rows that it should have written.

    `owner` is the same catalog with keys that never end, past the proxies.
    """

    bench: LakeBench
    store: FaultProxy
    owner: LakeCatalog
    topic: str
    ids: range

    def flush(self, name: str) -> float:
        """A batch that writes each row with this name; the seconds that it took."""
        self.bench.produce(self.topic, *(({"id": id}, {"id": id, "name": name}) for id in self.ids))
        begun = time.monotonic()
        self.bench.flush("p")
        return time.monotonic() - begun

    def check(self, name: str) -> None:
        """All rows have this name, and no leftover of a batch exists."""
        assert {row["id"]: row["name"] for row in self.bench.read_rows("shop.p")} == dict.fromkeys(self.ids, name)
        assert set(self.bench.load_iceberg("shop.p").metadata.refs) == {"main", "tidegate_p"}
        assert self.bench.read_rows(STAGED) == []
        assert list_files(self.owner.properties, f"{self.bench.load_iceberg(STAGED).location()}/data") == []
        assert self.bench.committed("p") == self.bench.read_ends(self.topic)


@dataclass
class Servers:
    """A REST catalog and a store behind proxies, and the catalog with its keys."""

    workbench: Any
    rest: FaultProxy
    store: FaultProxy
    owner: LakeCatalog

    def begin(self, catalog: LakeCatalog, uploads: int = FEWEST_UPLOADS) -> Lake:
        """A pipeline behind its first flush, each of whose batches uploads so many files, one after the other."""
        bench = LakeBench(self.workbench, catalog.through(self.rest.address, self.store.address))
        topic = bench.topic()
        create = {"partition_by": [f"bucket({uploads}, id)"]}
        bench.pipeline("p", [topic], key=KEY, value=VALUE, table={"create": create}, spark=ONE_TASK)
        lake = Lake(bench, self.store, self.owner, topic, range(10 * uploads))
        lake.flush("first")
        return lake


@pytest.fixture
def servers(workbench, lake_servers, tmp_path) -> Iterator[Servers]:
    variables = lake_servers.variables
    with run_fault_proxy(variables["REST_CATALOG_URI"]) as rest, run_fault_proxy(variables["S3_ENDPOINT"]) as store:
        yield Servers(workbench, rest, store, lake_servers.make_catalog("rest", "s3", tmp_path))


def remove_keys(catalog: LakeCatalog) -> LakeCatalog:
    """The catalog as it is declared where it hands out the keys itself."""
    return LakeCatalog({name: part for name, part in catalog.entry.items() if name != "connection"}, {})


def add_login(catalog: LakeCatalog, address: str) -> LakeCatalog:
    """The catalog whose connection has an id and a secret besides, for tokens of the server at this address."""
    connection = {**json.loads(catalog.environment[VARIABLE]), "login": "flush", "password": "secret"}
    properties = {**catalog.entry["properties"], "oauth2-server-uri": f"{address}/v1/oauth/tokens"}
    return LakeCatalog({**catalog.entry, "properties": properties}, {VARIABLE: json.dumps(connection)})


def is_from_python(request: Request) -> bool:
    """To the catalog, by PyIceberg; all others are Spark's."""
    return request.headers["user-agent"].startswith("PyIceberg")


def is_upload(request: Request) -> bool:
    """Of a data or delete file of the destination."""
    return request.method == "PUT" and "/shop/p/data/" in request.path


# keys handed out at another place of the answer, for longer, not renewed, or for ever by a server; and log-ins
@pytest.mark.repeats(
    "test_merge_outlasts_its_keys_and_asks_for_newer_ones[short-config]",
    "short-storage-credentials",
    "long-config",
    "long-storage-credentials",
)
@pytest.mark.parametrize("place", [IN_CONFIG, IN_CREDENTIALS])
@pytest.mark.parametrize(
    "lasting",
    [
        pytest.param((SHORT_KEY_SECONDS, SHORT_MERGE_SECONDS), id="short"),
        pytest.param((KEY_SECONDS, MERGE_SECONDS), id="long"),
    ],
)
def test_merge_outlasts_its_keys_and_asks_for_newer_ones(servers, lasting: tuple[float, float], place: str) -> None:
    seconds, merge_seconds = lasting
    wait = min(merge_seconds / FEWEST_UPLOADS, LONGEST_WAIT_SECONDS)
    uploads = math.ceil(merge_seconds / wait)
    keys = ExpiringKeys(servers.rest, servers.store, seconds, place)
    lake = servers.begin(remove_keys(servers.owner), uploads)
    lake.store.on(is_upload, delay(wait), times=uploads)
    assert lake.flush("second") > merge_seconds
    lake.check("second")
    assert keys.refused == []
    delegations = {
        (is_from_python(request), request.headers.get(DELEGATION_HEADER)) for request in servers.rest.requests
    }
    assert delegations == {(True, "vended-credentials"), (False, "vended-credentials")}
    assert len({request.access_key for request in lake.store.faulty_requests}) >= merge_seconds / max(seconds, wait)


# keys handed out at another place of the answer, for longer, not renewed, or for ever by a server; and log-ins
@pytest.mark.repeats("test_merge_outlasts_its_keys_and_asks_for_newer_ones[short-config]")
def test_keys_that_nobody_renews_end_a_merge_with_one_sentence_and_the_next_flush_does_it(servers) -> None:
    keys = ExpiringKeys(servers.rest, servers.store, SHORT_KEY_SECONDS, renewable=False)
    lake = servers.begin(remove_keys(servers.owner))
    lake.store.on(is_upload, delay(SHORT_KEY_SECONDS + 1))
    with pytest.raises(RetryLater, match="expired") as error_info:
        lake.flush("second")
    assert "\n" not in str(error_info.value)
    assert keys.refused
    lake.bench.drain("p")
    lake.check("second")


# keys handed out at another place of the answer, for longer, not renewed, or for ever by a server; and log-ins
@pytest.mark.repeats("test_merge_outlasts_its_keys_and_asks_for_newer_ones[short-config]")
def test_log_in_that_ends_in_the_middle_of_a_merge_is_renewed_by_both_sides(servers) -> None:
    tokens = ExpiringTokens(servers.rest, int(SHORT_KEY_SECONDS))
    lake = servers.begin(add_login(servers.owner, servers.rest.address))
    before = tokens.issued
    lake.store.on(is_upload, delay(SHORT_MERGE_SECONDS / FEWEST_UPLOADS), times=FEWEST_UPLOADS)
    lake.flush("second")
    lake.check("second")
    assert tokens.issued - before > 2
    # PyIceberg learns by a refusal that its log-in has ended, and sends the request again; Spark asks before
    assert tokens.refused
    assert all(is_from_python(request) for request in tokens.refused)
