"""The parameters of the command line: one parser for all commands."""

import argparse
import os
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from tidegate.sampling.samples import SampleLimits
from tidegate.spec.time_text import EXAMPLE

COMPLETION_VARIABLE = "_ARGCOMPLETE"  # the shell function of `tidegate completion` sets it


def answer_shell(parser: argparse.ArgumentParser) -> None:
    """Print a shell's completions and end the process, if a shell asks for them."""
    if COMPLETION_VARIABLE in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser)


def complete_names(*kinds: str) -> list[str]:
    """Names of pipeline or publication files, or both; reads no file."""
    from tidegate.settings import find_include_folder, list_named_files

    include = find_include_folder()
    return sorted(path.stem for kind in kinds for path in list_named_files(include / f"{kind}s"))


def complete_file_names(prefix: str, **_: Any) -> list[str]:
    from argcomplete.completers import FilesCompleter

    names: list[str] = list(FilesCompleter(("yaml",))(prefix))
    return names


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
MAX_COUNT = 1_000_000
MAX_SECONDS = 86_400


def add_command(commands: Commands, name: str, summary: str, description: str | None = None) -> argparse.ArgumentParser:
    """Its help begins with `summary`, unless there is a `description`."""
    text = description or f"{summary[0].upper()}{summary[1:]}."
    parser = commands.add_parser(name, help=summary, description=text)
    # beside the one before the command, whose value stays where it is left out; helps and shells offer that one
    parser.add_argument("-v", "--verbose", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def add_name(parser: argparse.ArgumentParser, *kinds: str, **options: Any) -> None:
    """A pipeline's or publication's name, which shells complete."""
    kinds = kinds or ("pipeline",)
    text = f"name of a {' or '.join(kinds)}; `tidegate list` shows them"
    action = parser.add_argument(kinds[0], help=options.pop("help", text), **options)
    attach_completer(action, lambda **_: complete_names(*kinds))


def attach_completer(action: argparse.Action, complete: Callable[..., Iterable[str]]) -> None:
    """argcomplete looks for the function on the action."""
    action.completer = complete  # type: ignore[attr-defined]


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="stable output for programs")


def add_confirmation(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_json(parser)


def parse_count(text: str, least: int = 1) -> int:
    """`argparse.ArgumentTypeError` below `least` and above a million."""
    digits = text.lstrip("0") or "0"
    is_number = text.isascii() and text.isdecimal() and len(digits) <= len(str(MAX_COUNT))
    if not is_number or not least <= int(digits) <= MAX_COUNT:
        raise argparse.ArgumentTypeError(f"{text} is no number from {least} to {MAX_COUNT:,}")
    return int(digits)


def parse_seconds(text: str) -> float:
    """`argparse.ArgumentTypeError` for 0 and below, and above a day."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text} is no time; give seconds, more than 0 and at most {MAX_SECONDS:,}")
    return seconds


DEFAULT_PARALLEL_FLUSHES = 4
DEFAULT_PARALLEL_MERGES = 4  # what Airflow's pool of a catalog allows too: Spark shares its cores among them


def add_flush(commands: Commands) -> None:
    parser = add_command(commands, "flush", "run one whole cycle: plan, stage, merge, commit, clean up, heartbeat")
    add_name(parser)
    stop_group = parser.add_mutually_exclusive_group()
    stop_group.add_argument("--until-current", action="store_true", help="flush until nothing is left")
    help_text = "flush up to there and no further: latest, group, group:<id>, a time, or offsets as JSON"
    stop_group.add_argument("--until", metavar="END", help=help_text)
    _add_merges_at_once(parser, "tables that are merged beside each other")
    add_json(parser)


def add_halves(commands: Commands) -> None:
    stage = add_command(commands, "stage", "stage what waits in the log behind the queue of each table; merges nothing")
    add_name(stage)
    add_json(stage)
    merge = add_command(commands, "merge", "merge what is staged, commit, clean up, heartbeat; reads no record")
    add_name(merge)
    _add_merges_at_once(merge, "tables that are merged beside each other")
    add_json(merge)


def _add_merges_at_once(parser: ArgumentParser, description: str) -> None:
    parser.add_argument(
        "--merges-at-once",
        type=parse_count,
        default=DEFAULT_PARALLEL_MERGES,
        metavar="N",
        help=f"{description}; default {DEFAULT_PARALLEL_MERGES}",
    )


def add_run(commands: Commands) -> None:
    help_text = "flush pipelines on their intervals, and run publications, until it is stopped; needs no Airflow"
    parser = add_command(commands, "run", help_text)
    name = parser.add_argument(
        "name", nargs="*", help="pipelines and publications; default: all, also those added later"
    )
    attach_completer(name, lambda **_: complete_names("pipeline", "publication"))
    parser.add_argument(
        "--flushes-at-once",
        type=parse_count,
        default=DEFAULT_PARALLEL_FLUSHES,
        metavar="N",
        help=f"pipelines that are flushed beside each other, and as many that are staged by a clock of their own; "
        f"default {DEFAULT_PARALLEL_FLUSHES}",
    )
    _add_merges_at_once(parser, "tables of one pipeline that are merged beside each other")
    add_json(parser)


KAFKA = "kafka_default"


def add_import(commands: Commands) -> None:
    text = "turn a Kafka Connect sink, Debezium Server or Flink SQL into a pipeline file; starts where it stopped"
    parser = add_command(commands, "import", text)
    parser.add_argument(
        "config", metavar="CONFIG", help="properties, JSON or SQL file, or http://host:8083/connectors/NAME"
    )
    parser.add_argument("--name", default="", help="the pipeline's name; default: the connector's")
    parser.add_argument("--connector", default="", metavar="NAME", help="the connector's name, where the file lacks it")
    parser.add_argument(
        "--worker", type=Path, metavar="FILE", help="the Connect worker's properties, for converters and consumer"
    )
    parser.add_argument("--catalog", default="", metavar="NAME", help="the catalog's name in catalogs.yaml")
    parser.add_argument("--kafka", default="", metavar="ID", help=f"Airflow connection to the brokers; default {KAFKA}")
    parser.add_argument(
        "--brokers", default="", metavar="HOST:PORT", help="brokers without a log-in, instead of --kafka"
    )
    parser.add_argument("--table", action="append", default=[], metavar="NAME", help="namespace.table; may be repeated")
    parser.add_argument("--topic", action="append", default=[], metavar="NAME", help="a topic; may be repeated")
    parser.add_argument("--key", default="", metavar="A,B", help="the fields of the key")
    parser.add_argument("--offline", action="store_true", help="ask no broker and no catalog")
    parser.add_argument(
        "--write", action="store_true", help="write the files into the include folder; else they are printed"
    )
    parser.add_argument("--overwrite", action="store_true", help="with --write: replace the pipeline's file")
    add_json(parser)


DESCRIPTION = """Samples a topic, recognises its format and writes a pipeline file that `validate` accepts. Nothing is
committed or changed on the broker. Asks for what is missing when run at a terminal."""


def add_init(commands: Commands) -> None:
    text = "write a pipeline file for a topic: sample it, recognise its format, propose key and columns"
    parser = add_command(commands, "init", text, DESCRIPTION)
    parser.add_argument(
        "--kafka", metavar="PLACE", help="connection id, or host:port of brokers; default kafka_default"
    )
    parser.add_argument("--topic", action="append", default=[], help="a topic; may be repeated")
    parser.add_argument("--to", metavar="TABLE", help="<catalog>.<namespace>.<table>, or <catalog>.<namespace>")
    text = "schema registry: connection id or address; default schema_registry_default, if there is one"
    parser.add_argument("--registry", metavar="PLACE", help=text)

    def split(text: str) -> list[str]:
        return [name.strip() for name in text.split(",") if name.strip()]

    parser.add_argument("--key", type=split, default=[], metavar="FIELDS", help="key fields, with commas between them")
    parser.add_argument("--name", help="the pipeline's name; default: the table's")
    limits = SampleLimits()
    text = f"most records to read of a topic; default {limits.records}"
    parser.add_argument("--records", type=parse_count, default=limits.records, metavar="N", help=text)
    text = f"most seconds to read a topic; default {limits.seconds:g}"
    parser.add_argument("--seconds", type=parse_count, default=limits.seconds, metavar="N", help=text)
    parser.add_argument("--force", action="store_true", help="overwrite a file of that name")
    parser.add_argument("--print", action="store_true", help="print the file instead of writing it")
    parser.add_argument("--dry-run", action="store_true", help="show ten rows as a flush decodes them; write nothing")
    add_confirmation(parser)


PROBE_SECONDS = 15.0  # of one server, for `doctor`; those that answer take a tenth of it
AT_HELP = "the record's place: topic:partition:offset"
KINDS = ("pipeline", "publication")
EPILOG = """exit codes:
  0  done, or nothing to do
  1  refused or failed; the reason is on standard error
  2  wrong usage
  3  another run published first; nothing to repair
  130  ended by Ctrl-C or SIGTERM; what is published stands

environment:
  TIDEGATE_INCLUDE        folder with catalogs.yaml, pipelines/ and publications/;
                          default: include/ of the checkout, of an installed package that of AIRFLOW_HOME
  AIRFLOW_CONN_<ID>       a connection that a file names, as a URI or JSON, as in Airflow
"""


class ShowVersion(argparse.Action):
    """Reads the version only when asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from tidegate.settings import read_version

        print(f"tidegate {read_version()}")
        parser.exit()


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tidegate",
        description="Exactly-once upserts and deletes from Kafka into Apache Iceberg and BigQuery.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say each step on standard error")
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(dest="command", required=True)
    for add in ADDERS:  # help lists them in this order
        add(commands)
    return parser


def add_files(commands: Commands) -> None:
    validate = add_command(commands, "validate", "check every pipeline file; print all problems")
    file = validate.add_argument("file", nargs="?", type=Path, help="one file, or its name, instead of all")
    attach_completer(file, complete_file_names)
    add_json(validate)
    parser = add_command(commands, "list", "list pipelines and publications, from their files alone")
    add_json(parser)


def add_doctor(commands: Commands) -> None:
    text = "check everything that a flush needs; what to fix first stands first"
    parser = add_command(commands, "doctor", text)
    names = parser.add_argument("names", nargs="*", metavar="NAME", help="pipelines and publications; default: all")
    attach_completer(names, lambda **_: complete_names("pipeline", "publication"))
    parser.add_argument("--read-only", action="store_true", help="make no scratch table and no file")
    help_text = "how long to wait for each server; default %(default).0f"
    parser.add_argument("--timeout", type=parse_seconds, default=PROBE_SECONDS, metavar="SECONDS", help=help_text)
    add_json(parser)


def add_progress(commands: Commands) -> None:
    plan = add_command(commands, "plan", "show what the next batch would be; changes nothing")
    add_name(plan)
    help_text = "stage it, and show what its merge would change: counts, columns and rows; publishes nothing"
    plan.add_argument("--preview", action="store_true", help=help_text)
    add_json(plan)
    status = add_command(
        commands, "status", "show position, lag, last batches and dead letters, and what needs a person"
    )
    add_name(status, "pipeline", "publication", nargs="?", help="name of a pipeline or publication; default: all")
    add_json(status)


def add_live_view(commands: Commands) -> None:
    text = "print the query of a table together with what is staged for it, as the next merge would fold it"
    parser = add_command(commands, "live-view", text)
    add_name(parser)
    parser.add_argument("--table", metavar="NAME", help="the table, where the pipeline has several")
    parser.add_argument("--create", action="store_true", help="make the view <table>_<pipeline>_live, or make it again")


def add_verify(commands: Commands) -> None:
    text = "compare each table with what the log says up to its position; exit code 1 where they differ"
    parser = add_command(commands, "verify", text)
    add_name(parser)
    parser.add_argument("--table", metavar="NAME", help="of this table only; default: of every table")
    parser.add_argument("--sample", type=parse_share, default=1_000_000, metavar="SHARE", help="of its keys, like 1%%")
    parser.add_argument("--repair", action="store_true", help="write the rows that differ as the log says, after a yes")
    add_confirmation(parser)
    parser.set_defaults(usage_error=parser.error)


def add_explain(commands: Commands) -> None:
    text = "say why a table has the row of one key, or has none: the records, and what became of each"
    parser = add_command(commands, "explain", text)
    add_name(parser)
    key_help = (
        'JSON object with the key columns, as verify shows it, like \'{"id": 7, "part": "a"}\'; of one column the value'
    )
    parser.add_argument("key", metavar="KEY", help=key_help)
    parser.add_argument("--table", metavar="NAME", help="in this table only; default: in every table")
    range_help = 'read only this part of the log, half-open: {"topic": {"0": [100, 900]}}; default: all of it'
    parser.add_argument("--range", metavar="JSON", help=range_help)
    add_json(parser)


def parse_share(text: str) -> int:
    """Read a share like ``1%`` as so many of a million."""
    number = text.strip().removesuffix("%")
    try:
        per_million = round(float(number) * 10_000)
    except (ValueError, OverflowError):
        per_million = 0
    if not text.strip().endswith("%") or not 0 < per_million <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text} is no share of the keys; write e.g. 1%, at most 100%")
    return per_million


EVERY_TABLE_HELP = "of this table only; default: of every table"
HELD_HELP = "the table whose batch is held; default: every held one"
ROLLED_BACK_HELP = "only this table; default: each that was rolled back"
ACTIONS = {
    "rebase": ("move a position by hand; shows what that skips or reads again, and asks", EVERY_TABLE_HELP),
    "upgrade-format": (
        "raise tables to Iceberg's format 3; shows which engines read it, and asks; there is no way back",
        EVERY_TABLE_HELP,
    ),
    "approve": ("let the next flush publish a batch that is held; shows its diff, and asks", HELD_HELP),
    "reject": ("keep a held batch back; shows its diff, and asks", HELD_HELP),
    "undo-rollback": ("make what was rolled back current again; shows it first, and asks", ROLLED_BACK_HELP),
    "answer-rollback": ("go on from a rolled-back table; shows how first, and asks", ROLLED_BACK_HELP),
}


def add_actions(commands: Commands) -> None:
    parsers = {name: add_command(commands, name, summary) for name, (summary, _) in ACTIONS.items()}
    for name, parser in parsers.items():
        add_name(parser)
        parser.add_argument("--table", metavar="NAME", help=ACTIONS[name][1])
    text = 'earliest, latest, group, remaining (what is left where records are gone), a time, {"topic": {"0": 42}}'
    parsers["rebase"].add_argument("--to", required=True, help=text)
    text = "leave its records out: move the position behind them"
    parsers["reject"].add_argument("--skip", action="store_true", help=text)
    text = "also lose what others wrote since the rollback"
    parsers["undo-rollback"].add_argument("--discard-foreign", action="store_true", help=text)
    answers = parsers["answer-rollback"].add_mutually_exclusive_group(required=True)
    answers.add_argument("--rewind", action="store_const", const="rewind", dest="answer", help="read its records again")
    answers.add_argument("--keep", action="store_const", const="keep", dest="answer", help="go on after them")
    for parser in parsers.values():
        add_confirmation(parser)


def add_records(commands: Commands) -> None:
    record = add_command(
        commands,
        "record",
        "show one record of the log, with each field as the decoder reads it; or several, with what becomes of each",
    )
    add_name(record)
    place = record.add_mutually_exclusive_group(required=True)
    place.add_argument("--at", metavar="PLACE", help=AT_HELP)
    text = "20 records around topic:partition:offset, or the last 20 of topic:partition, each with what becomes of it"
    place.add_argument("--around", metavar="PLACE", help=text)
    record.add_argument("--table", metavar="NAME", help="for this table only; default: each that the topic feeds")
    add_json(record)
    skip = add_command(commands, "skip", "set one bad record aside as a dead letter; shows it first, and asks")
    add_name(skip)
    skip.add_argument("--at", required=True, metavar="PLACE", help=AT_HELP)
    skip.add_argument("--table", metavar="NAME", help="for this table only; default: each for which it is bad")
    add_confirmation(skip)


def add_backfill(commands: Commands) -> None:
    parser = add_command(commands, "backfill", "apply a part of the log again; never overwrites what is newer")
    add_name(parser)
    range_group = parser.add_mutually_exclusive_group(required=True)
    range_group.add_argument("--range", metavar="JSON", help='half-open offsets: {"topic": {"0": [100, 900]}}')
    range_group.add_argument("--from", dest="from_time", metavar="TIME", help="records from this time on, with --to")
    range_group.add_argument("--abandon", metavar="ID", help="give an open backfill up; what it applied stays")
    parser.add_argument("--to", dest="to_time", metavar="TIME", help=f"up to this time, e.g. {EXAMPLE}")
    parser.add_argument("--table", action="append", default=[], metavar="NAME", help="only this table; may be repeated")
    parser.add_argument("--dry-run", action="store_true", help="show ranges and counts; write nothing")
    add_json(parser)
    parser.set_defaults(usage_error=parser.error)


def add_maintain(commands: Commands) -> None:
    parser = add_command(commands, "maintain", "compact, expire snapshots and remove orphans, table by table")
    add_name(parser)
    add_json(parser)


SHOWN_LETTERS = 20


def add_dead_letters(commands: Commands) -> None:
    parser = add_command(
        commands, "dead-letters", "show, replay, discard or export records that could not be read and were set aside"
    )
    add_name(parser)
    filter_group = parser.add_argument_group("which of those that wait; default: all")
    filter_group.add_argument("--table", metavar="NAME", help="of this table")
    filter_group.add_argument("--topic", metavar="NAME", help="of this topic")
    filter_group.add_argument("--reason", metavar="TEXT", help="whose reason holds this text, in whatever letters")
    filter_group.add_argument("--since", metavar="TIME", help=f"set aside since then, e.g. {EXAMPLE}")
    filter_group.add_argument(
        "--offsets", nargs="+", metavar="PLACE", default=(), help="at these: topic:partition:offset"
    )
    parser.add_argument(
        "--limit", type=partial(parse_count, least=0), metavar="N", help=f"show the newest N; default {SHOWN_LETTERS}"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--replay", action="store_true", help="decode them again, and bring in what can be read now")
    action.add_argument("--discard", action="store_true", help="give them up; needs --because, shows them, and asks")
    action.add_argument("--export", type=Path, metavar="FILE", help="write them to a new file, one line of JSON each")
    parser.add_argument("--because", metavar="TEXT", help="why they are discarded; kept with each of them")
    parser.set_defaults(usage_error=parser.error)
    add_confirmation(parser)


def add_publish(commands: Commands) -> None:
    parser = add_command(commands, "publish", "produce a table's changes to its topic: one run of a publication")
    add_name(parser, "publication")
    parser.add_argument("--dry-run", action="store_true", help="say what the run would be; changes nothing")
    parser.add_argument(
        "--resynchronise", action="store_true", help="compare the table with what the topic holds, and fix the topic"
    )
    add_json(parser)


def add_schema(commands: Commands) -> None:
    parser = add_command(commands, "schema", "print the JSON Schema of the pipeline file, for editors")
    parser.add_argument("of", nargs="?", choices=KINDS, default=KINDS[0], help=f"of which file; default {KINDS[0]}")


def add_airflow(commands: Commands) -> None:
    parser = add_command(commands, "airflow", "set up the Airflow of this Python environment")
    actions = parser.add_subparsers(dest="action", required=True, help="what to do")
    install = add_command(actions, "install", "write DAG files and an include folder; overwrites nothing")
    install.add_argument("--dags-folder", type=Path, metavar="FOLDER", help="default: Airflow's own setting")
    text = "for pipelines/ and catalogs.yaml; default: include/ of AIRFLOW_HOME"
    install.add_argument("--include", type=Path, metavar="FOLDER", help=text)
    add_json(install)


def add_jars(commands: Commands) -> None:
    text = "fetch the jars that a Spark server on this machine needs, and verify their checksums"
    parser = add_command(commands, "jars", text)
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="default: .cache/jars/spark of the home folder")
    parser.add_argument("--from", dest="source", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)  # of other jars
    parser.add_argument("--write-lock", action="store_true", help=argparse.SUPPRESS)  # for `make lock`
    add_json(parser)


def add_completion(commands: Commands) -> None:
    parser = add_command(commands, "completion", "print what a shell runs to complete commands, options and names")
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="put its output into this shell's start file")


ADDERS = (
    add_init, add_files, add_doctor, add_flush, add_halves, add_run, add_progress, add_live_view, add_verify,
    add_explain, add_actions, add_records, add_backfill, add_maintain, add_dead_letters, add_publish, add_import,
    add_schema, add_airflow, add_jars, add_completion,
)  # fmt: skip
