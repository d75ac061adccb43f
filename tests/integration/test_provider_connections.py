"""A stock Airflow: its own way to connections, and only those that the forms of its providers make."""

import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from tidegate.flush.flush import flush

RECORDS = {"key": {"format": "json", "fields": ["id"], "schema": "id BIGINT"}, "value": {"schema": "id BIGINT, n INT"}}
GOOGLE_FORM = {"project": "another", "is_anonymous": True, "num_retries": 5, "scope": "", "location": "US"}
SPARK_FORM = {"deploy-mode": "client", "spark-binary": "spark-submit", "queue": "", "namespace": ""}


def read_both(dwh: Any) -> list[list[tuple[int, int]]]:
    rows = dwh.read_rows("both"), dwh.bench.read_rows("forms.both")
    return [sorted((row["id"], row["n"]) for row in table) for table in rows]


# Airflow's hook does not close what it reads of spark-submit
@pytest.mark.repeats(
    "unit/tidegate_airflow/test_provider_hooks.py::test_each_form_of_a_google_connection_logs_in_as_the_providers_hook_does"
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed file:ResourceWarning")
def test_connections_of_the_providers_forms_do_the_main_job_both_ways(
    dwh: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate_airflow import tasks  # Airflow takes two seconds, in each part of a run
    from tidegate_airflow.operators.spark_submit import SubmitOperator

    bench = dwh.bench
    environment = bench.build_environment()
    connect = urlsplit(environment.pop("SPARK_REMOTE"))
    connections = {
        "WAREHOUSE": {"conn_type": "google_cloud_platform", "extra": GOOGLE_FORM},
        "SPARK_DEFAULT": {"conn_type": "spark_connect", "host": connect.hostname, "port": connect.port},
        "CLUSTER": {"conn_type": "spark", "host": "local[1]", "extra": SPARK_FORM},
    }
    connections["SPARK_DEFAULT"]["password"] = connect.path.partition("token=")[2] or None
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for name, fields in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(fields))
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setattr("google.auth.default", lambda **_: pytest.fail("it acts as the machine"))
    catalogs = bench.include / "catalogs.yaml"
    content = yaml.safe_load(catalogs.read_text())
    catalogs.write_text(yaml.safe_dump({**content, "dwh": {**content["dwh"], "connection": "warehouse"}}))
    topic = bench.topic(1)
    tables = [{"name": dwh.table("both")}, {"name": "lake.forms.both"}]

    bench.pipeline("forms", [topic], **RECORDS, tables=tables)
    bench.produce(topic, ({"id": 1}, {"id": 1, "n": 1}), ({"id": 2}, {"id": 2, "n": 1}))
    flush(tasks.assemble_session("forms"))
    assert read_both(dwh) == [[(1, 1), (2, 1)]] * 2

    bench.pipeline("forms", [topic], **RECORDS, tables=tables, spark={"mode": "submit", "connection": "cluster"})
    bench.produce(topic, ({"id": 1}, {"id": 1, "n": 2}), ({"id": 2}, None))
    step = SubmitOperator(task_id="merge", verb="merge", pipeline="forms", given=[], conn_id="cluster")
    step._context = {}
    flush(tasks.assemble_session("forms", step))
    assert read_both(dwh) == [[(1, 2)]] * 2
