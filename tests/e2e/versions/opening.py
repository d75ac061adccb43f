"""Brings up Airflow with its metadata on PostgreSQL, and with a tree of the product that a test replaces."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from e2e.airflow_client import AirflowClient, wait_until
from e2e.executors.land import build_lake
from e2e.executors.metadata import Metadata
from e2e.executors.pipelines import PARTITIONS
from e2e.versions.land import Land, point_link, write_pipeline
from e2e.versions.pipelines import PIPELINES, PUBLICATION, describe_publication
from fault_proxy import run_fault_proxy
from postgres import ALLOWED_WITHOUT
from warehouse import PROJECT

from local.airflow.settings import LOGINS_VARIABLE, PRODUCT_VARIABLE
from local.bigquery import environment
from local.stack import Stack, start_stack

PARTS = {"kafka", "spark", "postgres", "bigquery", "airflow"}
PASSWORD = "tidal-admin"


@contextmanager
def open_land(folder: Path, tree: Path) -> Iterator[Land]:
    """The stack, with the product of this tree under Airflow, until the block ends."""
    if os.environ.get(ALLOWED_WITHOUT):
        pytest.skip(f"skipped: {ALLOWED_WITHOUT} is set")
    if not environment.is_built():
        pytest.skip("the local BigQuery server is not set up: run make setup WITH=bigquery")
    product = folder / "product"
    point_link(product, tree)
    with run_fault_proxy("") as proxy:  # where to is known when the stack is up
        _write_files(folder, proxy.address)
        stack = _start(folder, product)
        try:
            proxy.backend = stack.bigquery_endpoint
            admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
            for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in PIPELINES]).values():
                future.result(60)
            airflow = AirflowClient(stack.airflow_url, "admin", PASSWORD)
            wanted = {f"tidegate_{name}" for name in (*PIPELINES, f"publish_{PUBLICATION}")}
            wait_until(lambda: wanted <= airflow.list_dag_ids(), "the DAGs")
            yield Land(stack, airflow, Metadata(stack.variables), proxy, product, folder)
        finally:
            stack.stop()


def _write_files(folder: Path, warehouse: str) -> None:
    include = folder / "include"
    for kind in ("pipelines", "publications"):
        (include / kind).mkdir(parents=True)
    lake = {**build_lake(folder), "uri": f"sqlite:///{folder}/catalog.db"}
    dwh = {"project": PROJECT, "endpoint": warehouse, "staging": f"file://{folder}/staging"}
    catalogs = {"lake": {"type": "iceberg", "properties": lake}, "dwh": {"type": "bigquery", **dwh}}
    (include / "catalogs.yaml").write_text(json.dumps(catalogs))
    for name in PIPELINES:
        write_pipeline(folder, name)
    (include / "publications" / f"{PUBLICATION}.yaml").write_text(describe_publication())


def _start(folder: Path, product: Path) -> Stack:
    logins = folder / "logins.json"
    logins.write_text(json.dumps({"admin": PASSWORD}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(LOGINS_VARIABLE, str(logins))
        patch.setenv(PRODUCT_VARIABLE, str(product))
        return start_stack(folder / "run", parts=PARTS, include=folder / "include", tied_to=os.getpid())
