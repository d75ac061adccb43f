"""``tidegate maintain``: each table of a pipeline compacted and cleaned up."""

import argparse

from tidegate.cli import output
from tidegate.connections import read_connection_from_env
from tidegate.errors import NothingToDo, TidegateError, join_tables
from tidegate.settings import find_include_folder
from tidegate.steps.maintain import list_maintained_tables, maintain
from tidegate.wiring.pipeline import assemble_checked_pipeline


def run_maintain(words: argparse.Namespace) -> int:
    """One line for each table; a table that fails stops none of those behind it."""
    ports = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    failures = list[TidegateError]()
    tables = list_maintained_tables(ports)
    if not tables:
        raise NothingToDo(f"pipeline={words.pipeline}: none of its tables exists yet")
    for table in tables:
        try:
            done = maintain(ports, table)
            output.print_result(words, output.format_maintenance(done), done)
        except TidegateError as problem:  # the other tables are kept small all the same
            failures.append(problem)
    if failures:
        raise join_tables("\n".join(map(str, failures)), map(type, failures))
    return 0
