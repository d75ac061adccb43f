"""One pool per catalog, made when the scheduler starts."""

import logging
from typing import Any

from airflow.listeners import hookimpl

log = logging.getLogger(__name__)
SLOTS = 4  # merges into one catalog at a time; change it in the UI, it is never overwritten


@hookimpl
def on_starting(component: Any) -> None:
    """Make the pools that are missing. A task in a pool that does not exist would wait for ever."""
    if type(component).__name__ != "SchedulerJobRunner":
        return
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from tidegate.adapters.catalogs_file import read_catalogs
    from tidegate.settings import include_folder

    with create_session() as session:
        existing = {name for (name,) in session.query(Pool.pool)}
        for catalog in read_catalogs(include_folder()):
            name = f"tidegate_{catalog}"
            if name not in existing:
                session.add(Pool(pool=name, slots=SLOTS, description=f"Flushes into {catalog}", include_deferred=False))
                log.info("pool created: pool=%s slots=%s", name, SLOTS)
