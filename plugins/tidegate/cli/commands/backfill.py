"""``tidegate backfill``: show what would be applied again, apply it, or give an open backfill up."""

import argparse

from tidegate.cli import output
from tidegate.cli.session import open_named_pipeline
from tidegate.model.backfill import AppliedSlice
from tidegate.reprocess.backfill import abandon_backfill, apply_backfill
from tidegate.reprocess.backfill_plan import ProposedBackfill, parse_request, propose_backfill


def run_backfill(args: argparse.Namespace) -> int:
    if (args.from_time is None) != (args.to_time is None):
        args.usage_error("--from and --to belong together")
    if args.abandon and (args.dry_run or args.table):
        args.usage_error("--abandon gives the whole backfill up; --dry-run and --table say nothing of that")
    session = open_named_pipeline(args)
    if args.abandon:
        dropped_tables = abandon_backfill(session, args.abandon)
        output.print_result(
            args,
            f"given up: dropped {', '.join(dropped_tables)}",
            {"backfill": args.abandon, "dropped": dropped_tables},
        )
        return 0
    proposal = propose_backfill(session, parse_request(args.range, args.from_time, args.to_time, tuple(args.table)))
    if args.dry_run or not args.json:
        output.print_result(args, format_proposal(proposal, args.dry_run), proposal.to_dict())
    if not args.dry_run:

        def report(result: AppliedSlice) -> None:
            output.print_result(args, format_applied_slice(result), result.to_dict())

        apply_backfill(session, proposal.backfill, report)
    return 0


def format_proposal(proposal: ProposedBackfill, is_dry: bool) -> str:
    """Table by table: batches, records at most, later offsets to read, and each partition's range."""
    real, dry = ("goes on with", "would go on with") if proposal.is_resumed else ("applies", "would apply")
    begin = dry if is_dry else real
    lines = [f"backfill={proposal.backfill.id} {begin}:"]
    for table in proposal.to_dict()["tables"]:
        counts = f"records<={table['records']} batches={table['batches']} later offsets to read={table['later']}"
        lines.append(f"{table['table']}: {counts}")
        lines += [
            f"  {p.topic} {p.partition}: [{p.start}, {p.end})" for p in proposal.parts if p.table == table["table"]
        ]
    lines += ["nothing was written"] if is_dry else []
    return "\n".join(lines)


def format_applied_slice(result: AppliedSlice) -> str:
    rows = f"staged={result.staged} inserted={result.inserted} updated={result.updated} deleted={result.deleted}"
    place = f"{result.table}: backfill={result.backfill} slice={result.slice}/{result.slices}"
    return f"{place} {result.outcome}: {rows} seconds={result.seconds}"
