"""One stack for all end-to-end tests: a broker, Spark, a standalone cluster, Airflow, and pipelines of each kind."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from e2e.airflow_client import AirflowClient, wait_until
from e2e.browser import open_static_page, run_browser
from e2e.mailbox import Mailbox, run_mailbox
from e2e.standalone import run_standalone_cluster
from e2e.statsd import StatsdServer, run_statsd_server
from guarded_broker import GuardedBroker, run_guarded_broker
from playwright.sync_api import Browser, Page, expect
from pyiceberg.catalog import load_catalog
from relay import Relay

from local.airflow.settings import (
    DAGS_VARIABLE,
    IDLE_SLEEP_VARIABLE,
    LOGINS_VARIABLE,
    PARSE_INTERVAL_VARIABLE,
    STATSD_VARIABLE,
)
from local.ports import HOST
from local.stack import Stack, start_stack

PIPELINES = {
    "solo": """
source:
  topics: [solo]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.solo
    create: {cluster_by: [id]}
merge: {interval: 5s}
maintenance: {compact_every: 1}
verify: {interval: 1d}
""",
    "fan": """
source:
  topics: [fan.left, fan.right]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.fan_left
    topics: [fan.left]
  - name: lake.e2e.fan_right
    topics: [fan.right]
merge: {interval: 1h}
""",
    "submitted": """
source:
  kafka: kafka_guarded
  topics: [submitted]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.submitted
merge: {interval: 1h}
spark:
  mode: submit
  connection: spark_standalone
  conf:
    spark.executor.memory: 1g
    spark.driver.extraJavaOptions: -XX:TieredStopAtLevel=1
    spark.executor.extraJavaOptions: -XX:TieredStopAtLevel=1
    spark.driver.host: 127.0.0.1
    spark.eventLog.enabled: true
    spark.eventLog.compress: false
    spark.eventLog.dir: file://FOLDER/events
""",
    "counted": """
source:
  kafka: kafka_guarded
  topics: [counted]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.counted
merge: {interval: -1, records_threshold: 1000}
heartbeat: {interval: 1h}
""",
    "behind": """
source:
  topics: [behind]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.behind
merge: {interval: '0 0 1 1 *', max_records: 50}
""",
    "clocks": """
source:
  topics: [clocks]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.Clocks
  - {name: lake.e2e.clock_names, select: "SELECT id, CAST(upper(name) AS STRING) AS name FROM record"}
stage: {interval: 5s}
merge: {interval: -1, records_threshold: 300}
""",
    "letters": """
description: Some of its records cannot be read
source:
  topics: [letters]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, amount INT"}
  errors: {tolerance: all}
tables:
  - name: lake.e2e.letters
merge: {interval: 1h}
""",
    "stopped": """
source:
  topics: [stopped]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, amount INT"}
tables:
  - name: lake.e2e.stopped
merge: {interval: 5s}
on_failure:
  - notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier
    kwargs: &mail {to: someone@example.com, from_email: tidegate@example.com, subject: 'failed: {{ failure.reason }}',
      html_content: '{{ dag.dag_id }}'}
on_recovery:
  - notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier
    kwargs: {<<: *mail, subject: 'well again: {{ failure.reason }}'}
""",
    "poisoned": """
source:
  topics: [poisoned]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, score INT"}
tables:
  - name: lake.e2e.poisoned
merge: {interval: 1h}
""",
    "relayed": """
source:
  kafka: kafka_relayed
  topics: [relayed]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.relayed
merge: {interval: 1h}
""",
    "hourly": """
source:
  topics: [hourly]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.hourly
merge: {interval: 5s}
complete: hour
""",
    "barge": """
source:
  topics: [barge]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.barge
merge: {interval: 1h}
fleet: harbour
""",
    "ferry": """
source:
  topics: [ferry]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.ferry
  - {name: lake.e2e.ferry_names, select: "SELECT id, CAST(upper(name) AS STRING) AS name FROM record"}
merge: {interval: 1h}
fleet: harbour
""",
    "pilot": """
source:
  topics: [pilot]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.pilot
stage: {interval: 1h}
merge: {interval: 1h, records_threshold: 3}
fleet: harbour
""",
    "raft": """
source:
  topics: [raft]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.raft
merge: {interval: 1h}
fleet: harbour
""",
    "wreck": """
source:
  topics: [wreck]
  key: {format: json, fields: [id], schema: id BIGINT}
  value: {format: json, schema: "id BIGINT, name STRING"}
tables:
  - name: lake.e2e.wreck
merge: {interval: 1h}
fleet: harbour
on_failure:
  - notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier
    kwargs: &mail {to: someone@example.com, from_email: tidegate@example.com,
      subject: 'fleet: {{ failure.pipeline }}: {{ failure.reason }}', html_content: '{{ dag.dag_id }}'}
on_recovery:
  - notifier: airflow.providers.smtp.notifications.smtp.SmtpNotifier
    kwargs: {<<: *mail, subject: 'fleet: well again: {{ failure.pipeline }}'}
""",
    "broken": """
source:
  topics: [broken]
  colour: red
tables:
  - name: nowhere.e2e.broken
merge: {interval: soon}
""",
}
# a DAG of somebody else's, which starts once for each hour of a table
CONSUMER = """
from airflow.sdk import DAG, Asset, PartitionedAssetTimetable, task

with DAG("consumer", schedule=PartitionedAssetTimetable(assets=Asset("lake.e2e.hourly/hour"))):
    @task
    def consume(dag_run=None): return dag_run.partition_key
    consume()
"""
PUBLICATIONS = {
    "solo_out": """
description: The way back, through spark-submit
table: lake.e2e.solo
topic: solo.out
key: {fields: [id]}
delivery: exactly-once
parallelism: 2
on_table_change: false
spark: {mode: submit, connection: spark_standalone, conf: {spark.executor.memory: 1g, spark.driver.host: 127.0.0.1}}
""",
}
TOPICS = {
    "solo": 2,
    "fan.left": 1,
    "fan.right": 1,
    "submitted": 2,
    "counted": 2,
    "behind": 1,
    "clocks": 2,
    "letters": 2,
    "stopped": 2,
    "poisoned": 2,
    "relayed": 2,
    "hourly": 2,
    "barge": 2,
    "ferry": 2,
    "pilot": 2,
    "raft": 2,
    "wreck": 2,
}
HARBOUR = ("barge", "ferry", "pilot", "raft", "wreck")  # flush in one DAG; pilot is staged by its own
PASSWORDS = {"admin": "tidal-admin", "viewer": "tidal-viewer"}
GUARDED = ("submitted", "counted")  # topics that are read with a log-in, which has a right to each thing it needs
# what must not be seen anywhere: a password of the brokers, and one that goes with every catalog's properties
SECRETS = {"kafka": "brokers-s3cret-w0rd", "lake": "lakes-s3cret-k3y"}


@dataclass(frozen=True)
class Scene:
    """The running stack, and a user's hands on it."""

    stack: Stack
    airflow: AirflowClient
    folder: Path
    guarded: GuardedBroker
    statsd: StatsdServer
    mailbox: Mailbox
    relay: Relay  # between the broker and one pipeline

    def produce(self, topic: str, rows: dict[int, str | None]) -> None:
        values = {key: None if name is None else json.dumps({"id": key, "name": name}) for key, name in rows.items()}
        self.produce_text(topic, values)

    def produce_text(self, topic: str, values: dict[int, str | None]) -> None:
        producer = Producer({"bootstrap.servers": self.guarded.backdoor})
        for key, value in values.items():
            producer.produce(topic, key=json.dumps({"id": key}), value=value)
        assert producer.flush(60) == 0

    def find_first_run(self, dag_id: str) -> str:
        """Switch a DAG on; its interval is long, so that the one run which starts at once is the only one."""
        self.airflow.unpause(dag_id)
        wait_until(lambda: bool(self.airflow.list_runs(dag_id)), f"a run of {dag_id}")
        return str(self.airflow.list_runs(dag_id)[0]["dag_run_id"])

    def read_rows(self, table: str) -> dict[int, str]:
        rows = self.table(table).scan().to_arrow().to_pylist()
        assert len({row["id"] for row in rows}) == len(rows), "a key stands twice"
        return {row["id"]: row["name"] for row in rows}

    def table(self, name: str) -> Any:
        catalog = load_catalog("lake", **_build_lake_properties(self.folder))
        return catalog.load_table(name)

    def exists(self, name: str) -> bool:
        return bool(load_catalog("lake", **_build_lake_properties(self.folder)).table_exists(name))


def _build_lake_properties(folder: Path) -> dict[str, str]:
    return {
        "type": "sql",
        "uri": f"sqlite:///{folder}/catalog.db?timeout=60",
        "warehouse": f"file://{folder}/warehouse",
    }


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The browser of all tests end to end: a start of one costs seconds of CPU."""
    with run_browser() as running:
        expect.set_options(timeout=120_000)
        yield running


@pytest.fixture(scope="module")
def page(chromium: Browser) -> Iterator[Page]:
    """A page whose files are those of the product, without Airflow."""
    with open_static_page(chromium) as opened:
        yield opened


@pytest.fixture(scope="session")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("e2e")
    include = folder / "include"
    (include / "pipelines").mkdir(parents=True)
    properties = {**_build_lake_properties(folder), "uri": f"sqlite:///{folder}/catalog.db"}
    lake = {"type": "iceberg", "connection": "lake_keys", "properties": properties}
    (include / "catalogs.yaml").write_text(json.dumps({"lake": lake}))
    for name, text in PIPELINES.items():
        (include / "pipelines" / f"{name}.yaml").write_text(text.replace("FOLDER", str(folder)))
    (include / "publications").mkdir()
    for name, text in PUBLICATIONS.items():
        (include / "publications" / f"{name}.yaml").write_text(text)
    (folder / "events").mkdir()
    (folder / "consumers").mkdir()
    (folder / "consumers" / "consumer.py").write_text(CONSUMER)
    week = 7 * 24 * 60
    with ExitStack() as stage:
        master = stage.enter_context(run_standalone_cluster(folder / "standalone"))
        guarded = stage.enter_context(run_guarded_broker(folder / "guarded", keep_offsets_minutes=week))
        _create_topics(guarded.admin)
        guarded.add_user("tidegate", SECRETS["kafka"])
        guarded.allow_documented("tidegate", *GUARDED)
        statsd = stage.enter_context(run_statsd_server())
        mails = stage.enter_context(run_mailbox())
        relay = Relay(HOST, int(guarded.backdoor.rpartition(":")[2]))
        stage.callback(relay.close)
        with pytest.MonkeyPatch.context() as patch:  # for this stack alone: the demo's own has no log-in
            for name, value in {
                **_build_environment(folder, master, guarded, statsd, mails),
                **_build_relay_settings(relay),
            }.items():
                patch.setenv(name, value)
            stack = start_stack(
                folder / "run", parts={"spark", "postgres", "airflow"}, include=include, tied_to=os.getpid()
            )
        stage.callback(stack.stop)
        airflow = AirflowClient(stack.airflow_url, "admin", PASSWORDS["admin"])
        yield Scene(stack, airflow, folder, guarded, statsd, mails, relay)


@pytest.fixture(scope="session")
def submitted_run(scene: Scene) -> str:
    """A flush by spark-submit, begun by the first test that asks: its two jobs start JVMs while other tests go on."""
    scene.produce("submitted", {n: f"name {n}" for n in range(50)} | {7: None})
    return scene.find_first_run("tidegate_submitted")


def _build_environment(
    folder: Path, master: str, guarded: GuardedBroker, statsd: StatsdServer, mails: Mailbox
) -> dict[str, str]:
    """The environment that Airflow starts in: log-ins, connections, and where its metrics go."""
    logins = folder / "logins.json"
    logins.write_text(json.dumps(PASSWORDS))
    host, _, port = master.rpartition(":")
    connections = {
        "KAFKA_DEFAULT": {"conn_type": "kafka", "extra": {"bootstrap.servers": guarded.backdoor}},
        "SPARK_STANDALONE": {"conn_type": "spark", "host": host, "port": int(port)},
        "KAFKA_GUARDED": {"conn_type": "kafka", "extra": guarded.settings("tidegate", SECRETS["kafka"])},
        "SMTP_DEFAULT": {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": mails.port,
            "extra": {"disable_ssl": True, "disable_tls": True},
        },
        "LAKE_KEYS": {"conn_type": "generic", "extra": {"s3.secret-access-key": SECRETS["lake"]}},
    }
    return {
        LOGINS_VARIABLE: str(logins),
        STATSD_VARIABLE: statsd.address,
        DAGS_VARIABLE: str(folder / "consumers"),
        IDLE_SLEEP_VARIABLE: "1",  # other tests need the CPU, and this stack lives for ten minutes
        PARSE_INTERVAL_VARIABLE: "900",  # each parse of a file takes a second of CPU; `parse_again` parses it at once
        **{f"AIRFLOW_CONN_{name}": json.dumps(connection) for name, connection in connections.items()},
    }


def _build_relay_settings(relay: Relay) -> dict[str, str]:
    brokers = {"bootstrap.servers": f"{HOST}:{relay.port}"}
    return {"AIRFLOW_CONN_KAFKA_RELAYED": json.dumps({"conn_type": "kafka", "extra": brokers})}


def _create_topics(admin: AdminClient) -> None:
    futures = admin.create_topics([NewTopic(name, partitions, 1) for name, partitions in TOPICS.items()])
    for future in futures.values():
        future.result(60)
