"""`sequence_by` through real Kafka, Spark and Iceberg: hundreds of small histories at once, and single ones to read."""

import random

import pytest
from fakes.one_at_a_time import expected

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, n INT, lsn INT, sub INT"}
KINDS = ("upsert", "upsert", "upsert", "delete", "tombstone")
HISTORIES, CUTS = 300, 3


def table(**more):
    return {"sequence_by": ["lsn", "sub"], "delete_when": "n = -1", **more}


def upsert(id, n, lsn, sub=None, **more):
    return {"id": id}, {"id": id, "n": n, "lsn": lsn, "sub": sub}, more


def delete(id, lsn, sub=None):
    return upsert(id, -1, lsn, sub)


def tombstone(id):
    return {"id": id}, None


def histories(seed: int) -> list:
    """A little history for each key, all mixed: (key, kind, sequence, n) in the order of the log."""
    chance = random.Random(seed)
    some = [None, 0, 1, 2, 3, 4, 5]
    keys = [key for key in range(HISTORIES) for _ in range(chance.randint(1, 7))]
    chance.shuffle(keys)
    return [
        (key, chance.choice(KINDS), (chance.choice(some), chance.choice([None, 0, 1])), n) for n, key in enumerate(keys)
    ]


def record(key, kind, sequence, n):
    return tombstone(key) if kind == "tombstone" else upsert(key, n if kind == "upsert" else -1, *sequence)


@pytest.mark.parametrize(
    ("mode", "deletes"), [("upsert_delete", "hard"), ("upsert_delete", "soft"), ("upsert", "hard")]
)
def test_statements_leave_what_one_record_at_a_time_would_leave(workbench, mode: str, deletes: str) -> None:
    topic = workbench.topic()
    asked = table(deletes=deletes, delete=mode == "upsert_delete")
    workbench.pipeline("many", [topic], key=KEY, value=VALUE, table=asked)
    changes = histories(len(mode + deletes))
    size = len(changes) // CUTS + 1
    for start in range(0, len(changes), size):
        workbench.produce(topic, *(record(*change) for change in changes[start : start + size]))
        workbench.flush("many")
        found = {row["id"]: row for row in workbench.rows("shop.many")}
        model = {row["id"]: row for row in expected(mode, deletes, changes[: start + size])}
        assert found == model
