"""This version continues from the data of an older one: tables, positions, a staged batch, deletes, state topics.

That version wrote the data on real components: `tests/upgrade/make.py` says how.
"""

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from round_trip import read
from tidegate.errors import NothingToDo
from tidegate.model.batch import Plan, StagedBatch
from tidegate.monitoring.details import read_batch_history, read_storage
from tidegate.publications.publish import publish
from tidegate.publications.status import read_publication_status
from tidegate.wiring.publication import assemble_publication
from upgrade.make import LEFT, OUT, PIPELINE, PUBLICATION, RIGHT, to_record
from upgrade.older_tree import VERSION
from upgrade.restore import read_kept, restore, to_offsets

if TYPE_CHECKING:
    from conftest import Workbench

BEFORE = {
    "left": {1: "left 1 again", 3: "left 3", 4: "left 4"},
    "right": {1: "right 1", 2: "right 2", 3: "right 3 again"},
}
MERGED = {
    "left": {**BEFORE["left"], 3: "left 3 staged", 6: "left 6 staged"},
    "right": {2: "right 2", 3: "right 3 again", 6: "right 6 staged"},
}
AFTER = {
    "left": {1: "left 1 once more", 2: "left 2 new", 4: "left 4", 6: "left 6 new"},
    "right": {2: "right 2 new", 3: "right 3 again", 6: "right 6 staged"},
}


@pytest.fixture
def restored(workbench: "Workbench") -> dict[str, Any]:
    workbench.pipeline("shop", [LEFT, RIGHT], **PIPELINE)
    (workbench.include / "publications").mkdir()
    (workbench.include / "publications" / "out.yaml").write_text(yaml.safe_dump(PUBLICATION))
    return restore(workbench, VERSION, (OUT, f"{OUT}-state"))


def read_names(workbench: "Workbench") -> dict[str, dict[int, str]]:
    """The name of each id, by table; each id occurs once."""
    rows_by_table = {table: workbench.read_rows(f"shop.{table}") for table in ("left", "right")}
    assert all(len({row["id"] for row in rows}) == len(rows) for rows in rows_by_table.values())
    return {table: {row["id"]: row["name"] for row in rows} for table, rows in rows_by_table.items()}


def read_history(workbench: "Workbench") -> Counter[tuple[int, str]]:
    rows = read_batch_history(workbench.build_ports("shop"), 20)["batches"]
    return Counter((row["batch"], row["table"]) for row in rows)


def list_batches(*numbers: int) -> Counter[tuple[int, str]]:
    return Counter((number, table) for number in numbers for table in ("lake.shop.left", "lake.shop.right"))


def to_json(data: Any) -> Any:
    return json.loads(json.dumps(data))


def build_publication_ports(workbench: "Workbench") -> Any:
    return assemble_publication(workbench.include, "out", workbench.resolve())


def count_published(workbench: "Workbench") -> Counter[tuple[bytes, bytes | None]]:
    return Counter((message.key(), message.value()) for message in read(workbench, OUT))


def test_pipeline_and_publication_of_an_older_version_go_on_where_that_one_stopped(
    workbench: "Workbench", restored: dict[str, Any]
) -> None:
    """The older version had staged a batch, and had published the merged rows."""
    assert read_names(workbench) == BEFORE
    assert restored["records"][f"{OUT}-state"], "there is a state to go on from"
    assert read_publication_status(build_publication_ports(workbench)).snapshots_behind == 0
    with pytest.raises(NothingToDo):
        publish(build_publication_ports(workbench))
    [status] = json.loads(workbench.run_cli("status", "shop", "--json").stdout)["pipelines"]
    assert [(table["batch"], table["lag"], table["problem"]) for table in status["tables"]] == [(2, 2, None)] * 2
    assert status["dead_letters"] == 1
    assert read_history(workbench) == list_batches(1, 2)
    past = read_batch_history(workbench.build_ports("shop"), 20)["batches"]
    assert {row["bytes_written"] for row in past} == {None}, "that version did not count them"
    attempts = {staged["attempt"] for staged in restored["tasks"]["staged"]}
    waiting = [batch["attempt"] for table in read_storage(workbench.build_ports("shop")) for batch in table["staged"]]
    assert set(waiting) == attempts

    flushed = workbench.flush("shop")
    assert [batch.batch for batch in flushed.published] == [3, 3]
    assert read_names(workbench) == MERGED
    control = workbench.read_rows("shop.tidegate_shop_batches")
    assert {row["attempt"] for row in control if row["batch"] == 3} == attempts, "nothing was staged twice"
    assert workbench.committed("shop") == workbench.read_ends(LEFT, RIGHT)

    records = [to_record(2, "left 2 new"), to_record(3, None), to_record(6, "left 6 new")]
    workbench.produce(LEFT, to_record(1, "left 1 once more"), *records)
    workbench.produce(RIGHT, to_record(4, "right 4 late", 5), to_record(2, "right 2 new", 2))
    workbench.flush("shop")
    assert read_names(workbench) == AFTER, "the delete that was remembered keeps the late record out"
    assert workbench.committed("shop") == workbench.read_ends(LEFT, RIGHT)
    with pytest.raises(NothingToDo):
        workbench.flush("shop")
    assert read_history(workbench) == list_batches(1, 2, 3, 4)
    newest = read_batch_history(workbench.build_ports("shop"), 2)["batches"]
    assert all(row["bytes_written"] > 0 for row in newest)
    assert to_offsets(restored["committed"]) != workbench.committed("shop")
    check_publication(workbench)


def check_publication(workbench: "Workbench") -> None:
    """What differs from the last publication of the older version, each change once."""
    before = count_published(workbench)
    result = publish(build_publication_ports(workbench))
    assert (result.inserted, result.updated, result.deleted) == (2, 1, 1)
    added = count_published(workbench) - before
    assert sorted((json.loads(key)["id"], json.loads(value)["name"] if value else None) for key, value in added) == [
        (1, "left 1 once more"), (2, "left 2 new"), (3, None), (6, "left 6 new"),
    ]  # fmt: skip
    assert set(added.values()) == {1}
    with pytest.raises(NothingToDo):
        publish(build_publication_ports(workbench))


def test_what_tasks_of_an_older_version_handed_on_is_read() -> None:
    """A deploy in the middle of a run: its plan and its staged batches lie in Airflow's database."""
    tasks = read_kept(VERSION)["tasks"]
    assert to_json(Plan.from_dict(tasks["plan"]).to_dict()) == tasks["plan"]
    batches = [StagedBatch.from_dict(batch) for batch in tasks["staged"]]
    assert [(batch.table, batch.batch, batch.counts.staged) for batch in batches] == [
        ("lake.shop.left", 3, 2),
        ("lake.shop.right", 3, 2),
    ]
    added = {"truncated_at": None, "epochs": {}}  # since then
    assert to_json([batch.to_dict() for batch in batches]) == [{**batch, **added} for batch in tasks["staged"]]


@pytest.mark.repeats(
    "unit/scenarios/test_dead_letters_of_old_topics.py::test_letters_of_the_version_before_outlive_a_recreated_topic"
)
def test_dead_letter_that_an_older_version_left_outlives_a_topic_that_was_created_again(
    workbench: "Workbench", restored: dict[str, Any]
) -> None:
    """That version kept no topic id: the column is added, and the letter is never taken for one of the new topic."""
    assert restored["committed"]
    letters = "shop.tidegate_shop_dead_letters"
    (before,) = workbench.read_rows(letters)
    workbench.recreate(LEFT, 2)
    workbench.produce(LEFT, *(to_record(number, f"left {number} anew") for number in range(1, 9)))
    workbench.produce(LEFT, ({"id": 9}, b"new", {"partition": 1}))
    process = workbench.run_cli("rebase", "shop", "--to", "earliest", "--yes")
    assert process.returncode == 0, process.stderr
    assert "dead_letters=1" in process.stdout
    workbench.flush("shop")
    dead_letters = workbench.read_rows(letters)
    assert {**before, "topic_id": None, "replayed_by": None} in dead_letters
    assert [row["value"] for row in dead_letters if row["topic_id"]] == [b"new"]
