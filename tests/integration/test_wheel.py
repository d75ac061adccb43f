"""The wheel in its own environment outside of the checkout: what a user of a stock Airflow installs and runs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from local.layout import ROOT
from local.setup import build_uv_settings

UV = Path(sys.executable).parent / "uv"
Run = Callable[..., "subprocess.CompletedProcess[str]"]
FIND_DAGS = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(sys.argv[1])
print("FOUND", json.dumps({"dags": sorted(bag.dags), "errors": list(bag.import_errors.values())}))
"""


def run(*command: object, environment: dict[str, str], folder: Path) -> "subprocess.CompletedProcess[str]":
    words = [str(word) for word in command]
    return subprocess.run(words, env=environment, cwd=folder, capture_output=True, text=True, timeout=900, check=False)


def build_environment(**variables: str) -> dict[str, str]:
    """Nothing of the checkout: neither its packages nor its settings."""
    foreign = ("TIDEGATE", "AIRFLOW", "PYTHONPATH", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | variables


@pytest.fixture(scope="module")
def venv(tmp_path_factory) -> Path:
    """`pip install tidegate[airflow,iceberg,spark]` at the versions of the lock; the folder of its commands."""
    folder = tmp_path_factory.mktemp("installed")
    environment = build_environment() | build_uv_settings(Path(sys.executable))
    for command in (
        (sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder),
        (UV, "venv", "--python", sys.executable, folder / "venv"),
    ):
        process = run(*command, environment=environment, folder=ROOT)
        assert process.returncode == 0, process.stderr
    (wheel,) = folder.glob("*.whl")
    python = folder / "venv" / "bin" / "python"
    install = (UV, "pip", "install", "--python", python, "-c", ROOT / "requirements.txt")
    process = run(*install, f"{wheel}[airflow,iceberg,spark]", environment=environment, folder=folder)
    assert process.returncode == 0, process.stderr
    return folder / "venv" / "bin"


@pytest.fixture
def installed(venv, workbench, tmp_path) -> Run:
    """Runs a command of that environment, in an Airflow home of its own, on the brokers and the Spark of the tests."""
    home = tmp_path / "airflow"
    variables = workbench.stack.variables | {"AIRFLOW_HOME": str(home), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    path = f"{venv}{os.pathsep}{os.environ['PATH']}"

    def call(name: str, *words: object) -> "subprocess.CompletedProcess[str]":
        return run(venv / name, *words, environment=build_environment(PATH=path, **variables), folder=tmp_path)

    return call


# the package as pip lays it out; in an environment of its own it is installed, and flushes
@pytest.mark.repeats("unit/test_wheel.py::test_installed_command_tells_its_version_and_finds_its_statements_and_jobs")
def test_two_commands_bring_a_stock_airflow_to_a_flush_of_two_partitions(installed: Run, workbench, tmp_path) -> None:
    home = tmp_path / "airflow"
    assert installed("tidegate", "--version").stdout.startswith("tidegate ")
    assert "flush" in installed("tidegate", "--help").stdout
    assert installed("tidegate", "airflow", "install").returncode == 0
    (home / "include" / "catalogs.yaml").write_text((workbench.include / "catalogs.yaml").read_text())
    topic = workbench.topic(2)
    workbench.pipeline(
        "orders", [topic], key={"fields": ["id"], "schema": "id BIGINT"}, value={"schema": "name STRING"}
    )
    written = workbench.include / "pipelines" / "orders.yaml"
    (home / "include" / "pipelines" / "orders.yaml").write_text(written.read_text())
    assert installed("tidegate", "validate").stdout == "orders: ok\n"

    output = installed("python", "-c", FIND_DAGS, home / "dags").stdout.partition("FOUND ")[2]
    ids = [f"tidegate_orders{kind}" for kind in ("", "_actions", "_backfill", "_maintenance", "_replay")]
    assert json.loads(output) == {"dags": sorted([*ids, "tidegate-janitor"]), "errors": []}
    plugins = {
        plugin["name"]: plugin for plugin in json.loads(installed("airflow", "plugins", "--output", "json").stdout)
    }
    assert "tidegate==" in plugins["tidegate"]["source"]

    workbench.produce(topic, ({"id": 1}, {"name": "a"}), ({"id": 2}, {"name": "b"}, {"partition": 1}))
    process = installed("tidegate", "flush", "orders", "--json")
    assert (process.returncode, json.loads(process.stdout)["inserted"]) == (0, 2), process.stderr
    assert workbench.read_rows("shop.orders") == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]

    workbench.produce(topic, ({"id": 1}, None), ({"id": 2}, {"name": "c"}, {"partition": 1}))
    assert installed("airflow", "db", "migrate").returncode == 0
    airflow_process = installed("airflow", "dags", "test", "tidegate_orders")
    assert airflow_process.returncode == 0, airflow_process.stdout[-2000:] + airflow_process.stderr[-2000:]
    assert workbench.read_rows("shop.orders") == [{"id": 2, "name": "c"}]
    assert installed("tidegate", "flush", "orders").stdout.count("inserted=") == 0


# the package as pip lays it out; in an environment of its own it is installed, and flushes
@pytest.mark.repeats("unit/test_wheel.py::test_installed_command_tells_its_version_and_finds_its_statements_and_jobs")
def test_job_is_submitted_from_the_package_with_the_libraries_that_it_needs(
    installed: Run, workbench, tmp_path
) -> None:
    installed("tidegate", "airflow", "install")
    home, topic = tmp_path / "airflow", workbench.topic(2)
    (home / "include" / "catalogs.yaml").write_text((workbench.include / "catalogs.yaml").read_text())
    workbench.pipeline(
        "submitted",
        [topic],
        key={"fields": ["id"], "schema": "id BIGINT"},
        value={"schema": "name STRING"},
        spark={"mode": "submit", "master": "local[1]"},
    )
    written = workbench.include / "pipelines" / "submitted.yaml"
    (home / "include" / "pipelines" / "submitted.yaml").write_text(written.read_text())
    (home / ".cache" / "jars").mkdir(parents=True)
    (home / ".cache" / "jars" / "spark").symlink_to(ROOT / ".cache" / "jars" / "spark")
    workbench.produce(topic, ({"id": 1}, {"name": "a"}), ({"id": 2}, {"name": "b"}, {"partition": 1}))
    process = installed("tidegate", "flush", "submitted", "--json")
    assert process.returncode == 0, process.stderr
    assert workbench.read_rows("shop.submitted") == [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
