"""The action skip: the record is shown, and set aside by the next batch."""

from functools import partial

from tidegate.actions.proposed_action import ActionPart, ProposedAction
from tidegate.actions.record_text import (
    describe_record,
    format_record,
    format_verdict,
    outline_record,
    outline_verdict,
)
from tidegate.ports.context import Ports
from tidegate.reprocess.record import RecordAddress, read_record
from tidegate.reprocess.skip import propose_skips, skip_record

EFFECT = "the next batch sets this record aside as a dead letter, and no other bad one; it can be replayed later"


def propose_skip(ports: Ports, at: RecordAddress, table: str | None = None) -> ProposedAction:
    """Set exactly this record aside, for each table for which it is bad or the one named."""
    record = read_record(ports, at)
    proposals = propose_skips(ports, at, table)
    verdicts = [skip.verdict for skip in proposals]
    address = f"{at.topic}:{at.partition}:{at.offset}"
    where_to_look = f"the record itself is shown by: tidegate record {ports.pipeline.name} --at {address}"
    return ProposedAction(
        preview="\n".join([outline_record(record), *map(outline_verdict, verdicts), where_to_look, EFFECT]),
        full_preview="\n".join([format_record(record), *map(format_verdict, verdicts), EFFECT]),
        subject={"pipeline": ports.pipeline.name, **describe_record(record)},
        parts=tuple(
            ActionPart(skip.verdict.table, skip.verdict.to_dict(), partial(skip_record, ports, [skip]))
            for skip in proposals
        ),
        question="Set it aside?",
        success_message="the next batch sets it aside",
    )
