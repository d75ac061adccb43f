"""The last record of each raw key is staged alone, on real Spark: same table, exact counts, same freshness."""

import decoding
import pytest
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.jobs.stage_job import StageJob
from tidegate.model.batch import Counts
from tidegate.model.offsets import Ranges
from tidegate.schema.data_types import Column
from tidegate.spec.source import ValueFormat
from tidegate_spark.stage.kafka_source import MAX_RECORDS_PER_TASK, RECORDS_PER_TASK, compute_records_per_task

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
AT = 1_700_000_000_000
HISTORY = [
    ('{"id": 1}', {"id": 1, "name": "first"}, {"timestamp": AT + 9_000}),  # superseded, and the latest of its partition
    ('{"id": 2}', {"id": 2, "name": "kept"}, {"timestamp": AT}),
    ('{"id": 1}', {"id": 1, "name": "second"}, {"timestamp": AT}),
    ('{"id":1}', {"id": 1, "name": "other bytes, same key"}, {"timestamp": AT}),
    ('{"id": 3}', {"id": 3, "name": "gone"}, {"timestamp": AT}),
    ('{"id": 3}', None, {"timestamp": AT}),
    (None, {"id": 4, "name": "keyless"}, {"timestamp": AT}),
    (None, {"id": 5, "name": "keyless too"}, {"timestamp": AT}),
    (None, {"id": 4, "name": "keyless again"}, {"timestamp": AT}),
]
RIGHT = {1: "other bytes, same key", 2: "kept", 4: "keyless again", 5: "keyless too"}


# the choice is `always` as soon as a batch is small
@pytest.mark.guard(
    "the last record of a key is the one with the highest offset",
    file="include/sql/iceberg/_last_per_key.sql",
    text='{{ "offset" | ours }} DESC',
    off='{{ "offset" | ours }}',
    case="never-0",
)
@pytest.mark.repeats(
    "test_table_is_the_same_whether_superseded_records_are_staged_or_not[auto-2]", "always-2", "never-0"
)
@pytest.mark.parametrize(("choice", "superseded"), [("auto", 2), ("always", 2), ("never", 0)])
def test_table_is_the_same_whether_superseded_records_are_staged_or_not(
    workbench, choice: str, superseded: int
) -> None:
    topic = workbench.topic(1)
    workbench.pipeline("last", [topic], key=KEY, value=VALUE, table={"last_per_key": choice})
    workbench.produce(topic, *HISTORY)
    session = workbench.open_session("last")
    (staged,) = stage(session, plan(session))
    assert staged.counts == Counts(span=9, read=9, staged=9 - superseded, superseded=superseded)
    assert staged.timestamps == {topic: {0: AT + 9_000}}
    workbench.drain("last")
    assert {row["id"]: row["name"] for row in workbench.read_rows("shop.last")} == RIGHT


@pytest.mark.repeats(
    "unit/tidegate/flush/test_key_deduplication.py::test_large_batch_leaves_out_what_is_superseded_where_that_is_much"
)
@pytest.mark.parametrize(("keys", "share", "staged"), [(1_200, 0.0, 1_200), (60, 1.0, 60)])
def test_large_batch_stages_every_record_where_hardly_any_is_superseded(
    workbench, monkeypatch: pytest.MonkeyPatch, keys: int, share: float, staged: int
) -> None:
    monkeypatch.setattr("tidegate.flush.plan.SAMPLED_MIN_RECORDS", 1_000)
    monkeypatch.setattr(
        "tidegate.adapters.kafka.topics.TIMEOUT_SECONDS", 60.0
    )  # a busy machine is no reason to see less
    topic = workbench.topic(2)
    workbench.pipeline("large", [topic], key=KEY, value=VALUE)
    rows = ({"id": n % keys, "name": f"x{n}"} for n in range(1_200))
    workbench.produce(topic, *(({"id": row["id"]}, row, {"partition": row["id"] % 2}) for row in rows))
    session = workbench.open_session("large")
    planned = plan(session)
    assert (planned.tables[0].superseded_share, planned.tables[0].last_per_key) == (share, share > 0)
    (batch,) = stage(session, planned)
    assert (batch.counts.staged, batch.counts.superseded, batch.keys_differ) == (staged, 1_200 - staged, True)
    workbench.drain("large")
    assert {row["id"]: row["name"] for row in workbench.read_rows("shop.large")} == {
        n % keys: f"x{n}" for n in range(1_200 - keys, 1_200)
    }


TASKS = [
    (RECORDS_PER_TASK, 1, RECORDS_PER_TASK),
    (1_600_000, 2, 400_000),  # each core has two tasks
    (1_600_000, 1, 800_000),
    (1_600_000, 100, RECORDS_PER_TASK),
    (50_000_000, 2, MAX_RECORDS_PER_TASK),
]


def test_tasks_that_take_the_last_of_each_key_are_as_large_as_the_cores_allow(spark) -> None:
    found = []
    for offsets, slots, _ in TASKS:
        spark.conf.set("spark.sql.leafNodeDefaultParallelism", str(slots))
        found.append(compute_records_per_task(spark, build_job(offsets, last_per_raw_key=True)))
        assert compute_records_per_task(spark, build_job(offsets, last_per_raw_key=False)) == RECORDS_PER_TASK
    assert found == [expected for *_, expected in TASKS]


def build_job(offsets: int, *, last_per_raw_key: bool) -> StageJob:
    table = decoding.build_stage_table(ValueFormat("json"), (Column("x", "INT"),), last_per_raw_key=last_per_raw_key)
    ranges = Ranges.from_dict({"t": {0: (0, offsets - 10), 1: (0, 10)}})
    return StageJob("p", 1, ranges, "read_committed", (table,))


def test_keys_that_several_tasks_read_are_counted_and_staged_once(workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate_spark.stage.kafka_source.RECORDS_PER_TASK", 100)
    monkeypatch.setattr("tidegate_spark.stage.kafka_source.MAX_RECORDS_PER_TASK", 150)
    topic = workbench.topic()
    workbench.pipeline("several", [topic], key=KEY, value=VALUE, table={"last_per_key": "always"})
    workbench.produce(topic, *(({"id": n % 40}, {"id": n % 40, "name": f"x{n}"}) for n in range(1_000)))
    session = workbench.open_session("several")
    (staged,) = stage(session, plan(session))
    assert staged.counts == Counts(span=1_000, read=1_000, staged=40, superseded=960)
    workbench.drain("several")
    assert {row["id"]: row["name"] for row in workbench.read_rows("shop.several")} == {
        n % 40: f"x{n}" for n in range(960, 1_000)
    }
