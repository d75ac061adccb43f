"""A topic of thousands of partitions: with their number grow a position, a plan, and the counting of records."""

import json
from typing import Any

import pytest

PARTITIONS = 2000
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}


@pytest.mark.repeats(
    "unit/tidegate/reprocess/test_backfill.py::test_range_is_cut_into_slices_as_often_for_forty_partitions_as_for_two"
)
def test_two_thousand_partitions_are_flushed_counted_committed_and_backfilled(workbench) -> None:
    """Each partition has two keys; then a few of them change, as on most days, and rows come back that were lost."""
    topic = workbench.topic(PARTITIONS)
    workbench.pipeline("many", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, *(_build_record(id, "first") for id in range(2 * PARTITIONS)))
    workbench.flush("many")
    expected = dict.fromkeys(range(2 * PARTITIONS), "first")
    assert _read(workbench) == expected
    ends = workbench.read_ends(topic)
    assert len(ends[topic]) == PARTITIONS
    assert workbench.committed("many") == ends

    changed, deleted = range(0, 2 * PARTITIONS, 97), range(5, 2 * PARTITIONS, 211)
    workbench.produce(
        topic, *(_build_record(id, "second") for id in changed), *(_build_record(id, None) for id in deleted)
    )
    workbench.flush("many")
    expected = {id: "second" if id in changed else "first" for id in expected if id not in deleted}
    assert _read(workbench) == expected
    assert workbench.committed("many") == workbench.read_ends(topic)
    (status,) = json.loads(workbench.run_cli("status", "many", "--json").stdout)["pipelines"]
    assert (status["lag"], status["tables"][0]["batch"]) == (0, 2)
    assert status["tables"][0]["position"] == {topic: {str(p): o for p, o in workbench.read_ends(topic)[topic].items()}}

    workbench.run_spark_sql("DELETE FROM lake.shop.many WHERE id < 1500")
    everything = {topic: {str(p): [0, end] for p, end in workbench.read_ends(topic)[topic].items()}}
    process = workbench.run_cli("backfill", "many", "--range", json.dumps(everything))
    assert process.returncode == 0, process.stderr
    assert _read(workbench) == expected
    workbench.admin.delete_topics([topic])[topic].result(60)  # the broker is not this test's alone


def _build_record(id: int, name: str | None) -> tuple[Any, Any, dict[str, Any]]:
    value = None if name is None else {"id": id, "name": name}
    return {"id": id}, value, {"partition": id % PARTITIONS}


def _read(workbench: Any) -> dict[int, str]:
    rows = workbench.read_rows("shop.many")
    assert len(rows) == len({row["id"] for row in rows})
    return {row["id"]: row["name"] for row in rows}
