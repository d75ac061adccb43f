"""Ending a stack must find everything that it started, and nothing else."""

import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from local.processes import MARK_VARIABLE, Identity, end_all_processes, find_processes, start_process

Starter = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def mark() -> str:
    return uuid.uuid4().hex


@pytest.fixture
def starter(tmp_path: Path, mark: str) -> Iterator[Starter]:
    """Starts shell commands under the test's mark, and reaps them in the end."""
    processes = []

    def begin(script: str, name: str = "server") -> "subprocess.Popen[bytes]":
        process = start_process(
            ["bash", "-c", script],
            {MARK_VARIABLE: f"{mark}:{name}", "PATH": "/bin:/usr/bin"},
            tmp_path,
            tmp_path / "log",
        )
        processes.append(process)
        return process

    yield begin
    end_all_processes(mark, [], 0)
    for process in processes:
        process.kill()
        process.wait()


def wait_for_condition(condition: Callable[[], bool]) -> bool:
    """Whether it was true once: asking again could meet a process in the middle of its exec, without an environment."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def count_sleepers(mark: str, leaders: Sequence[Identity] = ()) -> int:
    """Processes of the stack whose exec is over."""
    return sum(process.name() == "sleep" for process in find_processes(mark, leaders))


def test_a_process_is_detached_from_its_callers_terminal(starter: Starter, tmp_path: Path) -> None:
    process = starter("cat; echo said; exec sleep 60")
    assert wait_for_condition(lambda: (tmp_path / "log").read_text() == "said\n")
    assert psutil.Process(process.pid).terminal() is None


def test_a_recycled_process_id_is_not_ours(starter: Starter, mark: str) -> None:
    stranger = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert Identity(stranger.pid, born=1.0, mark=mark).find_process() is None
        end_all_processes(mark, [Identity(stranger.pid, born=1.0, mark=mark)], 0)
        assert stranger.poll() is None
    finally:
        stranger.communicate()


def test_a_grandchild_whose_parent_was_killed_is_ended(starter: Starter, mark: str) -> None:
    parent = starter("sleep 60 & wait")
    assert wait_for_condition(lambda: count_sleepers(mark) == 1)
    parent.kill()
    parent.wait()
    assert len(find_processes(mark, [])) == 1
    end_all_processes(mark, [], 1)
    assert find_processes(mark, []) == []


def test_a_grandchild_that_lost_its_mark_is_found_by_its_session(starter: Starter, mark: str) -> None:
    parent = starter(f"env -u {MARK_VARIABLE} sleep 60 & wait")
    leader = Identity.from_pid(parent.pid, f"{mark}:server")
    assert wait_for_condition(lambda: count_sleepers(mark, [leader]) == 1)
    parent.kill()
    parent.wait()
    assert wait_for_condition(lambda: len(find_processes(mark, [leader])) == 1)
    end_all_processes(mark, [leader], 1)
    assert find_processes(mark, [leader]) == []


def test_a_process_that_ignores_the_request_is_killed(starter: Starter, mark: str, tmp_path: Path) -> None:
    process = starter("trap '' TERM; echo ready; while :; do sleep 1; done")
    assert wait_for_condition(lambda: (tmp_path / "log").read_text() == "ready\n")
    end_all_processes(mark, [], 0.3)
    assert process.poll() is not None


def test_ending_one_server_leaves_the_others_of_its_stack(starter: Starter, mark: str) -> None:
    starter("exec sleep 60", "kafka")
    spark = starter("exec sleep 60", "spark")
    assert wait_for_condition(lambda: count_sleepers(mark) == 2)
    end_all_processes(f"{mark}:kafka", [], 1)
    assert spark.poll() is None
    assert [process.pid for process in find_processes(mark, [])] == [spark.pid]
