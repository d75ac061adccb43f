"""Jobs through Spark Connect: what happens before a server is spoken to."""

import importlib
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tidegate.adapters.spark.entry_points import import_spark_side

MEETING_SECONDS = 0.3


def test_one_thread_at_a_time_imports_what_a_job_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark's packages import each other in circles: two threads that load them at once see half of them."""
    meeting, have_met = threading.Barrier(2), []

    def import_module(name: str) -> str:
        try:
            meeting.wait(MEETING_SECONDS)
            have_met.append(name)
        except threading.BrokenBarrierError:
            meeting.reset()
        return name

    monkeypatch.setattr(importlib, "import_module", import_module)
    with ThreadPoolExecutor(2) as threads:
        import_results = threads.map(import_spark_side, ["stage.job", "merge.job"])
        assert [*import_results] == [["tidegate_spark.stage.job"], ["tidegate_spark.merge.job"]]
    assert have_met == []
