"""Brings the stack of these tests up: its files, its topics, and the DAGs that are to be there."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from e2e.airflow_client import AirflowClient, wait_until
from e2e.executors.land import Land, build_lake, write_pipeline
from e2e.executors.metadata import Metadata
from e2e.executors.pipelines import DAGS, PARTITIONS, TABLES
from e2e.executors.traffic import Traffic
from postgres import ALLOWED_WITHOUT

from local.airflow.settings import LOGINS_VARIABLE
from local.stack import Stack, start_stack

PARTS = {"kafka", "spark", "postgres", "airflow", "schedulers"}
PASSWORD = "tidal-admin"


@contextmanager
def open_land(executor: str, folder: Path, *parts: str) -> Iterator[Land]:
    """The stack with these parts besides, until the block ends."""
    if os.environ.get(ALLOWED_WITHOUT):
        pytest.skip(f"skipped: {ALLOWED_WITHOUT} is set")
    include = folder / "include"
    (include / "pipelines").mkdir(parents=True)
    properties = {**build_lake(folder), "uri": f"sqlite:///{folder}/catalog.db"}
    (include / "catalogs.yaml").write_text(json.dumps({"lake": {"type": "iceberg", "properties": properties}}))
    for name, tables in TABLES.items():
        write_pipeline(folder, name, tables)
    stack = _start(folder, PARTS | {*parts})
    try:
        _create_topics(stack.kafka_bootstrap)
        airflow = AirflowClient(stack.airflow_url, "admin", PASSWORD)
        wait_until(lambda: set(DAGS) <= airflow.list_dag_ids(), "the DAGs")
        yield Land(executor, stack, airflow, Metadata(stack.variables), Traffic(stack.kafka_bootstrap), folder)
    finally:
        stack.stop()


def _start(folder: Path, parts: set[str]) -> Stack:
    logins = folder / "logins.json"
    logins.write_text(json.dumps({"admin": PASSWORD}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LOGINS_VARIABLE, str(logins))
        return start_stack(folder / "run", parts=parts, include=folder / "include", tied_to=os.getpid())


def _create_topics(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in TABLES]).values():
        future.result(60)
