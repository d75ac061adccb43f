"""``tidegate live-view``: a table together with what is staged for it, as a query or as a view."""

import argparse

from tidegate.cli import output
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError
from tidegate.merge.live_view import create_live_view, render_live_view
from tidegate.ports.session import Session
from tidegate.settings import find_include_folder
from tidegate.table.session import open_table
from tidegate.wiring.pipeline import assemble_checked_pipeline


def run_live_view(words: argparse.Namespace) -> int:
    """Print the query, or make the view and print its name."""
    session = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    table = open_table(session, words.table or _find_only_table(session)).refresh()
    output.print_text(create_live_view(table) if words.create else render_live_view(table))
    return 0


def _find_only_table(session: Session) -> str:
    """The full name of the pipeline's table; `ConfigurationError` where it is not the only one."""
    names = [table.name for table in session.pipeline.entries]
    if len(names) != 1:
        raise ConfigurationError(
            f"pipeline={session.pipeline.name} tables={', '.join(names)}: a live view is of one table; name it with "
            "--table"
        )
    return names[0]
