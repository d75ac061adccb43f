"""A process that flushes again and again leaves no socket, pipe or thread of a flush to Python's collector."""

import gc
import os
from pathlib import Path
from typing import Any

import pytest
from lake_servers import LakeBench, LakeServers
from tidegate.adapters.open_clients import OpenClients
from tidegate.flush.flush import flush

FLUSHES = 3


def count_open() -> dict[str, int]:
    """The descriptors and threads of this process."""
    return {kind: len(os.listdir(Path("/proc/self") / kind)) for kind in ("fd", "task")}


def test_flushes_leave_nothing_to_the_collector(workbench: Any) -> None:
    check_leaves_nothing(workbench)


@pytest.mark.repeats("test_flushes_leave_nothing_to_the_collector")
def test_flushes_into_an_object_store_leave_nothing_to_the_collector(
    workbench: Any, lake_servers: LakeServers, tmp_path: Path
) -> None:
    check_leaves_nothing(LakeBench(workbench, lake_servers.make_catalog("rest", "s3", tmp_path)))


def check_leaves_nothing(workbench: Any) -> None:
    topic, clients = workbench.topic(2), OpenClients()  # catalogs stay open, as in `tidegate run`
    value = {"schema": "id BIGINT, n INT"}
    workbench.pipeline("runs", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value=value)
    counts = []
    try:
        for n in range(FLUSHES):
            workbench.produce(topic, *(({"id": id}, {"id": id, "n": n}, {"partition": id % 2}) for id in range(4)))
            flush(workbench.open_session("runs", clients=clients))
            if n == 0:
                gc.collect()
                gc.disable()
            counts.append(count_open())
    finally:
        gc.enable()
    grown = {kind: counts[-1][kind] - counts[0][kind] for kind in counts[0]}
    # the client of one flush alone has four pipes and three threads; a store's client may open a connection more
    assert all(more < 2 * FLUSHES for more in grown.values()), counts
    assert [row["n"] for row in workbench.read_rows("shop.runs")] == [FLUSHES - 1] * 4
