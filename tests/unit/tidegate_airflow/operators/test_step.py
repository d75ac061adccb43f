"""A task that gives its slot back while BigQuery works: what it takes along, how it is woken, and what it counts."""

import asyncio
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.triggers.base import TriggerEvent
from fakes import World, build_pipeline, build_table
from fakes.faults import _Delegating
from fakes.task_instance import PushedResults
from tidegate.adapters.open_clients import SentJob
from tidegate.errors import BadRecord, GiveUp, NothingToDo, OutcomeUnknown, PublishedElsewhere, RetryLater
from tidegate.flush.plan import plan
from tidegate.model.table_state import TableCommit
from tidegate.spec.pipeline import Catalog
from tidegate_airflow import errors, tasks
from tidegate_airflow.operators import step as waiting
from tidegate_airflow.operators.step import DeferringWatcher, StepOperator
from tidegate_airflow.triggers import bigquery_job

ORDERS = "lake.shop.orders"
PIPELINE = build_pipeline(build_table(ORDERS))
CATALOG = Catalog("dwh", "bigquery", {"project": "p", "location": "EU"}, "google_one")
JOB = SentJob(
    catalog=CATALOG, project="p", location="EU", job_id="tidegate_shop_1", address="https://console.example/shop"
)
JOB_SECONDS = 60.0


class Events:
    """What a task tells its assets."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def __getitem__(self, alias: Any) -> "Events":
        return self

    def add(self, asset: Any, extra: Any) -> None:
        self.told.append((asset.name, extra["batch"], extra["inserted"]))


@pytest.fixture
def context() -> Any:
    return {"ti": PushedResults(), "outlet_events": Events()}


@pytest.fixture
def world() -> World:
    world = World()
    world.broker.create("orders", 2)
    for partition, key in enumerate("ab"):
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"}, partition)
    return world


class SlowWarehouse(_Delegating):
    """A destination whose publish, and whose look at staged rows, is a job that runs long; `watcher` is told of it."""

    def __init__(self, port: Any, watcher: Any) -> None:
        super().__init__(port)
        self._watcher = watcher

    def publish(self, table_commit: TableCommit) -> None:
        self._port.publish(table_commit)
        table = self._port.tables[table_commit.table]
        table.snapshots[table_commit.head].summary["tidegate.job"] = str(JOB)
        self._wait()

    def complete_attempt(self, *arguments: Any) -> Any:
        self._wait()
        return self._port.complete_attempt(*arguments)

    def _wait(self) -> None:
        self._watcher.report_sent(JOB)
        if self._watcher.deferred_job_id != JOB.job_id:
            self._watcher.report_running(JOB, JOB_SECONDS)


@pytest.fixture
def airflow(world: World, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Tasks over the world in memory, with a clock that a test may turn."""
    clock = SimpleNamespace(now=1_000_000.0)

    def session(name: str, engine: Any = None, watcher: Any = None) -> Any:
        destination = SlowWarehouse(world.destination, watcher) if watcher else world.destination
        return world.open_session(PIPELINE, destination=destination)

    monkeypatch.setattr(tasks, "assemble_session", session)
    monkeypatch.setattr(waiting.time, "time", lambda: clock.now)  # the module, so for all who import it
    return clock


def build_operator(verb: str, step_input: Any) -> StepOperator:
    return StepOperator(task_id=verb, verb=verb, pipeline="shop", given=step_input)


def defer_step(step: StepOperator, context: Any) -> tuple[TaskDeferred, dict[str, Any]]:
    """The step gives its slot back; with it what Airflow stores for it, as it is read from the database again."""
    with pytest.raises(TaskDeferred) as error_info:
        step.execute(context)
    kwargs = error_info.value.kwargs or {}
    return error_info.value, json.loads(json.dumps(kwargs))["memory"]


def test_merge_that_waits_in_the_triggerer_goes_on_and_counts_its_batch_once(
    world: World, airflow: Any, context: Any
) -> None:
    ((queue,), refusals) = tasks.run_stage("shop", plan(world.open_session(PIPELINE)).to_dict())
    assert refusals == []
    step = build_operator("merge", queue)
    deferral, memory = defer_step(step, context)
    assert (deferral.method_name, deferral.timeout) == ("resume_step", waiting.DEFERRAL_TIMEOUT)
    assert context["ti"].pushed[waiting.JobLink().xcom_key] == JOB.address
    assert context["outlet_events"].told == []
    airflow.now += 100
    result = getattr(step, deferral.method_name)(context, memory, {"status": "success"})
    assert (result["outcome"], result["batches"], result["staged"], result["inserted"]) == ("published", 1, 2, 2)
    assert result["seconds"] >= JOB_SECONDS + 100, "what was waited for elsewhere is part of it"
    assert context["outlet_events"].told == [(ORDERS, 1, 2)]
    assert [row["batch"] for row in world.destination.read_history("lake.shop.tidegate_shop_batches", 9)] == [1]
    assert [row["id"] for row in world.read_rows(ORDERS)] == ["a", "b"]


def test_stage_that_waits_in_the_triggerer_goes_on_without_reading_again(
    world: World, airflow: Any, context: Any
) -> None:
    step = build_operator("stage", plan(world.open_session(PIPELINE)).to_dict())
    _, memory = defer_step(step, context)
    assert len(world.engine.stages) == 1
    (queue,) = step.resume_step(context, memory, {"status": "success"})
    assert len(world.engine.stages) == 1
    assert [(batch["batch"], batch["attempt"]) for batch in queue["batches"]] == [(1, memory["attempts"][0])]


def test_task_stays_on_the_worker_for_a_job_that_is_quick(context: Any) -> None:
    watcher = DeferringWatcher(context, {})
    assert watcher.report_running(JOB, waiting.MAX_IN_PLACE_SECONDS - 0.1) is None
    with pytest.raises(TaskDeferred):
        watcher.report_running(JOB, waiting.MAX_IN_PLACE_SECONDS)
    assert (watcher.deferred_job_id, watcher.payload) == ("", {})


def test_task_stays_on_the_worker_without_the_provider_that_brings_the_trigger(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tidegate_airflow.triggers.bigquery_job")
    monkeypatch.setitem(sys.modules, "airflow.providers.google.cloud.triggers.bigquery", None)
    assert DeferringWatcher(context, {}).report_running(JOB, waiting.MAX_IN_PLACE_SECONDS) is None


def test_link_that_cannot_be_left_fails_no_publish(caplog: pytest.LogCaptureFixture) -> None:
    empty_context: Any = {"ti": None}
    DeferringWatcher(empty_context, {}).report_sent(JOB)
    assert "no link to the job: job=p:EU.tidegate_shop_1" in caplog.text


# the trigger


def trigger_of(context: Any) -> Any:
    """The trigger as the triggerer makes it, from what the task has left in Airflow's database."""
    with pytest.raises(TaskDeferred) as error_info:
        DeferringWatcher(context, {}).report_running(JOB, JOB_SECONDS)
    path, kwargs = error_info.value.trigger.serialize()
    assert path == "tidegate_airflow.triggers.bigquery_job.JobTrigger"
    return bigquery_job.JobTrigger(**json.loads(json.dumps(kwargs)))


def test_trigger_asks_for_the_job_as_the_worker_does_and_never_cancels_it(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger, requests = trigger_of(context), list[Any]()
    place = (trigger.conn_id, trigger.project_id, trigger.location, trigger.job_id, trigger.poll_interval)
    assert place == ("google_one", "p", "EU", JOB.job_id, bigquery_job.POLL_SECONDS)
    hook = trigger._get_async_hook()
    assert hook._warehouse._catalog == CATALOG
    monkeypatch.setattr(hook._warehouse, "read_job", lambda *place: requests.append(place) or "the job")
    assert asyncio.run(hook._get_job(JOB.job_id, "elsewhere", "US")) == "the job"
    assert requests == [(JOB.job_id, "EU")]
    monkeypatch.setattr(trigger, "_get_async_hook", lambda: pytest.fail("a publish that has begun is never cancelled"))
    asyncio.run(trigger.on_kill())


def test_trigger_waits_a_while_before_its_first_look_and_fires_when_the_job_has_ended(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trigger, pauses, states = trigger_of(context), list[float](), ["running", "success"]

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    async def status(**_: Any) -> dict[str, str]:
        return {"status": states.pop(0), "message": "done"}

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(trigger, "_get_async_hook", lambda: SimpleNamespace(get_job_status=status))

    async def first() -> TriggerEvent:
        return await anext(trigger.run())

    assert asyncio.run(first()).payload["status"] == "success"
    assert pauses == [bigquery_job.FIRST_POLL_SECONDS, bigquery_job.POLL_SECONDS]
    assert states == []


# failures


@pytest.mark.parametrize(
    ("error", "kind", "is_told"),
    [
        (NothingToDo("no work"), AirflowSkipException, False),
        (PublishedElsewhere("another was faster"), AirflowSkipException, False),
        (GiveUp("fix this"), AirflowFailException, True),
        (BadRecord("offset=3"), AirflowFailException, True),
        (RetryLater("it passes"), AirflowException, True),
        (OutcomeUnknown("no answer"), AirflowException, True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_failure_becomes_what_airflow_does_next_and_leaves_its_reason(
    error: Exception, kind: type[Exception], is_told: bool, context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    with pytest.raises(kind) as error_info, errors.raise_airflow_errors():
        raise error
    assert type(error_info.value) is kind
    assert (str(error_info.value), error_info.value.__cause__) == (str(error), error)
    reason = {"error": type(error).__name__, "message": str(error)}
    assert context["ti"].pushed == ({"error": reason} if is_told else {})


def test_foreign_failure_is_raised_as_it_is_and_its_text_is_kept_to_the_log(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    with pytest.raises(KeyError, match="hunter2"), errors.raise_airflow_errors():
        raise KeyError("password=hunter2")
    assert context["ti"].pushed == {"error": {"error": "KeyError", "message": "see the log of this task"}}
    monkeypatch.setattr(errors, "get_current_context", lambda: {})
    with pytest.raises(AirflowFailException, match="fix this"), errors.raise_airflow_errors():
        raise GiveUp("fix this")
