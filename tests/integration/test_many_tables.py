"""Several tables in one pipeline: one read, a position each, and a failing one that does not hold up the others."""

import json

import pytest
from tidegate.errors import SomeTablesFailed
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}


def build_upsert(id, name):
    return {"id": id}, {"id": id, "name": name}


@pytest.mark.repeats(
    "unit/tidegate/flush/test_flush.py::test_failing_table_does_not_hold_up_the_other_and_the_run_is_red"
)
def test_failing_table_is_finished_by_the_next_flush_while_the_other_goes_on(workbench) -> None:
    """The one that fails may not be created. No double takes part."""
    first, second = workbench.topic(1), workbench.topic(1)
    broken = {"name": "lake.shop.lines", "topics": [second], "create": {"enabled": False}}
    tables = [{"name": "lake.shop.orders", "topics": [first]}, broken]
    limited = {"key": KEY, "value": VALUE, "merge": {"max_records": 1}}
    workbench.pipeline("both", [first, second], tables=tables, **limited)
    workbench.produce(first, build_upsert(1, "a"))
    workbench.produce(second, build_upsert(7, "l"))
    with pytest.raises(SomeTablesFailed, match=r"table=lake.shop.lines .*create.enabled=false"):
        workbench.flush("both")
    assert workbench.read_rows("shop.orders") == [{"id": 1, "name": "a"}]
    assert not workbench.exists("shop.lines")
    assert workbench.committed("both") == {first: {0: 1}, second: {0: 0}}

    workbench.produce(first, build_upsert(2, "b"), build_upsert(3, "c"))
    process = workbench.run_cli("flush", "both", "--until-current")
    assert (process.returncode, len(workbench.read_rows("shop.orders"))) == (1, 3)
    assert "create.enabled=false" in process.stderr

    workbench.pipeline("both", [first, second], tables=[tables[0], broken | {"create": {}}], **limited)
    workbench.flush("both")
    assert workbench.read_rows("shop.lines") == [{"id": 7, "name": "l"}]
    assert workbench.committed("both") == {first: {0: 3}, second: {0: 1}}


@pytest.mark.repeats(
    "integration/test_fan_out.py::test_records_are_routed_by_pattern_and_by_name_and_tombstones_reach_every_table"
)
def test_tables_of_one_topic_share_a_read_and_differ_in_what_they_do(workbench) -> None:
    topic = workbench.topic(1)
    tables = [
        {"name": "lake.shop.latest"},
        {"name": "lake.shop.every", "upsert": False, "delete": False},
        {"name": "lake.shop.some", "when": "name <> 'a'"},
    ]
    workbench.pipeline("fan", [topic], key=KEY, value=VALUE, tables=tables)
    workbench.produce(topic, build_upsert(1, "a"), build_upsert(1, "b"), build_upsert(2, "a"))
    session = workbench.open_session("fan")
    staged = stage(session, plan(session))
    assert [(s.table.rsplit(".")[-1], s.counts.staged, s.counts.filtered) for s in staged] == [
        ("latest", 2, 0),  # of the two records of key 1 the later one stands for both
        ("every", 3, 0),
        ("some", 1, 2),
    ]
    workbench.flush("fan")
    assert [[(r["id"], r["name"]) for r in workbench.read_rows(f"shop.{t}")] for t in ("latest", "every", "some")] == [
        [(1, "b"), (2, "a")],
        [(1, "a"), (1, "b"), (2, "a")],
        [(1, "b")],
    ]
    positions = {
        json.dumps(workbench.open_session("fan").tables.read_state(t["name"], "fan").position.offsets) for t in tables
    }
    assert positions == {json.dumps({topic: {0: 3}})}


@pytest.mark.repeats(
    "contract/test_destination.py::test_publish_moves_main_tag_and_position_of_its_pipeline_alone_and_drops_the_branch"
)
def test_two_pipelines_into_one_table_keep_a_position_each(workbench) -> None:
    first, second = workbench.topic(1), workbench.topic(1)
    for name, topic in (("left", first), ("right", second)):
        workbench.pipeline(name, [topic], key=KEY, value=VALUE, table={"name": "lake.shop.shared"})
    workbench.produce(first, build_upsert(1, "a"), build_upsert(2, "a"))
    workbench.produce(second, build_upsert(3, "b"))
    workbench.flush("left")
    workbench.flush("right")
    workbench.produce(first, build_upsert(1, "a2"))
    workbench.flush("left")
    assert [(r["id"], r["name"]) for r in workbench.read_rows("shop.shared")] == [(1, "a2"), (2, "a"), (3, "b")]
    states = {n: workbench.open_session(n).tables.read_state("lake.shop.shared", n) for n in ("left", "right")}
    assert [states[n].position.offsets for n in states] == [{first: {0: 3}}, {second: {0: 1}}]
    assert not any(state.is_rolled_back for state in states.values())
