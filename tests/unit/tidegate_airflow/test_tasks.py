"""What becomes of the core's errors in a task, wherever in it they come."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from fakes.task_instance import PushedResults
from tidegate_airflow import errors, tasks


@pytest.mark.parametrize("run", [tasks.run_heartbeat, tasks.run_measure, tasks.run_clean_up, tasks.run_tables])
def test_file_that_goes_while_its_run_is_under_way_fails_the_task_in_one_sentence(
    run: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(tmp_path))
    context: Any = {"ti": PushedResults()}
    monkeypatch.setattr(errors, "get_current_context", lambda: context)
    with pytest.raises(AirflowFailException, match=r"^pipeline=shop: no such pipeline; there are: none$"):
        run("shop")
    assert context["ti"].pushed["error"]["error"] == "ConfigurationError"
