"""What a runner reads of the files, each time that one of them changes."""

import threading
from pathlib import Path
from typing import Any

import pytest
from tidegate.runner.pipeline_files import PipelineFiles, PublicationFiles
from tidegate.runner.slots import Slots
from tidegate.runner.work import Flush, Maintain, Place, RunOutcome
from tidegate.runner.worker import Shared, Worker

CATALOGS = "lake: {type: iceberg, properties: {type: rest, uri: 'http://localhost:1'}}\n"
DEFAULTS = "heartbeat: {interval: 30s, ignore_topics: [quiet]}\nmaintenance: {interval: 10m}\n"
PIPELINE = """
source:
  kafka: {{bootstrap.servers: 'localhost:1'}}
  topics: [{name}]
  key: {{format: json, fields: [id], schema: id BIGINT}}
  value: {{format: json, schema: 'id BIGINT, name STRING'}}
tables: [{{name: lake.shop.{name}}}]
merge: {{interval: -1, records_threshold: 1000}}
"""


class Ear:
    """A reporter that hears nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


@pytest.fixture
def include(tmp_path: Path) -> Path:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text(CATALOGS)
    for name in ("orders", "users"):
        (tmp_path / "pipelines" / f"{name}.yaml").write_text(PIPELINE.format(name=name))
    return tmp_path


@pytest.mark.parametrize("pipeline", ["orders", "users"])
def test_changed_defaults_reach_flushes_and_maintenance_that_go_on(include: Path, pipeline: str) -> None:
    place, now = Place(include, lambda _: None, PipelineFiles(include), PublicationFiles(include)), [1e9]
    shared = Shared(Slots(1), threading.Event(), Ear(), lambda: now[0])
    works = [Flush(place, pipeline), Maintain(place, pipeline)]
    runs = list[str]()
    for work in works:
        work.run = lambda _, name=work.name: runs.append(name) or RunOutcome()  # type: ignore[method-assign]
    workers = [Worker(work, shared) for work in works]

    def look(seconds: float) -> list[str]:
        now[0] += seconds
        runs.clear()
        for worker in workers:
            worker.step()
        return list(runs)

    flush, maintenance = works[0].name, works[1].name
    assert look(0) == [flush]
    assert look(60) == []
    (include / "defaults.yaml").write_text(
        "heartbeat: {interval: 30s, ignore_topics: [quiet]}\nmaintenance: {interval: 10m}\n"
    )
    assert look(0) == [flush, maintenance], "the interval of 30 seconds is over, and a tenth of 10 minutes"
    assert works[0].monitored_backlog[1].ignored == ("quiet",)
    assert look(29) == []
    assert look(1) == [flush]
    assert look(570) == [flush, maintenance]
