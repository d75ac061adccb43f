"""Runs `make up` and `make down`: prints progress and addresses, and one line when something fails."""

import argparse
import sys

from local.errors import StackError
from local.layout import RunDir, find_run_dir
from local.stack import PARTS, Stack, start_stack, stop_stack

OPTIONAL_PARTS = tuple(sorted({*PARTS} - {"kafka", "spark"}))


def main(arguments: list[str]) -> int:
    """`up [--with airflow,rest,s3]` or `down`; 0 when done, also if there was nothing to do, 1 after one message."""
    parser = argparse.ArgumentParser(prog="python -m local", description="The local stack: Kafka, Spark, Airflow.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up").add_argument("--with", dest="extras", default="", help=", ".join(OPTIONAL_PARTS))
    commands.add_parser("down")
    options = parser.parse_args(arguments)
    try:
        return _start_stack(options.extras.replace(",", " ").split()) if options.command == "up" else _stop_stack()
    except StackError as error:
        print(f"{options.command}: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print(f"{options.command}: interrupted, everything started was stopped", file=sys.stderr)
    return 1


def _start_stack(extras: list[str]) -> int:
    if unknown := [extra for extra in extras if extra not in OPTIONAL_PARTS]:
        raise StackError(
            f"WITH={' '.join(unknown)} is not known; use some of {', '.join(OPTIONAL_PARTS)}, or leave it out"
        )
    parts = ["kafka", "spark", *extras]
    print(f"up: starting {', '.join(parts)} ...", flush=True)
    stack = start_stack(parts=parts, report=lambda line: print(f"up: {line}", flush=True))
    _print_addresses(stack)
    return 0


def _print_addresses(stack: Stack) -> None:
    variables = stack.variables
    for name in (
        "KAFKA_BOOTSTRAP",
        "SPARK_REMOTE",
        "POSTGRES_URI",
        "REST_CATALOG_URI",
        "S3_ENDPOINT",
        "REGISTRY_URL",
        "BIGQUERY_ENDPOINT",
        "AIRFLOW_URL",
    ):
        if name in variables:
            print(f"  {name:17} {variables[name].partition('/;token=')[0]}")
    print(f"  Addresses and process ids: {RunDir(stack.run_dir).env_file}. End it with: make down")


def _stop_stack() -> int:
    print("down: everything has stopped" if stop_stack(find_run_dir()) else "down: nothing was up")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
