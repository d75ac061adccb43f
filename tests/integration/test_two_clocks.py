"""Staging beside merging on real components: two runs of each at once, and kills in each."""

import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from crash.points import Point
from crash.situations import Half
from tidegate.errors import NothingToDo, PublishedElsewhere, RetryLater, SomeTablesDelayed
from tidegate.flush.flush import merge_staged_batches, stage_new_batches

KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
TABLES = [{"name": "lake.clocks.Last"}, {"name": "lake.clocks.all", "upsert": False, "delete": False}]
DEADLINE_SECONDS = 500
STAGINGS = 4
MERGES = 2


def repeat(run: Callable[[], Any], done: Counter[str], name: str, is_over: Callable[[], bool]) -> None:
    """Run again and again; `done` counts the runs that did something. What one loses to another, its next run does."""
    while not is_over():
        try:
            run()
            done[name] += 1
        except (NothingToDo, PublishedElsewhere, RetryLater, SomeTablesDelayed) as error:
            done[f"{name}: {type(error).__name__}"] += 1
            time.sleep(0.2)


def test_two_stagings_and_two_merges_at_once_bring_in_each_record_once(workbench) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("clocks", [topic], key=KEY, value=VALUE, tables=TABLES, stage={"interval": "1s"})
    until, sent, done = time.monotonic() + DEADLINE_SECONDS, list[tuple[int, str]](), Counter[str]()

    def send() -> None:
        number = len(sent)
        changes = [(key, f"{number}") for key in (number % 7, 100 + number)]
        workbench.produce(topic, *(({"id": k}, {"id": k, "name": n}, {"partition": k % 2}) for k, n in changes))
        sent.extend(changes)
        time.sleep(0.1)

    def is_over() -> bool:
        return (done["stage"] >= STAGINGS and done["merge"] >= MERGES) or time.monotonic() > until

    runs = {
        "send": send,
        "stage": lambda: stage_new_batches(workbench.open_session("clocks")),
        "merge": lambda: merge_staged_batches(workbench.open_session("clocks")),
    }
    with ThreadPoolExecutor(5) as pool:
        for name in ("send", "stage", "stage", "merge", "merge"):
            pool.submit(repeat, runs[name], done, name, is_over).add_done_callback(lambda future: future.result())
    assert (done["stage"] >= STAGINGS, done["merge"] >= MERGES) == (True, True), done
    workbench.drain("clocks")
    assert sorted((row["id"], row["name"]) for row in workbench.read_rows("clocks.all")) == sorted(sent)
    assert {row["id"]: row["name"] for row in workbench.read_rows("clocks.Last")} == dict(sent)
    assert workbench.committed("clocks") == workbench.read_ends(topic)
    history = workbench.read_rows("clocks.tidegate_clocks_batches")
    assert Counter(Counter((row["table"], row["batch"]) for row in history).values()).keys() == {1}
    for table in ("Last", "all"):
        assert workbench.list_data_files(f"clocks.{table}_clocks_tmp") == []


# (point, fault); every point with every fault in memory, and by `make test-crash`
HALVES = {
    "stage": [("stage/job.overwritten:inside:1", "killed"), ("stage/engine.run:after:1", "lost")],
    "merge": [("merge/commits.publish:after:1", "killed"), ("clean_up/catalog.committed:inside:1", "killed")],
}


@pytest.mark.repeats(
    "unit/test_failpoints.py::test_fault_at_any_point_of_either_clock_is_recovered_by_the_next_runs_of_both"
)
@pytest.mark.parametrize("command", HALVES)
def test_fault_in_one_half_is_recovered_by_the_next_runs(workbench, runners, command: str, record_property) -> None:
    half = Half(workbench, runners, command)
    for number, (point, kind) in enumerate(HALVES[command]):
        half.meet(number, Point.parse(point), kind)
    record_property("counted", {"crash cases on real components": len(HALVES[command])})
