"""Readings of publications behind the page: new ones after a while without a look, the last ones where one fails."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from fakes.clock import SteppedTime
from fakes.publications import Outside
from tidegate.config import publication_file
from tidegate.connections import Resolve
from tidegate.errors import RetryLater
from tidegate.ports.publication_session import PublicationSession
from tidegate.publications.publish import publish
from tidegate_airflow.web import publications
from tidegate_airflow.web.pipeline_contexts import CONTEXT_TTL_SECONDS
from tidegate_airflow.web.publications import PublicationsView


class View(PublicationsView):
    """Publications in memory instead of files."""

    def __init__(self, outside: dict[str, Outside], resolve: Resolve) -> None:
        super().__init__(Path(), resolve)
        self.outside = outside
        self.failure: Exception | None = None

    def get_session(self, name: str) -> PublicationSession:
        if self.failure:
            raise self.failure
        return self.outside[name].open_session()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SteppedTime:
    stepped_time = SteppedTime()
    monkeypatch.setattr(publications, "time", stepped_time)
    return stepped_time


@pytest.fixture
def view(clock: SteppedTime) -> View:
    publications = {name: Outside(delivery="exactly-once") for name in ("left", "right")}
    for value in publications.values():
        value.table.commit(a="1", b="1")
        publish(value.open_session())
    return View(publications, lambda _: pytest.fail("no connection is needed"))


def read_readings(view: View) -> dict[str, tuple[Any, ...]]:
    readings = view.get_readings(["left", "right"], patience=60)
    return {
        name: (reading.status and reading.status.snapshots_behind, reading.read_at, reading.error)
        for name, reading in readings.items()
    }


def test_first_look_after_a_while_waits_for_new_numbers(view: View, clock: SteppedTime) -> None:
    assert read_readings(view) == {"left": (0, 1000.0, None), "right": (0, 1000.0, None)}
    view.outside["left"].table.commit(a="2", b="1")
    clock.seconds += 600
    assert read_readings(view) == {"left": (1, 1600.0, None), "right": (0, 1600.0, None)}


def test_first_look_is_under_way_for_half_a_minute_and_then_unanswered(
    view: View, clock: SteppedTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegate_airflow.web.airflow_runs.read_dag_statuses", lambda _: {})
    gate, open_session = threading.Event(), view.get_session

    def hang(name: str) -> PublicationSession:
        assert gate.wait(60)
        return open_session(name)

    monkeypatch.setattr(view, "get_session", hang)
    for seconds, is_looking in ((0, True), (29, True), (31, False)):
        clock.seconds = 1000.0 + seconds
        monkeypatch.setattr(view, "_looked", clock.seconds)
        reading = view.get_readings(["left"], patience=0)["left"]
        assert (reading.is_looking, publications._to_row(reading, None).get("looking", False)) == (is_looking,) * 2
    gate.set()
    assert view.get_readings(["left"], patience=60)["left"].is_looking is False
    (row,) = view.get_overview(["left"])
    assert ("looking" in row, row["error"]) == (False, None)


def test_failure_keeps_the_last_numbers_and_their_time(view: View, clock: SteppedTime) -> None:
    read_readings(view)
    view.failure = RetryLater("brokers=b:9092 gave no answer")
    clock.seconds += 600
    error = "brokers=b:9092 gave no answer"
    assert read_readings(view) == {"left": (0, 1000.0, error), "right": (0, 1000.0, error)}


def test_nothing_is_kept_of_publications_that_went(view: View, clock: SteppedTime, tmp_path: Path) -> None:
    (tmp_path / "publications").mkdir()
    for name in ("left", "right"):
        (tmp_path / "publications" / f"{name}.yaml").touch()
    view._include = tmp_path
    assert view.list_names() == ["left", "right"]
    read_readings(view)
    (tmp_path / "publications" / "right.yaml").unlink()
    assert view.list_names() == ["left"]
    assert set(view._known) == {"left"}


def test_publication_that_goes_while_somebody_waits_for_its_first_reading_stops_no_answer(
    view: View, clock: SteppedTime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "publications").mkdir()
    (tmp_path / "publications" / "left.yaml").touch()
    view._include = tmp_path

    def forget(*_: Any) -> None:
        assert view.list_names() == ["left"]  # as another request does

    monkeypatch.setattr(view._workers, "submit", lambda *_: None)
    monkeypatch.setattr(view._changed, "wait_for", forget)
    readings = view.get_readings(["left", "right"], patience=0)
    assert {name: reading.is_looking for name, reading in readings.items()} == {"left": True, "right": True}


def test_publications_that_are_opened_again_and_again_have_their_files_read_once(
    clock: SteppedTime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each would have all the others' files read: with hundreds the web server would do nothing else."""
    (tmp_path / "publications").mkdir()
    (tmp_path / "catalogs.yaml").write_text(
        "lake: {type: iceberg, properties: {type: rest, uri: 'http://localhost:1'}}\n"
    )
    names = [f"out{number}" for number in range(12)]
    for name in names:
        text = f"table: lake.shop.orders\ntopic: {name}\nkey: {{fields: [id]}}\nkafka: {{bootstrap.servers: 'b:1'}}\n"
        (tmp_path / "publications" / f"{name}.yaml").write_text(text + "spark: {remote: 'sc://b:1'}\n")
    view, paths, load = PublicationsView(tmp_path, lambda _: {}), list[Path](), publication_file.load_publication
    monkeypatch.setattr(publication_file, "load_publication", lambda file, *arguments: paths.append(file) or load(file))
    for _ in range(3):
        assert [view.get_session(name).publication.name for name in names] == names
        clock.seconds += CONTEXT_TTL_SECONDS + 1
    assert len(paths) == len(names)


def test_catalog_that_hangs_keeps_no_request_of_a_publications_page(
    view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a pipeline: what has not answered says so in its own place."""
    gate = threading.Event()
    monkeypatch.setattr("tidegate_airflow.web.pipelines.ANSWER_TIMEOUT_SECONDS", 0.05)
    for reader in ("airflow_runs.read_runs", "publications.read_errors", "airflow_runs.read_asset_ids"):
        monkeypatch.setattr(f"tidegate_airflow.web.{reader}", lambda *_: [])
    monkeypatch.setattr("tidegate_airflow.web.airflow_runs.read_dag_statuses", lambda _: {})
    monkeypatch.setattr(view, "get_overview", lambda names: [{"publication": name} for name in names])
    monkeypatch.setattr(view, "get_session", lambda name: gate.wait(60))
    with ThreadPoolExecutor(1) as workers:
        look = workers.submit(view.get_publication, "left")
        try:
            assert look.result(20)["snapshots"] == {
                "error": "no answer within 0 s: brokers or catalog are slow or gone"
            }
        finally:
            gate.set()
