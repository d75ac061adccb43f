"""What programs read: the JSON of the command line, results of tasks, and the page's rows, byte for byte."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fakes import World, build_pipeline
from fakes.clock import SteppedTime
from fakes.publications import Outside
from golden_files import compare_with_golden
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField
from tidegate.adapters.iceberg import history
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.cli import main as command_line
from tidegate.cli import session as command_session
from tidegate.cli.commands import progress
from tidegate.errors import ConfigurationError, GiveUp, RetryLater
from tidegate.flush.flush import flush
from tidegate.model.ownership import Ownership, TableKind
from tidegate.model.table_state import TableFiles
from tidegate.publications.publish import publish
from tidegate.spec.runtime import Maintenance
from tidegate_airflow import tasks
from tidegate_airflow.dags.maintenance import report_leftovers
from tidegate_airflow.web import airflow_runs, publications
from tidegate_airflow.web.publications import PublicationsView

GOLDEN = Path(__file__).parents[2] / "golden" / "results"
NAME, OTHER = "lake.shop.orders", "lake.shop.lines"


class Results:
    """Lines of JSON with a title each."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self.lines = capsys, list[str]()

    def add(self, title: str, result: Any) -> None:
        self.lines += [f"# {title}", json.dumps(result)]

    def run(self, *words: str) -> None:
        """What a command prints, and its exit code."""
        self._capsys.readouterr()
        code = command_line.main(words)
        self.lines += [f"# {' '.join(words)}: {code}", self._capsys.readouterr().out.rstrip("\n")]

    def compare(self, name: str) -> None:
        compare_with_golden(GOLDEN / f"{name}.txt", "".join(f"{line}\n" for line in self.lines))


@pytest.fixture
def results(capsys: pytest.CaptureFixture[str]) -> Results:
    return Results(capsys)


@pytest.fixture
def include(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for folder in ("pipelines", "publications"):
        (tmp_path / folder).mkdir()
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(tmp_path))
    return tmp_path


@pytest.fixture
def outside() -> Outside:
    outside = Outside(delivery="exactly-once", heartbeat_topic="beats")
    outside.table.commit(a="1", b="1")
    return outside


def test_commands_tell_where_publications_stand(
    include: Path, outside: Outside, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [("left", None), ("right", None)]
    monkeypatch.setattr(progress, "load_publications", lambda _: names)
    for assemble in ("assemble_publication", "assemble_checked_publication"):
        monkeypatch.setattr(progress, assemble, lambda _include, name, _resolve: _get_session(outside, name))
    results.run("status", "left", "--json")
    results.run("status", "left")
    results.run("publish", "left", "--dry-run", "--json")
    results.run("publish", "left", "--json")
    outside.table.commit(a="2", b="1")
    outside.table.commit(a="2")
    results.run("status", "--json")
    results.run("status", "left")
    outside.table.uuid = "u2"
    results.run("status", "left", "--json")
    results.run("status", "left")
    results.add("heartbeats", outside.topic.sent_messages)
    results.compare("publications")


def _get_session(outside: Outside, name: str) -> Any:
    if name == "right":
        raise ConfigurationError("publication=right: its file is wrong")
    return outside.open_session()


class _View(PublicationsView):
    """Publications in memory."""

    def __init__(self, outside: Outside) -> None:
        super().__init__(Path(), lambda _: None)
        self.outside = outside
        self.failure: Exception | None = None

    def get_session(self, name: str) -> Any:
        if self.failure:
            raise self.failure
        return self.outside.open_session()


def test_page_shows_publications_that_answer_fail_and_need_a_person(
    outside: Outside, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedTime()
    monkeypatch.setattr(publications, "time", clock)
    monkeypatch.setattr(airflow_runs, "read_dag_statuses", lambda _: {})
    for failure in (None, RetryLater("brokers=b:9092 gave no answer"), GiveUp("table=t was replaced")):
        view = _View(outside)
        view.failure = failure
        results.add(f"first look: {failure}", view.get_overview(["left"]))
    view = _View(outside)
    publish(outside.open_session())
    for failure in (None, RetryLater("brokers=b:9092 gave no answer"), GiveUp("table=t was replaced"), None):
        outside.table.commit(a=str(clock.seconds))
        view.failure = failure
        results.add(f"a later look: {failure}", view.get_overview(["left"]))
        clock.seconds += 600
    results.compare("page_publications")


def test_maintenance_and_compaction_tell_what_changed(
    include: Path, results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, pipeline = World(), build_pipeline(maintenance=Maintenance(keep_snapshots=1))
    world.broker.create("orders")
    for key in "abcdef":
        world.broker.produce("orders", {"id": key}, {"id": key, "name": "x"})
        flush(world.open_session(pipeline))
    monkeypatch.setattr(tasks, "assemble_session", lambda *_: world.open_session(pipeline))
    monkeypatch.setattr(command_session, "assemble_checked_pipeline", lambda *_: world.open_session(pipeline))
    read_files = world.destination.read_files
    monkeypatch.setattr(world.destination, "read_files", lambda name, **words: _read_files(read_files, name, words))
    cleaned = [{"table": name, "measure": True} for name in ("lake.shop.broken", NAME)]
    results.add("compact", tasks.run_compact("shop", cleaned))
    results.add("compact again", tasks.run_compact("shop", cleaned[1:]))
    world.broker.produce("orders", {"id": "z"}, {"id": "z", "name": "x"})
    flush(world.open_session(pipeline))
    results.add("maintain", tasks.run_maintain("shop", NAME))
    results.run("maintain", "shop", "--json")
    results.run("maintain", "shop")
    results.compare("maintenance")


def _read_files(read_files: Any, name: str, words: dict[str, Any]) -> TableFiles | None:
    if name == "lake.shop.broken":
        raise OSError("the catalog does not answer")
    table_files: TableFiles | None = read_files(name, **words)
    return table_files


def test_janitor_tells_what_is_left_behind(include: Path, results: Results) -> None:
    place = {"type": "sql", "uri": f"sqlite:///{include}/catalog.db", "warehouse": f"file://{include}/warehouse"}
    (include / "catalogs.yaml").write_text(yaml.safe_dump({"lake": {"type": "iceberg", "properties": place}}))
    lake = Catalogs({"lake": place}).catalog("lake")
    lake.create_namespace("shop")
    schema = Schema(NestedField(1, "id", LongType()))
    for pipeline in ("shop", "gone"):
        mark = Ownership(TableKind.BATCHES, pipeline, "").properties
        lake.create_table(f"shop.tidegate_{pipeline}_batches", history.COLUMNS, properties=mark)
        lake.create_table(f"shop.{pipeline}", schema, properties={f"tidegate.{pipeline}.position": "{}"})
    results.add("leftovers", report_leftovers())
    results.compare("leftovers")
