"""Runs that programs start of DAGs with a form: an unknown parameter is refused, before anything is done."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from fakes import build_pipeline
from fakes.task_instance import PushedResults
from tidegate_airflow import errors, tasks
from tidegate_airflow.dags import backfill, flush_run, publication
from tidegate_airflow.dags.actions import _build_form, build_letter_params
from tidegate_airflow.dags.request import build_fleet_form, build_form, read_fleet_request, read_run_params
from tidegate_airflow.operators.action import run_action, run_replay_form
from tidegate_airflow.operators.step import VerbOperator

FORMS = {
    "act": _build_form(build_pipeline()),
    "replay": build_letter_params("orders"),
    "backfill": backfill._build_form(build_pipeline()),
    "publish": publication.FORM_PARAMS,
}
FLUSH_FORMS = {"flush": build_form(), "fleet": build_fleet_form(["shop"])}


def publish(context: Any) -> Any:
    return VerbOperator(task_id="publish", verb="publish", pipeline="shop").execute(context)


RUNS: dict[str, Callable[[Any], Any]] = {
    "act": lambda context: run_action(context, "shop"),
    "replay": lambda context: run_replay_form(context, "shop"),
    "backfill": lambda context: backfill.plan_batches("shop", errors.read_form_params(context, backfill.PARAM_NAMES)),
    "publish": publish,
    "flush": lambda context: flush_run.plan_as_requested("shop"),
    "fleet": lambda context: read_fleet_request(
        context, {"shop": build_pipeline(), "other": build_pipeline()}, {}, 0.0
    ),
}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was begun: the pipelines and publications that were opened."""
    names: list[str] = []

    def note(name: str, *more: Any) -> None:
        names.append(name)
        raise RuntimeError("begun")

    monkeypatch.setattr(tasks, "assemble_session", note)
    monkeypatch.setattr(tasks, "run_publish", note)
    return names


def make_context(form: str, **words: Any) -> Any:
    own = {name: param.value for name, param in (FORMS | FLUSH_FORMS)[form].items()}
    form_values = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"} if form == "backfill" else {}
    return {
        "params": {**own, **form_values, **words},
        "dag_run": SimpleNamespace(triggering_user_name="ann", run_type="manual", conf=None, clear_number=0),
        "ti": PushedResults(),
    }


@pytest.mark.parametrize(
    ("form", "word", "value"),
    [
        ("act", "topics", "orders"),
        ("replay", "offset", ["orders:0:7"]),
        ("backfill", "dry-run", True),
        ("publish", "resynchronize", True),
        ("flush", "dry-run", True),
        ("flush", "max_record", 10),
        ("fleet", "pipeline", ["shop"]),
    ],
)
def test_word_that_the_form_has_not_is_refused(
    form: str, word: str, value: Any, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(form, **{word: value})
    for module in (errors, flush_run):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    with pytest.raises(AirflowFailException, match=rf"^{word}: unknown parameter; there are: ") as problem:
        RUNS[form](context)
    assert all(name in str(problem.value) for name in (FORMS | FLUSH_FORMS)[form])
    assert begun == []


@pytest.mark.parametrize("form", [*FORMS, "flush"])
def test_every_word_of_the_form_is_taken(form: str, begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    context = make_context(form)
    for module in (errors, flush_run):
        monkeypatch.setattr(module, "get_current_context", lambda: context)
    with pytest.raises(RuntimeError, match="begun"):
        RUNS[form](context)
    assert begun == ["shop"]


@pytest.mark.parametrize(
    ("form", "conf"),
    [
        ("act", {"action": "rebase", "to": "earliest"}),
        ("replay", {"offsets": ["orders:0:7"]}),
        ("backfill", {"dry_run": True}),
        ("publish", {"resynchronise": True}),
        ("flush", {"dry_run": True}),
        ("fleet", {"pipelines": ["shop"]}),
    ],
)
def test_word_that_airflow_holds_back_is_told_and_nothing_else_is_done_instead(
    form: str, conf: dict[str, Any], begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `dag_run_conf_overrides_params = False` a run has the form's own values, whatever it was given."""
    context = make_context(form)
    context["dag_run"].conf = conf
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    monkeypatch.setattr(flush_run, "get_current_context", lambda: context)
    with pytest.raises(AirflowFailException, match=r"\[core\] dag_run_conf_overrides_params") as problem:
        RUNS[form](context)
    assert all(name in str(problem.value) for name in conf)
    assert begun == []


@pytest.mark.parametrize("form", ["act", "replay", "backfill", "publish"])
def test_words_that_a_run_was_given_and_has_are_taken(
    form: str, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(form)
    context["dag_run"].conf = dict(context["params"])
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    with pytest.raises(RuntimeError, match="begun"):
        RUNS[form](context)


CAPPED = {"max_records": 100, "until_current": True, "dry_run": False}
ONE_BATCH = {"max_records": 500, "until_current": False, "dry_run": False}
FREE = {"max_records": None, "until_current": True, "dry_run": False}


@pytest.mark.parametrize(
    ("extras", "max_records", "until_current"),
    [
        ([{"asked": CAPPED}, {"asked": FREE}], 100, True),
        ([{"asked": CAPPED}, {"asked": ONE_BATCH}], 100, True),
        ([{"asked": ONE_BATCH}, {"payload": {"pipeline": "shop"}}], 500, True),
        ([{"asked": ONE_BATCH}, {"asked": {}}], 500, True),
        ([{"asked": ONE_BATCH}, {"asked": ONE_BATCH}], 500, False),
        ([{"asked": FREE}, None], None, True),
    ],
)
def test_run_of_several_calls_takes_the_smallest_limit_and_goes_on_if_one_of_them_does(
    extras: list[Any], max_records: int | None, until_current: bool
) -> None:
    """Airflow joins the calls that come during a run: a batch is no larger than any of them may be."""
    for order in (extras, extras[::-1]):
        events = {"a": [SimpleNamespace(extra=order[0])], "b": [SimpleNamespace(extra=extra) for extra in order[1:]]}
        params = read_run_params({**make_context("flush"), "triggering_asset_events": events})
        assert params == {"max_records": max_records, "until_current": until_current, "dry_run": False}


@pytest.mark.parametrize("form", ["flush", "fleet"])
def test_number_that_a_program_writes_with_a_point_is_a_whole_one(form: str) -> None:
    """1e3 and 1000.0 are whole numbers to the form: as they are, they would be taken for places in lists."""
    context = make_context(form, max_records=FLUSH_FORMS[form]["max_records"].resolve(1e3))
    assert repr(read_run_params(context)["max_records"]) == "1000"
    event = SimpleNamespace(extra={"asked": {"max_records": 2.0, "until_current": True, "dry_run": False}})
    assert repr(read_run_params({**context, "triggering_asset_events": {"a": [event]}})["max_records"]) == "2"
