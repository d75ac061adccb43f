"""What a run leaves for others to see: its metrics, as they are documented, and nowhere a password."""

import json
import re
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import suppress
from pathlib import Path

import pytest
from e2e.airflow_client import wait_until
from e2e.conftest import SECRETS, Scene
from sqlalchemy import create_engine, text

pytestmark = pytest.mark.real
OPERATIONS = Path(__file__).parents[2] / "docs" / "operations.md"


def test_spark_submit_on_a_standalone_cluster_gives_the_same_table(scene: Scene, submitted_run: str) -> None:
    assert scene.airflow.await_run("tidegate_submitted", submitted_run, patience=600) == "success"
    states = scene.airflow.read_task_states("tidegate_submitted", submitted_run)
    assert states["compact"] == ["skipped"], "no job for one file"
    wait_until(lambda: scene.exists("e2e.submitted"), "the table")
    assert scene.read_rows("e2e.submitted") == {n: f"name {n}" for n in range(50) if n != 7}
    scene.airflow.unpause("tidegate_submitted", paused=True)


def list_documented_metrics() -> list[str]:
    """The names in the table below the heading."""
    section = OPERATIONS.read_text().partition("## Metrics and alerts")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall("`([a-z_.]+)`", cell)]


def test_every_documented_metric_of_a_pipeline_comes_to_a_statsd_server_by_pipeline_and_table(scene: Scene) -> None:
    names = list_documented_metrics()
    assert len(names) == 15
    names = [name for name in names if not name.startswith("unstaged")]  # of pipelines with `stage.interval`
    of_tables = {name for name in names if name.startswith("batch.")}
    wanted = {f"airflow.tidegate.{name}" for name in names}
    wanted |= {f"airflow.tidegate.{name}.submitted" for name in names if name not in of_tables}
    wanted |= {f"airflow.tidegate.{name}.submitted.lake_e2e_submitted" for name in of_tables}
    wait_until(lambda: wanted <= scene.statsd.gauges.keys(), f"the metrics {sorted(wanted)}")
    assert scene.statsd.gauges["airflow.tidegate.batch.inserted.submitted.lake_e2e_submitted"] == 49
    assert scene.statsd.gauges["airflow.tidegate.batch.bytes_written.submitted.lake_e2e_submitted"] > 0
    assert scene.statsd.gauges["airflow.tidegate.lag.submitted"] == 0
    assert scene.statsd.refused == []


def test_no_password_stands_in_anything_that_the_runs_left_behind(scene: Scene) -> None:
    """Logs, event logs, tables, and all that Airflow keeps: results, rendered fields, DAGs. Then the page."""
    scene.airflow.unpause("tidegate_counted")
    scene.airflow.parse_again("tidegate_counted")  # the triggerer, too, has looked its connection up
    wait_until(lambda: bool(scene.airflow.list_runs("tidegate_counted")), "a run beside the triggerer")
    counted = scene.airflow.list_runs("tidegate_counted")[0]["dag_run_id"]
    assert scene.airflow.await_run("tidegate_counted", counted) == "success"
    scene.airflow.unpause("tidegate_counted", paused=True)
    assert any((scene.folder / "events").iterdir()), "no event log was written"
    assert [path for path, text in iterate_texts(scene) for secret in SECRETS.values() if secret in text] == []


def dump_metadata(home: Path) -> list[tuple[str, str]]:
    """Every row of Airflow's database as JSON, with its table."""
    settings = ConfigParser(interpolation=None)
    settings.read(home / "airflow.cfg")
    engine = create_engine(settings["database"]["sql_alchemy_conn"])
    assert engine.dialect.name == "postgresql"
    with engine.connect() as connection:
        tables = connection.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")).all()
        statements = [(table, text(f'SELECT row_to_json(t)::text FROM "{table}" t')) for table in tables]
        rows = [(table, row) for table, statement in statements for row in connection.scalars(statement)]
    engine.dispose()
    return rows


def iterate_texts(scene: Scene) -> Iterator[tuple[str, str]]:
    """Everything to be searched, with its place. The brokers' own files are theirs."""
    own = (scene.folder / name for name in ("events", "include", "run", "standalone", "warehouse"))
    for file in (file for folder in own for file in folder.rglob("*") if file.is_file()):
        with suppress(FileNotFoundError):  # the services still write and remove
            yield str(file), file.read_bytes().decode(errors="replace")
    rows = dump_metadata(scene.folder / "run" / "airflow")
    assert {"dag_run", "log", "rendered_task_instance_fields", "xcom"} <= {place for place, _ in rows}
    yield from rows
    pipelines = scene.airflow.page("pipelines")["pipelines"]
    assert {"submitted", "counted"} <= {row["pipeline"] for row in pipelines}
    yield "the page", json.dumps(pipelines)
    for name in ("submitted", "counted"):
        yield f"the page of {name}", json.dumps(scene.airflow.page(f"pipelines/{name}"))
        yield f"the dead letters of {name}", json.dumps(scene.airflow.page(f"pipelines/{name}/dead-letters"))
