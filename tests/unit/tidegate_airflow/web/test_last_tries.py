"""What failed stays on the page until a run has tried again: runs that try nothing end well over it."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow_users import run_auth_manager

AT = datetime(2026, 1, 1, tzinfo=UTC)
DRY = {"dry_run": True}
# the DAG -> its runs in their order, as (run type, state, conf)
RUNS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "tidegate_dry": [("scheduled", "failed", {}), ("manual", "success", DRY), ("manual", "success", DRY)],
    "tidegate_past": [("scheduled", "failed", {}), ("backfill", "success", {}), ("backfill", "success", {})],
    "tidegate_both": [("manual", "failed", {}), ("backfill", "success", {}), ("manual", "success", DRY)],
    "tidegate_well": [("scheduled", "failed", {}), ("manual", "success", {}), ("manual", "success", DRY)],
    "tidegate_refused": [("scheduled", "success", {}), ("manual", "failed", DRY)],
    "tidegate_never": [("manual", "success", DRY)],
}


@pytest.fixture(scope="module")
def statuses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the page reads of each DAG."""
    with run_auth_manager(tmp_path_factory.mktemp("airflow"), *RUNS):
        from airflow.models.dagrun import DagRun
        from airflow.utils.session import create_session
        from tidegate_airflow.web.airflow_runs import read_dag_statuses

        with create_session() as session:
            for dag, runs in RUNS.items():
                for number, (kind, state, conf) in enumerate(runs):
                    fixed = {"run_id": f"r{number}", "run_after": AT, "start_date": AT}
                    session.add(DagRun(dag_id=dag, run_type=kind, state=state, conf=conf, **fixed))
        yield read_dag_statuses(list(RUNS))


@pytest.mark.parametrize(
    ("dag", "failed"),
    [
        ("tidegate_dry", "run r0 failed"),
        ("tidegate_past", "run r0 failed"),
        ("tidegate_both", "run r0 failed"),
        ("tidegate_well", None),
        ("tidegate_refused", "run r1 failed"),
        ("tidegate_never", None),
    ],
)
def test_failure_is_shown_until_a_run_has_tried_again(statuses: dict[str, Any], dag: str, failed: str | None) -> None:
    assert statuses[dag].failed == failed
    assert statuses[dag].last["run_id"] == f"r{len(RUNS[dag]) - 1}", "the newest run is what it is"
