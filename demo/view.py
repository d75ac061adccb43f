"""Prints the progress: a live table on a terminal, else one line per flush."""

import time
from collections.abc import Iterable
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.product import Progress
from demo.verdict import Verdict

MAX_WRONG_LINES = 10


class View:
    """Shows progress; `say` prints a lasting line above whatever is live."""

    def __init__(self, airflow_url: str = "") -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.airflow_url = airflow_url
        self._live: Live | None = None
        self._printed_batches: set[tuple[str, int]] = set()

    def say(self, line: str) -> None:
        """One lasting line."""
        self.console.print(line, markup=False)

    def show(self, event_count: int, flushes: dict[str, int], progress: Iterable[Progress]) -> None:
        """The state now; on a terminal the table is drawn again, elsewhere only new flushes are printed."""
        if not self.console.is_terminal:
            self._say_new_flushes(event_count, progress)
            return
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
        self._live.update(self._build_table(event_count, flushes, progress), refresh=True)

    def close(self) -> None:
        """Leave the last table on the screen; the next `show` starts a new one below it."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show_verdict(self, verdicts: Iterable[Verdict], leftovers: Iterable[str]) -> None:
        """Print the result of each table, with some rows, and the rows that intermediate tables still have."""
        for verdict in verdicts:
            word = "EQUAL" if verdict.ok else f"DIFFERENT in {len(verdict.wrong)} places"
            self.say(f"{verdict.table}: {word}: {verdict.rows} rows, {verdict.truth} in the shop")
            for line in verdict.wrong[:MAX_WRONG_LINES]:
                self.say(f"    {line}")
            for row in verdict.samples:
                self.say("    " + ", ".join(f"{name}={_format_value(value)}" for name, value in row.items()))
        remains = list(leftovers)
        self.say("intermediate tables: " + ("; ".join(remains) if remains else "empty, no data file left on disk"))

    def _build_table(self, event_count: int, flushes: dict[str, int], progress: Iterable[Progress]) -> Table:
        title = f"{event_count:,} events produced · Airflow {self.airflow_url} (no log-in) · Ctrl-C stops everything"
        table = Table(title=title, title_justify="left", expand=False)
        for column in ("pipeline", "rows", "flushes", "batch", "lag", "valid through", "last flush"):
            table.add_column(column, justify="left" if column in ("pipeline", "last flush") else "right")
        for pipeline in progress:
            last = _format_last_flush(pipeline) if not pipeline.error else pipeline.error
            cells = (
                pipeline.rows,
                flushes.get(pipeline.pipeline, 0),
                pipeline.batch,
                pipeline.lag,
                _format_clock(pipeline.valid_through),
            )
            table.add_row(pipeline.pipeline, *("-" if cell is None else f"{cell}" for cell in cells), last)
        return table

    def _say_new_flushes(self, event_count: int, progress: Iterable[Progress]) -> None:
        for pipeline in progress:
            for batch in pipeline.batches:
                if (pipeline.pipeline, batch["batch"]) not in self._printed_batches:
                    self._printed_batches.add((pipeline.pipeline, batch["batch"]))
                    self.say(
                        f"{time.strftime('%H:%M:%S')} {pipeline.pipeline}: {_format_batch(batch)}; lag {pipeline.lag}, "
                        f"{pipeline.rows} rows, {event_count} events produced"
                    )


def _format_last_flush(progress: Progress) -> str:
    return (
        f"{_format_clock(progress.batches[-1]['published_at'])} {_format_batch(progress.batches[-1])}"
        if progress.batches
        else "-"
    )


def _format_batch(batch: object) -> str:
    """One published batch in words."""
    names = ("staged", "inserted", "updated", "deleted", "seconds")
    counts = batch if isinstance(batch, dict) else {}
    return f"batch {counts.get('batch')}: " + ", ".join(f"{counts.get(name)} {name}" for name in names)


def _format_clock(moment: str | None) -> str | None:
    return datetime.fromisoformat(moment).strftime("%H:%M:%S") if moment else None


def _format_value(value: object) -> str:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else str(value)
