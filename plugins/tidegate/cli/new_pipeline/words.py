"""The words of `init`; help and completion load this module and no library."""

from tidegate.cli.arguments import Commands, add_command, parse_count
from tidegate.sampling.samples import SampleLimits

DESCRIPTION = """Samples a topic, recognises its format and writes a pipeline file that `validate` accepts. Nothing is
committed or changed on the broker. Asks for what is missing when run at a terminal."""


def add_init(commands: Commands) -> None:
    """``init``."""
    text = "write a pipeline file for a topic: sample it, recognise its format, propose key and columns"
    parser = add_command(commands, "init", text, DESCRIPTION)
    parser.add_argument(
        "--kafka", metavar="PLACE", help="connection id, or host:port of brokers; default kafka_default"
    )
    parser.add_argument("--topic", action="append", default=[], help="a topic; may be repeated")
    parser.add_argument("--to", metavar="TABLE", help="<catalog>.<namespace>.<table>, or <catalog>.<namespace>")
    text = "schema registry: connection id or address; default schema_registry_default, if there is one"
    parser.add_argument("--registry", metavar="PLACE", help=text)
    parser.add_argument("--key", type=_split, default=[], metavar="FIELDS", help="key fields, with commas between them")
    parser.add_argument("--name", help="the pipeline's name; default: the table's")
    limits = SampleLimits()
    text = f"most records to read of a topic; default {limits.records}"
    parser.add_argument("--records", type=parse_count, default=limits.records, metavar="N", help=text)
    text = f"most seconds to read a topic; default {limits.seconds:g}"
    parser.add_argument("--seconds", type=parse_count, default=limits.seconds, metavar="N", help=text)
    parser.add_argument("--force", action="store_true", help="overwrite a file of that name")
    parser.add_argument("--print", action="store_true", help="print the file instead of writing it")
    parser.add_argument("--dry-run", action="store_true", help="show ten rows as a flush decodes them; write nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--json", action="store_true", help="stable output for programs")


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
