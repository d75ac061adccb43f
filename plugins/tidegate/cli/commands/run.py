"""``tidegate run``: flushes of many pipelines on their intervals, in one process that stays."""

import argparse
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from tidegate.adapters.server_probe import Patience
from tidegate.cli import output
from tidegate.config.pipeline_file import list_unread_warnings
from tidegate.connections import read_connection_from_env
from tidegate.flush.merge_queue import QueueResult
from tidegate.monitoring.failure_streak import FailureStreak, is_worth_telling
from tidegate.monitoring.status import format_counts
from tidegate.runner.pipeline_files import PipelineFiles, PublicationFiles
from tidegate.runner.supervisor import Supervisor
from tidegate.runner.work import Place, RunOutcome, Work
from tidegate.runner.worker import Shared, Slots
from tidegate.settings import NAMED_FOLDERS, find_include_folder, format_path, list_written_files

STOPPED_AT_ONCE = 130


def run_run(args: argparse.Namespace) -> int:
    """Until SIGTERM or Ctrl-C: 0 when what ran then has ended. The second signal ends the process at once."""
    Patience.seconds = 0.0  # a run that waits for its server would keep a slot from the others; it is tried again
    include = find_include_folder()
    stop = threading.Event()
    printer = _Printer(args)
    shared = Shared(Slots(args.flushes_at_once), stop, printer)
    place = Place(
        include=include,
        resolve=read_connection_from_env,
        files=PipelineFiles(include),
        publications=PublicationFiles(include),
        merges_at_once=args.merges_at_once,
        report_queue=printer.report_queue,
    )
    supervisor = Supervisor(place, args.name, shared)
    supervisor.check_names()
    for warning in () if args.name else _list_unread_warnings(include):
        print(f"warning: {warning}", file=sys.stderr)

    def handle_signal(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            os.write(2, b"stopped: what is published stands, and nothing is half published\n")
            os._exit(STOPPED_AT_ONCE)  # threads that wait for Spark would hold up an orderly end
        stop.set()
        os.write(2, b"stopping: what runs now ends first; a second signal stops at once\n")

    handlers = {number: signal.signal(number, handle_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    names = ", ".join(args.name) or f"all of {format_path(include)}"
    print(f"running: {names}; Ctrl-C or SIGTERM ends it behind what runs then", file=sys.stderr)
    try:
        supervisor.run()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return 0


def _list_unread_warnings(include: Path) -> Iterator[str]:
    """A sentence for each file that begins no work and fails nowhere."""
    for folder in NAMED_FOLDERS:
        for file in list_written_files(include / folder):
            if file.suffix != ".yaml":
                yield f"{format_path(file)}: its name does not end in .yaml, and it is not read; rename it"
    yield from list_unread_warnings(include)


class _Printer:
    """Implements `Reporter`: lines on standard output, failures on standard error; with --json all on the former.

    A line that cannot be written, as to a full disk or an ended reader, is lost and delays no flush.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self._lock = threading.Lock()
        self._failed_streams = set[object]()  # where the last line was not taken

    def report_run(self, work: Work, outcome: RunOutcome) -> None:
        for staged_batch in outcome.staged_batches:
            self._print_event(work, "staged", output.format_staged(staged_batch), staged_batch.to_dict())
        for batch in outcome.batches:
            self._print_event(work, "published", output.format_published(batch), batch.to_dict())
        if outcome.publication is not None:
            published_run = outcome.publication.to_dict()
            self._print_event(work, "produced", output.format_pairs(published_run), published_run)
        for report in outcome.maintenance_reports:
            self._print_event(work, "maintained", output.format_maintenance(report), report.to_dict())
        for verification in outcome.verifications:
            facts = verification.counts
            self._print_event(work, "verified", f"{verification.table}: {format_counts(facts)}", facts)

    def report_queue(self, work: Work, queue: QueueResult) -> None:
        """Report a batch that begins to wait for an approval, and its end."""
        if queue.ended is not None:
            reason = queue.ended.describe(f"{work.name} table={queue.table}")
            self._print_event(work, "released", f"{reason}: waits no more", {"table": queue.table, "reason": reason})
        if queue.begun is not None and self._args.json:  # else its warning is in the log, which is standard error
            self._print_event(work, "held", "", {"table": queue.table, "reason": str(queue.begun)})

    def report_failure(self, work: Work, streak: FailureStreak) -> None:
        """Not each time: see `is_worth_telling`."""
        if not is_worth_telling(streak.runs):
            return
        repeats = f" (failed {streak.runs} times)" if streak.runs > 1 else ""
        data = {"reason": streak.reason, "runs": streak.runs}
        self._print_event(work, "failed", f"{work.name}: failed{repeats}: {streak.reason}", data)

    def report_recovery(self, work: Work, streak: FailureStreak) -> None:
        text = f"{work.name}: well again after {streak.runs} failed runs"
        self._print_event(work, "recovered", text, {"reason": streak.reason, "runs": streak.runs})

    def _print_event(self, work: Work, event: str, text: str, data: dict[str, Any]) -> None:
        place = sys.stderr if event == "failed" and not self._args.json else sys.stdout
        line = (
            json.dumps({"work": work.name, "event": event, **data})
            if self._args.json
            else output.make_printable(output.name_command(text))
        )
        with self._lock:
            try:
                print(line, flush=True, file=place)
                self._failed_streams.discard(place)
            except OSError as fault:
                if place not in self._failed_streams:
                    self._failed_streams.add(place)
                    with suppress(OSError):
                        reason = fault.strerror or fault
                        print(f"what is done cannot be written: {reason}; it goes on", file=sys.stderr, flush=True)
