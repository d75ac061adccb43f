"""What the doctor hears of a real Airflow with its own database: in a process of its own, as the doctor asks it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from seeded_mistakes import require_found
from tidegate.diagnosis.airflow import AirflowNeeds
from tidegate.wiring.diagnosis import airflow
from tidegate_airflow.doctor_facts import has_dags

ROOT = Path(__file__).parents[3]
FILL = """
from airflow.models.connection import Connection
from airflow.models.pool import Pool
from airflow.utils.db import initdb
from airflow.utils.session import create_session

initdb()
with create_session() as session:
    session.add(Connection(conn_id="kafka_default", conn_type="kafka", password="s3cret-w0rd"))
    session.add(Pool(pool="tidegate_lake", slots=4, description="", include_deferred=False))
"""
NEEDS = AirflowNeeds({"kafka_default": ("one",), "spark_prod": ("one", "two")}, ("lake", "pond"), ("two",))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("airflow")
    settings = {
        "core": {
            "dags_folder": ROOT / "dags",
            "plugins_folder": ROOT / "plugins",
            "load_examples": False,
            "parallelism": 3,
        },
        "database": {"sql_alchemy_conn": f"sqlite:///{folder}/airflow.db"},
    }
    lines = [f"[{name}]\n" + "".join(f"{k} = {v}\n" for k, v in values.items()) for name, values in settings.items()]
    (folder / "airflow.cfg").write_text("".join(lines))
    return folder


def ask(home: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    return list(airflow._check_airflow(NEEDS))


def test_database_that_was_never_made_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(home, monkeypatch)
    require_found("airflow-database-down", found)
    assert len(found) == 1, "plugin and DAGs are there, and the rest follows from the database"


def test_airflow_tells_of_pools_connections_and_services(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    subprocess.run([sys.executable, "-c", FILL], check=True, capture_output=True)
    found = ask(home, monkeypatch)
    by_check: dict[str, list[str]] = {}
    for one in found:
        by_check.setdefault(f"{one.severity} {one.check}", []).append(one.cause)
    services = by_check.pop("error airflow.services")
    assert [cause.partition(" ")[0] for cause in services] == ["SchedulerJob", "DagProcessorJob", "TriggererJob"]
    assert by_check.pop("error airflow.connections") == ["Airflow does not know connection=spark_prod"]
    assert by_check.pop("error airflow.pools") == ["pool=tidegate_pond slots=none: its flushes would wait for ever"]
    [few] = by_check.pop("warning airflow.pools")
    assert few.startswith("[core] parallelism=3 is less than the slots=4")
    assert list(by_check) == ["ok airflow.environment"]
    assert "s3cret-w0rd" not in str(found)


def test_airflow_that_does_not_start_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM", "many")
    [found] = ask(home, monkeypatch)
    assert found.check == "airflow.environment"
    assert found.cause.startswith("Airflow does not start: ")
    assert "many" in found.cause


def test_folder_without_our_files_has_no_dags(tmp_path: Path) -> None:
    assert not has_dags(tmp_path / "nowhere")
    (tmp_path / "other.py").write_text("import airflow\n")
    assert not has_dags(tmp_path)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "pipelines.py").write_text("from tidegate_airflow.dag_files import build_pipeline_dags\n")
    assert has_dags(tmp_path)
