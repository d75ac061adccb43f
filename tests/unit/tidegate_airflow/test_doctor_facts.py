"""What the doctor hears of a real Airflow with its own database: in a process of its own, as the doctor asks it."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from seeded_mistakes import require_found
from tidegate.diagnosis.finding import Severity
from tidegate.wiring.doctor import ask_airflow
from tidegate_airflow.doctor_facts import check_airflow, has_dags, is_too_old

ROOT = Path(__file__).parents[3]
FILL = """
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.utils.db import initdb
from airflow.utils.session import create_session

initdb()
with create_session() as session:
    session.add(DagBundleModel(name="from-git"))
    session.flush()
    state = dict(is_paused=False, is_stale=False)
    session.add(DagModel(dag_id="tidegate-janitor", bundle_name="from-git", fileloc="x", **state))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("airflow")
    settings = {
        "core": {
            "dags_folder": ROOT / "dags",
            "plugins_folder": ROOT / "plugins",
            "load_examples": False,
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{folder}/airflow.db"},
    }
    lines = [f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in values.items()) for name, values in settings.items()]
    (folder / "airflow.cfg").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def filled(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a database that knows a DAG of Tidegate."""
    folder = tmp_path_factory.mktemp("filled")
    (folder / "airflow.cfg").write_text((home / "airflow.cfg").read_text().replace(str(home), str(folder)))
    environment = {**os.environ, "AIRFLOW_HOME": str(folder)}
    subprocess.run([sys.executable, "-c", FILL], env=environment, check=True, capture_output=True)
    return folder


def ask(home: Path, monkeypatch: pytest.MonkeyPatch, *triggered: str) -> list[Any]:
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    return list(ask_airflow(list(triggered)))


def test_database_that_was_never_made_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ask(home, monkeypatch)
    require_found("airflow-database-down", answer)
    assert len(answer) == 1, "plugin and DAGs are there, and the rest follows from the database"


def test_airflow_tells_of_services(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = ask(filled, monkeypatch, "two")
    for name in ("scheduler-dead", "triggerer-missing"):
        require_found(name, answer)
    services = [finding for finding in answer if finding.check == "airflow.services"]
    assert [finding.cause.partition(" ")[0] for finding in services] == [
        "SchedulerJob",
        "DagProcessorJob",
        "TriggererJob",
    ]
    assert [finding.used_by for finding in services] == [(), (), ("two",)]
    assert {finding.check for finding in answer} == {"airflow.environment", "airflow.services"}
    [*_, triggerer] = ask(filled, monkeypatch)
    assert (triggerer.cause.partition(" ")[0], triggerer.severity) == ("TriggererJob", Severity.WARNING)


def test_plugin_and_dag_files_that_are_nowhere_are_found(
    home: Path, filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__PLUGINS_FOLDER", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    monkeypatch.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{tmp_path}/empty.db")
    shutil.copy(filled / "airflow.db", tmp_path / "empty.db")
    with closing(sqlite3.connect(tmp_path / "empty.db")) as database, database:
        database.execute("DELETE FROM dag")
    answer = ask(home, monkeypatch)
    require_found("plugin-not-found", answer)
    require_found("dags-not-found", answer)


def test_airflow_that_does_not_start_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD", "many")
    [answer] = ask(home, monkeypatch)
    assert answer.check == "airflow.environment"
    assert answer.cause.startswith("Airflow does not start: ")
    assert "many" in answer.cause


def test_folder_without_our_files_has_no_dags(tmp_path: Path) -> None:
    assert not has_dags(tmp_path / "nowhere")
    (tmp_path / "other.py").write_text("import airflow\n")
    assert not has_dags(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "pipelines.py").write_text("from tidegate_airflow.dag_files import build_pipeline_dags\n")
    assert has_dags(tmp_path)


def test_file_that_may_not_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a_secret.py").write_text("")
    read_text = Path.read_text

    def refuse(self: Path, *words: Any, **options: Any) -> str:  # as root everything may be read
        if self.name == "a_secret.py":
            raise PermissionError(13, "Permission denied")
        return read_text(self, *words, **options)

    monkeypatch.setattr(Path, "read_text", refuse)
    assert not has_dags(tmp_path)
    (tmp_path / "pipelines.py").write_text("from tidegate_airflow.dag_files import build_pipeline_dags\n")
    assert has_dags(tmp_path)


def test_dags_that_come_from_another_place_than_the_folder_are_known_to_the_database(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    answer = ask(filled, monkeypatch)
    assert {finding.check for finding in answer} == {"airflow.environment", "airflow.services"}
    assert "has no DAG file of Tidegate" not in str(answer)


def test_airflow_that_is_too_old_is_asked_for_nothing_that_it_may_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    import airflow as package

    monkeypatch.setattr(package, "__version__", "3.2.1")
    [finding] = check_airflow(())
    require_found("airflow-old", [finding])


@pytest.mark.parametrize("version", ["2.10.3", "3.0.2", "3.2.2", "3.2.0rc1"])
def test_airflow_whose_dags_would_be_refused_is_too_old(version: str) -> None:
    assert is_too_old(version)
    assert not is_too_old("3.3.0")
