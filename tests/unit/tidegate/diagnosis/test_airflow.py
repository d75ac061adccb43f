"""What facts about an Airflow installation mean: a plugin that is not there, a pool without slots, a dead service."""

from dataclasses import replace
from typing import Any

import pytest
from seeded_mistakes import require_found
from tidegate.diagnosis.airflow import AirflowFacts, AirflowNeeds, judge_airflow
from tidegate.diagnosis.finding import Severity

NEEDS = AirflowNeeds({"kafka_default": ("one", "two"), "lake": ("two",)}, ("lake", "pond"), ("two",))
FACTS = AirflowFacts(
    version="3.3.0",
    home="/airflow",
    dags_folder="/dags",
    plugins_folder="/plugins",
    has_plugin=True,
    has_dags=True,
    parallelism=32,
    known_connections=("kafka_default", "lake"),
    pools={"tidegate_lake": 4, "tidegate_pond": 4, "default_pool": 128},
    services={"SchedulerJob": 1.0, "DagProcessorJob": 2.0, "TriggererJob": 3.0},
)


def test_airflow_that_has_everything_is_right() -> None:
    assert {finding.severity for finding in judge_airflow(NEEDS, FACTS)} == {Severity.OK}


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("airflow-old", {"version": "2.10.3"}),
        ("airflow-database-down", {"database_problem": "OperationalError: no such table: pool"}),
        ("plugin-not-found", {"has_plugin": False}),
        ("dags-not-found", {"has_dags": False}),
        ("dag-file-broken", {"import_errors": {"/dags/pipelines.py": "KeyError: 'x'"}}),
        ("airflow-connection-missing", {"known_connections": ("lake",)}),
        ("pool-missing", {"pools": {"tidegate_pond": 4}}),
        ("pools-beyond-parallelism", {"parallelism": 4}),
        ("scheduler-dead", {"services": {**FACTS.services, "SchedulerJob": 3600.0}}),
        ("triggerer-missing", {"services": {**FACTS.services, "TriggererJob": None}}),
    ],
)
def test_mistake_of_airflow_is_found(name: str, changed: dict[str, Any]) -> None:
    require_found(name, judge_airflow(NEEDS, replace(FACTS, **changed)))


@pytest.mark.parametrize("version", ["3.0.2", "3.2.2", "3.2.0rc1"])
def test_airflow_whose_dags_would_be_refused_is_too_old(version: str) -> None:
    [airflow] = judge_airflow(NEEDS, replace(FACTS, version=version))
    assert (airflow.severity, airflow.cause) == (Severity.ERROR, f"airflow={version} is too old")


def test_database_that_does_not_answer_is_told_alone() -> None:
    facts = replace(FACTS, database_problem="refused", known_connections=(), pools={}, services={})
    assert [finding.check for finding in judge_airflow(NEEDS, facts)] == ["airflow.environment"]


def test_triggerer_is_an_error_only_where_a_pipeline_waits_for_records() -> None:
    facts = replace(FACTS, services={**FACTS.services, "TriggererJob": None})
    [service_findings] = [
        finding for finding in judge_airflow(replace(NEEDS, triggered=()), facts) if finding.check == "airflow.services"
    ]
    assert service_findings.severity is Severity.WARNING


def judge_pools(**slots: int) -> list[tuple[Severity, str]]:
    airflow = judge_airflow(NEEDS, replace(FACTS, pools={**FACTS.pools, **slots}))
    return [(finding.severity, finding.cause) for finding in airflow if finding.check == "airflow.pools"]


def test_pool_without_a_limit_is_right_and_one_without_slots_is_not() -> None:
    """Airflow takes -1 for as many as there are."""
    [(severity, cause)] = judge_pools(tidegate_lake=-1)
    assert (severity, cause) == (Severity.OK, "pools=2 slots=unlimited parallelism=32")
    [(severity, cause), _] = judge_pools(tidegate_pond=0)
    assert (severity, cause) == (Severity.ERROR, "pool=tidegate_pond slots=0: its flushes would wait for ever")
