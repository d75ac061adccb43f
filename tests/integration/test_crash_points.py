"""A covering set of crash points on a real broker, Spark and catalog, one for each way in which it can go wrong.

All points: ``make test-crash``.
"""

import pytest
from crash.points import Point
from crash.trial import Trial

# (point, fault) in a batch on tables that are there; each in a process of its own
LATER = {
    "rows are staged and their counts are not": ("stage/job.overwritten:inside:1", "killed"),
    "everything is staged and no answer came": ("stage/engine.run:after:1", "lost"),
    "the branch was cut": ("merge/commits.start_branch:after:1", "killed"),
    "the branch was cut and no answer came": ("merge/commits.start_branch:after:1", "lost"),
    "the merge made its snapshot and the session ended": ("merge/job.statement:inside:1", "raised"),
    "the merge made its snapshot": ("merge/engine.run:after:2", "killed"),
    "the publish was not sent": ("merge/commits.publish:before:1", "killed"),
    "the publish took place and no answer came": ("merge/commits.publish:after:1", "lost"),
    "one table is published and the other is not": ("merge/commits.publish:after:1", "killed"),
    "the row of history was half written": ("batch_history/history.opened:inside:1", "killed"),
    "all is published and the group does not know": ("commit_offsets/broker.commit:before:1", "killed"),
    "the group knows and the answer was lost": ("commit_offsets/group.committed:inside:1", "raised"),
    "staged rows are gone from the catalog and not from disk": ("clean_up/catalog.committed:inside:1", "killed"),
}
# in the first batch, which creates the tables
FIRST = {
    "an intermediate table is there and nothing else": ("stage/job.created:inside:2", "killed"),
    "the namespace is there and the table is not": ("merge/job.statement:inside:1", "killed"),
    "the table is there without a snapshot": ("merge/commits.seed:before:1", "killed"),
    "the table has its first snapshot and no answer came": ("merge/commits.seed:after:1", "lost"),
}

# in a queue of three batches, which are merged as one
QUEUE = {
    "one table's queue is published and no answer came": ("merge/commits.publish:after:1", "lost"),
    "one table's queue is published and the other's is not": ("merge/commits.publish:after:1", "killed"),
    "of the batches that were merged as one the history has the first": (
        "batch_history/history.append_history:after:1",
        "killed",
    ),
}


@pytest.fixture(scope="module")
def trials(workbenches, runners, tmp_path_factory):
    """A pipeline that meets one fault after another. After each one it is in the same state as before."""
    trial = Trial(workbenches(tmp_path_factory.mktemp("trials")), runners, "later", last_format=3)
    trial.produce_batch(1)
    trial.workbench.drain("later")
    trial.check()
    yield trial
    trial.verify()


# every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
@pytest.mark.repeats(
    "unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs",
    "everything is staged and no answer came",
    "the branch was cut",
    "the branch was cut and no answer came",
    "the merge made its snapshot and the session ended",
    "the merge made its snapshot",
    "the publish was not sent",
    "the row of history was half written",
    "all is published and the group does not know",
    "the group knows and the answer was lost",
    "rows are staged and their counts are not",
    "staged rows are gone from the catalog and not from disk",
    "one table is published and the other is not",
)
@pytest.mark.parametrize("situation", LATER)
def test_fault_in_a_later_batch_is_recovered_by_the_next_run(trials: Trial, situation: str, record_property) -> None:
    point, kind = LATER[situation]
    trials.produce_batch(2 + list(LATER).index(situation))
    trials.flush_with_fault(Point.parse(point), kind)
    record_property("counted", {"crash cases on real components": 1})


@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
@pytest.mark.parametrize("situation", QUEUE)
def test_fault_in_a_merge_of_three_batches_is_recovered_by_the_next_run(
    trials: Trial, situation: str, record_property
) -> None:
    point, kind = QUEUE[situation]
    for place in range(3):
        trials.produce_batch(100 + 3 * list(QUEUE).index(situation) + place)
        trials.stage()
    trials.flush_with_fault(Point.parse(point), kind)
    record_property("counted", {"crash cases on real components": 1})


@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
@pytest.mark.parametrize("situation", FIRST)
def test_fault_in_the_first_batch_is_recovered_by_the_next_run(
    workbench, runners, situation: str, record_property
) -> None:
    point, kind = FIRST[situation]
    trial = Trial(workbench, runners, "first", "all")
    trial.produce_batch(1)
    trial.flush_with_fault(Point.parse(point), kind)
    record_property("counted", {"crash cases on real components": 1})
