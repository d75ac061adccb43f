"""A step whose Spark job is submitted: what Airflow's own operator must not do for it, and what a connection does."""

import base64
import json
import tempfile
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from tidegate.adapters.spark.submit import SubmitEngine
from tidegate.adapters.spark.target import read_submit_target
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError
from tidegate.jobs.statements_job import StatementsJob
from tidegate.spec.runtime import SparkTarget
from tidegate_airflow.operators.spark_submit import SubmitOperator

JOB = StatementsJob("orders", 1, ())
TARGET = SparkTarget(connection="cluster")
PIPELINE = {
    "source": {"topics": ["orders"], "key": {"format": "json", "fields": ["id"], "schema": "id BIGINT"}},
    "tables": [{"name": "lake.shop.orders"}],
}
KERBEROS = {"principal": "tidegate@REALM", "keytab": base64.b64encode(b"secret keys").decode()}


def test_second_job_of_a_step_is_never_taken_for_the_first() -> None:
    """Airflow would keep the first job's id for the task, and go back to it instead of submitting another."""
    merge = SubmitOperator(task_id="merge", verb="merge", pipeline="orders", given=[])
    assert merge.durable is False


@pytest.fixture
def read_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A `spark-submit` that writes down how it is called, with the keytab's content in the place of its name."""
    include, home, log = tmp_path / "include", tmp_path / "spark", tmp_path / "command"
    (include / "pipelines").mkdir(parents=True)
    (include / "pipelines" / "orders.yaml").write_text(yaml.safe_dump(PIPELINE))
    catalog = {
        "type": "iceberg",
        "properties": {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}"},
    }
    (include / "catalogs.yaml").write_text(yaml.safe_dump({"lake": catalog}))
    program = home / "bin" / "spark-submit"
    program.parent.mkdir(parents=True)
    write_argument = 'if [ "$last" = --keytab ]; then cat "$word"; echo; else echo "$word"; fi; last=$word'
    program.write_text(f'#!/bin/bash\nfor word in "$@"; do {write_argument}; done > {log}\n')
    program.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # the hook leaves a keytab there
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    monkeypatch.setenv("TIDEGATE_INCLUDE", str(include))
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_DEFAULT", '{"conn_type": "kafka", "host": "kafka", "port": 9092}')
    return lambda: log.read_text().splitlines()


def submit_in_airflow() -> None:
    operator = SubmitOperator(task_id="merge", verb="merge", pipeline="orders", given=[], conn_id="cluster")
    operator._context = {}
    operator.run(JOB)


def submit_from_the_command_line() -> None:
    SubmitEngine(read_submit_target(TARGET, read_connection_from_env), "", {}).run(JOB)


def read_options(command: list[str]) -> dict[str, str]:
    """Options with one value each, without those that name files of this run."""
    pairs = dict(pairwise(command))
    names = ("--master", "--queue", "--principal", "--keytab", "--conf", "--name")
    return {name: pairs[name] for name in names if name in pairs}


# Airflow's hook does not close what it reads of spark-submit
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize("submit", [submit_in_airflow, submit_from_the_command_line])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"host": "yarn", "extra": {"queue": "etl", "deploy-mode": "client", **KERBEROS}},
            {
                "--master": "yarn",
                "--queue": "etl",
                "--principal": "tidegate@REALM",
                "--keytab": "secret keys",
            },
        ),
        ({"host": "local[1]", "extra": {"spark-binary": "spark-submit"}}, {"--master": "local[1]"}),
    ],
)
def test_fields_of_a_connection_reach_spark_submit(
    fields: dict[str, Any],
    expected: dict[str, str],
    submit: Callable[[], None],
    read_command: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", **fields}))
    submit()
    options = read_options(read_command())
    if submit is submit_in_airflow:
        options.pop("--conf", None)  # on YARN, the environment that Airflow gives to an application master
    assert options == {**expected, "--name": "tidegate merge orders 1"}


@pytest.mark.parametrize(
    "connection",
    [
        {"conn_type": "spark", "host": "spark://h", "port": 7077},
        {"conn_type": "spark", "host": "spark://h:7077,i:7077"},
        {"conn_type": "spark", "host": "h", "port": 7077},
        {"conn_type": "spark", "host": "yarn"},
        {"conn_type": "spark", "host": "local[2]"},
        {"conn_type": "spark", "host": "k8s://https://h", "port": 443, "extra": {"namespace": "shop"}},
        {"conn_type": "k8s", "host": "h", "port": 443, "extra": {"namespace": "shop"}},
        {"conn_type": "spark", "host": "yarn", "extra": {"namespace": "shop", "queue": "", "deploy-mode": ""}},
        "spark://h:7077",
        "spark://k8s%3A%2F%2Fhttps%3A%2F%2Fh:443?namespace=shop",
    ],
)
def test_command_line_reads_a_connection_as_airflows_hook_does(
    connection: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = connection if isinstance(connection, str) else json.dumps(connection)
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", text)
    monkeypatch.setattr("airflow.providers.apache.spark.hooks.spark_submit.kube_client", object(), raising=False)
    command = SparkSubmitHook(conn_id="cluster", name="")._build_spark_submit_command("job.py")
    target = read_submit_target(TARGET, read_connection_from_env)
    assert ["spark-submit", "--master", target.master, *target.options, "job.py"] == command


@pytest.mark.parametrize("submit", [submit_in_airflow, submit_from_the_command_line])
@pytest.mark.parametrize(
    ("connection", "reason"),
    [
        ({"host": "yarn", "extra": {"deploy-mode": "cluster"}}, "deploy-mode=cluster: a job's driver must run where"),
        ({"host": "yarn", "extra": {"spark-home": "/opt/spark"}}, "spark-home is not taken"),
        (None, "not found; create it in Airflow"),
    ],
)
def test_connection_by_which_no_job_can_be_submitted_is_refused(
    connection: dict[str, Any] | None,
    reason: str,
    submit: Callable[[], None],
    read_command: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if connection is not None:
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", **connection}))
    with pytest.raises(ConfigurationError, match=f"^connection=cluster: {reason}"):
        submit()


def set_extra(monkeypatch: pytest.MonkeyPatch, extra: dict[str, str]) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", json.dumps({"conn_type": "spark", "host": "yarn", "extra": extra}))


def test_program_that_the_command_line_cannot_run_is_refused_where_a_job_is_submitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In Airflow its operator submits, and the other steps open the same session."""
    set_extra(monkeypatch, {"spark-binary": "spark3-submit"})
    target = read_submit_target(TARGET, read_connection_from_env)
    with pytest.raises(
        ConfigurationError, match=r"^connection=cluster: spark-binary=spark3-submit is understood in Air"
    ):
        SubmitEngine(target, "", {}).run(StatementsJob("orders", 1, ("SELECT 1",)))


def test_keytab_that_is_none_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    set_extra(monkeypatch, {"keytab": "n0t base64"})
    with pytest.raises(ConfigurationError, match=r"^connection=cluster: its keytab is not in Base64") as error:
        read_submit_target(TARGET, read_connection_from_env)
    assert "n0t" not in str(error.value)
