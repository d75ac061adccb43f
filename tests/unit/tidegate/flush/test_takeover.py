"""A stage job whose files are there already is not run again; anything else that is asked, or half of it, is."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from contract_words import render_outcome
from fakes import World, build_pipeline, build_table
from fakes.faults import _Delegating
from tidegate.flush.plan import plan
from tidegate.flush.stage_request import build_stage_table
from tidegate.flush.staged import compute_request_digest, run_or_take_over
from tidegate.jobs.stage_job import StageJob
from tidegate.jobs.stage_outcome import StageOutcome
from tidegate.model.offsets import Ranges
from tidegate.model.table_state import SignedAttempt


class Folders:
    """A destination that keeps what was signed, and the counts that jobs have left."""

    def __init__(self) -> None:
        self.signed: dict[tuple[str, int, str], SignedAttempt] = {}
        self.outcome = StageOutcome.from_json(render_outcome(10), "test")

    def find_landing_folder(self, intermediate: str, batch: int, attempt: str) -> str:
        return f"file:///staging/{intermediate}/{batch}/{attempt}"

    def read_job_result(self, intermediate: str, batch: int, attempt: str, parse: Any) -> StageOutcome:
        return self.outcome

    def sign_attempt(self, intermediate: str, signed: SignedAttempt) -> None:
        self.signed[intermediate, signed.batch, signed.request] = signed

    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        return [signed for (name, _, _), signed in self.signed.items() if name == intermediate]


class WithFolders(_Delegating):
    """The memory's tables beside the folders that their stage jobs leave: a number with complete files is used."""

    def __init__(self, port: Any, folders: Folders) -> None:
        super().__init__(port)
        self.folders = folders

    def list_signed_attempts(self, intermediate: str) -> list[SignedAttempt]:
        return self.folders.list_signed_attempts(intermediate)

    def find_highest_batch(self, intermediate: str) -> int:
        return max((signed_attempt.batch for signed_attempt in self.list_signed_attempts(intermediate)), default=0)


class Scene:
    """Two tables of one job, and a count of its runs."""

    def __init__(self) -> None:
        self.destination, self.runs, self.attempt = Folders(), 0, 0
        tables = (build_table(), build_table("lake.shop.lines"))
        world = World()
        world.broker.create("orders")
        for id in range(10):
            world.broker.produce("orders", {"id": f"{id}"}, {"id": f"{id}", "name": "x"})
        self.world, self.pipeline = world, build_pipeline(*tables)
        self.known = WithFolders(world.destination, self.destination)
        self.session = SimpleNamespace(staging=self.destination, engine=SimpleNamespace(run=self._run))

    def _run(self, job: StageJob) -> None:
        self.runs += 1

    def job(self, **options: Any) -> StageJob:
        """The same request under new attempts."""
        session = self.world.open_session(self.pipeline, destination=self.known)
        planned = plan(session)
        first = planned.tables[0]
        tables = []
        for table_entry in planned.tables:
            self.attempt += 1
            table = build_stage_table(replace(session, new_attempt=lambda: f"a{self.attempt}"), planned, table_entry)
            folder = self.destination.find_landing_folder(table.intermediate, table_entry.batch, table.attempt)
            tables.append(replace(table, create=(), folder=folder))
        stage_job = StageJob("shop", first.batch, first.ranges, "read_committed", tuple(tables))
        return replace(stage_job, **options)


def test_job_whose_files_an_earlier_try_has_left_is_not_run_again() -> None:
    scene = Scene()
    first = run_or_take_over(scene.session, scene.job())
    again = run_or_take_over(scene.session, scene.job())
    assert scene.runs == 1
    assert [table.attempt for table in again] == [table.attempt for table in first] == ["a1", "a2"]
    assert [table.folder for table in again] == [table.folder for table in first]
    assert [table.summary["tidegate.attempt"] for table in again] == ["a1", "a2"]


@pytest.mark.parametrize("change", ["ranges", "batch", "column", "one table", "records that do not add up"])
def test_another_request_or_half_of_it_is_run(change: str) -> None:
    scene = Scene()
    job = scene.job()
    run_or_take_over(scene.session, job)
    wider_job = scene.job()
    if change == "ranges":
        wider_job = replace(wider_job, ranges=type(job.ranges).from_dict({"orders": {"0": [0, 9]}}))
    elif change == "batch":
        wider_job = replace(wider_job, batch=job.batch + 1)
    elif change == "column":
        wider_job = replace(wider_job, tables=(wider_job.tables[0], replace(wider_job.tables[1], value_columns=())))
    elif change == "one table":
        lines = job.tables[1]
        del scene.destination.signed[lines.intermediate, job.batch, compute_request_digest(job, lines)]
    else:
        scene.destination.outcome = replace(scene.destination.outcome, read=9)
    assert [table.attempt for table in run_or_take_over(scene.session, wider_job)] == ["a3", "a4"]
    assert scene.runs == 2


def test_job_of_which_spark_writes_one_table_itself_is_run() -> None:
    scene = Scene()
    for _ in range(2):
        job = scene.job()
        run_or_take_over(scene.session, replace(job, tables=(job.tables[0], replace(job.tables[1], folder=""))))
    assert scene.runs == 2


def plan_batch_numbers(scene: Scene, **options: Any) -> set[tuple[int, str]]:
    """What a new run would stage: number and ranges, the same for both tables."""
    planned = plan(scene.world.open_session(scene.pipeline, destination=scene.known), **options)
    return {(table.batch, str(table.ranges.to_dict())) for table in planned.tables}


def test_later_run_takes_over_what_an_earlier_one_could_not_bring_in() -> None:
    """Also when records came meanwhile: those are of the next batch."""
    scene = Scene()
    first = run_or_take_over(scene.session, scene.job())
    for id in range(10, 15):
        scene.world.broker.produce("orders", {"id": f"{id}"}, {"id": f"{id}", "name": "x"})
    assert plan_batch_numbers(scene) == {(1, "{'orders': {'0': [0, 10], '1': [0, 0]}}")}
    again = run_or_take_over(scene.session, scene.job())
    assert (scene.runs, [table.attempt for table in again]) == (1, [table.attempt for table in first])


@pytest.mark.parametrize("reason", ["it came in", "it begins elsewhere", "its number is used", "it reaches too far"])
def test_files_that_a_later_run_has_no_use_for_are_left_alone(reason: str) -> None:
    scene, options = Scene(), {}
    run_or_take_over(scene.session, scene.job())
    for key, request in scene.destination.signed.items():
        changed = request
        if reason == "it came in":
            changed = replace(request, is_landed=True)
        elif reason == "it begins elsewhere":
            changed = replace(request, ranges=Ranges.from_dict({"orders": {"0": [3, 10], "1": [0, 0]}}))
        elif reason == "its number is used":
            changed = replace(request, batch=0)
        scene.destination.signed[key] = changed
    if reason == "it reaches too far":
        options = {"stop_offsets": {"orders": {0: 9, 1: 0}}}
    number, end = (1 if reason == "its number is used" else 2), (9 if options else 10)
    assert plan_batch_numbers(scene, **options) == {(number, f"{{'orders': {{'0': [0, {end}], '1': [0, 0]}}}}")}


def test_of_several_that_fit_the_one_that_reaches_farthest_is_taken() -> None:
    scene = Scene()
    run_or_take_over(scene.session, scene.job())
    for request in list(scene.destination.signed.values()):
        for batch, end in ((2, 12), (3, 4)):
            wider = Ranges.from_dict({"orders": {"0": [0, end], "1": [0, 0]}})
            for table in scene.pipeline.tables:
                scene.destination.sign_attempt(
                    f"{table.name}_shop_tmp", replace(request, batch=batch, ranges=wider, request=f"{batch}")
                )
    for id in range(10, 15):
        scene.world.broker.produce("orders", {"id": f"{id}"}, {"id": f"{id}", "name": "x"})
    assert plan_batch_numbers(scene) == {(2, "{'orders': {'0': [0, 12], '1': [0, 0]}}")}
