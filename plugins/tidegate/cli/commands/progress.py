"""``tidegate plan`` and ``tidegate status``: where pipelines and publications stand, and what comes next."""

import argparse
import json

from tidegate.cli import output, tables
from tidegate.cli.commands.publications import format_publication_reading, is_publication, read_statuses
from tidegate.config.pipeline_file import load_all_pipelines
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError, TidegateError
from tidegate.flush.plan import plan
from tidegate.monitoring.reports import PipelineStatus, UnknownStatus
from tidegate.monitoring.status import read_status
from tidegate.publications.status import PublicationReading
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_checked_pipeline, assemble_pipeline, find_pipeline_file


def run_plan(words: argparse.Namespace) -> int:
    """Exit code 1 where a batch is refused."""
    flush_plan = plan(assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env))
    if tables.is_terminal() and not words.json:
        tables.print_plan(flush_plan)
    else:
        output.print_result(words, output.format_plan(flush_plan), flush_plan.to_dict())
    return 1 if flush_plan.refusals else 0


def run_status(words: argparse.Namespace) -> int:
    """Exit code 1 where one cannot tell."""
    requested_name = words.pipeline
    statuses = list[PipelineStatus | UnknownStatus]()
    load_results = {} if requested_name else dict(load_all_pipelines(find_include_folder()))  # the right file wins
    refusals = {n: result for n, result in load_results.items() if isinstance(result, ConfigurationError)}
    names = [requested_name] if requested_name else list(load_results)
    readings = read_statuses(requested_name) if requested_name is None or is_publication(requested_name) else []
    if requested_name and readings and not (find_include_folder() / "pipelines" / f"{requested_name}.yaml").exists():
        names = []
    for name in names:
        try:
            find_pipeline_file(find_include_folder(), name)
            statuses.append(read_status(assemble_pipeline(find_include_folder(), name, read_connection_from_env)))
        except TidegateError as problem:
            if words.pipeline:
                raise
            statuses.append({"pipeline": name, "error": str(refusals.get(name, problem))})
    if words.json:
        print(json.dumps({"pipelines": statuses, "publications": [_to_json(reading) for reading in readings]}))
    else:
        _print_statuses(statuses, readings)
    is_known = not any("error" in status for status in statuses) and all(reading.status for reading in readings)
    return 0 if is_known else 1


def _to_json(reading: PublicationReading) -> dict[str, object]:
    if reading.status is None:
        return {"publication": reading.publication, "error": reading.error}
    return reading.status.to_dict()


def _print_statuses(statuses: list[PipelineStatus | UnknownStatus], readings: list[PublicationReading]) -> None:
    if not tables.is_terminal():
        texts = [output.format_status(table_status) for table_status in statuses] + [
            format_publication_reading(reading) for reading in readings
        ]
        output.print_text(output.name_command("\n\n".join(texts)))
        return
    for number, status in enumerate(statuses):
        print("\n" if number else "", end="", flush=True)
        tables.print_status(status)
    for publication in readings:
        output.print_text(f"\n{output.name_command(format_publication_reading(publication))}")
