"""Runs `make bench`: reads its options, runs the parts in order, and ends all that it started."""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import psutil
from confluent_kafka import KafkaException

from benchmarks import (
    batches,
    cores,
    fixed,
    fleet,
    formats,
    latency,
    live,
    marginal,
    memory,
    one_merge,
    parsing,
    publishing,
    reads,
    report,
    small_flush,
    verifying,
)
from benchmarks.result import Bench, Result
from benchmarks.sizes import FULL, QUICK, Sizes
from local.errors import StackError
from local.layout import ROOT, find_run_dir
from local.stack import Stack, start_stack, stop_stack

PARTS: dict[str, Callable[[Bench], Result]] = {
    "a": marginal.measure,
    "b": batches.measure,
    "c": small_flush.measure,
    "d": reads.measure,
    "e": latency.run_part,
    "f": cores.measure,
    "g": memory.measure,
    "h": formats.measure,
    "i": parsing.measure,
    "j": publishing.measure,
    "k": fixed.measure,
    "l": fleet.measure,
    "m": one_merge.measure,
    "n": live.measure,
    "o": verifying.measure,
}
BESIDE = ("a", "b", "c", "d")  # beside peers or fresh copies, on one server: a quick run of them takes some minutes
WITHOUT_BROKER = ("e", "i", "l")  # e and l bring a whole stack of their own, i needs none
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
RECORDED = ROOT / "benchmarks" / "results" / "recorded.json"
EPILOG = (
    "parts: a marginal cost of a million records, beside three peers; b ten batches; c few keys into large tables; "
    "d reads after many flushes; e a record through Airflow; f one core and two, one worker and two; g memory; "
    "h formats; i reading 200 pipelines; j publishing, beside a plain producer; "
    "k what a flush costs before the first record, and how soon a row is there, without Airflow; "
    "l many pipelines in a fleet, few with work; m batches that are staged one by one and merged as one; "
    "n how soon a record is in the live view; o verify, beside one read of topic and table"
)


def main(arguments: list[str]) -> int:
    """Run the parts; 0 when every table was right, else 1. A goal that is not met is reported, but is no failure."""
    options = _parse_options(arguments)
    for name in SIGNALS:
        signal.signal(name, _interrupt)
    base = find_run_dir() / "bench"
    base.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=base))
    is_complete = False
    try:
        results, descriptions = _measure(options, folder)
        _tell(results, descriptions, options, base)
        is_complete = len(results) == len(options.parts)
        return 0 if is_complete and all(result.right for result in results.values()) else 1
    except KeyboardInterrupt:
        print("bench: interrupted, everything started was stopped", file=sys.stderr)
    finally:
        for name in SIGNALS:
            signal.signal(name, signal.SIG_IGN)  # a second Ctrl-C must not leave servers behind
        stop_stack(folder / "stack")
        if is_complete:  # after a failure the logs stay
            shutil.rmtree(folder, ignore_errors=True)
    return 1


def _parse_options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="What a flush costs.", epilog=EPILOG)
    parser.add_argument("--parts", type=_parse_parts, metavar="a,c", help="only these parts")
    parser.add_argument(
        "--quick", action="store_true", help=f"little of {', '.join(BESIDE)}, unless parts are named: no figures"
    )
    parser.add_argument("--rows", type=_parse_positive, metavar="N", help="parts c, d: rows of the largest table")
    parser.add_argument("--flushes", type=_parse_counts, metavar="N,N", help="part d: read after so many flushes")
    parser.add_argument("--record", action="store_true", help=f"keep the figures in {RECORDED.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    options.parts = options.parts or [*(BESIDE if options.quick else PARTS)]
    if options.quick and options.record:
        parser.error("--quick measures too little to be recorded")
    return options


def _parse_parts(text: str) -> list[str]:
    parts = text.replace(" ", "").split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    return parts


def _parse_counts(text: str) -> tuple[int, ...]:
    return tuple(sorted(_parse_positive(part) for part in text.replace(" ", "").split(",")))


def _parse_positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of rows: use 1 or more")
    return number


def _choose_sizes(options: argparse.Namespace) -> Sizes:
    sizes = QUICK if options.quick else FULL
    if options.rows:
        sizes = replace(sizes, tables=(*sizes.tables[:-1], options.rows), read_rows=options.rows)
    return replace(sizes, reads_after=options.flushes) if options.flushes else sizes


def _measure(options: argparse.Namespace, folder: Path) -> tuple[dict[str, Result], dict[str, dict[str, Any]]]:
    """Run each part on its own broker, so that no part reads records of another; report a part that fails."""
    results, descriptions, sizes = {}, {}, _choose_sizes(options)
    for part in options.parts:
        load, start_seconds = os.getloadavg()[0], time.monotonic()
        place = folder / part
        place.mkdir()
        try:
            stack = Stack(folder / "stack")
            if part not in WITHOUT_BROKER:
                stack = start_stack(stack.run_dir, {"kafka"}, tied_to=os.getpid())
            results[part] = PARTS[part](Bench(stack, place, sizes, _build_reporter(part)))
        except (StackError, RuntimeError, OSError, KafkaException) as error:
            print(f"bench {part}: failed: {error}", file=sys.stderr, flush=True)
            continue
        finally:
            stop_stack(folder / "stack")
            shutil.rmtree(place / "lakes", ignore_errors=True)
        descriptions[part] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "seconds": round(time.monotonic() - start_seconds),
            "cores": psutil.cpu_count(),
            "load_before": round(load, 1),
            "load_after": round(os.getloadavg()[0], 1),
        }
        print(f"\n{report.format_tables(results[part])}\n{_format_values(descriptions[part])}\n", flush=True)
    return results, descriptions


def _tell(
    results: Mapping[str, Result],
    descriptions: Mapping[str, Mapping[str, Any]],
    options: argparse.Namespace,
    base: Path,
) -> None:
    """Print goals and the comparison, write the files."""
    parts = {part: report.to_json(result, descriptions[part]) for part, result in results.items()}
    recorded: dict[str, Any] = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    path = report.write(base, parts)
    print(report.format_table(report.build_goal_table(results)))
    if options.quick:
        print("These are quick sizes: the figures say that everything works, and nothing about the goals.")
    else:
        print(f"\n{report.format_table(report.build_comparison(results, recorded))}")
    for line in (line for result in results.values() for line in result.missing):
        print(f"missing: {line}")
    report.draw_goals(parts, path.with_suffix(".svg"))
    if options.record:
        recorded |= parts
        RECORDED.write_text(json.dumps(recorded, indent=1, ensure_ascii=False) + "\n")
        report.draw_goals(recorded, RECORDED.with_suffix(".svg"))
    print(f"\nWritten to {path} and {path.with_suffix('.svg').name}")


def _format_values(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _build_reporter(part: str) -> Callable[[str], None]:
    return lambda line: print(f"bench {part}: {line}", flush=True)


def _interrupt(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
