"""Scratch tables: what is staged only to be looked at, and never merged; one of a kind for each table.

Whoever makes one drops it. What a killed process has left, the next one of the kind drops, or clean_up after a day.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum

from tidegate.model import resource_names
from tidegate.model.ownership import describe_intermediate
from tidegate.ports.session import Session
from tidegate.spec.table import Table

UNUSED_SECONDS = 24 * 3600  # longer than any job that fills one: it changes when the job begins, and when it ends


class ScratchKind(StrEnum):
    """What a scratch table is for; the word stands in its name where a backfill has its id."""

    VERIFY = resource_names.VERIFY_ID
    EXPLAIN = "explain"
    RECORD = "record"


def name_scratch_table(session: Session, table: Table, kind: ScratchKind) -> str:
    return resource_names.name_backfill_table(session.pipeline, table, kind)


@contextmanager
def open_scratch_table(session: Session, table: Table, kind: ScratchKind) -> Iterator[str]:
    """Yield the name of the scratch table, and drop it in the end. `GiveUp` if it is somebody else's."""
    name = name_scratch_table(session, table, kind)
    session.tables.claim(name, describe_intermediate(session.pipeline, table))
    try:
        yield name
    finally:
        session.staging.drop(name)


def drop_unused_scratch_tables(session: Session, table: Table) -> int:
    """Drop what killed processes have left; return how many tables that were."""
    names = {name_scratch_table(session, table, kind) for kind in ScratchKind}
    namespace = table.name.rpartition(".")[0]
    known = {f"{namespace}.{name}".casefold() for name in session.tables.list_tables(namespace)}
    before_ms = session.now_ms() - UNUSED_SECONDS * 1000
    left = sorted(name for name in names if name.casefold() in known)
    return sum(session.staging.drop_unused(name, before_ms) for name in left)
