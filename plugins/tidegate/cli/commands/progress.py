"""``tidegate plan``, ``status`` and ``live-view``: where pipelines and publications stand, and what comes next."""

import argparse
import json
import sys
from dataclasses import asdict

from tidegate.cli import output
from tidegate.cli.commands.publications import format_publication_reading, read_statuses
from tidegate.cli.session import open_named_pipeline
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.flush.plan import plan
from tidegate.flush.preview import preview_batches
from tidegate.merge.live_view import create_live_view, render_live_view
from tidegate.monitoring.reports import PipelineStatus, UnknownStatus
from tidegate.monitoring.status import read_status
from tidegate.settings import find_include_folder
from tidegate.table.session import open_table
from tidegate.wiring.pipeline import assemble_pipeline


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
