"""The verify DAG's form: which table, and no other parameter."""

from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from fakes.task_instance import PushedResults
from tidegate_airflow import errors, tasks
from tidegate_airflow.operators.action import run_verify_form


@pytest.mark.parametrize(("table", "asked"), [(None, None), ("", None), ("lake.shop.Orders", "lake.shop.Orders")])
def test_form_names_one_table_or_each(monkeypatch: pytest.MonkeyPatch, table: str | None, asked: str | None) -> None:
    calls = list[Any]()
    monkeypatch.setattr(tasks, "run_verify", lambda *words: calls.append(words) or [{"equal": 1}])
    context: Any = {"params": {"table": table}}
    assert run_verify_form(context, "shop", "engine") == [{"equal": 1}]
    assert calls == [("shop", asked, "engine")]


def test_unknown_parameter_is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    context: Any = {"params": {"table": None, "tabel": "lake.shop.orders"}, "ti": PushedResults()}
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    monkeypatch.setattr(tasks, "run_verify", lambda *_: pytest.fail("nothing was to be verified"))
    with pytest.raises(AirflowFailException, match="tabel: unknown parameter; there are: table"):
        run_verify_form(context, "shop")
