"""What a user does with the stack of `docker-compose.yaml`: runs inside of its scheduler's container, on its packages.

Words on the way in: the administrator's password as TIDEGATE_TEST_PASSWORD. On the way out: one JSON object.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

API, PROMETHEUS = "http://airflow-api-server:8080", "http://prometheus:9090"
BROKER = {"bootstrap.servers": "kafka:9092"}
SOURCE, PUBLISHED = "shop.orders", "shop.orders.current"
PATIENCE_SECONDS = 600


def main() -> None:
    admin = AdminClient(BROKER)
    admin.create_topics([NewTopic(SOURCE, 2, 1)])[SOURCE].result(60)
    producer = Producer(BROKER)
    for number in range(1, 6):
        key = json.dumps({"id": number})
        producer.produce(SOURCE, key=key, value=json.dumps({"id": number, "name": f"n{number}"}), partition=number % 2)
    producer.produce(SOURCE, key='{"id": 5}', value=None, partition=1)
    assert producer.flush(30) == 0
    login = {"username": "admin", "password": os.environ["TIDEGATE_TEST_PASSWORD"]}
    token = ask(f"{API}/auth/token", login)["access_token"]
    report = {"flush": run_dag("tidegate_orders", token), "publication": run_dag("tidegate_publish_orders_out", token)}
    page = open_url(f"{API}/tidegate/", token)
    report |= {"published": read_published(), "rows": read_rows(), "page": "<html" in page.lower()}
    report["metrics"] = wait_for(
        lambda: query('tidegate_table_lag_records{pipeline="orders"} == 0'), "the pipeline's metrics"
    )
    print(json.dumps(report))


def run_dag(dag: str, token: str) -> str:
    """Switch a DAG on, start a run by hand, and wait for its end."""
    wait_for(lambda: ask(f"{API}/api/v2/dags/{dag}", token=token, missing_is_none=True), f"the DAG {dag}")
    ask(f"{API}/api/v2/dags/{dag}", {"is_paused": False}, token, "PATCH")
    runs = f"{API}/api/v2/dags/{dag}/dagRuns"
    ask(runs, {"logical_date": None}, token)

    def find_end() -> str | None:
        states = [run["state"] for run in ask(runs, token=token)["dag_runs"]]
        return None if not states or {"queued", "running"} & set(states) else ",".join(sorted(set(states)))

    return str(wait_for(find_end, f"the end of a run of {dag}"))


def read_published() -> dict[str, Any]:
    """What a reader of committed records holds."""
    reader = Consumer(
        {**BROKER, "group.id": "reader", "isolation.level": "read_committed", "enable.auto.commit": False}
    )
    partitions = reader.list_topics(PUBLISHED, 30).topics[PUBLISHED].partitions
    latest: dict[str, Any] = {}
    for number in partitions:
        _, end = reader.get_watermark_offsets(TopicPartition(PUBLISHED, number), 30)
        reader.assign([TopicPartition(PUBLISHED, number, 0)])
        while reader.position([TopicPartition(PUBLISHED, number)])[0].offset < end and end:
            record = reader.poll(10)
            if record is None:
                break
            latest[record.key().decode()] = record.value() and json.loads(record.value())
    reader.close()
    return latest


def read_rows() -> list[dict[str, Any]]:
    """The table, as PyIceberg opens it by the catalog of the stack."""
    from pathlib import Path

    from tidegate.adapters.iceberg.catalog import Catalogs
    from tidegate.adapters.iceberg.catalog_conf import resolve_catalog_properties
    from tidegate.config.catalogs_file import load_catalogs
    from tidegate.connections import read_connection_from_env

    catalog = load_catalogs(Path(os.environ["TIDEGATE_INCLUDE"]))["lake"]
    properties = resolve_catalog_properties(catalog, read_connection_from_env)
    rows = Catalogs({"lake": properties}).table("lake.shop.orders").scan().to_arrow().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


def query(text: str) -> list[Any] | None:
    samples = ask(f"{PROMETHEUS}/api/v1/query?query={urllib.parse.quote(text)}")["data"]["result"]
    return [sample["value"][1] for sample in samples] or None


def ask(url: str, body: Any = None, token: str = "", method: str = "", missing_is_none: bool = False) -> Any:
    try:
        return json.loads(open_url(url, token, body, method))
    except urllib.error.HTTPError as error:
        if missing_is_none and error.code == 404:
            return None
        raise RuntimeError(f"{url}: {error.code} {error.read()[:500]!r}") from error


def open_url(url: str, token: str = "", body: Any = None, method: str = "") -> str:
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method or ("POST" if data else "GET"))
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.read().decode())


def wait_for(condition: Any, expectation: str) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (result := condition()):
        if time.monotonic() > deadline:
            sys.exit(f"not within {PATIENCE_SECONDS} s: {expectation}")
        time.sleep(1)
    return result


main()
