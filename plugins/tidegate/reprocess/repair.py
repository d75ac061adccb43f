"""repair: what a verification has found is shown, then written as the log says."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from tidegate.errors import CommitRefused, GiveUp, RetryLater
from tidegate.merge.attempt import begin_attempt_beside, publish_attempt
from tidegate.merge.audits import BatchAudits, ask_audits, is_query
from tidegate.model import resource_names
from tidegate.model.batch import StagedBatch
from tidegate.model.counts import format_count
from tidegate.model.table_state import Head
from tidegate.ports.session import Session
from tidegate.reprocess.proposed_action import ActionPart, ProposedAction
from tidegate.reprocess.verify import (
    UTC_CONF,
    WHOLE,
    LogComparison,
    Verification,
    compare,
    count_differences,
    keep_verification,
    read_log_again,
)
from tidegate.table.history import add_action
from tidegate.table.session import TableSession, select_tables


def repair_table(session: Session, shown: Verification, by: str) -> None:
    """Write the keys that `verify_table` has shown to differ as the log says, and verify the table again.

    `RetryLater` if the table has changed since; `GiveUp` if its rows cannot be written so.
    """
    with read_log_again(session, shown.table, WHOLE) as (work, staged, tail):
        found, values = compare(work, staged, tail)
        if found.differences != shown.differences or count_differences(found) != count_differences(shown):
            raise RetryLater(f"{work.prefix}: the table has changed since its differences were shown; verify it again")
        head = _publish_repair(work, staged, found, values, by)
        table = work.table.refresh()
        # later snapshots hold rows of later records
        own_state = replace(table.require_state(), snapshot_id=head.snapshot_id)
        repaired = replace(work, table=replace(table, state=own_state))
        verification, _ = compare(repaired, staged, tail)
    keep_verification(repaired, verification)
    if verification.wrong:
        raise GiveUp(
            f"{work.prefix}: keys={verification.wrong} still differ from the log after the repair: the table stores "
            "other values than it wrote; see them with: "
            f"tidegate verify {work.table.arguments}"
        )


def _publish_repair(
    work: LogComparison, staged: StagedBatch, found: Verification, values: Mapping[str, Any], by: str
) -> Head:
    table = work.table
    written = [name for name in values["written"] if name not in values["columns"]]
    if written:
        raise GiveUp(
            f"{work.prefix}: verify does not compare columns={', '.join(written)}, so a repair would not know their "
            "values; correct the rows by hand"
        )
    if found.copied:
        raise GiveUp(
            f"{work.prefix}: keys={found.copied} have several rows, and nothing tells which of them to keep; delete "
            "the copies by hand, then repair the rest"
        )

    def check_unchanged(table_now: TableSession) -> None:
        state = table_now.require_state()
        before = table.require_state()
        if (state.uuid, state.snapshot_id) != (before.uuid, before.snapshot_id):
            raise RetryLater(
                f"{work.prefix}: the table has changed during the repair; nothing was written; run it again"
            )

    attempt = begin_attempt_beside(table, 1, check_unchanged, work.prefix, resource_names.VERIFY_ID)
    details = ", ".join(f"{kind}={count}" for kind, count in count_differences(found).items())
    values = {**values, "branch": f"branch_{attempt.branch}"}
    attempt = replace(
        attempt,
        properties=add_action(table, "repair", by, details),
        audits=_prepare_audits(work, staged, values, attempt.id),
        conf=UTC_CONF,
    )
    try:
        return publish_attempt(attempt, table.sql.render("verify_repair", **values))
    except CommitRefused as refusal:
        raise RetryLater(f"{refusal}; nothing was written; verify it again") from refusal


def _prepare_audits(
    work: LogComparison, staged: StagedBatch, values: Mapping[str, Any], attempt: str
) -> BatchAudits | None:
    sql = work.table.sql
    questions = [
        sql.render("audit_query", query=audit, target=values["target"], branch=values["branch"])
        if is_query(audit)
        else sql.render("verify_audit", condition=audit, **values)
        for audit in work.table.spec.audits
    ]
    if not questions:
        return None
    advice = "nothing was written; correct the audit in the pipeline file, or the rows by hand"
    return ask_audits(work.table, questions, work.intermediate, staged.attempt, attempt=attempt, advice=advice)


# ---- the action: shown first, then done


def propose_repair(session: Session, verifications: Sequence[Verification]) -> ProposedAction:
    """Repair the tables that these verifications of all their keys have found to differ; `GiveUp` for history."""
    for verification in verifications:
        (spec,) = select_tables(session, verification.table)
        if spec.history is not None:
            raise GiveUp(
                f"pipeline={session.pipeline.name} table={spec.name}: a repair does not know tables with history, "
                "where the rows of a key depend on each other; correct these versions by hand, and name the other "
                "tables with --table"
            )
    return ProposedAction(
        preview="\n".join(
            f"{it.table}: {format_count(it.missing, 'row')} would be inserted, {it.different} changed and {it.surplus} "
            "deleted"
            for it in verifications
        ),
        subject={"pipeline": session.pipeline.name},
        parts=tuple(ActionPart(it.table, it.to_dict(), partial(repair_table, session, it)) for it in verifications),
        question="Write these rows?",
        success_message="they were written; every key that the log tells of is equal now",
    )
