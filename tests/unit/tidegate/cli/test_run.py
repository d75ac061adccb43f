"""What `tidegate run` prints, and that nothing ends or begins anew where nobody takes it."""

import argparse
import io
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tidegate.adapters.server_probe import Patience
from tidegate.cli.commands.run import _Printer
from tidegate.cli.main import main
from tidegate.errors import ConfigurationError, HeldForApproval, RetryLater
from tidegate.flush.merge_queue import QueueResult
from tidegate.runner.schedule import Schedule
from tidegate.runner.supervisor import Supervisor
from tidegate.runner.work import RunOutcome
from tidegate.runner.worker import Shared, Slots, Worker
from tidegate.table.approval import Hold


class Disk(io.StringIO):
    """A log on a disk that is full for a while."""

    is_full = False

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(28, "No space left on device")
        return super().write(text)


class Batch:
    """A published batch, as far as it is told with --json."""

    def to_dict(self) -> dict[str, Any]:
        return {"table": "lake.shop.orders"}


class Flush:
    """A flush that publishes, then fails, in turns."""

    name, shared_files = "pipeline=orders", ()

    def __init__(self, file: Path) -> None:
        self.file, self.runs = file, 0

    def read_schedule(self) -> Schedule:
        return Schedule(60)

    def run(self, at_least: int) -> RunOutcome:
        self.runs += 1
        if self.runs % 2 == 0:
            raise RetryLater("no broker answers")
        return RunOutcome((Batch(),))  # type: ignore[arg-type]

    def digest_inputs(self) -> str:
        return ""


def test_run_for_a_server_that_is_down_waits_in_no_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(tmp_path))
    monkeypatch.setattr(Supervisor, "run", lambda _: None)
    monkeypatch.setattr(Patience, "seconds", 30.0)
    assert main(["run"]) == 0
    assert Patience.seconds == 0.0


@pytest.mark.parametrize("as_json", [True, False])
def test_log_on_a_full_disk_ends_no_worker_and_is_written_again_when_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    output, errors, now = Disk(), Disk(), [1e9]
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setattr("tidegate.cli.output.format_published", lambda batch: "lake.shop.orders: published")
    printer = _Printer(argparse.Namespace(json=as_json))
    worker = Worker(Flush(tmp_path), Shared(Slots(1), threading.Event(), printer, lambda: now[0]))

    def look() -> int:
        now[0] += 60
        worker.step()
        return worker.work.runs

    assert look() == 1
    output.is_full = True
    assert [look() for _ in range(6)] == [2, 3, 4, 5, 6, 7]
    errors.is_full = True
    assert [look() for _ in range(4)] == [8, 9, 10, 11]
    output.is_full = errors.is_full = False
    assert [look() for _ in range(2)] == [12, 13]
    assert output.getvalue().count("lake.shop.orders") == 2
    assert errors.getvalue().count("cannot be written: No space left on device") == 1


HOLD = Hold(batch=2, staged_attempt="a", stands_on="s", digest="d", rules=("deletes_over=0",), counts={"deleted": 1})
ENDED = "table=lake.shop.orders batch=2: held for approval: deletes_over=0, deleted=1"


def test_batch_that_begins_to_wait_for_an_approval_and_its_end_are_events(tmp_path: Path, capsys) -> None:
    work, waits = Flush(tmp_path), HeldForApproval("batch=2 waits", is_new=True)
    results = [
        QueueResult("lake.shop.orders", (), waits, held=waits),
        QueueResult("lake.shop.orders", (), HeldForApproval("batch=2 waits still"), held=HeldForApproval("it waits")),
        QueueResult("lake.shop.orders", (), ended=HOLD),
        QueueResult("lake.shop.orders", ()),
    ]
    for as_json in (True, False):
        for result in results:
            _Printer(argparse.Namespace(json=as_json)).report_queue(work, result)
    *lines, text = capsys.readouterr().out.splitlines()
    event = {"work": "pipeline=orders", "table": "lake.shop.orders"}
    assert [json.loads(line) for line in lines] == [
        {**event, "event": "held", "reason": "batch=2 waits"},
        {**event, "event": "released", "reason": f"pipeline=orders {ENDED}"},
    ]
    assert text == f"pipeline=orders {ENDED}: waits no more"  # its begin is a warning, which stands there already


class Wrong(Flush):
    """A pipeline whose file is wrong."""

    def read_schedule(self) -> Schedule:
        raise ConfigurationError("orders.yaml:1: colour=red: unknown key")


def test_file_that_is_wrong_for_a_night_is_told_a_dozen_times(tmp_path: Path, capsys) -> None:
    """It is read again every ten seconds."""
    now = [1e9]
    printer = _Printer(argparse.Namespace(json=False))
    worker = Worker(Wrong(tmp_path), Shared(Slots(1), threading.Event(), printer, lambda: now[0]))
    for _ in range(12 * 3600 // 11):
        worker.step()
        now[0] += 11
    lines = capsys.readouterr().err.splitlines()
    assert lines[:3] == [
        "pipeline=orders: failed: orders.yaml:1: colour=red: unknown key",
        "pipeline=orders: failed (failed 2 times): orders.yaml:1: colour=red: unknown key",
        "pipeline=orders: failed (failed 4 times): orders.yaml:1: colour=red: unknown key",
    ]
    assert len(lines) == 12


def test_files_that_begin_no_work_are_told_when_the_process_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(tmp_path))
    monkeypatch.setattr(Supervisor, "run", lambda _: None)
    for place in ("pipelines/Orders.yml", "publications/Out.yml", "pipelines/shop/users.yaml", "pipelines/good.yaml"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("")
    assert main(["run"]) == 0
    unread = "its name does not end in .yaml, and it is not read; rename it"
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("warning: ")] == [
        f"warning: {tmp_path}/pipelines/Orders.yml: {unread}",
        f"warning: {tmp_path}/publications/Out.yml: {unread}",
        f"warning: {tmp_path}/pipelines/shop/users.yaml: lies in a folder below pipelines/, and is not read; "
        "move it up",
    ]
