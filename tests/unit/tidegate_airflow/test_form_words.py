"""Runs that programs start of DAGs with a form: a word that the form has not is refused, before anything is done."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from fakes import a_pipeline
from fakes.task_instance import PushedResults
from tidegate_airflow import errors, tasks
from tidegate_airflow.dags import backfill, publication
from tidegate_airflow.dags.actions import _build_form, build_letter_words
from tidegate_airflow.operators.action import run_action, run_replay_form
from tidegate_airflow.operators.job import PublishOperator

FORMS = {
    "act": _build_form(a_pipeline()),
    "replay": build_letter_words("orders"),
    "backfill": backfill._build_form(a_pipeline()),
    "publish": publication.FORM_PARAMS,
}


def publish(context: Any) -> Any:
    return PublishOperator(task_id="publish", publication="shop").execute(context)


RUNS: dict[str, Callable[[Any], Any]] = {
    "act": lambda context: run_action(context, "shop"),
    "replay": lambda context: run_replay_form(context, "shop"),
    "backfill": lambda context: backfill.plan_batches("shop", dict(context["params"])),
    "publish": publish,
}


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was begun: the pipelines and publications that were opened."""
    opened: list[str] = []

    def note(name: str, *more: Any) -> None:
        opened.append(name)
        raise RuntimeError("begun")

    monkeypatch.setattr(tasks, "assemble_ports", note)
    monkeypatch.setattr(tasks, "run_publish", note)
    return opened


def make_context(form: str, **words: Any) -> Any:
    own = {name: param.value for name, param in FORMS[form].items()}
    given = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"} if form == "backfill" else {}
    return {
        "params": {**own, **given, **words},
        "dag_run": SimpleNamespace(triggering_user_name="ann"),
        "ti": PushedResults(),
    }


@pytest.mark.parametrize(
    ("form", "word", "value"),
    [
        ("act", "topics", "orders"),
        ("replay", "offset", ["orders:0:7"]),
        ("backfill", "dry-run", True),
        ("publish", "resynchronize", True),
    ],
)
def test_word_that_the_form_has_not_is_refused(
    form: str, word: str, value: Any, begun: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(form, **{word: value})
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    with pytest.raises(AirflowFailException, match=rf"^{word}: the form has no such word; it has: ") as problem:
        RUNS[form](context)
    assert all(name in str(problem.value) for name in FORMS[form])
    assert begun == []


@pytest.mark.parametrize("form", FORMS)
def test_every_word_of_the_form_is_taken(form: str, begun: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    context = make_context(form)
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    with pytest.raises(RuntimeError, match="begun"):
        RUNS[form](context)
    assert begun == ["shop"]
