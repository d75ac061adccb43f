"""The action repair: what a verification has found is shown, then written as the log says."""

from collections.abc import Sequence
from functools import partial

from tidegate.model.counts import format_count
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ActionPart, ProposedAction
from tidegate.reprocess.verify import Verification, refuse_repair, repair_table


def propose_repair(session: Session, verifications: Sequence[Verification]) -> ProposedAction:
    """Repair the tables that these verifications of all their keys have found to differ; `GiveUp` for history."""
    for verification in verifications:
        refuse_repair(session, verification.table)
    return ProposedAction(
        preview="\n".join(map(_format_repair, verifications)),
        subject={"pipeline": session.pipeline.name},
        parts=tuple(
            ActionPart(
                table=verification.table,
                facts=verification.to_dict(),
                perform=partial(repair_table, session, verification),
            )
            for verification in verifications
        ),
        question="Write these rows?",
        success_message="they were written; every key that the log tells of is equal now",
    )


def _format_repair(verification: Verification) -> str:
    return (
        f"{verification.table}: {format_count(verification.missing, 'row')} would be inserted, "
        f"{verification.different} changed and {verification.surplus} deleted"
    )
