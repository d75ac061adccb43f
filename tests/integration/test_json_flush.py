"""Whole flushes of JSON records through real Kafka, Spark and Iceberg: what a user's table holds afterwards."""

import pytest
from tidegate.errors import NothingToDo

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
CHANGES = [(1, "a"), (2, "b"), (1, "c"), (2, None), (3, "d"), (4, None), (1, None), (1, "e")]
MODES = {
    "both": ({}, [(1, "e"), (3, "d")]),
    "upsert": ({"delete": False}, [(1, "e"), (2, "b"), (3, "d")]),
    "delete": ({"upsert": False}, [(1, "e"), (3, "d")]),
    "append": ({"upsert": False, "delete": False}, [(1, "a"), (1, "c"), (1, "e"), (2, "b"), (3, "d")]),
}


def build_records(changes):
    return [({"id": id}, None if name is None else {"id": id, "name": name}) for id, name in changes]


@pytest.mark.repeats("test_rows_do_not_depend_on_how_batches_are_cut[both]", "upsert", "delete", "append")
@pytest.mark.parametrize("mode", MODES)
def test_rows_do_not_depend_on_how_batches_are_cut(workbench, mode: str) -> None:
    """One batch, and two that cut the changes of one key apart."""
    settings, expected = MODES[mode]
    uncut, cut = workbench.topic(1), workbench.topic(1)
    workbench.pipeline("whole", [uncut], key=KEY, value=VALUE, table=settings)
    workbench.pipeline("cut", [cut], key=KEY, value=VALUE, table=settings)
    workbench.produce(uncut, *build_records(CHANGES))
    workbench.flush("whole")
    for part in (CHANGES[:2], CHANGES[2:]):
        workbench.produce(cut, *build_records(part))
        workbench.flush("cut")
    for table in ("shop.whole", "shop.cut"):
        assert [(row["id"], row["name"]) for row in workbench.read_rows(table)] == expected
    assert workbench.committed("cut") == {cut: {0: 8}}
    with pytest.raises(NothingToDo):
        workbench.flush("cut")
