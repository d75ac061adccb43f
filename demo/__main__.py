"""Runs `make demo`: reads its options, prints one line when something fails, and ends all that it started."""

import argparse
import os
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

from confluent_kafka import KafkaException

from demo import product, story
from demo.tables import BigQueryTables, IcebergTables, Tables
from demo.view import View
from local.errors import StackError
from local.lake.catalog import resolve_properties
from local.layout import find_run_dir
from local.stack import PARTS, Stack, is_up, start_stack, stop_stack

DEFAULT_PARTS = ("kafka", "spark", "airflow")
# what `--with` takes; BigQuery is where the tables are, instead of the lake
MORE_PARTS = tuple(part for part in PARTS if part not in DEFAULT_PARTS)


def main(arguments: list[str]) -> int:
    """Run the demo; 0 when the verdict was right or somebody stopped it after that, else 1."""
    parser = argparse.ArgumentParser(prog="make demo", description="A small shop's changes, from Kafka into tables.")
    choices = product.DESTINATIONS
    parser.add_argument("--destination", choices=choices, default=choices[0], help="where the tables are")
    parser.add_argument("--with", dest="parts", default="", metavar="PARTS", help=f"any of {', '.join(MORE_PARTS)}")
    parser.add_argument("--once", action="store_true", help="stop after the verdict: exit 0 if all is equal, else 1")
    parser.add_argument("--flushes", type=int, default=5, metavar="N", help="flushes per pipeline before the verdict")
    parser.add_argument("--rate", type=float, default=40, metavar="N", help="things that happen per second")
    parser.add_argument("--burst", type=int, default=1000, metavar="N", help="size of the burst every half minute")
    options = parser.parse_args(arguments)
    for name in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(name, _interrupt)
    view = View()
    try:
        return _run_demo(options, find_run_dir() / "demo", view)
    except (StackError, RuntimeError, OSError, KafkaException) as error:
        view.close()
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _run_demo(options: argparse.Namespace, run_dir: Path, view: View) -> int:
    """Start everything, run the story, and stop everything, also after a failure or Ctrl-C."""
    if is_up(run_dir):
        raise StackError(f"a demo is running already in run_dir={run_dir}: stop it first")
    stop_stack(run_dir)
    shutil.rmtree(run_dir, ignore_errors=True)
    run_dir.mkdir(parents=True)
    verdicts: list[bool] = []
    try:
        view.say("starting Kafka, Spark and Airflow (half a minute) ...")
        tables, extra_parts = run_dir / "tables", _choose_parts(options)
        product.write_include(run_dir / "include", tables, options.destination, extra_parts)
        os.environ["TIDEGATE_INCLUDE"] = str(run_dir / "include")
        stack = start_stack(run_dir, (*DEFAULT_PARTS, *extra_parts), tied_to=os.getpid(), report=view.say)
        demo_tables = _open_tables(stack, tables, options.destination)
        _tell_story(story.begin_story(stack, demo_tables, options.rate, options.burst, view), options, verdicts)
    except KeyboardInterrupt:
        view.say("stopped" if verdicts else "stopped before the verdict")
    finally:
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)  # a second Ctrl-C must not leave servers behind
        view.close()
        view.say("stopping everything ...")
        stop_stack(run_dir)
    return 0 if all(verdicts) and verdicts else 1


def _choose_parts(options: argparse.Namespace) -> list[str]:
    """The parts beside those of every demo; `bigquery` among them is a destination."""
    extra_parts = [part for part in options.parts.replace(",", " ").split() if part not in DEFAULT_PARTS]
    if "bigquery" in extra_parts:
        options.destination = "bigquery"
    elif options.destination == "bigquery":
        extra_parts.append("bigquery")
    return extra_parts


def _open_tables(stack: Stack, folder: Path, destination: str) -> Tables:
    """A reader of the tables in the destination."""
    if destination == "iceberg":
        return IcebergTables(product.CATALOG, resolve_properties(stack.variables, folder))
    return BigQueryTables(stack.variables["BIGQUERY_PROJECT"], stack.bigquery_endpoint, folder)


def _tell_story(demo_story: story.Story, options: argparse.Namespace, verdicts: list[bool]) -> None:
    """Flush, settle, let a flood of deletes wait and approve it, judge; then on until Ctrl-C unless once was enough."""
    try:
        story.flush_until(demo_story, options.flushes)
        story.settle_story(demo_story)
        is_held = story.hold_flood(demo_story, waits_for_person=not options.once)
        story.settle_story(demo_story)
        verdicts.append(story.judge_tables(demo_story) and is_held)
        demo_story.view.say(
            f"VERDICT: {'every table equals the shop' if verdicts[0] else 'something is wrong, see above'}"
        )
        if not options.once:
            story.show_until_stopped(demo_story)
    finally:
        demo_story.generator.end()


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
