"""What the command line prints for people."""

import argparse
import json
from typing import Any

from tidegate.model.batch import Plan, PublishedBatch
from tidegate.reprocess.rebase import PartitionMove


def print_result(words: argparse.Namespace, text: str, data: dict[str, Any]) -> None:
    """One result: a line for people, or a line of JSON."""
    print(json.dumps(data) if getattr(words, "json", False) else text, flush=True)


def format_published(batch: PublishedBatch) -> str:
    """One published batch."""
    rows = f"staged={batch.staged} inserted={batch.inserted} updated={batch.updated} deleted={batch.deleted}"
    billed = "" if batch.bytes_billed is None else f" bytes_billed={batch.bytes_billed}"
    how = f" written_as={batch.written_as}" if batch.written_as else ""
    return f"{batch.table}: batch={batch.batch} {batch.outcome}: {rows} seconds={batch.seconds}{how}{billed}"


def format_plan(plan: Plan) -> str:
    """The next batch of each table."""
    lines = []
    for table in plan.tables:
        what = "resumes" if table.resumed else "reads"
        which = ", the last record of each key" if table.last_per_key else ""
        share = table.superseded_share
        many = "" if share is None else f", about {share:.0%} of the records superseded"
        lines.append(f"{table.table}: batch={table.batch} {what} {table.ranges.span} offsets{which}{many}")
        lines += [f"  {t} {p}: [{start}, {end})" for t, p, start, end in table.ranges if end > start]
    lines += [f"a batch takes less than it may: {plan.sized}"] if plan.sized else []
    lines += [f"{refusal.table}: refused: {refusal.message}" for refusal in plan.refused]
    return "\n".join(lines)


def format_moves(moves: list[PartitionMove]) -> str:
    """What a rebase does to each partition."""
    lines = []
    for move in moves:
        effect = f"skips {move.skipped}" if move.skipped else f"reads again {move.read_again}"
        before = "none" if move.before is None else move.before
        lines.append(f"{move.table}  {move.topic} {move.partition}: {before} -> {move.after}, {effect} offsets")
    return "\n".join(lines)


def format_maintenance(done: dict[str, Any]) -> str:
    """One maintained table."""
    counts = " ".join(f"{name}={number}->{done['after'][name]}" for name, number in done["before"].items())
    what = "compacted" if done["compacted"] else "not compacted"
    return f"{done['table']}: {what}: {counts} orphans_removed={done['orphans_removed']}"


def format_status(status: dict[str, Any]) -> str:
    """One pipeline."""
    if "error" in status:
        return f"{status['pipeline']}: {status['error']}"
    lines = [f"{status['pipeline']}: lag={status['lag']} freshness={status['freshness'] or 'unknown'}"]
    lines += [f"  {t['table']}: batch={t['batch']} rows={t['rows']} lag={t['lag']}" for t in status["tables"]]
    lines += [f"    {t['problem']}" for t in status["tables"] if t["problem"]]
    lines += [f"    warning: {warning}" for warning in status["warnings"]]
    if status["newest_dead_letter"]:
        newest = status["newest_dead_letter"]
        place = f"{newest['topic']} {newest['partition']} {newest['offset']}"
        lines.append(f"    dead letters: {status['dead_letters']}, the newest at {place}: {newest['message']}")
    for one in status["backfills"]:
        applied = ", ".join(f"{t}: {len(numbers)} of {one['slices']} slices" for t, numbers in one["applied"].items())
        lines.append(f"  open backfill={one['backfill']}: applied {applied}")
    lines.append("  topic                            partition      begin  published  committed        end    lag")
    for row in status["partitions"]:
        numbers = "".join(
            f"{'-' if row[k] is None else row[k]:>11}" for k in ("begin", "published", "committed", "end")
        )
        lines.append(f"  {row['topic']:<32} {row['partition']:>9}{numbers}{row['lag']:>7}")
    return "\n".join(lines)
