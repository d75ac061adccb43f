"""What Airflow's OpenLineage provider sends of a flush, a backfill and a publication, when it is installed.

It is installed into its own folder beside the environment: all other tests show that nothing else needs it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.layout import ROOT
from local.setup import build_uv_settings

# the provider at the version that requirements.txt takes beside what it locks, and what it needs that is not there
PACKAGES = (
    "apache-airflow-providers-openlineage==2.20.3",
    "openlineage-integration-common==1.54.0",
    "openlineage-python==1.54.0",
    "openlineage-sql==1.54.0",
)
VALIDATE = """
import json, sys
from openlineage.client.event_v2 import InputDataset, OutputDataset, Job, Run, RunEvent, RunState
from openlineage.client.facet_v2 import column_lineage_dataset, schema_dataset, symlinks_dataset
from openlineage.client.serde import Serde

def build(kind, data):
    facets = {n: (f.pop("_producer"), f.pop("_schemaURL"), f) for n, f in data.pop("facets", {}).items()}
    made = {}
    for name, (producer, url, facet) in facets.items():
        if name == "schema":
            made[name] = schema_dataset.SchemaDatasetFacet(
                fields=[schema_dataset.SchemaDatasetFacetFields(**field) for field in facet.pop("fields")], **facet)
        elif name == "symlinks":
            made[name] = symlinks_dataset.SymlinksDatasetFacet(
                identifiers=[symlinks_dataset.Identifier(**one) for one in facet.pop("identifiers")], **facet)
        elif name == "columnLineage":
            def read(one):
                how = [column_lineage_dataset.Transformation(**t) for t in one.pop("transformations")]
                return column_lineage_dataset.InputField(**one, transformations=how)
            fields = {
                column: column_lineage_dataset.Fields(
                    inputFields=[read(one) for one in sources.pop("inputFields")], **sources)
                for column, sources in facet.pop("fields").items()}
            made[name] = column_lineage_dataset.ColumnLineageDatasetFacet(
                fields=fields, dataset=[read(one) for one in facet.pop("dataset")], **facet)
        assert made[name]._schemaURL == url, (name, url)
    return kind(**data, facets=made)

for line in sys.stdin:
    given = json.loads(line)
    event = json.loads(line)
    inputs = [build(InputDataset, one) for one in event["inputs"]]
    outputs = [build(OutputDataset, one) for one in event["outputs"]]
    made = RunEvent(eventTime=event["eventTime"], producer=event["producer"], run=Run(event["run"]["runId"]),
                    job=Job(event["job"]["namespace"], event["job"]["name"]), inputs=inputs, outputs=outputs,
                    eventType=RunState(event["eventType"]))
    again = json.loads(Serde.to_json(made))
    for side in ("inputs", "outputs"):
        for one in given[side] + again[side]:
            for facet in one.get("facets", {}).values():
                facet.pop("_producer")
        assert again[side] == given[side], (again[side], given[side])
    print("VALID", event["job"]["name"])
"""


class Airflow:
    """Airflow's commands on a workbench, with the provider beside them; its events go to a file."""

    def __init__(self, workbench: Any, provider: Path, folder: Path) -> None:
        self.events_file = folder / "events.json"
        transport = {"type": "file", "log_file_path": str(self.events_file), "append": True}
        path = os.pathsep.join(map(str, (provider, ROOT / "plugins", ROOT / "jobs")))
        self.environment = workbench.build_environment() | {
            "AIRFLOW_HOME": str(folder / "airflow"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(ROOT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
            "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
            "AIRFLOW__OPENLINEAGE__EXECUTION_TIMEOUT": "120",
            "PYTHONPATH": path,
        }

    def run(self, *words: str) -> None:
        process = subprocess.run(
            [str(Path(sys.executable).parent / "airflow"), *words],
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-3000:]

    def read_event(self, job: str) -> dict[str, Any]:
        """The last event of a task that has ended well."""
        events = [json.loads(line) for line in self.events_file.read_text().splitlines()]
        return [e for e in events if e["job"]["name"] == job and e["eventType"] == "COMPLETE"][-1]

    def validate(self, *events: dict[str, Any]) -> list[str]:
        """Read events back into OpenLineage's own classes, which refuse what does not fit them, and compare."""
        process = subprocess.run(
            [sys.executable, "-c", VALIDATE],
            env={**os.environ, "PYTHONPATH": self.environment["PYTHONPATH"]},
            input="\n".join(map(json.dumps, events)),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert process.returncode == 0, process.stderr[-3000:]
        return [line.removeprefix("VALID ") for line in process.stdout.splitlines()]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("openlineage")
    uv = [str(Path(sys.executable).parent / "uv"), "pip", "install", "--python", sys.executable]
    command = [*uv, "--target", str(folder), "--no-deps", *PACKAGES]
    environment = os.environ | build_uv_settings(Path(sys.executable))
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert process.returncode == 0, process.stderr
    return folder


def list_sources(output: dict[str, Any]) -> dict[str, list[str]]:
    fields = output["facets"]["columnLineage"]["fields"]
    return {
        column: [f"{source['name'].rpartition('/')[2]}: {source['field']}" for source in lineage["inputFields"]]
        for column, lineage in fields.items()
    }


def list_fields(dataset: dict[str, Any]) -> list[str]:
    return [field["name"] for field in dataset["facets"]["schema"]["fields"]]


# the same lineage, through Airflow's provider, which is installed beside the environment
@pytest.mark.repeats(
    "unit/tidegate/lineage/test_golden_lineage.py::test_each_column_of_a_pipelines_tables_is_traced_to_fields_of_its_topics"
)
def test_flush_backfill_and_publication_tell_where_each_column_comes_from(provider, workbench, tmp_path) -> None:
    orders, customers, sink = workbench.topic(2), workbench.topic(2), workbench.topic(1)
    keyed = {"key": {"fields": ["id"], "schema": "id BIGINT"}}
    workbench.pipeline("people", [customers], **keyed, value={"schema": "id BIGINT, level STRING"})
    select = (
        "SELECT r.id, CAST(upper(r.name) AS STRING) AS name, c.level FROM record r "
        "LEFT JOIN lake.shop.people c ON r.customer = c.id"
    )
    value = {"schema": "id BIGINT, name STRING, customer BIGINT"}
    joined = [
        {"name": "lake.shop.orders", "select": select},
        {"name": "lake.shop.events", "select": "SELECT *, `offset` AS place FROM record", "when": "customer > 0"},
    ]
    workbench.pipeline("orders", [orders], **keyed, value=value, tables=joined)
    published = {"table": "lake.shop.orders", "topic": f"{sink}-out", "key": {"fields": ["level"]}}
    published["sql"] = "SELECT coalesce(level, '-') AS level, count(*) AS n FROM {table} GROUP BY coalesce(level, '-')"
    (workbench.include / "publications").mkdir()
    (workbench.include / "publications" / "levels.yaml").write_text(json.dumps(published))
    workbench.produce(customers, ({"id": 7}, {"level": "gold"}), ({"id": 8}, {"level": "tin"}))
    workbench.flush("people")
    rows = [({"id": n}, {"name": f"n{n}", "customer": 7 + n % 2}, {"partition": n % 2}) for n in range(4)]
    workbench.produce(orders, *rows)

    airflow = Airflow(workbench, provider, tmp_path)
    airflow.run("db", "migrate")
    airflow.run("dags", "test", "tidegate_orders")
    assert [row["level"] for row in workbench.read_rows("shop.orders")] == ["gold", "tin", "gold", "tin"]
    airflow.run("dags", "test", "tidegate_publish_levels")
    ranges = {"ranges": {orders: {"0": [0, 1], "1": [0, 1]}}, "tables": ["lake.shop.orders"]}
    airflow.run("dags", "test", "tidegate_orders_backfill", "--conf", json.dumps(ranges))

    merged, batch, publication_event = (
        airflow.read_event(job)
        for job in ("tidegate_orders.merge", "tidegate_orders_backfill.batch", "tidegate_publish_levels.publish")
    )
    assert airflow.validate(merged, batch, publication_event) == [
        event["job"]["name"] for event in (merged, batch, publication_event)
    ]
    merges = {
        event["outputs"][0]["facets"]["symlinks"]["identifiers"][0]["name"]: event
        for event in map(json.loads, airflow.events_file.read_text().splitlines())
        if event["job"]["name"] == "tidegate_orders.merge" and event["eventType"] == "COMPLETE"
    }
    assert set(merges) == {"shop.orders", "shop.events"}
    place = f"kafka://{workbench.stack.kafka_bootstrap}"
    for event in (merges["shop.orders"], batch):
        topic, people = event["inputs"]
        [table] = event["outputs"]
        assert (topic["namespace"], topic["name"]) == (place, orders)
        assert (table["namespace"], table["name"]) == ("file", workbench.load_iceberg("shop.orders").location()[7:])
        assert people["name"].endswith("/people")
        assert list_fields(table) == ["id", "name", "level"]
        assert list_sources(table) == {
            "id": [f"{orders}: key.id"],
            "name": [f"{orders}: value.name"],
            "level": ["people: level"],
        }
    [topic], [events] = (merges["shop.events"][side] for side in ("inputs", "outputs"))
    column_sources = list_sources(events)
    assert list_fields(events) == ["id", "name", "customer", "place"]
    assert set(column_sources) == {*list_fields(events)}
    assert column_sources["place"] == [f"{orders}: offset"]
    assert {source.partition(": ")[2] for sources in column_sources.values() for source in sources} <= {
        *list_fields(topic)
    }
    [level] = publication_event["outputs"]
    assert (level["namespace"], level["name"]) == (place, f"{sink}-out")
    assert list_sources(level) == {
        "key.level": ["orders: level"],
        "value.level": ["orders: level"],
        "value.n": ["orders: level"],
    }
