"""``tidegate publish`` and what `status` and `validate` say about publications."""

import argparse

from tidegate.cli import output
from tidegate.config.publication_file import load_publications
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.publications.plan import plan_run
from tidegate.publications.publish import publish
from tidegate.publications.status import COUNT_NAMES, PublicationReading, read_publication_status
from tidegate.settings import find_include_folder
from tidegate.spec.time_text import format_time_ms
from tidegate.wiring.publication import assemble_checked_publication, assemble_publication


def run_publish(args: argparse.Namespace) -> int:
    """One run; `NothingToDo` where the topic is current."""
    session = assemble_checked_publication(find_include_folder(), args.publication, read_connection_from_env)
    if args.dry_run:
        planned_run = plan_run(session, args.resynchronise).to_dict()
        pairs = output.format_pairs(planned_run)
        text = f"publication={args.publication} would produce: {pairs}\nnothing was produced"
        output.print_result(args, text, {"publication": args.publication, **planned_run})
        return 0
    published_run = publish(session, args.resynchronise).to_dict()
    output.print_result(args, output.format_pairs(published_run), published_run)
    return 0


def read_statuses(name: str | None) -> list[PublicationReading]:
    """Of one publication or all; one that cannot tell says why."""
    readings = list[PublicationReading]()
    for publication, load_result in load_publications(find_include_folder()):
        if name not in (None, publication):
            continue
        try:
            if isinstance(load_result, ConfigurationError):
                raise load_result
            session = assemble_publication(find_include_folder(), publication, read_connection_from_env)
            readings.append(PublicationReading(publication=publication, status=read_publication_status(session)))
        except TidegateError as problem:
            readings.append(PublicationReading(publication=publication, error=str(problem)))
    return readings


def format_publication_reading(reading: PublicationReading) -> str:
    status = reading.status
    if status is None:
        return f"{reading.publication}: {reading.error}"
    state = "unfinished" if status.unfinished else "waiting" if status.waiting else "current"
    lines = [
        f"{status.publication}: {status.table} to {', '.join(status.topics)}: {state} "
        f"published={status.published_snapshot_id} table={status.table_snapshot_id}"
    ]
    if status.waiting or status.problem:
        behind = f"snapshots={status.snapshots_behind} rows<={status.rows_behind}"
        lines.append(f"    behind: {behind} seconds={round(status.behind_seconds or 0)}")
    if last := status.last_run:
        counts = " ".join(f"{name}={getattr(last, name)}" for name in COUNT_NAMES)
        lines.append(f"    last run: {format_time_ms(last.at_ms)} compared_with={last.compared_with} {counts}")
    if status.problem:
        lines.append(f"    {status.problem}")
    return "\n".join(lines)
