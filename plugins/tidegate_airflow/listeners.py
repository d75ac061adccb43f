"""What Tidegate does when Airflow starts, and when its runs begin and end.

Two pools per catalog are made at a start, and when a run starts behind a change of `catalogs.yaml`. What failed runs of
a removed DAG leave in Airflow's variables goes here, as no later run reads or deletes it.
"""

import logging
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.listeners import hookimpl
from tidegate.errors import ConfigurationError
from tidegate.settings import find_include_folder, read_file_stamp

from tidegate_airflow.dag_ids import DAG_ID_PREFIX

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

log = logging.getLogger(__name__)
POOL_SLOTS = 4  # merges into a catalog at a time, or stagings; change it in the UI, it is never overwritten
_made_for: list[object] = []  # how `catalogs.yaml` stood when this process last made the pools
LOOK_SECONDS = 86400
# a bundle may be unreadable for a while, and its DAGs come back with the calls that they have missed
REMOVED_AFTER = timedelta(days=7)
_last_looks: list[float] = []  # of this process, by the monotonic clock


@hookimpl
def on_starting(component: Any) -> None:
    """Make the pools that are missing. A task in a pool that does not exist would wait for ever.

    Called by scheduler, triggerer and DAG processor; whichever comes first makes them.
    """
    if type(component).__name__ == "Job":
        make_pools()


@hookimpl
def on_dag_run_running(dag_run: Any) -> None:
    """Make the pools of catalogs that came, or became valid, since Airflow started."""
    catalogs_file = find_include_folder() / "catalogs.yaml"
    if dag_run.dag_id.startswith(DAG_ID_PREFIX) and _made_for != [read_file_stamp(catalogs_file)]:
        # the scheduler, which calls, has not committed yet, and on SQLite nobody else writes until then
        threading.Thread(target=make_pools, daemon=True, name="tidegate-pools").start()


def make_pools() -> None:
    """Make the pools that are missing. A failure is logged; the next run tries again."""
    from tidegate.config.catalogs_file import read_catalogs

    include = find_include_folder()
    stamp = read_file_stamp(include / "catalogs.yaml")
    try:
        for catalog in read_catalogs(include):
            _make_pool(f"tidegate_{catalog}", f"Flushes into {catalog}")
            _make_pool(f"tidegate_{catalog}_stage", f"Staging for {catalog} beside the merges")
            _make_pool(f"tidegate_{catalog}_verify", f"Verifications of {catalog}, one at a time", slots=1)
        _made_for[:] = [stamp]
    except ConfigurationError as problem:
        log.warning("no pools are made: %s; correct catalogs.yaml, and the next run that starts makes them", problem)
    except Exception:
        log.exception("the pools of the catalogs are not made; the next run of a pipeline that starts tries again")


def _make_pool(name: str, description: str, slots: int = POOL_SLOTS) -> None:
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy.exc import IntegrityError

    # another service made it at the same moment; a session of its own: that of the thread is in use
    with suppress(IntegrityError), create_session(scoped=False) as session:
        if session.query(Pool).filter(Pool.pool == name).first() is None:
            session.add(Pool(pool=name, slots=slots, description=description, include_deferred=False))
            log.info("pool created: pool=%s slots=%s", name, slots)


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
