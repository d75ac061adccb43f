"""What failed runs of a removed DAG leave in Airflow's variables: no later run reads or deletes it, so it goes here."""

import logging
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl

from tidegate_airflow.dag_ids import DAG_ID_PREFIX

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

log = logging.getLogger(__name__)
LOOK_SECONDS = 86400
# a bundle may be unreadable for a while, and its DAGs come back with the calls that they have missed
REMOVED_AFTER = timedelta(days=7)
_last_looks: list[float] = []  # of this process, by the monotonic clock


@hookimpl
def on_dag_run_success(dag_run: Any) -> None:
    """Once a day remove the variables of DAGs that are gone.

    In a thread of its own: the scheduler, which calls, has changed its database and not committed yet.
    """
    now = time.monotonic()
    if dag_run.dag_id.startswith(DAG_ID_PREFIX) and not (_last_looks and now - _last_looks[0] < LOOK_SECONDS):
        _last_looks[:] = [now]
        threading.Thread(target=_look, daemon=True, name="tidegate-variables").start()


def _look() -> None:
    from airflow.utils.session import create_session

    try:
        with create_session(scoped=False) as session:
            remove_missed_calls(session, datetime.now(UTC))
    except Exception:
        log.exception("the variables of removed DAGs are not deleted; it is tried again tomorrow")


def remove_missed_calls(session: "Session", now: datetime) -> list[str]:
    """Delete the missed calls of each DAG that Airflow no longer has; return the variables' names.

    A DAG is gone if it was deleted, or if no file has had it for seven days. Variables of others stay.
    """
    from airflow.models.dag import DagModel
    from airflow.models.variable import Variable

    from tidegate_airflow.failures.notifiers import DESCRIPTION, VARIABLE_SUFFIX

    found = session.query(Variable).filter(
        Variable.key.startswith(DAG_ID_PREFIX, autoescape=True),
        Variable.key.endswith(VARIABLE_SUFFIX, autoescape=True),
        Variable.description == DESCRIPTION,
    )
    by_dag = {variable.key.removesuffix(VARIABLE_SUFFIX): variable for variable in found}
    rows = session.query(DagModel.dag_id, DagModel.is_stale, DagModel.last_parsed_time).filter(
        DagModel.dag_id.in_(by_dag)
    )
    kept = {
        dag_id for dag_id, is_stale, parsed in rows if not is_stale or parsed is None or now - parsed < REMOVED_AFTER
    }
    removed = [by_dag[dag_id] for dag_id in sorted(by_dag) if dag_id not in kept]
    for variable in removed:
        log.info("variable=%s is deleted: its DAG is gone", variable.key)
        session.delete(variable)
    return [variable.key for variable in removed]
