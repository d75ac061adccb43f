"""upgrade_format: raise tables to Iceberg's format 3, after showing which engines read it."""

from functools import partial

from tidegate.errors import ConfigurationError, GiveUp, NothingToDo
from tidegate.merge.attempt import retry_commits
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ActionPart, ProposedAction
from tidegate.spec.readers import READERS, describe_readers
from tidegate.table.history import add_action
from tidegate.table.session import TableSession, select_tables

ACTION = "upgrade-format"
NEW_FORMAT = 3
OLDEST_FORMAT = 1  # its metadata lacks what the other formats have


def propose_upgrade(session: Session, table: str | None = None) -> ProposedAction:
    """Raise every Iceberg table of an older format, or the one named.

    `ConfigurationError` if `readers` names an engine that does not read the new one, `NothingToDo` without a table,
    `GiveUp` for a table of format 1.
    """
    older_tables = _list_older_tables(session, table)
    versions = {older.name: older.require_state().format_version for older in older_tables}
    lines = [f"{name}: format {version} -> {NEW_FORMAT}" for name, version in versions.items()]
    return ProposedAction(
        preview="\n".join([*lines, describe_readers(NEW_FORMAT), "a table cannot go back to format 2"]),
        subject={"pipeline": session.pipeline.name, "format_version": NEW_FORMAT},
        parts=tuple(
            ActionPart(
                table=older.name,
                facts={"before": versions[older.name], "uuid": older.require_state().uuid},
                perform=partial(_upgrade_table, older),
            )
            for older in older_tables
        ),
        question="Upgrade?",
        success_message=f"the tables have format {NEW_FORMAT} now",
    )


def _list_older_tables(session: Session, name: str | None) -> list[TableSession]:
    place = f"pipeline={session.pipeline.name}"
    for reader in session.pipeline.readers:
        if READERS[reader].newest_format < NEW_FORMAT:
            raise ConfigurationError(
                f"{place}: readers names {reader}, which {READERS[reader].words}; nothing was changed; take it out of "
                "readers if nobody reads the tables with it"
            )
    older_tables = []
    for table in (TableSession(session, spec).refresh() for spec in select_tables(session, name)):
        version = table.state.format_version if table.state else None
        if version == OLDEST_FORMAT:
            raise GiveUp(
                f"{place} table={table.name} format-version={OLDEST_FORMAT}: only Spark raises this format; nothing "
                f"was changed; run ALTER TABLE {table.name} SET TBLPROPERTIES ('format-version' = '2'), then try again"
            )
        if version is not None and version < NEW_FORMAT:
            older_tables.append(table)
    if not older_tables:
        raise NothingToDo(f"{place}: no table of Iceberg has an older format than {NEW_FORMAT}")
    return older_tables


def _upgrade_table(shown: TableSession, by: str) -> None:
    """Upgrade it, and note `by` whom in the same commit. A repeat call changes the note alone."""
    before = shown.require_state()

    def try_upgrade() -> None:
        table_now = shown.refresh()
        if table_now.state is None or table_now.state.uuid != before.uuid:
            raise GiveUp(
                f"{shown.prefix}: the table is another one than was shown; nothing was changed; run the command again"
            )
        note = add_action(table_now, ACTION, by, f"format {before.format_version} to {NEW_FORMAT}")
        shown.session.commits.upgrade_format(shown.name, before.uuid, note)

    retry_commits(shown.session, shown.prefix, try_upgrade)
