"""A newer Airflow takes the place of the oldest one that is supported in the middle of runs, on the same database.

What was planned, staged, put aside for a job, failed, published or waiting for records goes on as behind a new version
of the product: rows equal, no batch and no offset twice, nothing left.
"""

import os
import subprocess
from collections.abc import Iterator
from importlib.metadata import version

import pytest
from e2e.airflow_client import wait_until
from e2e.executors import verdict
from e2e.versions import test_new_version as runs
from e2e.versions.land import DEADLINE_SECONDS, Land
from e2e.versions.opening import open_land
from upgrade import older_airflow

from local.layout import PYTHON, ROOT
from local.server import build_clean_environment

pytestmark = pytest.mark.real
NEWER = version("apache-airflow")


@pytest.fixture
def land(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Land]:
    if not older_airflow.is_there():
        pytest.skip(f"skipped: {older_airflow.MISSING}")
    folder = tmp_path_factory.mktemp("airflow")
    with open_land(folder, older_airflow.lay_tree(folder / "older")) as land:
        yield land


@pytest.mark.repeats(
    "integration/test_upgrade.py::test_pipeline_and_publication_of_an_older_version_go_on_where_that_one_stopped"
)
def test_newer_airflow_goes_on_with_all_that_the_one_before_left_under_way(land: Land) -> None:
    assert land.airflow.get("version")["version"] == older_airflow.VERSION != NEWER
    runs.begin_everything(land)
    run_ids = runs.stop_in_the_middle(land)
    assert len(land.list_triggers()) == 2

    migrate(land)
    land.install(ROOT)
    assert land.airflow.get("version")["version"] == NEWER
    runs.finish_runs(land, run_ids)
    runs.fix_the_failed_pipeline(land)
    wait_until(
        lambda: land.list_triggers() == {runs.NEW_BACKLOG}, "the trigger that waits for records", DEADLINE_SECONDS
    )
    runs.flush_changes(land, 3)
    runs.move_into_fleet(land)
    verdict.wait_until_clean(land.find_leftovers, "a clean end", DEADLINE_SECONDS)
    runs.expect_publication(land)
    assert land.airflow.list_import_errors() == []


def migrate(land: Land) -> None:
    """What an upgrade of Airflow begins with."""
    folders = os.pathsep.join(str(ROOT / name) for name in ("plugins", "jobs"))
    home = land.stack.variables["AIRFLOW_HOME"]
    environment = {**build_clean_environment(), **land.stack.variables, "AIRFLOW_HOME": home, "PYTHONPATH": folders}
    command = [str(PYTHON), str(PYTHON.parent / "airflow"), "db", "migrate"]
    process = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=DEADLINE_SECONDS, check=False
    )
    assert process.returncode == 0, process.stderr
