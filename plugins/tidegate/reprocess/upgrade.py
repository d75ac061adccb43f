"""upgrade_format: raise tables to Iceberg's format 3, after showing which engines read it."""

from dataclasses import dataclass
from functools import partial

from tidegate.errors import ConfigurationError, GiveUp, NothingToDo
from tidegate.merge.attempt import retry_commits
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ActionPart, ProposedAction
from tidegate.spec.readers import READERS, describe_readers
from tidegate.spec.table import Table
from tidegate.table.history import add_action
from tidegate.table.session import TableSession, select_tables

ACTION = "upgrade-format"
NEW_FORMAT = 3
OLDEST_FORMAT = 1  # its metadata lacks what the other formats have


@dataclass(frozen=True)
class ProposedUpgrade:
    """One table of an older format."""

    table: Table
    uuid: str
    format_version: int


def propose_upgrades(session: Session, name: str | None) -> list[ProposedUpgrade]:
    """Return the tables, or the one named, that have an older format; changes nothing.

    `ConfigurationError` if `readers` names an engine that does not read the new one, `NothingToDo` without a table,
    `GiveUp` for a table of format 1.
    """
    place = f"pipeline={session.pipeline.name}"
    for reader in session.pipeline.readers:
        if READERS[reader].newest_format < NEW_FORMAT:
            raise ConfigurationError(
                f"{place}: readers names {reader}, which {READERS[reader].words}; nothing was changed; take it out of "
                "readers if nobody reads the tables with it"
            )
    upgrades = []
    for spec in select_tables(session, name):
        state = session.tables.read_state(spec.name, session.pipeline.name)
        if state is not None and state.format_version == OLDEST_FORMAT:
            raise GiveUp(
                f"{place} table={spec.name} format-version={OLDEST_FORMAT}: only Spark raises this format; nothing was "
                f"changed; run ALTER TABLE {spec.name} SET TBLPROPERTIES ('format-version' = '2'), then try again"
            )
        if state is not None and state.format_version is not None and state.format_version < NEW_FORMAT:
            upgrades.append(ProposedUpgrade(spec, state.uuid, state.format_version))
    if not upgrades:
        raise NothingToDo(f"{place}: no table of Iceberg has an older format than {NEW_FORMAT}")
    return upgrades


def upgrade_table(session: Session, upgrade: ProposedUpgrade, by: str) -> None:
    """Upgrade it, and note `by` whom in the same commit. A repeat call changes the note alone."""
    table = TableSession(session, upgrade.table)

    def try_upgrade() -> None:
        table_now = table.refresh()
        if table_now.state is None or table_now.state.uuid != upgrade.uuid:
            raise GiveUp(
                f"{table.prefix}: the table is another one than was shown; nothing was changed; run the command again"
            )
        note = add_action(table_now, ACTION, by, f"format {upgrade.format_version} to {NEW_FORMAT}")
        session.commits.upgrade_format(table.name, upgrade.uuid, note)

    retry_commits(session, table.prefix, try_upgrade)


# ---- the action: shown first, then done


def propose_upgrade(session: Session, table: str | None = None) -> ProposedAction:
    """Raise every Iceberg table of an older format, or the one named."""
    proposed = propose_upgrades(session, table)
    lines = [f"{upgrade.table.name}: format {upgrade.format_version} -> {NEW_FORMAT}" for upgrade in proposed]
    return ProposedAction(
        preview="\n".join([*lines, describe_readers(NEW_FORMAT), "a table cannot go back to format 2"]),
        subject={"pipeline": session.pipeline.name, "format_version": NEW_FORMAT},
        parts=tuple(
            ActionPart(
                table=upgrade.table.name,
                facts={"table": upgrade.table.name, "before": upgrade.format_version, "uuid": upgrade.uuid},
                perform=partial(upgrade_table, session, upgrade),
            )
            for upgrade in proposed
        ),
        question="Upgrade?",
        success_message=f"the tables have format {NEW_FORMAT} now",
    )
