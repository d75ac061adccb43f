"""Dead letters whose replay a rollback has undone: they count as replayed, and their rows are gone from the table."""

import logging

from tidegate.jobs.merge_job import MergeJob
from tidegate.model import resource_names
from tidegate.model.ownership import describe_dead_letters
from tidegate.model.table_state import WaitingLetter
from tidegate.ports.context import Ports

log = logging.getLogger(__name__)


def find_undone_replays(ports: Ports, table: str) -> frozenset[str]:
    """The staged attempts whose rows a replay has published and a rollback has taken, as far as snapshots tell."""
    return ports.commits.list_rolled_back(table, resource_names.REPLAY_PROPERTY)


def list_undone_letters(ports: Ports, table: str) -> list[WaitingLetter]:
    """Where the dead letters of `table` lie that such an attempt has brought in.

    A replay that is about to publish looks like an undone one, and marks its letters a moment later. So the table is
    looked at once more behind the marks: an attempt that has marked letters has been published before.
    """
    attempts = find_undone_replays(ports, table)
    name = resource_names.name_dead_letter_table(ports.pipeline)
    letters = ports.dead_letters.list_replayed_letters(name, table, attempts) if attempts else []
    still_undone = find_undone_replays(ports, table) if letters else frozenset()
    return [letter for letter in letters if letter.replayed_by in still_undone]


def reopen_letters(ports: Ports, table: str) -> int:
    """Let these letters wait again; returns how many there are. A repeat call finds none."""
    letters = list_undone_letters(ports, table)
    if letters:
        attempts = sorted({letter.replayed_by for letter in letters if letter.replayed_by})
        name = resource_names.name_dead_letter_table(ports.pipeline)
        ports.tables.claim(name, describe_dead_letters(ports.pipeline))
        statement = ports.get_sql(name).render("reopen_dead_letters", table=name, target=table, attempts=attempts)
        ports.engine.run(MergeJob(ports.pipeline.name, 0, (statement,), table=name))
        where = f"pipeline={ports.pipeline.name} table={table}"
        log.info(
            "%s: dead letters=%s wait again: the table was rolled back to before their replay", where, len(letters)
        )
    return len(letters)
