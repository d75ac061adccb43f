"""The words of ``flush`` and ``run``. Help and completion load them, and no library."""

from tidegate.cli.arguments import Commands, add_command, add_json, add_name, attach_completer, parse_count
from tidegate.cli.completion import complete_names

DEFAULT_PARALLEL_FLUSHES = 4
DEFAULT_PARALLEL_MERGES = 4  # what Airflow's pool of a catalog allows too: Spark shares its cores among them


def add_flush(commands: Commands) -> None:
    """``flush``."""
    parser = add_command(commands, "flush", "run one whole cycle: plan, stage, merge, commit, clean up, heartbeat")
    add_name(parser)
    stop_group = parser.add_mutually_exclusive_group()
    stop_group.add_argument("--until-current", action="store_true", help="flush until nothing is left")
    help_text = "flush up to there and no further: latest, group, group:<id>, a time, or offsets as JSON"
    stop_group.add_argument("--until", metavar="END", help=help_text)
    parser.add_argument(
        "--merges-at-once",
        type=parse_count,
        default=DEFAULT_PARALLEL_MERGES,
        metavar="N",
        help=f"tables that are merged beside each other; default {DEFAULT_PARALLEL_MERGES}",
    )
    add_json(parser)


def add_run(commands: Commands) -> None:
    """``run``."""
    help_text = "flush pipelines on their intervals, and run publications, until it is stopped; needs no Airflow"
    parser = add_command(commands, "run", help_text)
    name = parser.add_argument(
        "name", nargs="*", help="pipelines and publications; default: all, also those added later"
    )
    attach_completer(name, lambda **_: complete_names("pipeline", "publication"))
    for option, default, description in (
        ("--flushes-at-once", DEFAULT_PARALLEL_FLUSHES, "pipelines that are flushed beside each other"),
        ("--merges-at-once", DEFAULT_PARALLEL_MERGES, "tables of one pipeline that are merged beside each other"),
    ):
        help_text = f"{description}; default {default}"
        parser.add_argument(option, type=parse_count, default=default, metavar="N", help=help_text)
    add_json(parser)
