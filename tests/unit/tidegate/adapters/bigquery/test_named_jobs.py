"""Jobs that are named before they are sent: whoever looks for one finds it, and one that failed is told once."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import pytest
from tidegate.adapters.bigquery import catalog
from tidegate.adapters.bigquery.catalog import Warehouse, describe_job
from tidegate.adapters.bigquery.commit import PositionRow
from tidegate.adapters.bigquery.commit import name_publish_job as name_of
from tidegate.adapters.bigquery.errors import JobFailed
from tidegate.adapters.open_clients import SentJob
from tidegate.errors import GiveUp, OutcomeUnknown
from tidegate.model.batch import StagedPart
from tidegate.model.table_state import StagedSource, TableCommit
from tidegate.spec.pipeline import Catalog

CATALOG = Catalog("dwh", "bigquery", {"project": "p", "location": "EU"})


class Away(BaseException):
    """The caller went to wait elsewhere."""


@dataclass
class Leaves:
    """A watcher that goes away as soon as a job runs."""

    deferred_job_id: str = ""
    told: list[str] = field(default_factory=list)

    def report_sent(self, job: SentJob) -> None:
        self.told.append(str(job))

    def report_running(self, job: SentJob, seconds: float) -> None:
        raise Away


@dataclass
class Job:
    job_id: str
    ends: Callable[[], dict[str, str] | None]
    project: str = "p"
    location: str = "EU"
    state: str = "RUNNING"
    error_result: dict[str, str] | None = None

    def reload(self, **_: Any) -> None:
        if self.state != "DONE" and (end := self.ends()) is not None:
            self.state, self.error_result = "DONE", end or None


class Project(Warehouse):
    """A project whose jobs end as `ends` says: None for not yet, {} for well, else an error."""

    def __init__(self, watcher: Any = None, catalog: Catalog = CATALOG) -> None:
        super().__init__(catalog, lambda _: None, watcher, "Shop")
        self.labels: list[dict[str, str]] = []
        self.jobs: dict[str, Job] = {}
        self.ends: dict[str, str] | None = {}
        self.asked, self.unseen, self.loses_answers = 0, 0, False

    @cached_property
    def client(self) -> Any:
        return SimpleNamespace(query=self._query, get_job=self._get)

    def _query(self, sql: str, job_id: str, job_config: Any, **_: Any) -> Job:
        from google.api_core.exceptions import Conflict

        self.labels.append(job_config.labels)
        if job_id in self.jobs:
            raise Conflict("there is one")
        job = self.jobs.setdefault(job_id, Job(job_id, lambda: self.ends))
        if self.loses_answers:  # Google's client sends the same again, and meets what it has sent
            raise Conflict("there is one")
        return job

    def _get(self, job_id: str, **_: Any) -> Job:
        from google.api_core.exceptions import NotFound

        self.asked, self.unseen = self.asked + 1, self.unseen - 1
        if job_id not in self.jobs or self.unseen >= 0:
            raise NotFound("there is none")
        return self.jobs[job_id]

    def run(self, watcher: Any = None) -> str:
        if watcher is not None:
            self._watcher = watcher
        return str(self.run_script_once("table=t", "publish", lambda job_id: job_id, {}).job_id)


def test_whoever_goes_away_while_a_job_runs_finds_it_again_and_sends_no_second() -> None:
    project, watcher = Project(), Leaves()
    project.ends = None
    with pytest.raises(Away):
        project.run(watcher)
    with pytest.raises(Away):
        project.run(watcher)
    project.ends = {}
    assert project.run(watcher) == "publish_0"
    assert list(project.jobs) == ["publish_0"]
    assert set(watcher.told) == {"p:EU.publish_0"}


def test_a_job_whose_name_is_taken_and_that_is_not_shown_yet_is_asked_for_again() -> None:
    """BigQuery says for a moment that there is none of a job that it has just refused to take twice."""
    project = Project()
    project.ends = None
    with pytest.raises(Away):
        project.run(Leaves())
    project.ends, project.unseen = {}, 3
    assert project.run() == "publish_0"
    assert list(project.jobs) == ["publish_0"]


def test_a_job_whose_name_is_taken_and_that_stays_unseen_has_an_unknown_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked for in the catalog's location: where that is not named, and is another one, it is never shown."""
    monkeypatch.setattr(catalog, "SENT_JOB_TIMEOUT_SECONDS", 0.3)
    project = Project()
    project.ends = None
    with pytest.raises(Away):
        project.run(Leaves())
    project.unseen = 1000
    with pytest.raises(OutcomeUnknown, match=r"table=t: job=publish_0 was sent before, .* name the catalog's location"):
        project.run()
    assert list(project.jobs) == ["publish_0"]


def test_a_statement_whose_answer_was_lost_has_run_once_and_is_not_taken_for_refused() -> None:
    """A row of history, for instance: it was told as lost, and was there."""
    project = Project()
    project.loses_answers = True
    job = project.run_statement("INSERT INTO t (n) VALUES (1)")
    assert (job.state, list(project.jobs)) == ("DONE", [job.job_id])


class Region(Project):
    """A catalog that names no location, and whose tables lie in a single region: jobs are found there alone."""

    def __init__(self) -> None:
        super().__init__(catalog=Catalog("dwh", "bigquery", {"project": "p"}))

    @cached_property
    def client(self) -> Any:
        return SimpleNamespace(query=self._query, get_job=self._get, get_table=self._get_table)

    def _get_table(self, *_: Any, **__: Any) -> Any:
        return SimpleNamespace(location="europe-west3")

    def _get(self, job_id: str, location: str | None = None, **_: Any) -> Job:
        from google.api_core.exceptions import NotFound

        if location != "europe-west3":
            raise NotFound("there is none")
        return super()._get(job_id)


def test_jobs_are_found_in_the_region_of_the_tables_where_the_catalog_names_none() -> None:
    project = Region()
    project.find_table("dwh.shop.orders")
    project.ends = None
    with pytest.raises(Away):
        project.run(Leaves())
    project.ends = {"reason": "invalidQuery", "message": "no"}
    with pytest.raises(JobFailed, match="job=publish_0"):
        project.run(Leaves(deferred_job_id="publish_0"))
    project.ends = {}
    assert project.run() == "publish_1"
    assert project.read_job("publish_1").job_id == "publish_1"
    with pytest.raises(GiveUp, match="job=publish_2: BigQuery refused it: NotFound"):
        project.read_job("publish_2")


def test_every_query_carries_its_pipelines_label() -> None:
    project = Project()
    project.run_statement("SELECT 1")
    project.run_script_once("table=t", "publish", lambda _: "", {"tidegate_table": "t"})
    assert project.labels == [{"tidegate_pipeline": "shop"}, {"tidegate_pipeline": "shop", "tidegate_table": "t"}]


def test_failure_of_a_job_that_was_awaited_elsewhere_is_told_once_and_then_the_next_is_sent() -> None:
    project = Project()
    project.ends = None
    with pytest.raises(Away):
        project.run(Leaves())
    project.ends = {"reason": "invalidQuery", "message": "no"}
    with pytest.raises(JobFailed, match="job=publish_0"):
        project.run(Leaves(deferred_job_id="publish_0"))
    project.ends = {}
    assert project.run() == "publish_1"


def test_a_failed_job_that_another_call_was_told_of_is_followed_by_the_next_number() -> None:
    project = Project()
    project.ends = {"reason": "invalidQuery", "message": "no"}
    for _ in range(2):
        with pytest.raises(JobFailed):
            project.run()
    assert list(project.jobs) == ["publish_0", "publish_1"]


def test_the_newest_of_many_failed_jobs_is_found_by_few_questions() -> None:
    project = Project()
    for number in range(1000):
        project.jobs[f"publish_{number}"] = Job(f"publish_{number}", lambda: {"reason": "x", "message": "no"})
    assert project.run() == "publish_1000"
    assert project.asked < 30


def test_every_try_at_a_staged_batch_names_its_publish_alike_until_the_position_moves() -> None:
    source = StagedSource("dwh.shop.orders_shop_tmp", (StagedPart(7, "a7"),))
    table_commit = TableCommit("dwh.shop.orders", "1", 0, 3, "", 4, {}, pipeline="shop", attempt="m1", source=source)
    row = PositionRow(3, "m0", {}, 100, True, "")
    name = name_of(table_commit, source, row)
    assert name_of(replace(table_commit, attempt="m2", properties={"x": "y"}), source, row) == name
    other_names = [
        name_of(replace(table_commit, cut=4), source, row),
        name_of(table_commit, source, replace(row, version=4)),
        name_of(table_commit, source, replace(row, changed_ms=101)),
        name_of(table_commit, replace(source, parts=(StagedPart(7, "a8"),)), row),
        name_of(table_commit, replace(source, parts=(StagedPart(6, "a6"), *source.parts)), row),
        name_of(replace(table_commit, uuid="2"), source, row),
    ]
    assert len({name, *other_names}) == 7


def test_a_job_has_an_address_in_the_console_or_on_a_server_of_ones_own() -> None:
    job = SimpleNamespace(project="p", location="EU", job_id="j")
    assert (
        describe_job(CATALOG, job).address
        == "https://console.cloud.google.com/bigquery?project=p&j=bq:EU:j&page=queryresults"
    )
    own = Catalog("dwh", "bigquery", {"endpoint": "http://localhost:1"})
    assert describe_job(own, job).address == "http://localhost:1/bigquery/v2/projects/p/jobs/j"
