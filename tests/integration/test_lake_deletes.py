"""A store that deletes nothing, or that lists late: no flush fails or leaves wrong rows, and what stays goes later."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from fault_proxy import FaultProxy, Request, refuse, run_fault_proxy
from lake_servers import LakeBench, LakeServers

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
STAGED = "shop.p_p_tmp"
ENOUGH_BATCHES = 4  # that metadata files of the first are to be deleted
WITHOUT_END = 10_000
LISTED = re.compile(rb"<Contents>.*?</Contents>", re.DOTALL)


@dataclass
class Lake:
    """A pipeline `p` on a catalog with its files in a store behind a proxy."""

    bench: LakeBench
    store: FaultProxy
    topic: str

    def flush(self, name: str) -> None:
        """A batch that writes three rows with this name, and finds them."""
        self.bench.produce(self.topic, *(({"id": id}, {"id": id, "name": name}) for id in range(3)))
        self.bench.flush("p")
        assert [row["name"] for row in self.bench.read_rows("shop.p")] == [name] * 3
        assert self.bench.read_rows(STAGED) == []

    def check(self) -> None:
        """No leftover of a batch exists."""
        assert self.bench.list_data_files(STAGED) == []
        assert set(self.bench.load_iceberg("shop.p").metadata.refs) == {"main", "tidegate_p"}
        assert self.bench.committed("p") == self.bench.read_ends(self.topic)


@pytest.fixture(params=["postgres", "rest"])
def lake(request, workbench, lake_servers: LakeServers, tmp_path) -> Iterator[Lake]:
    with run_fault_proxy(lake_servers.variables["S3_ENDPOINT"]) as store:
        catalog = lake_servers.make_catalog(request.param, "s3", tmp_path).through(store=store.address)
        bench = LakeBench(workbench, catalog)
        lake = Lake(bench, store, bench.topic())
        bench.pipeline("p", [lake.topic], key=KEY, value=VALUE)
        lake.flush("first")
        lake.check()
        yield lake


def is_delete(request: Request) -> bool:
    """Of one object, or of many."""
    return request.method == "DELETE" or (request.method == "POST" and urlsplit(request.path).query == "delete")


@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
def test_store_that_deletes_nothing_fails_no_flush_and_the_next_clean_up_makes_it_good(lake: Lake) -> None:
    lake.store.on(is_delete, refuse(403), times=WITHOUT_END)
    for number in range(ENOUGH_BATCHES):
        lake.flush(f"undeleted {number}")
    assert lake.store.faulty_requests
    assert lake.bench.list_data_files(STAGED) != []
    lake.store.revive()
    lake.flush("last")
    lake.check()


@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
def test_listing_that_shows_nothing_yet_fails_no_flush_and_the_next_clean_up_makes_it_good(lake: Lake) -> None:
    lake.store.rewrite = lambda content: LISTED.sub(b"", content) if b"<ListBucketResult" in content else content
    for number in range(2):
        lake.flush(f"unlisted {number}")
    lake.store.rewrite = bytes
    lake.flush("last")
    lake.check()
