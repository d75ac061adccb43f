"""Others move, replace or drop tables of a pipeline: it reports that or goes on, and each record counts once."""

import json
from typing import Any

import pytest
from tidegate.errors import GiveUp, PositionLost, PublishedElsewhere
from tidegate.flush.merge import merge
from tidegate.flush.plan import plan
from tidegate.flush.stage import stage
from tidegate.monitoring.status import read_status
from tidegate.reprocess.rebase import propose_rebase

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
APPEND = {"upsert": False, "delete": False}  # shows a record that is read twice or never


class Table:
    """One append pipeline `p` into shop.p, and the other users of its table."""

    def __init__(self, workbench: Any, **sections: Any) -> None:
        self.workbench, self.sections = workbench, sections
        self.topic = sections.pop("topic", None) or workbench.topic(1)
        self.write()

    def write(self, **more: Any) -> None:
        self.workbench.pipeline("p", [self.topic], key=KEY, value=VALUE, table=APPEND, **self.sections, **more)

    def produce(self, *ids: int) -> None:
        self.workbench.produce(self.topic, *(({"id": i}, {"id": i, "name": "x"}) for i in ids))

    def flush(self, *ids: int) -> int:
        """Produce these, flush, and return the snapshot that was published."""
        self.produce(*ids)
        (published,) = self.workbench.flush("p").published
        return published.snapshot_id

    def flush_and_refuse(self) -> str:
        with pytest.raises(PositionLost) as error_info:
            self.workbench.flush("p")
        (table_status,) = read_status(self.open_session())["tables"]
        assert table_status["problem"] == str(error_info.value)
        return str(error_info.value)

    def open_session(self) -> Any:
        return self.workbench.open_session("p")

    def rebase(self, to: str) -> None:
        propose_rebase(self.open_session(), to).perform("ann")

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.workbench.run_spark_sql(statement)

    @property
    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.workbench.read_rows("shop.p"))

    @property
    def batch(self) -> int:
        return self.open_session().tables.read_state("lake.shop.p", "p").highest_batch


@pytest.fixture
def table(workbench) -> Table:
    return Table(workbench)


def render_rollback(snapshot: int) -> str:
    return f"CALL lake.system.rollback_to_snapshot('shop.p', {snapshot})"


REWRITE = "CALL lake.system.rewrite_data_files(table => 'shop.p', options => map('rewrite-all', 'true'))"
ALL = "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1"
EXPIRE = f"CALL lake.system.expire_snapshots(table => 'shop.p', {ALL})"


@pytest.mark.repeats(
    "test_rollback_fails_until_it_is_answered_and_a_batch_staged_before_it_is_not_resumed_wrongly[keep-kept_ids1]",
    "rewind-kept_ids0",
)
@pytest.mark.parametrize(("answer", "kept_ids"), [("rewind", [1, 2, 3, 4]), ("keep", [1, 3, 4])])
def test_rollback_fails_until_it_is_answered_and_a_batch_staged_before_it_is_not_resumed_wrongly(
    table, answer, kept_ids
) -> None:
    first = table.flush(1)
    table.flush(2)
    table.produce(3)
    (staged,) = stage(table.open_session(), plan(table.open_session()))
    table.sql(render_rollback(first))
    message = table.flush_and_refuse()
    assert "was rolled back" in message
    assert "--rewind" in message
    assert "--keep" in message
    with pytest.raises(PositionLost):
        merge(table.open_session(), staged)
    assert table.ids == [1]
    table.write(on_rollback=answer)
    table.produce(4)
    table.workbench.drain("p")
    assert table.ids == kept_ids
    assert table.batch > 3
    with pytest.raises(PublishedElsewhere):
        merge(table.open_session(), staged)
    table.write()
    table.flush(5)
    assert table.ids == [*kept_ids, 5]
    assert (
        len({row["batch"] for row in table.open_session().history.read_history("lake.shop.tidegate_p_batches", 9)}) >= 4
    )
    assert table.workbench.committed("p") == table.workbench.read_ends(table.topic)
    assert table.workbench.list_data_files("shop.p_p_tmp") == []


# what others do to a table, one thing at a time at a real catalog
@pytest.mark.repeats("contract/test_destination.py::test_rollback_is_noticed_and_the_ancestors_position_told")
def test_rollback_behind_a_foreign_compaction_loses_nothing_and_one_before_it_is_told(table) -> None:
    first = table.flush(1)
    second = table.flush(2)
    table.sql(REWRITE, render_rollback(second))
    table.flush(3)
    assert table.ids == [1, 2, 3]
    table.sql(REWRITE, render_rollback(first))
    assert f'position={{"{table.topic}": {{"0": 1}}}}' in table.flush_and_refuse()
    table.write(on_rollback="rewind")
    table.workbench.drain("p")
    assert table.ids == [1, 2, 3]


@pytest.mark.repeats("contract/test_destination.py::test_rollback_to_where_no_ancestor_carries_a_position_tells_none")
def test_rollback_to_where_no_snapshot_tells_a_position_is_never_guessed(table) -> None:
    first = table.flush(1)
    table.sql("INSERT INTO lake.shop.p VALUES (-1, 'foreign')")
    foreign = table.workbench.load_iceberg("shop.p").metadata.current_snapshot_id
    table.flush(2)
    older = [s.snapshot_id for s in table.workbench.load_iceberg("shop.p").metadata.snapshots if s.snapshot_id < 0] + [
        first
    ]
    table.sql(
        render_rollback(foreign),
        f"CALL lake.system.expire_snapshots(table => 'shop.p', snapshot_ids => array({', '.join(map(str, older))}))",
    )
    table.write(on_rollback="rewind")
    assert "no snapshot of main has a position to rewind to" in table.flush_and_refuse()
    table.rebase(json.dumps({table.topic: {"0": 1}}))
    table.workbench.drain("p")
    assert table.ids == [-1, 1, 2]


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_lineage.py::test_position_behind_rows_that_were_picked_onto_main_is_not_gone_back_to"
)
def test_batch_that_was_picked_onto_main_after_a_rollback_is_not_read_again_and_comes_back_whole(table) -> None:
    first, _, third = table.flush(1), table.flush(2), table.flush(3)
    table.sql(render_rollback(first), f"CALL lake.system.cherrypick_snapshot('shop.p', {third})")
    assert table.ids == [1, 3]
    table.write(on_rollback="rewind")
    assert "batch=3 were picked onto main" in table.flush_and_refuse()
    assert table.ids == [1, 3]
    undone = table.workbench.run_cli("undo-rollback", "p", "--discard-foreign", "--yes")
    assert (undone.returncode, table.ids) == (0, [1, 2, 3]), undone.stderr
    table.flush(4)
    assert table.ids == [1, 2, 3, 4]


@pytest.mark.repeats("contract/test_destination.py::test_position_survives_the_expiry_of_the_snapshots_that_carried_it")
def test_position_outlives_every_snapshot_but_the_last_and_a_history_cut_off_is_told(table) -> None:
    table.flush(1)
    table.flush(2)
    table.sql(REWRITE, EXPIRE)
    table.flush(3)
    assert table.ids == [1, 2, 3]
    table.sql(REWRITE, "INSERT INTO lake.shop.p VALUES (-1, 'foreign')", EXPIRE)
    table.produce(4)
    assert "it is not known whether the table was rolled back" in table.flush_and_refuse()
    table.write(on_rollback="keep")
    table.workbench.drain("p")
    table.write()
    table.flush(5)
    assert table.ids == [-1, 1, 2, 3, 4, 5]


@pytest.mark.repeats(
    "test_rollback_fails_until_it_is_answered_and_a_batch_staged_before_it_is_not_resumed_wrongly[keep-kept_ids1]"
)
@pytest.mark.parametrize(
    ("statement", "remaining_ids"),
    [("CREATE OR REPLACE TABLE lake.shop.p (id BIGINT, name STRING)", []),
     ("CREATE OR REPLACE TABLE lake.shop.p AS SELECT * FROM lake.shop.p WHERE id > 1", [2])],
)  # fmt: skip
def test_create_or_replace_shows_like_a_rollback_and_both_ways_out_lead_on(table, statement, remaining_ids) -> None:
    table.flush(1, 2)
    table.produce(3)
    (staged,) = stage(table.open_session(), plan(table.open_session()))
    table.sql(statement)
    assert "was rolled back or replaced" in table.flush_and_refuse()
    with pytest.raises(PositionLost):
        merge(table.open_session(), staged)
    assert table.ids == remaining_ids
    table.write(on_rollback="keep")
    table.workbench.drain("p")
    assert table.ids == [*remaining_ids, 3]
    table.sql(statement)
    table.write()
    table.flush_and_refuse()
    table.rebase("earliest")
    table.workbench.drain("p")
    assert table.ids == sorted([*([2, 3] if remaining_ids else []), 1, 2, 3])
    table.flush(4)
    assert table.batch >= 4


@pytest.mark.repeats(
    "contract/test_destination.py::test_publish_is_refused_when_another_publish_moved_the_position_or_the_table_was_replaced"
)
def test_table_replaced_by_another_of_its_name_is_told_and_starts_as_a_new_one(table) -> None:
    table.flush(1)
    table.produce(2)
    (staged,) = stage(table.open_session(), plan(table.open_session()))
    table.sql("DROP TABLE lake.shop.p PURGE", "CREATE TABLE lake.shop.p (id BIGINT, name STRING)")
    with pytest.raises(PositionLost, match="replaced by another of the same name"):
        merge(table.open_session(), staged)
    assert table.ids == []
    table.workbench.drain("p")
    assert table.ids == [1, 2]


@pytest.mark.repeats(
    "contract/test_destination.py::test_position_property_that_somebody_removed_is_found_in_the_tagged_snapshot"
)
def test_what_others_remove_by_hand_is_reported_or_recovered(table) -> None:
    table.flush(1)
    table.sql(f"ALTER TABLE lake.shop.p UNSET TBLPROPERTIES ({', '.join(_list_position_properties(table))})")
    table.flush(2)
    table.sql("ALTER TABLE lake.shop.p DROP TAG tidegate_p")
    table.produce(3)
    assert "answer-rollback p --table lake.shop.p --keep" in table.flush_and_refuse()
    table.write(on_rollback="rewind")
    (batch,) = stage(table.open_session(), plan(table.open_session()))
    table.sql("DROP TABLE lake.shop.p_p_tmp PURGE")
    with pytest.raises(GiveUp, match="the staged rows are gone"):
        merge(table.open_session(), batch)
    table.workbench.drain("p")
    table.write()
    table.flush(4)
    assert table.ids == [1, 2, 3, 4]


def _list_position_properties(table: Table) -> list[str]:
    names = [name for name in table.workbench.load_iceberg("shop.p").properties if name.startswith("tidegate.")]
    assert names
    return [f"'{name}'" for name in names]


@pytest.mark.repeats("unit/tidegate/table/test_position_checks.py::test_brokers_of_another_cluster_are_not_read")
def test_log_of_another_cluster_topic_or_length_is_told_and_rebase_leads_on(table) -> None:
    table.flush(1, 2)
    table.produce(3)
    table.sql("ALTER TABLE lake.shop.p SET TBLPROPERTIES ('tidegate.p.cluster-id' = 'elsewhere')")
    assert "another cluster" in table.flush_and_refuse()
    table.rebase(json.dumps({table.topic: {"0": 2}}))
    table.workbench.drain("p")
    assert table.ids == [1, 2, 3]
    table.workbench.retain_from(table.topic, 3)
    table.produce(4, 5)
    table.workbench.retain_from(table.topic, 4)
    assert "so 1 offset is gone" in table.flush_and_refuse()
    table.workbench.recreate(table.topic)
    assert "deleted and created again" in table.flush_and_refuse()
    properties = "'tidegate.p.topic-ids' = '{}'"
    table.sql(f"ALTER TABLE lake.shop.p SET TBLPROPERTIES ({properties})")
    assert "the log ends at offset=0" in table.flush_and_refuse()
    table.produce(6)
    table.rebase("earliest")
    table.workbench.drain("p")
    assert table.ids == [1, 2, 3, 6]


@pytest.mark.repeats("unit/tidegate/flush/test_plan.py::test_new_partitions_start_at_the_log_start_whatever_start_says")
def test_growth_is_refused_or_accepted_and_a_new_topic_under_a_pattern_starts_at_its_logs_start(workbench) -> None:
    first = workbench.topic(1)
    source = {"topic_pattern": f"{first}.*", "start": {"offsets": {first: {0: 1}}}}
    settings = {"key": KEY, "value": VALUE, "source": source, "table": {"disjoint_keys": True}}
    workbench.pipeline("w", [], **settings)
    workbench.produce(first, ({"id": 0}, {"id": 0, "name": "before"}))
    workbench.produce(first, ({"id": 1}, {"id": 1, "name": "a"}))
    workbench.flush("w")
    second = workbench.topic(name=f"{first}-more")
    workbench.produce(second, ({"id": 2}, {"id": 2, "name": "b"}))
    workbench.flush("w")
    workbench.grow(first, 2)
    workbench.transaction(first, ({"id": 3}, {"id": 3, "name": "c"}, {"partition": 1}))  # by a producer that knows it
    with pytest.raises(PositionLost, match="on_partition_growth: accept"):
        workbench.flush("w")
    workbench.pipeline("w", [], on_partition_growth="accept", **settings)
    workbench.flush("w")
    assert [row["id"] for row in workbench.read_rows("shop.w")] == [1, 2, 3]
    assert workbench.committed("w") == workbench.read_ends(first, second)
