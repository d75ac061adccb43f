"""A bar on standard error while a command runs jobs at a terminal: from two seconds on, and gone when it ends.

Without a terminal, and with ``--json``, there is none: each result is a line, printed when it is known.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock, Timer

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tidegate.jobs.stage_job import StageJob
from tidegate.ports.session import Engine, Job

PATIENCE_SECONDS = 2.0  # what takes less is over before anybody has read it


class ProgressBar:
    """The work that has ended, of all that is expected, and what runs now. Shows nothing without a console."""

    def __init__(self, title: str, console: Console | None) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=console is None,
            transient=True,
            redirect_stdout=False,  # results go where they are asked for
            redirect_stderr=False,
        )
        self._task = self._progress.add_task(title, total=None)
        self._title = title
        self._lock = RLock()
        self._is_open = True
        self._timer = Timer(PATIENCE_SECONDS, self._show)
        self._timer.daemon = True

    def start(self) -> None:
        """Show the bar if the command takes long."""
        if not self._progress.disable:
            self._timer.start()

    def stop(self) -> None:
        with self._lock:
            self._is_open = False
            self._timer.cancel()
            if not self._progress.disable:  # rich 14 ends also a bar that is off, with an empty line on standard output
                self._progress.stop()

    def expect(self, pieces: int) -> None:
        """`pieces`: batches to stage, and to merge."""
        self._progress.update(self._task, total=(self._progress.tasks[0].total or 0) + pieces)

    def reach(self, part_count: int, activity: str) -> None:
        """So many pieces have ended, and this runs now."""
        self._progress.update(self._task, completed=part_count, description=f"{self._title}: {activity}")

    @contextmanager
    def make_room(self) -> Iterator[None]:
        """Hide the bar while a result is printed."""
        with self._lock:
            is_shown = self._progress.live.is_started
            if is_shown:
                self._progress.stop()
            yield
            if is_shown:
                self._progress.start()

    def _show(self) -> None:
        with self._lock:
            if self._is_open:
                self._progress.start()


class WatchedEngine:
    """Implements `Engine` and tells the bar of each job. A batch may need several merges: the first makes its table."""

    def __init__(self, engine: Engine, bar: ProgressBar) -> None:
        self._engine = engine
        self._bar = bar
        self._started_stages: dict[tuple[str, int, str], None] = {}

    def run(self, job: Job) -> None:
        verb = "stage" if isinstance(job, StageJob) else "merge"
        table = getattr(job, "table", "")
        self._started_stages[verb, job.batch, table] = None
        self._bar.reach(len(self._started_stages) - 1, f"{verb} batch={job.batch} {table}".rstrip())
        self._engine.run(job)


@contextmanager
def show_progress(words: argparse.Namespace, title: str) -> Iterator[ProgressBar]:
    """A bar while the block runs; removed before an error is printed."""
    is_wanted = sys.stderr.isatty() and not getattr(words, "json", False)
    bar = ProgressBar(title, Console(stderr=True) if is_wanted else None)
    bar.start()
    try:
        yield bar
    finally:
        bar.stop()
