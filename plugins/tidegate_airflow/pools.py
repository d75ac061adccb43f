"""One pool per catalog, made when Airflow starts."""

import logging
from contextlib import suppress
from typing import Any

from airflow.listeners import hookimpl

log = logging.getLogger(__name__)
POOL_SLOTS = 4  # merges into one catalog at a time; change it in the UI, it is never overwritten


@hookimpl
def on_starting(component: Any) -> None:
    """Make the pools that are missing. A task in a pool that does not exist would wait for ever.

    Called by the scheduler, the triggerer and the DAG processor, which cannot be told apart this early; whichever comes
    first makes them.
    """
    if type(component).__name__ != "Job":
        return
    from airflow.models.pool import Pool
    from airflow.utils.session import create_session
    from sqlalchemy.exc import IntegrityError
    from tidegate.config.catalogs_file import read_catalogs
    from tidegate.settings import find_include_folder

    for catalog in read_catalogs(find_include_folder()):
        name = f"tidegate_{catalog}"
        with suppress(IntegrityError), create_session() as session:  # another service made it at the same moment
            if session.query(Pool).filter(Pool.pool == name).first() is None:
                session.add(
                    Pool(pool=name, slots=POOL_SLOTS, description=f"Flushes into {catalog}", include_deferred=False)
                )
                log.info("pool created: pool=%s slots=%s", name, POOL_SLOTS)
