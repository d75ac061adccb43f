"""Two pools per catalog, made when Airflow starts, and when a run starts behind a change of `catalogs.yaml`."""

import logging
import threading
from contextlib import suppress
from typing import Any

from airflow.listeners import hookimpl

from tidegate_airflow.dag_ids import DAG_ID_PREFIX

log = logging.getLogger(__name__)
POOL_SLOTS = 4  # merges into a catalog at a time, or stagings; change it in the UI, it is never overwritten
_made_for: list[object] = []  # how `catalogs.yaml` stood when this process last made the pools


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
    if dag_run.dag_id.startswith(DAG_ID_PREFIX) and _made_for != [_read_stamp()]:
        # the scheduler, which calls, has not committed yet, and on SQLite nobody else writes until then
        threading.Thread(target=make_pools, daemon=True, name="tidegate-pools").start()


def make_pools() -> None:
    """Make the pools that are missing. A failure is logged; the next run tries again."""
    from tidegate.config.catalogs_file import read_catalogs
    from tidegate.errors import ConfigurationError
    from tidegate.settings import find_include_folder

    stamp = _read_stamp()
    try:
        for catalog in read_catalogs(find_include_folder()):
            _make_pool(f"tidegate_{catalog}", f"Flushes into {catalog}")
            _make_pool(f"tidegate_{catalog}_stage", f"Staging for {catalog} beside the merges")
        _made_for[:] = [stamp]
    except ConfigurationError as problem:
        log.warning("no pools are made: %s; correct catalogs.yaml, and the next run that starts makes them", problem)
    except Exception:
        log.exception("the pools of the catalogs are not made; the next run of a pipeline that starts tries again")


def _make_pool(name: str, description: str) -> None:
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy.exc import IntegrityError

    # another service made it at the same moment; a session of its own: that of the thread is in use
    with suppress(IntegrityError), create_session(scoped=False) as session:
        if session.query(Pool).filter(Pool.pool == name).first() is None:
            session.add(Pool(pool=name, slots=POOL_SLOTS, description=description, include_deferred=False))
            log.info("pool created: pool=%s slots=%s", name, POOL_SLOTS)


def _read_stamp() -> object:
    from tidegate.settings import find_include_folder

    try:
        status = (find_include_folder() / "catalogs.yaml").stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
