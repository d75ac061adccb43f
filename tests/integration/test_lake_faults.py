"""Faults of a REST catalog and its store, each at one request of a flush: nothing is lost, doubled or left behind."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from fault_proxy import (
    CUT_OFF,
    LOST_ANSWER,
    Fault,
    FaultProxy,
    Request,
    answer_after_commit,
    delay,
    refuse,
    run_fault_proxy,
)
from lake_servers import LakeBench, LakeServers
from tidegate.errors import NothingToDo, RetryLater, TidegateError

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
# each record is a row: one that is written twice shows
TABLE = {"name": "lake.shop.every", "upsert": False, "delete": False}
STAGED = "shop.every_f_tmp"


@dataclass
class Lake:
    """One pipeline on the servers, behind proxies, and the rows that it should have written."""

    bench: LakeBench
    topic: str
    rest: FaultProxy
    store: FaultProxy
    ids: list[int]

    def produce(self, count: int = 4) -> None:
        """Records of new keys, over both partitions."""
        new = range(len(self.ids), len(self.ids) + count)
        self.ids += new
        self.bench.produce(self.topic, *(({"id": id}, {"id": id, "name": f"n{id}"}) for id in new))

    def flush(self) -> TidegateError | None:
        """One flush, and the error that it ended with."""
        try:
            self.bench.flush("f")
        except TidegateError as error:
            return error
        return None

    def check(self) -> None:
        """Flush until nothing is left to do: rows, references and offsets are right again."""
        self.rest.revive()
        self.store.revive()
        self.bench.drain("f")
        assert sorted(row["id"] for row in self.bench.read_rows("shop.every")) == self.ids
        assert set(self.bench.load_iceberg("shop.every").metadata.refs) == {"main", "tidegate_f"}
        assert (self.bench.read_rows(STAGED), self.bench.list_data_files(STAGED)) == ([], [])
        assert self.bench.committed("f") == self.bench.read_ends(self.topic)


@pytest.fixture(scope="module")
def shared(workbenches: Any, lake_servers: LakeServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """One pipeline for all of them, after its first flush."""
    folder, variables = tmp_path_factory.mktemp("faults"), lake_servers.variables
    with ExitStack() as open_:
        rest = open_.enter_context(run_fault_proxy(variables["REST_CATALOG_URI"]))
        store = open_.enter_context(run_fault_proxy(variables["S3_ENDPOINT"]))
        catalog = lake_servers.make_catalog("rest", "s3", folder).through(rest.address, store.address)
        bench = LakeBench(workbenches(folder), catalog)
        lake = Lake(bench, bench.topic(), rest, store, [])
        bench.pipeline("f", [lake.topic], key=KEY, value=VALUE, tables=[TABLE])
        lake.produce()
        lake.check()
        yield lake


@pytest.fixture
def lake(shared: Lake) -> Lake:
    shared.rest.faulty_requests.clear()
    shared.store.faulty_requests.clear()
    return shared


def match_commits(table: str, action: str) -> Callable[[Request], bool]:
    """A commit to that table of the REST catalog with such an update."""
    return lambda request: (
        request.path.endswith(f"/tables/{table}") and action in {update["action"] for update in request.updates}
    )


STAGE = match_commits("every_f_tmp", "add-snapshot")
MERGE = match_commits("every", "add-snapshot")
PUBLISH = match_commits("every", "remove-snapshot-ref")
COMMITS = {"stage": STAGE, "merge": MERGE, "publish": PUBLISH}


def is_cut(request: Request) -> bool:
    """The commit that makes an attempt's branch: it changes nothing else."""
    return request.path.endswith("/tables/every") and [u["action"] for u in request.updates] == ["set-snapshot-ref"]


COMMITS["cut"] = is_cut
FAULTS: dict[str, Fault] = {
    "answer lost": LOST_ANSWER,
    "cut off": CUT_OFF,
    "500 after the commit": answer_after_commit(500),
    "502 after the commit": answer_after_commit(502),
    "503 after the commit": answer_after_commit(503),
    "504 after the commit": answer_after_commit(504),
    "409": refuse(409),
    "429": refuse(429, ("Retry-After", "1")),
    "503": refuse(503, ("Retry-After", "1")),
    "slow": delay(5),
}


@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("commit", COMMITS)
def test_fault_of_the_catalog_at_a_commit_is_recovered_by_the_next_flush(lake: Lake, commit: str, fault: str) -> None:
    lake.produce()
    lake.rest.on(COMMITS[commit], FAULTS[fault])
    error = lake.flush()
    assert len(lake.rest.faulty_requests) == 1
    assert error is None or (isinstance(error, RetryLater) and "\n" not in str(error)), error
    lake.check()


def match_uploads(part: str) -> Callable[[Request], bool]:
    """An upload of a file of the destination whose path has that part."""
    return lambda request: request.method == "PUT" and "/shop/every/" in request.path and part in request.path


@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
@pytest.mark.parametrize("written", ["/data/", "/metadata/"])
def test_store_that_dies_between_an_upload_and_the_commit_leaves_nothing(lake: Lake, written: str) -> None:
    lake.produce()
    lake.store.die_after(match_uploads(written))
    error = lake.flush()
    assert isinstance(error, RetryLater)
    assert "\n" not in str(error)
    lake.check()


@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
@pytest.mark.parametrize("fault", ["answer lost", "500 after the commit", "503", "slow"])
def test_fault_of_the_store_at_an_upload_passes(lake: Lake, fault: str) -> None:
    lake.produce()
    lake.store.on(match_uploads("/data/"), FAULTS[fault])
    error = lake.flush()
    assert lake.store.faulty_requests
    assert error is None
    lake.check()


@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
def test_catalog_that_dies_behind_the_merge_leaves_nothing(lake: Lake) -> None:
    lake.produce()
    lake.rest.die_after(MERGE)
    error = lake.flush()
    assert isinstance(error, RetryLater)
    assert not isinstance(error, NothingToDo)
    lake.check()
