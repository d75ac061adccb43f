"""``tidegate flush``: one whole cycle, or as many as it takes until nothing is left."""

import argparse
from collections.abc import Sequence

from tidegate.cli import output
from tidegate.connections import read_connection_from_env
from tidegate.errors import NothingToDo, SomeTables
from tidegate.model.batch import PublishedBatch
from tidegate.planning.stop_offsets import resolve_stop_offsets
from tidegate.settings import find_include_folder
from tidegate.steps.flush import flush
from tidegate.wiring.pipeline import assemble_checked_pipeline


def run_flush(words: argparse.Namespace) -> int:
    """Exit code 0; everything else is an error, also after a failed table's neighbours have come to the end."""
    ports = assemble_checked_pipeline(find_include_folder(), words.pipeline, read_connection_from_env)
    until = None if words.until is None else resolve_stop_offsets(ports, words.until)
    goes_on = words.until_current or until is not None
    while True:
        failed: SomeTables | None = None
        try:
            published: Sequence[PublishedBatch] = flush(ports, words.merges_at_once, until).published
        except SomeTables as error:
            failed, published = error, error.published
        except NothingToDo:
            if not goes_on:
                raise
            return 0
        for batch in published:
            output.print_result(words, output.format_published(batch), batch.to_dict())
        if not goes_on or all(batch.snapshot_id is None for batch in published):
            if failed is not None:
                raise failed
            return 0
