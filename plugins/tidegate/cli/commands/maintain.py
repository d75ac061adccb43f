"""``tidegate maintain``: each table of a pipeline compacted and cleaned up."""

import argparse

from tidegate.cli import output
from tidegate.connections import read_connection_from_env
from tidegate.errors import NothingToDo
from tidegate.flush.maintain import MaintenanceReport, list_maintained_tables, maintain_all
from tidegate.settings import find_include_folder
from tidegate.wiring.pipeline import assemble_checked_pipeline


def run_maintain(words: argparse.Namespace) -> int:
    """A table that fails stops none of those behind it."""
    session = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    tables = list_maintained_tables(session)
    if not tables:
        raise NothingToDo(
            f"pipeline={words.pipeline}: nothing to maintain: it has no Iceberg table yet; BigQuery keeps its own small"
        )

    def print_report(report: MaintenanceReport) -> None:
        output.print_result(words, output.format_maintenance(report), report.to_dict())

    maintain_all(session, tables, print_report)
    return 0
