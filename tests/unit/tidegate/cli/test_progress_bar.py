"""A bar while a long command runs at a terminal, and nothing of it anywhere else."""

import io
import re
import threading
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from fakes import World, build_pipeline, build_table
from rich.console import Console
from tidegate.cli.commands import progress_bar
from tidegate.cli.commands.flush import _expect_work
from tidegate.cli.commands.progress_bar import ProgressBar, WatchedEngine, show_progress
from tidegate.flush.flush import flush
from tidegate.ports.session import Job


class ShowingEngine:
    """Waits before each job until the bar is there, so that what stands in it is drawn."""

    def __init__(self, engine: object, wait: Callable[[], None]) -> None:
        self._engine, self._wait = engine, wait

    def run(self, job: Job) -> None:
        self._wait()
        self._engine.run(job)  # type: ignore[attr-defined]


class Terminal(io.StringIO):
    """Says when the bar has been drawn for the first time."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if "flush orders" in text:
            self.drawn.set()
        return super().write(text)


def run_flush_beside(bar: ProgressBar, wait: Callable[[], None]) -> None:
    world = World()
    world.broker.create("orders", 2)
    for partition in (0, 1):
        world.broker.produce("orders", {"id": str(partition)}, {"id": str(partition), "name": "x"}, partition)
    tables = (build_table("lake.shop.orders"), build_table("lake.shop.copies"))
    session = world.open_session(build_pipeline(*tables))
    engine = WatchedEngine(ShowingEngine(session.engine, wait), bar)
    flush(replace(session, engine=engine), report=partial(_expect_work, bar))


def test_bar_counts_the_work_of_a_flush_and_names_the_one_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "PATIENCE_SECONDS", 0.0)
    terminal = Terminal()
    bar = ProgressBar("flush orders", Console(file=terminal, force_terminal=True, width=120))
    bar_texts: list[str] = []

    def look() -> None:
        assert terminal.drawn.wait(60)
        bar._progress.refresh()
        bar_texts.append(terminal.getvalue().rpartition("flush orders: ")[2].partition("\n")[0])

    bar.start()
    run_flush_beside(bar, look)
    bar.stop()
    bar_steps = [(text.partition(" \x1b")[0], re.findall(r"\d/\d", text)[0]) for text in bar_texts]
    assert list(dict.fromkeys(bar_steps)) == [
        ("stage batch=1", "0/3"),
        ("merge batch=1 lake.shop.orders", "1/3"),
        ("merge batch=1 lake.shop.copies", "2/3"),
    ]
    with bar.make_room():
        pass
    assert not bar._progress.live.is_started


def test_command_that_is_short_shows_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "PATIENCE_SECONDS", 3600.0)
    terminal = Terminal()
    bar = ProgressBar("flush orders", Console(file=terminal, force_terminal=True))
    bar.start()
    run_flush_beside(bar, lambda: None)
    bar.stop()
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("is_terminal", "json"), [(False, False), (False, True), (True, True)])
def test_nothing_is_shown_where_no_person_looks(is_terminal: bool, json: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "PATIENCE_SECONDS", 0.0)
    errors = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr("sys.stderr", errors)
    with show_progress(Namespace(json=json), "flush orders") as bar:
        run_flush_beside(bar, lambda: None)
    assert errors.getvalue() == ""


def test_result_is_printed_while_the_bar_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_bar, "PATIENCE_SECONDS", 0.0)
    terminal = Terminal()
    bar = ProgressBar("flush orders", Console(file=terminal, force_terminal=True))
    bar.start()
    assert terminal.drawn.wait(60)
    with bar.make_room():
        assert not bar._progress.live.is_started
    assert bar._progress.live.is_started
    bar.stop()
    assert not bar._progress.live.is_started
