"""The last record of each raw key is staged alone, on real Spark: same table, exact counts, same freshness."""

import pytest
from tidegate.batch import Counts
from tidegate.steps.plan import plan
from tidegate.steps.stage import stage

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


@pytest.mark.parametrize(("choice", "superseded"), [("auto", 2), ("always", 2), ("never", 0)])
def test_table_is_the_same_whether_superseded_records_are_staged_or_not(
    workbench, choice: str, superseded: int
) -> None:
    topic = workbench.topic()
    workbench.pipeline("last", [topic], key=KEY, value=VALUE, table={"last_per_key": choice})
    workbench.produce(topic, *HISTORY)
    ports = workbench.ports("last")
    (staged,) = stage(ports, plan(ports))
    assert staged.counts == Counts(span=9, read=9, staged=9 - superseded, superseded=superseded)
    assert staged.timestamps == {topic: {0: AT + 9_000}}
    workbench.drain("last")
    assert {row["id"]: row["name"] for row in workbench.rows("shop.last")} == RIGHT


@pytest.mark.parametrize(("keys", "share", "staged"), [(1_200, 0.0, 1_200), (60, 1.0, 60)])
def test_large_batch_stages_every_record_where_hardly_any_is_superseded(
    workbench, monkeypatch: pytest.MonkeyPatch, keys: int, share: float, staged: int
) -> None:
    monkeypatch.setattr("tidegate.steps.plan.LARGE", 1_000)
    monkeypatch.setattr("tidegate.adapters.kafka_sample.PATIENCE", 60.0)  # a busy machine is no reason to see less
    topic = workbench.topic(2)
    workbench.pipeline("large", [topic], key=KEY, value=VALUE)
    rows = ({"id": n % keys, "name": f"x{n}"} for n in range(1_200))
    workbench.produce(topic, *(({"id": row["id"]}, row, {"partition": row["id"] % 2}) for row in rows))
    ports = workbench.ports("large")
    planned = plan(ports)
    assert (planned.tables[0].superseded_share, planned.tables[0].last_per_key) == (share, share > 0)
    (batch,) = stage(ports, planned)
    assert (batch.counts.staged, batch.counts.superseded, batch.keys_differ) == (staged, 1_200 - staged, True)
    workbench.drain("large")
    assert {row["id"]: row["name"] for row in workbench.rows("shop.large")} == {
        n % keys: f"x{n}" for n in range(1_200 - keys, 1_200)
    }
