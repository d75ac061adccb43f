"""Owns what the terminal shows: a live table on a terminal, one line per flush anywhere else."""

import time
from collections.abc import Iterable
from datetime import datetime

from rich.console import Console
from rich.live import Live
from rich.table import Table

from demo.product import Progress
from demo.verdict import Verdict

MAX_WRONG = 10


class View:
    """Shows progress; `say` prints a lasting line above whatever is live."""

    def __init__(self, airflow_url: str = "") -> None:
        self.console = Console(highlight=False, soft_wrap=True)
        self.airflow_url = airflow_url
        self._live: Live | None = None
        self._told: set[tuple[str, int]] = set()

    def say(self, line: str) -> None:
        """One lasting line."""
        self.console.print(line, markup=False)

    def show(self, produced: int, flushes: dict[str, int], progress: Iterable[Progress]) -> None:
        """The state now; on a terminal the table is drawn again, elsewhere only new flushes are printed."""
        if not self.console.is_terminal:
            self._new_flushes(produced, progress)
            return
        if self._live is None:
            self._live = Live(console=self.console, auto_refresh=False)
            self._live.start()
        self._live.update(self._table(produced, flushes, progress), refresh=True)

    def close(self) -> None:
        """Leave the last picture where it is; the next `show` starts a new one below."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def verdict(self, verdicts: Iterable[Verdict], left: Iterable[str]) -> None:
        """The result per table, with some rows, and what the intermediate tables still hold."""
        for verdict in verdicts:
            word = "EQUAL" if verdict.ok else f"DIFFERENT in {len(verdict.wrong)} places"
            self.say(f"{verdict.table}: {word}: {verdict.rows} rows, {verdict.truth} in the shop")
            for line in verdict.wrong[:MAX_WRONG]:
                self.say(f"    {line}")
            for row in verdict.samples:
                self.say("    " + ", ".join(f"{name}={_short(value)}" for name, value in row.items()))
        remains = list(left)
        self.say("intermediate tables: " + ("; ".join(remains) if remains else "empty, no data file left on disk"))

    def _table(self, produced: int, flushes: dict[str, int], progress: Iterable[Progress]) -> Table:
        title = f"{produced:,} events produced · Airflow {self.airflow_url} (no log-in) · Ctrl-C stops everything"
        table = Table(title=title, title_justify="left", expand=False)
        for column in ("pipeline", "rows", "flushes", "batch", "lag", "valid through", "last flush"):
            table.add_column(column, justify="left" if column in ("pipeline", "last flush") else "right")
        for one in progress:
            last = _flush(one) if not one.error else one.error
            cells = (one.rows, flushes.get(one.pipeline, 0), one.batch, one.lag, _clock(one.valid_through))
            table.add_row(one.pipeline, *("-" if cell is None else f"{cell}" for cell in cells), last)
        return table

    def _new_flushes(self, produced: int, progress: Iterable[Progress]) -> None:
        for one in progress:
            for batch in one.batches:
                if (one.pipeline, batch["batch"]) not in self._told:
                    self._told.add((one.pipeline, batch["batch"]))
                    self.say(
                        f"{time.strftime('%H:%M:%S')} {one.pipeline}: {_words(batch)}; lag {one.lag}, "
                        f"{one.rows} rows, {produced} events produced"
                    )


def _flush(progress: Progress) -> str:
    return f"{_clock(progress.batches[-1]['published_at'])} {_words(progress.batches[-1])}" if progress.batches else "-"


def _words(batch: object) -> str:
    """One published batch in words."""
    names = ("staged", "inserted", "updated", "deleted", "seconds")
    known = batch if isinstance(batch, dict) else {}
    return f"batch {known.get('batch')}: " + ", ".join(f"{known.get(name)} {name}" for name in names)


def _clock(moment: str | None) -> str | None:
    return datetime.fromisoformat(moment).strftime("%H:%M:%S") if moment else None


def _short(value: object) -> str:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else str(value)
