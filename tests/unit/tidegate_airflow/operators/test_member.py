"""stage and merge of one pipeline in a fleet: what a task that goes to wait keeps, and what a try does again."""

import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred
    from tidegate.errors import AuditFailed, PublishedElsewhere, RetryLater, TableRemoved, TidegateError
    from tidegate_airflow import errors, tasks
    from tidegate_airflow.operators import step

FIRST, SECOND, THIRD = "dwh.shop.first", "dwh.shop.second", "dwh.shop.third"
QUEUES = {"pipeline": "shop", "queues": [{"table": name, "batches": []} for name in (FIRST, SECOND, THIRD)]}


class TaskResults:
    """A mapped task instance with what it leaves."""

    map_index = 2
    try_number = 1

    def __init__(self) -> None:
        self.left: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.left[key] = value

    def xcom_pull(self, key: str, map_indexes: int) -> Any:
        assert map_indexes == self.map_index
        return self.left.get(key)


class Merges:
    """Merges tables; what becomes of each is said by table."""

    def __init__(self, **outcomes: Exception | BaseException) -> None:
        self.outcomes = {f"dwh.shop.{name}": outcome for name, outcome in outcomes.items()}
        self.merged: list[str] = []
        self.parts: list[str] = []  # tables of which a first batch is published before that
        self.payloads: dict[str, Mapping[str, Any]] = {}

    def __call__(self, name: str, queue: Any, watcher: Any, keep_part: Any, holds: Any) -> dict[str, Any]:
        table = queue["table"]
        self.payloads[table] = dict(watcher.payload)
        watcher.set_checkpoint_source(lambda: {"checkpoint": table})
        outcome = self.outcomes.get(table)
        if table in self.parts:
            keep_part({"table": table, "batch": 1})
        if isinstance(outcome, TaskDeferred):
            raise TaskDeferred(trigger=None, method_name="x", kwargs={"memory": watcher._read_checkpoint()})
        if outcome is not None:
            with errors.raise_airflow_errors():
                raise outcome
        self.merged.append(table)
        return {"table": table}


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> Any:
    context: Any = {"ti": TaskResults()}
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    monkeypatch.setattr(
        step, "emit_asset_event", lambda _, published, fleet: events.append((fleet, published["table"]))
    )
    events.clear()
    return context


events: list[tuple[str, str]] = []


def merge(context: Any, memory: Mapping[str, Any] | None = None) -> Any:
    return step.run_member_merge(context, "fleet_night", QUEUES, memory or {})


def test_merge_that_went_to_wait_goes_on_behind_the_tables_that_are_done(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Merges(second=TaskDeferred(trigger=None, method_name="x"))
    monkeypatch.setattr(tasks, "run_merge", waits)
    with pytest.raises(TaskDeferred) as deferred:
        merge(context)
    memory = deferred.value.kwargs["memory"]
    assert memory["checkpoint"] == SECOND
    assert events == [], "an event belongs to the task's success"
    monkeypatch.setattr(tasks, "run_merge", goes_on := Merges())
    result = merge(context, memory)
    assert goes_on.merged == [SECOND, THIRD]
    assert (goes_on.payloads[SECOND], goes_on.payloads[THIRD]) == ({"checkpoint": SECOND}, {})
    assert [table["table"] for table in result["tables"]] == [FIRST, SECOND, THIRD]
    assert events == [("fleet_night", name) for name in (FIRST, SECOND, THIRD)]


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ({"first": AuditFailed("no")}, (AirflowFailException, "AuditFailed", [FIRST])),
        ({"first": RetryLater("away")}, (AirflowException, "RetryLater", [FIRST])),
        (
            {"first": AuditFailed("a"), "third": AuditFailed("b")},
            (AirflowFailException, "SomeTablesFailed", [FIRST, THIRD]),
        ),
        (
            {"first": AuditFailed("a"), "third": RetryLater("b")},
            (AirflowException, "SomeTablesDelayed", [FIRST, THIRD]),
        ),
        ({"first": PublishedElsewhere("x"), "third": AuditFailed("b")}, (AirflowFailException, "AuditFailed", [THIRD])),
    ],
)
def test_table_that_fails_leaves_the_others_to_go_on_and_is_tried_again_where_that_may_help(
    context: Any, monkeypatch: pytest.MonkeyPatch, outcomes: dict[str, Exception], expected: tuple[Any, str, list[str]]
) -> None:
    monkeypatch.setattr(tasks, "run_merge", merges := Merges(**outcomes))
    with pytest.raises(AirflowException) as problem:
        merge(context)
    error_result = context["ti"].left["error"]
    assert (type(problem.value), error_result["error"], error_result["tables"]) == expected
    assert merges.merged == [name for name in (FIRST, SECOND, THIRD) if name.rpartition(".")[2] not in outcomes]


def test_table_that_fails_for_a_foreign_reason_leaves_the_others_to_go_on_and_keeps_its_text_to_the_log(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "run_merge", merges := Merges(first=ValueError("secret=x"), third=AuditFailed("no")))
    with pytest.raises(AirflowException) as problem:
        merge(context)
    assert type(problem.value) is AirflowException, "another try may help"
    assert merges.merged == [SECOND]
    result = context["ti"].left["error"]
    assert (result["error"], result["tables"]) == ("SomeTablesDelayed", [FIRST, THIRD])
    assert result["message"] == f"table={FIRST} was not merged: ValueError; see the log of this task\nno"
    assert [table["table"] for table in context["ti"].left[step.UNREPORTED_KEY]["tables"]] == [SECOND]


@pytest.mark.parametrize("kind", [PublishedElsewhere, TableRemoved])
def test_merge_whose_tables_another_run_published_or_the_file_names_no_more_is_skipped(
    context: Any, monkeypatch: pytest.MonkeyPatch, kind: type[TidegateError]
) -> None:
    errors_by_table = {name: kind("lost") for name in ("first", "second", "third")}
    monkeypatch.setattr(tasks, "run_merge", Merges(**errors_by_table))
    with pytest.raises(AirflowSkipException):
        merge(context)


def test_merge_of_which_another_run_published_a_part_succeeds_and_tells_of_the_rest(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "run_merge", Merges(second=PublishedElsewhere("batch=3")))
    result = merge(context)
    assert [table["table"] for table in result["tables"]] == [FIRST, THIRD]
    assert events == [("fleet_night", FIRST), ("fleet_night", THIRD)]


def test_batches_that_were_published_before_their_table_failed_are_told_by_clean_up(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    merges = Merges(first=AuditFailed("no"), second=PublishedElsewhere("batch=3"))
    merges.parts = [FIRST, SECOND]
    monkeypatch.setattr(tasks, "run_merge", merges)
    with pytest.raises(AirflowFailException):
        merge(context)
    unreported = context["ti"].left[step.UNREPORTED_KEY]
    assert [(table["table"], table.get("batch")) for table in unreported["tables"]] == [
        (THIRD, None),
        (FIRST, 1),
        (SECOND, 1),
    ]
    merges.outcomes = {name: PublishedElsewhere("batch=3") for name in (FIRST, SECOND, THIRD)}
    merge(context)
    assert events == [("fleet_night", FIRST), ("fleet_night", SECOND)], "no failure: they are its own"


def test_stage_plans_alone_once_and_goes_on_with_that_plan_when_it_wakes(
    context: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = {"tables": [], "refused": [], "left": 0}
    limits: list[int | None] = []
    monkeypatch.setattr(tasks, "run_plan", lambda name, most: limits.append(most) or planned)
    stage_calls: list[Any] = []
    monkeypatch.setattr(step, "run_stage_step", lambda _, name, plan, memory: stage_calls.append((name, plan)) or [])
    member_input = {"pipeline": "shop", "plan": None, "failure": None, "max_records": 7}
    step.run_member_stage(context, "fleet_night", member_input, {})
    step.run_member_stage(context, "fleet_night", member_input, {"checkpoint": 1})
    assert limits == [7]
    assert stage_calls == [("shop", planned)] * 2


def test_member_that_waits_fails_with_the_reason_and_without_a_try(context: Any) -> None:
    refusal = {"error": "Waiting", "message": "the same failure in 3 runs", "tasks": ["stage"]}
    member_input = {"pipeline": "shop", "plan": None, "failure": refusal, "max_records": None}
    with pytest.raises(AirflowFailException, match="the same failure in 3 runs"):
        step.run_member_stage(context, "fleet_night", member_input, {})
    assert context["ti"].left == {"error": refusal}


def test_operator_of_a_merge_tells_lineage_of_every_table(monkeypatch: pytest.MonkeyPatch) -> None:
    traced: list[Any] = []
    monkeypatch.setattr(step.lineage, "find_topics_of_queue", lambda queue: {queue["table"]: ["t"]})
    monkeypatch.setattr(step.lineage, "trace_flushed_tables", lambda name, topics: traced.append((name, topics)))
    operator = SimpleNamespace(verb="merge", given=QUEUES)
    step.MemberOperator.trace_lineage(operator)  # type: ignore[arg-type]
    assert traced == [("shop", {FIRST: ["t"], SECOND: ["t"], THIRD: ["t"]})]


@pytest.mark.parametrize(
    ("refused_by_plan", "refused_by_stage", "left"),
    [([], None, 5), ([], [], 5), ([], [SECOND], 0), ([SECOND], None, 0)],
)
def test_offsets_that_no_batch_reached_call_for_a_run_unless_a_table_is_refused(
    context: Any, monkeypatch: pytest.MonkeyPatch, refused_by_plan: list[str], refused_by_stage: Any, left: int
) -> None:
    """Its offsets stay behind in every run: the fleet would run without a pause."""

    def stage(_: Any, name: str, plan: Any, memory: Any) -> list[str]:
        if refused_by_stage is not None:
            context["ti"].left[step.REFUSED_TABLES_KEY] = refused_by_stage
        return [name]

    monkeypatch.setattr(step, "run_stage_step", stage)
    flush_plan = {"tables": [], "refused": refused_by_plan, "left": 5}
    entry = {"pipeline": "shop", "plan": flush_plan, "failure": None, "max_records": None}
    assert step.run_member_stage(context, "fleet_night", entry, {})["left"] == left
