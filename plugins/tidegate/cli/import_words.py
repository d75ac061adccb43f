"""The words of ``import``. Help and completion load them, and no library."""

from pathlib import Path

from tidegate.cli.arguments import Commands, add_command

KAFKA = "kafka_default"


def add_import(commands: Commands) -> None:
    """``import``."""
    text = "turn a Kafka Connect sink, Debezium Server or Flink SQL into a pipeline file; starts where it stopped"
    parser = add_command(commands, "import", text)
    parser.add_argument(
        "config", metavar="CONFIG", help="properties, JSON or SQL file, or http://host:8083/connectors/NAME"
    )
    parser.add_argument("--name", default="", help="the pipeline's name; default: the connector's")
    parser.add_argument("--connector", default="", metavar="NAME", help="the connector's name, where the file lacks it")
    parser.add_argument(
        "--worker", type=Path, metavar="FILE", help="the Connect worker's properties, for its converters"
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
    parser.add_argument("--json", action="store_true", help="stable output for programs")
