"""Missed calls of a DAG that is gone are deleted, and no others: a DAG of another bundle keeps its own."""

import warnings
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import create_engine
from sqlalchemy.orm import Session

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Airflow's own, while it is imported
    from airflow.models import dagbundle  # noqa: F401 (a table that the DAGs refer to)
    from airflow.models.dag import DagModel
    from airflow.models.variable import Variable
    from tidegate_airflow.failures.notifiers import DESCRIPTION
    from tidegate_airflow.listeners import remove_missed_calls

NOW = datetime(2026, 11, 27, tzinfo=UTC)


@pytest.fixture
def session() -> Session:
    """Airflow's tables of variables and DAGs."""
    engine = create_engine("sqlite://")
    for model in (Variable, DagModel):
        model.__table__.create(engine)
    return Session(engine)


def add_dag(session: Session, dag_id: str, bundle: str, *, is_stale: bool = False, age_days: int = 0) -> None:
    parsed = NOW - timedelta(days=age_days)
    session.add(DagModel(dag_id=dag_id, bundle_name=bundle, is_stale=is_stale, last_parsed_time=parsed))


def test_missed_calls_go_with_their_dag_from_whatever_bundle_it_came(session: Session) -> None:
    add_dag(session, "tidegate_shop", "dags-folder")
    add_dag(session, "tidegate_fleet_stores", "other-bundle")
    add_dag(session, "tidegate_elsewhere", "other-bundle")
    add_dag(session, "tidegate_unread", "other-bundle", is_stale=True, age_days=6)
    add_dag(session, "tidegate_removed", "dags-folder", is_stale=True, age_days=8)
    add_dag(session, "tidegate_fleet_removed", "other-bundle", is_stale=True, age_days=400)
    names = ("shop", "fleet_stores", "elsewhere", "unread", "removed", "fleet_removed", "deleted")
    for name in names:
        session.add(Variable(key=f"tidegate_{name}_missed_calls", val="{}", description=DESCRIPTION))
    others = {"tidegate_mine_missed_calls": "a note of mine", "tidegatexshop_missed_calls": DESCRIPTION}
    for key, description in others.items():
        session.add(Variable(key=key, val="{}", description=description))
    session.flush()
    removed = ["tidegate_deleted_missed_calls", "tidegate_fleet_removed_missed_calls", "tidegate_removed_missed_calls"]
    assert remove_missed_calls(session, NOW) == removed
    kept = {f"tidegate_{name}_missed_calls" for name in names} - set(removed) | set(others)
    assert {key for (key,) in session.query(Variable.key)} == kept
    assert remove_missed_calls(session, NOW) == []
