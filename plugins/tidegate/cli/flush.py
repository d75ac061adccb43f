"""``tidegate flush``: one whole cycle, or as many as it takes until nothing is left."""

import argparse
from collections.abc import Sequence
from typing import Any

from tidegate.cli import output
from tidegate.connections import read_connection_from_env
from tidegate.errors import NothingToDo, SomeTables
from tidegate.model.batch import PublishedBatch
from tidegate.planning.stop_offsets import resolve_stop_offsets
from tidegate.settings import find_include_folder
from tidegate.steps.flush import flush
from tidegate.wiring.pipeline import assemble_checked_pipeline

DEFAULT_PARALLEL_MERGES = 4  # what Airflow's pool of a catalog allows too: Spark shares its cores among them


def add_flush(commands: Any) -> None:
    """The command's words."""
    parser = commands.add_parser("flush", help="one whole cycle: plan, stage, merge, commit, clean up, heartbeat")
    parser.add_argument("pipeline")
    bound = parser.add_mutually_exclusive_group()
    bound.add_argument("--until-current", action="store_true", help="flush until nothing is left")
    help_text = "flush up to there and no further: latest, group, group:<id>, a time, or offsets as JSON"
    bound.add_argument("--until", metavar="END", help=help_text)
    parser.add_argument(
        "--merges-at-once",
        type=_parse_positive_int,
        default=DEFAULT_PARALLEL_MERGES,
        metavar="N",
        help=f"tables that are merged beside each other; default {DEFAULT_PARALLEL_MERGES}",
    )
    parser.add_argument("--json", action="store_true", help="stable output for programs")


def _parse_positive_int(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of merges: use 1 or more")
    return number


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
