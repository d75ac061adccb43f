"""`docker-compose.yaml` as it stands, run by an engine of namespaces: it comes up, flushes, publishes, and is watched.

Images are built by the Dockerfile's own instructions, from what `make setup` fetched; Kafka, PostgreSQL, the object
store and Prometheus are stood in for by programs of this machine (`tests/containers/foreign.py`).
"""

import json
from collections.abc import Iterator
from pathlib import Path

import promtool
import pytest
import yaml
from containers.client import CHECKOUT, Compose, find_obstacle, make_values, wait_for

PIPELINE = {
    "source": {
        "topics": ["shop.orders"],
        "key": {"format": "json", "fields": ["id"], "schema": "id BIGINT"},
        "value": {"format": "json", "schema": "id BIGINT, name STRING"},
    },
    "tables": [{"name": "lake.shop.orders"}],
    "merge": {"interval": "300s"},
}
PUBLICATION = {
    "table": "lake.shop.orders",
    "topic": "shop.orders.current",
    "key": {"fields": ["id"]},
    "delivery": "exactly-once",
    "create": {"partitions": 2},
}
UP_SECONDS = 1500.0  # it was up after five minutes on two cores that others used too


@pytest.fixture
def compose(tmp_path: Path) -> Iterator[tuple[Compose, dict[str, str]]]:
    if obstacle := find_obstacle():
        pytest.skip(f"skipped: no containers: {obstacle}")
    if promtool.find() is None:
        pytest.skip(f"skipped: {promtool.MISSING}")
    include = tmp_path / "include"
    for folder, name, content in (("pipelines", "orders", PIPELINE), ("publications", "orders_out", PUBLICATION)):
        (include / folder).mkdir(parents=True)
        (include / folder / f"{name}.yaml").write_text(yaml.safe_dump(content))
    (include / "catalogs.yaml").write_text("{}\n")  # the stack's own is mounted over it
    values = make_values(CHECKOUT / ".env.example")
    compose = Compose(tmp_path / "run", values, {"./include": str(include)})
    yield compose, values
    compose.close()


# what can be said of the compose file without starting it, and all of it started
@pytest.mark.repeats("unit/deploy/test_compose.py::test_secret_that_a_script_reads_is_one_that_its_service_gets")
def test_stack_comes_up_flushes_publishes_and_is_watched(compose: tuple[Compose, dict[str, str]]) -> None:
    stack, values = compose
    wait_for(stack, stack.is_up, "every service is healthy", UP_SECONDS)
    scenario = (CHECKOUT / "tests" / "e2e" / "compose_scenario.py").read_text()
    password = {"TIDEGATE_TEST_PASSWORD": values["AIRFLOW_ADMIN_PASSWORD"]}
    report = json.loads(
        stack.run("airflow-scheduler", "entrypoint.sh", "python", "-", text=scenario, more=password).splitlines()[-1]
    )
    rows = [{"id": n, "name": f"n{n}"} for n in range(1, 5)]
    assert (report["flush"], report["publication"]) == ("success", "success")
    assert report["rows"] == rows
    assert report["published"] == {f'{{"id":{row["id"]}}}': row for row in rows}
    assert report["page"]
    assert report["metrics"] == ["0"]
    for service, state in stack.read_state().items():
        assert state["starts"] == 1, f"{service} was started again: {stack.read_log(service)[-1000:]}"
        for name, secret in values.items():
            assert name == "KAFKA_CLUSTER_ID" or secret not in stack.read_log(service), f"{service} logs {name}"
