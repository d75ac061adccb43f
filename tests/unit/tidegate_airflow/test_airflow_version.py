"""An Airflow that lacks what tasks use is refused when DAG files are read, and not by each task behind its work."""

from collections.abc import Callable
from pathlib import Path

import airflow
import pytest
from airflow.sdk.exceptions import AirflowException
from tidegate_airflow import dag_files

BUILDS = (dag_files.build_pipeline_dags, dag_files.build_maintenance_dags, dag_files.build_publication_dags)


@pytest.fixture(autouse=True)
def _empty_include(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "catalogs.yaml").write_text("{}")
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(tmp_path))


@pytest.mark.parametrize("version", ["3.2.2", "3.1.0rc1", "2.11.0"])
@pytest.mark.parametrize("build", BUILDS)
def test_older_airflow_is_one_sentence_with_the_way_out(
    build: Callable[[], object], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow, "__version__", version)
    with pytest.raises(AirflowException, match=rf"^airflow={version}: Tidegate needs Airflow 3\.3 or newer; upgrade "):
        build()


@pytest.mark.parametrize("version", [airflow.__version__, "3.3.0", "3.10.0.dev0", "4.0.0"])
@pytest.mark.parametrize("build", BUILDS)
def test_airflow_that_has_what_tasks_use_is_not_looked_at_twice(
    build: Callable[[], object], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(airflow, "__version__", version)
    build()
