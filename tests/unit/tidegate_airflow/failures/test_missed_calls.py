"""A notifier that cannot be told of the first failed run is told of the next one, and then no more."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import build_pipeline
from fakes.notifier import BrokenNotifier
from tidegate.spec.pipeline import Notifier, Pipeline

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.dag_processing.processor import ToManager
    from airflow.sdk.exceptions import ErrorType
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, GetVariable, OKResponse, PutVariable, VariableResult
    from pydantic import TypeAdapter
    from tidegate_airflow.failures.notifiers import build_failure_callbacks

CHAT = Notifier("fakes.notifier.BrokenNotifier", {"name": "chat", "text": "{{ failure.reason }}"})
MAIL = Notifier("fakes.notifier.BrokenNotifier", {"name": "mail", "text": "{{ failure.reason }}"})
SHOP = replace(build_pipeline(), on_failure=(CHAT, MAIL))
VARIABLE = "tidegate_shop_missed_calls"
FIRST = {"pipeline": "shop", "kind": "flush", "reason": "bad", "is_new": True}
LATER = {**FIRST, "is_new": False}


class Processor:
    """The DAG processor beside a callback: it answers what Airflow's own knows, and nothing else."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self.is_down = False

    def send(self, message: Any) -> Any:
        TypeAdapter(ToManager).validate_python(message.model_dump())
        if self.is_down:
            raise ConnectionError("the API server is gone")
        if isinstance(message, GetVariable):
            value = self.variables.get(message.key)
            missing = ErrorResponse(error=ErrorType.VARIABLE_NOT_FOUND)
            return missing if value is None else VariableResult(key=message.key, value=value)
        if isinstance(message, PutVariable):
            self.variables[message.key] = str(message.value)
            return None
        del self.variables[message.key]
        return OKResponse(ok=True)


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Iterator[Processor]:
    processor = Processor()
    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", processor, raising=False)
    BrokenNotifier.notifications.clear()
    BrokenNotifier.broken.clear()
    yield processor
    BrokenNotifier.broken.clear()


def fail_run(failure: dict[str, Any] | None, pipeline: Pipeline = SHOP) -> list[tuple[str, str]]:
    """A run of the flush fails for that; who was told of what."""
    noted = {("heartbeat", "failure"): failure}
    return tell(
        build_failure_callbacks("shop", [pipeline]), lambda task_ids, key, map_indexes: noted.get((task_ids, key))
    )


def fail_fleet(*failures: dict[str, Any]) -> list[tuple[str, str]]:
    """The same of a fleet with two members."""
    members = [
        replace(build_pipeline(), name=name, fleet="all", on_failure=(CHAT, MAIL)) for name in ("carts", "users")
    ]
    return tell(build_failure_callbacks("fleet_all", members), lambda task_ids, key, map_indexes: list(failures))


def tell(callbacks: list[Any], xcom_pull: Any) -> list[tuple[str, str]]:
    """Call them as Airflow does: what one raises keeps no other from being called."""
    before = len(BrokenNotifier.notifications)
    for callback in callbacks:
        try:
            callback({"ti": SimpleNamespace(xcom_pull=xcom_pull), "run_id": "r1"})
        except ConnectionError:
            continue
    return BrokenNotifier.notifications[before:]


def test_notifier_that_failed_is_called_with_the_next_failed_run_until_one_call_succeeded(processor: Processor) -> None:
    BrokenNotifier.broken.add("mail")
    assert fail_run(FIRST) == [("chat", "bad")]
    assert fail_run(LATER) == []
    BrokenNotifier.broken.clear()
    assert fail_run(LATER) == [("mail", "bad")], "chat knows it already"
    assert fail_run(LATER) == []
    assert processor.variables == {}, "nothing is left where everybody was told"


def test_notifier_that_was_corrected_is_called_and_those_that_were_told_are_not(
    processor: Processor,
) -> None:
    BrokenNotifier.broken.add("chat")
    assert fail_run(FIRST) == [("mail", "bad")]
    phone = Notifier("fakes.notifier.BrokenNotifier", {"name": "phone", "text": "{{ failure.reason }}"})
    corrected = replace(SHOP, on_failure=(phone, MAIL))
    assert fail_run(LATER, corrected) == [("phone", "bad")]
    assert fail_run(LATER, corrected) == []
    assert processor.variables == {}


def test_call_that_was_killed_is_made_again(processor: Processor, monkeypatch: pytest.MonkeyPatch) -> None:
    def be_killed(self: Any, context: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(BrokenNotifier, "notify", be_killed)
        with pytest.raises(KeyboardInterrupt):
            fail_run(FIRST)
    assert fail_run(LATER) == [("chat", "bad"), ("mail", "bad")]
    assert fail_run(LATER) == []


def test_new_reason_is_told_to_all_and_settles_what_was_missed(processor: Processor) -> None:
    BrokenNotifier.broken.add("mail")
    fail_run(FIRST)
    BrokenNotifier.broken.clear()
    assert fail_run({**FIRST, "reason": "worse", "is_new": True}) == [("chat", "worse"), ("mail", "worse")]
    assert fail_run({**FIRST, "reason": "worse", "is_new": False}) == []


@pytest.mark.parametrize("variable_text", ["", "no JSON", "[1]", '{"": 3}'])
def test_variable_that_somebody_has_changed_keeps_nobody_from_being_told(
    processor: Processor, variable_text: str
) -> None:
    processor.variables[VARIABLE] = variable_text
    assert fail_run(FIRST) == [("chat", "bad"), ("mail", "bad")]
    assert fail_run(LATER) == []
    assert processor.variables == {}


def test_processor_without_an_api_server_tells_of_the_first_run_and_no_other(processor: Processor) -> None:
    processor.is_down = True
    assert fail_run(FIRST) == [("chat", "bad"), ("mail", "bad")]
    assert fail_run(LATER) == []


def test_variable_holds_no_argument_of_a_notifier(processor: Processor) -> None:
    BrokenNotifier.broken.add("chat")
    secret = Notifier("fakes.notifier.BrokenNotifier", {"name": "chat", "text": "token-4711"})
    fail_run(FIRST, replace(SHOP, on_failure=(secret,)))
    ((_, notes),) = json.loads(processor.variables[VARIABLE]).items()
    assert list(notes.values()) == [False]
    assert "token" not in processor.variables[VARIABLE]


def test_members_of_a_fleet_miss_calls_each_for_itself(processor: Processor) -> None:
    carts, users = ({**FIRST, "pipeline": name, "reason": f"{name} bad"} for name in ("carts", "users"))
    BrokenNotifier.broken.add("mail")
    assert fail_fleet(carts) == [("chat", "carts bad")]
    BrokenNotifier.broken.clear()
    assert fail_fleet(users) == [("chat", "users bad"), ("mail", "users bad")]
    assert list(processor.variables) == ["tidegate_fleet_all_missed_calls"]
    repeated_failures = [{**failure, "is_new": False} for failure in (carts, users)]
    assert fail_fleet(*repeated_failures) == [("mail", "carts bad")]
    assert fail_fleet(*repeated_failures) == []
    assert processor.variables == {}


def test_two_failures_of_one_member_miss_calls_each_for_itself(processor: Processor) -> None:
    """The rows of a member do not come in, and it is late: the call for the one says nothing of the other."""
    failures = [{"pipeline": "carts", "kind": kind, "reason": kind, "is_new": True} for kind in ("flush", "freshness")]
    BrokenNotifier.broken.add("mail")
    assert fail_fleet(*failures) == [("chat", "flush"), ("chat", "freshness")]
    BrokenNotifier.broken.clear()
    repeated_failures = [{**failure, "is_new": False} for failure in failures]
    assert fail_fleet(*repeated_failures) == [("mail", "flush"), ("mail", "freshness")]
    assert fail_fleet(*repeated_failures) == []
    assert processor.variables == {}


def test_failure_of_a_whole_fleet_is_told_to_everybody_once(processor: Processor) -> None:
    plan = {**FIRST, "pipeline": "", "reason": "plan failed"}
    BrokenNotifier.broken.add("chat")
    assert fail_fleet(plan) == [("mail", "plan failed")]
    BrokenNotifier.broken.clear()
    assert fail_fleet({**plan, "is_new": False}) == [("chat", "plan failed")]
    assert fail_fleet({**plan, "is_new": False}) == []
