"""What the doctor hears of a real Airflow with its own database: in a process of its own, as the doctor asks it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fakes.publications import Outside
from seeded_mistakes import require_found
from tidegate.diagnosis.airflow import AirflowFacts, AirflowNeeds, judge_airflow
from tidegate.diagnosis.finding import SecretMask
from tidegate.wiring.diagnosis import airflow
from tidegate.wiring.diagnosis.subjects import Subjects
from tidegate_airflow.doctor_facts import has_dags, read_airflow_facts

ROOT = Path(__file__).parents[3]
FILL = """
from airflow.models.connection import Connection
from airflow.models.dag import DagModel
from airflow.models.dagbundle import DagBundleModel
from airflow.models.pool import Pool
from airflow.utils.db import initdb
from airflow.utils.session import create_session

initdb()
with create_session() as session:
    session.add(Connection(conn_id="kafka_default", conn_type="kafka", password="s3cret-w0rd"))
    session.add(Pool(pool="tidegate_lake", slots=4, description="", include_deferred=False))
    session.add(DagBundleModel(name="from-git"))
    session.flush()
    state = dict(is_paused=False, is_stale=False)
    session.add(DagModel(dag_id="tidegate-janitor", bundle_name="from-git", fileloc="x", **state))
"""
BREAK_DAG_FILES = """
from airflow.models.errors import ParseImportError
from airflow.utils.session import create_session

traces = {
    "sales/report.py": "File 'report.py', line 3\\nKeyError: 'sales'",
    "maintenance.py": "File 'maintenance.py', line 3\\nSyntaxError: invalid syntax",
    "repository/flows.py": "File 'tidegate_airflow/dag_files.py', line 30\\nKeyError: 'x'",
}
with create_session() as session:
    for name, trace in traces.items():
        session.add(ParseImportError(filename=name, bundle_name="from-git", stacktrace=trace))
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
    answer = ask(home, monkeypatch)
    require_found("airflow-database-down", answer)
    assert len(answer) == 1, "plugin and DAGs are there, and the rest follows from the database"


def test_airflow_tells_of_pools_connections_and_services(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    subprocess.run([sys.executable, "-c", FILL], check=True, capture_output=True)
    answer = ask(home, monkeypatch)
    by_check: dict[str, list[str]] = {}
    for finding in answer:
        by_check.setdefault(f"{finding.severity} {finding.check}", []).append(finding.cause)
    services = by_check.pop("error airflow.services")
    assert [cause.partition(" ")[0] for cause in services] == ["SchedulerJob", "DagProcessorJob", "TriggererJob"]
    assert by_check.pop("error airflow.connections") == ["Airflow does not know connection=spark_prod"]
    assert by_check.pop("error airflow.pools") == ["pool=tidegate_pond slots=none: its flushes would wait for ever"]
    [pool_finding] = by_check.pop("warning airflow.pools")
    assert pool_finding.startswith("[core] parallelism=3 is less than the slots=4")
    assert list(by_check) == ["ok airflow.environment"]
    assert "s3cret-w0rd" not in str(answer)


def test_airflow_that_does_not_start_is_found(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__PARALLELISM", "many")
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
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    monkeypatch.setenv("AIRFLOW__CORE__DAGS_FOLDER", str(tmp_path))
    assert "has no DAG file of Tidegate" not in str(ask(home, monkeypatch))


def test_dag_files_of_others_that_airflow_cannot_read_are_no_fault_of_tidegate(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what the file holds, as maintenance.py in the folder does, or by where the error came from."""
    monkeypatch.setenv("AIRFLOW_HOME", str(home))
    subprocess.run([sys.executable, "-c", BREAK_DAG_FILES], check=True, capture_output=True)
    causes = [finding.cause for finding in ask(home, monkeypatch) if finding.check == "airflow.plugin"]
    assert causes == [
        "Airflow cannot read file=maintenance.py: SyntaxError: invalid syntax",
        "Airflow cannot read file=repository/flows.py: KeyError: 'x'",
    ]


def test_airflow_that_is_too_old_is_asked_for_nothing_that_it_may_not_have(monkeypatch: pytest.MonkeyPatch) -> None:
    import airflow as package

    monkeypatch.setattr(package, "__version__", "3.2.1")
    facts = AirflowFacts.from_dict(read_airflow_facts(["kafka_default"]))
    [airflow] = judge_airflow(NEEDS, facts)
    assert (airflow.cause, airflow.advice) == ("airflow=3.2.1 is too old", "install Airflow 3.3 or newer")


def test_pool_of_a_catalog_that_only_a_publication_reads_is_needed(tmp_path: Path) -> None:
    publication = Outside().build_ports().publication
    subjects = Subjects(tmp_path, lambda _: None, SecretMask(), publications={publication.name: publication})
    assert airflow._list_needs(subjects).catalogs == (publication.catalog,)
