"""A run of the flush DAG in which stage refuses a table: the others are merged, and the run is red in the end."""

import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import BAD, World, build_pipeline, build_table
from tidegate.flush.plan import plan
from tidegate.ports.session import Session
from tidegate.spec.pipeline import Pipeline

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.sdk.exceptions import AirflowFailException
    from tidegate_airflow import errors, tasks
    from tidegate_airflow.dags import flush_run
    from tidegate_airflow.operators import step

GOOD, BROKEN = "lake.shop.good", "lake.shop.broken"
PIPELINE = build_pipeline(build_table(BROKEN, topics=("broken",)), build_table(GOOD, topics=("good",)))


class Results:
    """What the tasks of a run leave for each other, as a task instance shows it."""

    def __init__(self) -> None:
        self.left: dict[tuple[str, str], Any] = {}
        self.task = "stage"

    def xcom_push(self, key: str, value: Any) -> None:
        self.left[self.task, key] = value

    def xcom_pull(self, task_ids: str, key: str = "return_value", map_indexes: int = -1) -> Any:
        return self.left.get((task_ids, key))

    def get_task_states(self, dag_id: str, run_ids: list[str]) -> dict[str, dict[str, str]]:
        return {run: {"stage": "success", "merge_0": "success", "heartbeat": "running"} for run in run_ids}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World()

    def session(name: str, engine: Any = None, watcher: Any = None, pipeline: Pipeline = PIPELINE) -> Session:
        return world.open_session(pipeline)

    monkeypatch.setattr(tasks, "assemble_session", session)
    monkeypatch.setattr(tasks, "run_measure", lambda name: {})
    monkeypatch.setattr(tasks, "read_pipeline", lambda name: PIPELINE)
    for topic in ("broken", "good"):
        world.broker.create(topic, 2)
        world.broker.produce(topic, {"id": "a"}, {"id": "a", "name": topic})
    return world


def run_of(world: World, monkeypatch: pytest.MonkeyPatch) -> Results:
    """Plan, stage and merge as the tasks do; what they left."""
    results = Results()
    context: Any = {"ti": results, "dag_run": SimpleNamespace(dag_id="d", run_id="r", clear_number=0)}
    context["params"] = {"max_records": None, "until_current": True, "dry_run": False}
    for module in (flush_run, errors):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    results.left["plan", "return_value"] = planned = plan(world.open_session(PIPELINE)).to_dict()
    for queue in step.run_stage_step(context, "shop", planned, {}):
        tasks.run_merge("shop", queue)
    return results


def test_tables_that_can_be_staged_are_merged_and_the_run_is_red_with_the_others_reason(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.broker.produce("broken", {"id": "b"}, BAD, 1)
    results = run_of(world, monkeypatch)
    assert world.read_rows(GOOD) == [{"id": "a", "name": "good"}]
    (refusal,) = results.xcom_pull("stage", "refused")
    assert (refusal["table"], refusal["kind"]) == (BROKEN, "BadRecord")
    results.task = "heartbeat"
    with pytest.raises(AirflowFailException) as red:
        flush_run.finish_run("shop")
    for words in (f"table={BROKEN} is refused, the others go on", "topic=broken partition=1 offset=0"):
        assert words in str(red.value)
        assert words in results.xcom_pull("heartbeat", "error")["message"]
    assert world.broker.groups["tidegate-shop"] == {"good": {0: 1, 1: 0}}
    assert results.xcom_pull("heartbeat", "committed") is True, "the page counts from it when offsets expire"


def test_run_in_which_every_table_is_staged_is_green(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    results = run_of(world, monkeypatch)
    assert results.xcom_pull("stage", "refused") == []
    assert flush_run.finish_run("shop")["committed"] == {"broken": {0: 1, 1: 0}, "good": {0: 1, 1: 0}}
    assert (world.read_rows(GOOD), world.read_rows(BROKEN)) == (
        [{"id": "a", "name": "good"}],
        [{"id": "a", "name": "broken"}],
    )


@pytest.mark.parametrize(
    ("states", "message_text"),
    [
        (
            {"plan": "success", "stage": "failed", "merge": "upstream_failed", "commit_offsets": "upstream_failed"},
            "tasks=stage, commit_offsets, merge failed in this run; see the log of the first one",
        ),
        (
            {"plan": "success", "stage": "success", "merge": "upstream_failed", "commit_offsets": "upstream_failed"},
            "tasks=commit_offsets, merge could not begin: a task before them was marked by hand and left no result",
        ),
    ],
)
def test_red_run_names_first_the_task_whose_log_says_why(
    world: World, monkeypatch: pytest.MonkeyPatch, states: dict[str, str], message_text: str
) -> None:
    """Tasks behind the failed one have no log; behind one that was marked as success by hand nothing has one."""
    results = Results()
    monkeypatch.setattr(results, "get_task_states", lambda dag_id, run_ids: dict.fromkeys(run_ids, states))
    context: Any = {"ti": results, "dag_run": SimpleNamespace(dag_id="d", run_id="r", clear_number=0)}
    for module in (flush_run, errors):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    monkeypatch.setattr(flush_run, "read_run_params", lambda _: {"dry_run": False, "until_current": True})
    with pytest.raises(AirflowFailException) as red:
        flush_run.finish_run("shop")
    assert str(red.value).startswith(f"offsets are kept, but {message_text}")


def test_refusal_of_a_stage_that_a_cleared_run_skips_is_not_told_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow keeps what a task left until it begins again: nothing is to do any more, and stage does not."""
    world.broker.produce("broken", {"id": "b"}, BAD, 1)
    results = run_of(world, monkeypatch)
    assert results.xcom_pull("stage", "refused")
    del results.left["plan", "return_value"]
    for stage_state in ("skipped", "upstream_failed"):
        states = {"plan": "skipped", "stage": stage_state, "merge": stage_state}
        monkeypatch.setattr(results, "get_task_states", lambda dag_id, run_ids, s=states: dict.fromkeys(run_ids, s))
        if stage_state == "skipped":
            assert flush_run.finish_run("shop")["committed"] == {"good": {0: 1, 1: 0}}
            assert flush_run.finish_staging("shop") == {"left": 0}
        else:
            for finish in (flush_run.finish_run, flush_run.finish_staging):
                with pytest.raises(AirflowFailException) as red:
                    finish("shop")
                assert BROKEN not in str(red.value)
