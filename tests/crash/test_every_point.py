"""All crash points on a real broker, Spark and catalog, each with every fault, in a process of its own.

Takes about an hour; ``make test-crash`` runs it. ``ARGS="-k later"`` runs a part. With ``FAULTS=places``, as in
``make test-long``, each place meets one of its faults at one of its visits.
"""

import os
from collections.abc import Callable

import pytest
from lake_servers import LakeBench

from crash.bigquery_trial import FIRST, HALVES, LATER, walk
from crash.points import Point, choose_cases, list_cases
from crash.publishing import OVERTAKEN, judge, walk_in_process
from crash.situations import FirstBatch, Half, LaterBatch, Queue, Recovery, Situation

ONE_FAULT_A_PLACE = os.environ.get("FAULTS") == "places"
LAKES = ["postgres", "rest"]  # tables of tables; the files are in a store like S3


@pytest.fixture
def failures(record_property, capsys):
    """Run the cases one after the other, and report all failures at the end."""

    def run(cases: list[tuple[Point, str]], run_case: Callable[[int, Point, str], None]) -> None:
        problems = []
        for number, (at, kind) in enumerate(cases, start=1):
            try:
                run_case(number, at, kind)
            except Exception as error:
                problems.append(f"{kind} at {at}: {type(error).__name__}: {error}")
            with capsys.disabled():
                print(
                    f"\r{number} of {len(cases)}, {len(problems)} failed: {kind} at {at}".ljust(110), end="", flush=True
                )
        record_property("counted", {"crash cases on real components": len(cases) - len(problems)})
        assert not problems, "\n".join(problems)

    return run


def walk_all(situation: Situation, failures, record_property) -> None:
    points = situation.list_points()
    record_property("counted", {"crash points on real components": len(points)})
    failures(choose_cases(points, 1) if ONE_FAULT_A_PLACE else list_cases(points), situation.meet)
    situation.trial.verify()


# every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
def test_every_fault_at_every_point_of_a_later_batch(workbench, runners, failures, record_property) -> None:
    walk_all(LaterBatch(workbench, runners), failures, record_property)


# every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
def test_every_fault_at_every_point_of_a_first_batch(workbench, runners, failures, record_property) -> None:
    walk_all(FirstBatch(workbench, runners), failures, record_property)


# every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
def test_every_fault_at_every_point_of_a_run_that_recovers(workbench, runners, failures, record_property) -> None:
    walk_all(Recovery(workbench, runners), failures, record_property)


# every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
def test_every_fault_at_every_point_of_a_queue_that_is_merged_as_one(
    workbench, runners, failures, record_property
) -> None:
    walk_all(Queue(workbench, runners), failures, record_property)


@pytest.mark.repeats(
    "unit/test_failpoints.py::test_fault_at_any_point_of_either_clock_is_recovered_by_the_next_runs_of_both"
)
@pytest.mark.parametrize("command", ["stage", "merge"])
def test_every_fault_at_every_point_of_one_of_two_clocks(
    workbench, runners, failures, record_property, command: str
) -> None:
    walk_all(Half(workbench, runners, command), failures, record_property)


@pytest.fixture(params=LAKES)
def served(request, workbench, lake_servers, tmp_path) -> tuple[LakeBench, int]:
    """A workbench on a lake of servers, and the number of the lake."""
    bench = LakeBench(workbench, lake_servers.make_catalog(request.param, "s3", tmp_path))
    return bench, LAKES.index(request.param)


# every fault at every point, with the steps that are run everywhere over parts in memory; three are walked for real
@pytest.mark.repeats("unit/test_failpoints.py::test_fault_at_any_point_is_recovered_by_the_next_runs")
def test_a_fault_at_every_place_on_servers(served, runners, failures, record_property) -> None:
    """Each place that a flush passes meets one of its faults, and on the other lake the other."""
    (bench, lake), seen_places = served, set[tuple[str, str]]()
    for situation in (LaterBatch, FirstBatch, Recovery):
        journey = situation(bench, runners)
        points = [point for point in journey.list_points() if point.place not in seen_places]
        seen_places |= {point.place for point in points}
        failures(choose_cases(points, lake), journey.meet)
    record_property("counted", {"crash points on real components": len(seen_places)})


@pytest.mark.repeats(
    "unit/scenarios/test_publication_walks.py::test_run_that_sleeps_at_any_call_while_others_go_on_changes_nothing_when_it_wakes"
)
@pytest.mark.parametrize("fault", ["SIGKILL", "SIGSTOP", OVERTAKEN])
def test_every_call_of_producers_killed_or_woken_up_late(workbench, fault: str, record_property) -> None:
    answer, records = walk_in_process(workbench, "exactly-once", fault, 1)
    judge(records, answer["snapshots"])
    record_property("counted", {"crash cases on real components": answer["cases"]})


@pytest.mark.repeats("contract/test_bigquery.py::test_publish_whose_answer_is_lost_is_found_by_its_name")
def test_every_point_of_bigquerys_own(dwh, runners, record_property) -> None:
    walk(dwh, runners)
    record_property("counted", {"crash cases on real components": len(FIRST) + len(LATER) + len(HALVES)})
