"""The action upgrade-format: shows which engines read the new format, then upgrades tables; there is no way back."""

from functools import partial

from tidegate.actions.proposed_action import ActionPart, ProposedAction
from tidegate.ports.session import Session
from tidegate.reprocess.upgrade import NEW_FORMAT, propose_upgrades, upgrade_table
from tidegate.spec.readers import describe_readers


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
