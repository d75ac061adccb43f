"""``tidegate plan``, ``status``, ``live-view``, ``publish``: where files stand, what comes next, a publication run."""

import argparse
import json
import sys
from dataclasses import asdict

from tidegate.cli import output
from tidegate.cli.session import open_named_pipeline
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.config.publication_file import load_publications
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.flush.plan import plan
from tidegate.flush.preview import preview_batches
from tidegate.merge.live_view import create_live_view, render_live_view
from tidegate.monitoring.reports import PipelineStatus, UnknownStatus
from tidegate.monitoring.status import read_status
from tidegate.publications.plan import plan_run
from tidegate.publications.publish import publish
from tidegate.publications.status import COUNT_NAMES, PublicationReading, read_publication_status
from tidegate.settings import find_include_folder
from tidegate.spec.time_text import format_time_ms
from tidegate.table.session import open_table
from tidegate.wiring.pipeline import assemble_pipeline
from tidegate.wiring.publication import assemble_checked_publication, assemble_publication


def run_plan(args: argparse.Namespace) -> int:
    """Exit code 1 where a table is refused."""
    if args.preview:
        return _run_preview(args)
    flush_plan = plan(open_named_pipeline(args))
    output.print_result(args, output.format_plan(flush_plan), flush_plan.to_dict())
    return 1 if flush_plan.refusals else 0


def _run_preview(args: argparse.Namespace) -> int:
    previews, refusals = preview_batches(open_named_pipeline(args))
    if args.json:
        tables = [preview.to_dict() for preview in previews]
        print(json.dumps({"pipeline": args.pipeline, "tables": tables, "refused": [asdict(one) for one in refusals]}))
    else:
        at_terminal = sys.stdout.isatty()
        texts = [output.format_preview(preview, shows_rows=at_terminal) for preview in previews]
        texts += [output.name_command(output.format_refusal(one)) for one in refusals]
        output.print_text("\n".join(texts))
    return 1 if refusals else 0


def run_status(args: argparse.Namespace) -> int:
    """Exit code 1 where one cannot tell."""
    requested_name = args.pipeline
    include = find_include_folder()
    statuses = list[PipelineStatus | UnknownStatus]()
    loaded_pipelines = dict(load_all_pipelines(include))  # the right file wins
    names = [requested_name] if requested_name else list(loaded_pipelines)
    readings = read_statuses(requested_name)
    if requested_name and readings and not (include / "pipelines" / f"{requested_name}.yaml").exists():
        names = []
    for name in names:
        try:
            # also of a right file that needs what another pipeline has: no flush of it begins
            if isinstance(refusal := loaded_pipelines.get(name), ConfigurationError):
                raise refusal
            statuses.append(read_status(assemble_pipeline(include, name, read_connection_from_env)))
        except TidegateError as problem:
            if requested_name:
                raise
            statuses.append({"pipeline": name, "error": str(problem)})
    if args.json:
        publications = [
            reading.status.to_dict() if reading.status else {"publication": reading.publication, "error": reading.error}
            for reading in readings
        ]
        print(json.dumps({"pipelines": statuses, "publications": publications}))
    else:
        texts = [*map(output.format_status, statuses), *map(format_publication_reading, readings)]
        output.print_text(output.name_command("\n\n".join(texts)))
    is_known = not any("error" in status for status in statuses) and all(reading.status for reading in readings)
    return 0 if is_known else 1


def run_live_view(args: argparse.Namespace) -> int:
    """Print the query, or make the view and print its name."""
    session = open_named_pipeline(args)
    names = [args.table] if args.table else [table.name for table in session.pipeline.entries]
    if len(names) != 1:
        raise ConfigurationError(
            f"pipeline={session.pipeline.name} tables={', '.join(names)}: a live view is of one table; name it with "
            "--table"
        )
    table = open_table(session, names[0]).refresh()
    output.print_text(create_live_view(table) if args.create else render_live_view(table))
    return 0


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
