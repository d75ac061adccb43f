"""What holds for tables of format 2 holds for those of format 3: some tests of every step, with each table made so."""

from collections.abc import Callable
from typing import Any

import pytest
from integration import (
    test_backfill,
    test_concurrency,
    test_maintenance,
    test_verify,
    test_ways_out,
)
from round_trip import Way

FLOWS: dict[str, Callable[..., None]] = {
    "backfill": test_backfill.test_every_mode_gets_back_the_last_state_of_each_key,
    "compaction": test_maintenance.test_compaction_behind_flushes_keeps_their_files_few_and_loses_nothing,
    "a foreign compaction": test_concurrency.test_foreign_compaction_between_cut_and_publish_is_survived,
    "expiry": test_maintenance.test_expiry_never_cuts_main_off_from_the_last_published_snapshot,
    "verify": test_verify.test_each_planted_fault_is_named_and_nothing_else,
    "rollback": test_ways_out.test_rollback_is_undone_by_the_printed_command,
    "replay": test_ways_out.test_dead_letters_are_chosen_exported_replayed_and_discarded,
}
topic = test_maintenance.topic
rolled_back = test_ways_out.rolled_back
poisoned = test_ways_out.poisoned


@pytest.fixture
def workbench(workbench: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each Iceberg table of a pipeline is made with format 3."""
    write = workbench.pipeline

    def write_for_format_3(name: str, topics: list[str], **sections: Any) -> Any:
        tables = sections.pop("tables", None) or [{"name": f"lake.shop.{name}", **sections.pop("table", {})}]
        sections["tables"] = [{**table, "create": {**table.get("create", {}), "format_version": 3}} for table in tables]
        return write(name, topics, **sections)

    monkeypatch.setattr(workbench, "pipeline", write_for_format_3)
    return workbench


# the same steps of the same code on tables of another format; the quick test walks a rollback, a backfill and verify
@pytest.mark.repeats("integration/test_format_3.py::test_updated_row_keeps_its_id_and_names_the_flush[merge-on-read]")
@pytest.mark.parametrize("flow", FLOWS)
def test_flow_of_format_2_holds_for_format_3(
    flow: str, workbench: Any, request: pytest.FixtureRequest, tmp_path: Any
) -> None:
    test = FLOWS[flow]
    names = test.__code__.co_varnames[: test.__code__.co_argcount]
    test(*(workbench if name == "workbench" else request.getfixturevalue(name) for name in names))


@pytest.mark.repeats(
    "unit/tidegate/adapters/iceberg/test_snapshots.py::test_each_of_the_deletion_vectors_in_one_file_touches_its_data_file"
)
def test_publication_follows_vectors_of_deletes_a_compaction_and_a_rollback(workbench: Any) -> None:
    way = Way(workbench, "vectors", delivery="exactly-once", create={"partitions": 3}, parallelism=2)
    way.flush(k1="a", k2="b", k3="c", k4="d")
    assert way.publish().inserted == 4
    first_snapshot = workbench.load_iceberg("shop.vectors").metadata.current_snapshot_id
    way.flush(k1="a2", k2=None, k5="e")
    way.flush(k3="c2", k5="e2")
    options = "options => map('rewrite-all', 'true')"
    workbench.run_spark_sql(f"CALL lake.system.rewrite_data_files(table => 'shop.vectors', {options})")
    way.flush(k4=None)
    second = way.publish()
    assert (second.inserted, second.updated, second.deleted) == (1, 2, 2)
    assert way.read_latest() == way.read_table()
    assert workbench.load_iceberg("shop.vectors").metadata.format_version == 3
    workbench.run_spark_sql(f"CALL lake.system.rollback_to_snapshot('shop.vectors', {first_snapshot})")
    back = way.publish()
    assert (back.inserted, back.updated, back.deleted) == (2, 2, 1)
    assert way.read_latest() == way.read_table()
