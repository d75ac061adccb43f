"""A table with very many objects in its store: orphans are found by listings alone."""

import http.client
import os
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from fault_proxy import Request, run_fault_proxy
from integration.test_lake import EAGER, age_by_days
from lake_servers import LakeBench, LakeServers, list_files
from tidegate.flush.maintain import maintain

# a hundred thousand: STORE_OBJECTS=100000
OBJECTS = int(os.environ.get("STORE_OBJECTS", "5000"))
OLD = OBJECTS // 10
LISTED_AT_ONCE, DELETED_AT_ONCE = 1000, 250  # by S3, and by Iceberg unless it is told otherwise
MOST_OTHER_REQUESTS = 100  # for the table's own files
WRITERS = 4


def put_objects(endpoint: str, location: str, names: list[str]) -> None:
    """Small objects below a location."""
    place = urlsplit(endpoint)

    def put(part_names: list[str]) -> None:
        connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=60)
        for name in part_names:
            connection.request("PUT", f"/{location.removeprefix('s3://')}/{name}", body=b"left by a killed merge")
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200
        connection.close()

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(put, [names[first : first + 500] for first in range(0, len(names), 500)]))


def name_request(request: Request) -> str:
    """What a request to the store asks for."""
    query = urlsplit(request.path).query
    return "LIST" if "list-type" in query else "DELETE" if query == "delete" else request.method


# the same behaviour of the same code, by way of other servers
@pytest.mark.repeats("integration/test_lake.py::test_tables_are_right_through_a_rollback_a_lost_answer_and_maintenance")
def test_orphans_among_very_many_objects_are_found_by_listings_and_deleted_many_at_once(
    workbench: Any, lake_servers: LakeServers, tmp_path: Path, record_property, capsys
) -> None:
    with run_fault_proxy(lake_servers.variables["S3_ENDPOINT"]) as store:
        catalog = lake_servers.make_catalog("rest", "s3", tmp_path)
        bench = LakeBench(workbench, catalog.through(store=store.address))
        topic = bench.topic()
        key, value = {"fields": ["id"], "schema": "id BIGINT"}, {"schema": "id BIGINT, name STRING"}
        bench.pipeline("o", [topic], key=key, value=value, maintenance=EAGER)
        bench.produce(topic, *(({"id": n}, {"id": n, "name": "a"}) for n in range(10)))
        bench.flush("o")

        location = f"{bench.load_iceberg('shop.o').location()}/data"
        names = [f"{'old' if n < OLD else 'young'}-{n}.parquet" for n in range(OBJECTS)]
        put_objects(lake_servers.variables["S3_ENDPOINT"], location, names)
        store.rewrite = age_by_days(r"old-\d+\.parquet", 4)
        store.requests.clear()
        begun = time.monotonic()
        report = maintain(bench.open_session("o"), "lake.shop.o")
        seconds = time.monotonic() - begun

        request_counts = Counter(name_request(request) for request in store.requests)
        with capsys.disabled():
            print(f"\n{OBJECTS} objects, {OLD} removed in {seconds:.0f} s: {dict(request_counts)}")
        assert report.orphans_removed == OLD
        file_names = {path.name for path in list_files(catalog.properties, location)}
        assert {name for name in file_names if name.startswith(("old-", "young-"))} == set(names[OLD:])
        assert len(bench.read_rows("shop.o")) == 10
        listings = 2 * OBJECTS / LISTED_AT_ONCE  # the second time to see whether they went
        assert request_counts["LIST"] <= listings + MOST_OTHER_REQUESTS
        assert sum(request_counts.values()) <= listings + OLD / DELETED_AT_ONCE + 2 * MOST_OTHER_REQUESTS
        record_property("counted", {"objects in a store": OBJECTS})
