"""Each job's module is found by its name alone, so that a module which moves is missed here and not by Spark."""

from importlib import import_module

import pytest
from tidegate.adapters.spark.entry_points import JOBS_FOLDER, MODULES, get_verb


@pytest.mark.parametrize("kind", MODULES, ids=lambda kind: kind.__name__)
def test_each_job_has_a_module_that_runs_it_and_an_entry_point(kind: type) -> None:
    assert callable(import_module(f"tidegate_spark.{MODULES[kind]}").run)
    assert (JOBS_FOLDER / f"{get_verb(object.__new__(kind))}.py").is_file()


def test_session_module_opens_and_ends_a_session() -> None:
    session = import_module("tidegate_spark.session")
    assert callable(session.connect_session)
    assert callable(session.close)
