"""The doctor on a broker that requires a right for each request, on Spark, and on BigQuery's stand-in."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from guarded_broker import GuardedBroker, run_guarded_broker
from seeded_mistakes import require_found
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.connections import read_connection_from_env
from tidegate.diagnosis.finding import Severity
from tidegate.wiring.doctor import diagnose

PASSWORD, WRONG = "s3cret-w0rd", "an0ther-w0rd"
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    with run_guarded_broker(tmp_path_factory.mktemp("guarded") / "broker") as running:
        topics = [
            NewTopic("orders", 2, 1),
            NewTopic("returns", 2, 1),
            NewTopic("salaries", 1, 1),
            NewTopic("out", 2, 1),
        ]
        for future in running.admin.create_topics(topics).values():
            future.result(60)
        running.add_user("tidegate", PASSWORD)
        running.allow_documented("tidegate", "orders", "returns")
        running.allow("tidegate", "TOPIC", "out", "READ", "DESCRIBE_CONFIGS")
        running.allow("tidegate", "TOPIC", "nowhere", "READ")
        running.allow("tidegate", "TOPIC", "tidegate-publication-back", "READ", "WRITE", "DESCRIBE_CONFIGS", "CREATE")
        yield running


def write_two_pipelines(workbench: Any, first: dict[str, Any], **sections: Any) -> None:
    """Write pipeline `one` with these settings, and pipeline `two` into another catalog."""
    catalogs = {
        name: {
            "type": "iceberg",
            "properties": {**workbench.properties, "uri": f"sqlite:///{workbench.folder}/{name}.db"},
        }
        for name in ("lake", "pond")
    }
    (workbench.include / "catalogs.yaml").write_text(json.dumps(catalogs))
    workbench.pipeline("one", first.pop("topics", ["orders"]), key=KEY, value=VALUE, source=first, **sections)
    workbench.pipeline("two", ["orders"], key=KEY, value=VALUE, tables=[{"name": "pond.shop.two"}])


def ask(workbench: Any, settings: dict[str, str], *names: str, **words: Any) -> list[Any]:
    environment = {
        **workbench.build_environment(),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "extra": settings}),
    }
    resolve = partial(read_connection_from_env, environ=environment)
    findings = diagnose(workbench.include, resolve, names, **{"is_read_only": True, "seconds": 60, **words})
    assert PASSWORD not in str(findings)
    assert WRONG not in str(findings)
    return findings


def list_errors(findings: list[Any]) -> list[str]:
    return [f"{finding.check}: {finding.cause}" for finding in findings if finding.severity is Severity.ERROR]


def test_documented_rights_are_enough_and_everything_is_looked_at(workbench: Any, broker: GuardedBroker) -> None:
    write_two_pipelines(workbench, {})
    findings = ask(workbench, broker.settings("tidegate", PASSWORD), is_read_only=False)
    assert list_errors(findings) == []
    right = {finding.check for finding in findings if finding.severity is Severity.OK}
    assert right >= {
        "kafka.reachable", "kafka.topics", "catalog.reachable", "catalog.commit", "catalog.tables", "pipeline.position",
        "spark.reachable", "spark.catalogs",
    }  # fmt: skip
    assert sorted(finding.used_by for finding in findings if finding.check == "pipeline.position") == [
        ("one",),
        ("two",),
    ]


# the name of a mistake, and the pipeline's source with it
MISTAKEN_SOURCES: dict[str, dict[str, Any]] = {
    "topic-missing": {"topics": ["nowhere"]},
    "topic-without-right": {"topics": ["salaries"]},
    "group-without-right": {"topics": ["orders"], "group": "elsewhere"},
    "pattern-matches-nothing": {"topic_pattern": "none\\..*"},
}


def test_mistakes_at_the_brokers_are_found_and_the_other_pipeline_is_looked_at(
    workbench: Any, broker: GuardedBroker
) -> None:
    """Each in a pipeline of its own."""
    write_two_pipelines(workbench, {})
    for number, source in enumerate(MISTAKEN_SOURCES.values()):
        table = {"name": f"lake.shop.m{number}", "disjoint_keys": True}
        file = {"source": {"key": KEY, "value": VALUE, **source}, "tables": [table]}
        (workbench.include / "pipelines" / f"m{number}.yaml").write_text(json.dumps(file))
    findings = ask(workbench, broker.settings("tidegate", PASSWORD))
    for number, name in enumerate(MISTAKEN_SOURCES):
        assert require_found(name, findings).used_by == (f"m{number}",)
    assert ("two",) in [finding.used_by for finding in findings if finding.check == "pipeline.position"]
    of_missing = [finding for finding in findings if finding.severity is Severity.ERROR and "m0" in finding.used_by]
    assert len(of_missing) == 1, "what follows from it is not told"


MISTAKEN_SETTINGS = {
    "kafka-password-wrong": {"sasl.password": WRONG},
    "kafka-without-tls": {"security.protocol": "PLAINTEXT"},
    "kafka-authority-wrong": {"ssl.ca.location": "/etc/ssl/certs/ca-certificates.crt"},
}


@pytest.mark.repeats(
    "unit/tidegate/adapters/kafka/test_errors.py::test_refused_log_in_of_a_publication_is_a_sentence_that_needs_a_person_as_that_of_a_pipeline"
)
def test_log_in_that_is_refused_is_told_from_brokers_that_are_down(
    workbench: Any, broker: GuardedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a connection of its own."""
    write_two_pipelines(workbench, {})
    settings, environment = broker.settings("tidegate", PASSWORD), workbench.build_environment()
    for number, changed in enumerate(MISTAKEN_SETTINGS.values()):
        connection = {"conn_type": "kafka", "extra": {**settings, **changed}}
        environment[f"AIRFLOW_CONN_KAFKA_{number}"] = json.dumps(connection)
        source = {"kafka": f"kafka_{number}"}
        workbench.pipeline(
            f"m{number}", ["orders"], key=KEY, value=VALUE, source=source, tables=[{"name": f"pond.shop.m{number}"}]
        )
    monkeypatch.setattr(workbench, "build_environment", lambda: environment)
    findings = ask(workbench, settings)
    for number, name in enumerate(MISTAKEN_SETTINGS):
        require_found(name, [finding for finding in findings if finding.used_by == (f"m{number}",)])
    assert len(list_errors(findings)) == len(MISTAKEN_SETTINGS)
    looked_at = {name for finding in findings if finding.check == "catalog.tables" for name in finding.used_by}
    assert looked_at == {"one", "two", "m0", "m1", "m2"}


@pytest.mark.repeats(
    "integration/test_publications.py::test_topic_that_is_not_compacted_is_refused_unless_allowed_and_a_missing_one_is_made_compacted"
)
def test_publication_to_a_topic_that_is_not_compacted_is_found(workbench: Any, broker: GuardedBroker) -> None:
    write_two_pipelines(workbench, {})
    (workbench.include / "publications").mkdir()
    publication = "table: lake.shop.one\ntopic: out\nkey: {fields: [id]}\n"
    (workbench.include / "publications" / "back.yaml").write_text(publication)
    lake = Catalogs({"lake": {**workbench.properties, "uri": f"sqlite:///{workbench.folder}/lake.db"}}).catalog("lake")
    lake.create_namespace("shop")
    rows = pyarrow.table({"id": pyarrow.array([1], pyarrow.int64())})
    lake.create_table("shop.one", rows.schema).append(rows)
    require_found("topic-not-compacted", ask(workbench, broker.settings("tidegate", PASSWORD), "back"))


@pytest.mark.repeats(
    "unit/tidegate/table/test_position_checks.py::test_recreated_topic_is_not_read_as_if_its_offsets_meant_the_same_records"
)
def test_topic_that_was_deleted_and_created_again_is_found_and_no_job_runs(workbench: Any) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("one", [topic], key=KEY, value=VALUE)
    workbench.produce(topic, ({"id": 1}, {"name": "x"}), ({"id": 2}, {"name": "y"}, {"partition": 1}))
    workbench.drain("one")
    right = diagnose(workbench.include, workbench.resolve(), is_read_only=True, seconds=60)
    assert list_errors(right) == []
    before = workbench.load_iceberg("shop.one").metadata
    workbench.recreate(topic, 2)
    require_found("topic-recreated", diagnose(workbench.include, workbench.resolve(), seconds=60))
    assert workbench.load_iceberg("shop.one").metadata == before


@pytest.mark.repeats(
    "unit/tidegate/wiring/test_checks_of_pipelines.py::test_newest_record_of_any_partition_may_be_of_tomorrow"
)
def test_records_of_the_future_are_found(workbench: Any, stack: Any) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("one", [topic], key=KEY, value=VALUE)
    producer = Producer({"bootstrap.servers": stack.kafka_bootstrap, "log_level": 0})
    soon = int(1000 * (time.time() + 1800))  # brokers refuse what is more than an hour ahead
    producer.produce(topic, b'{"id": 1}', b"{}", partition=1, timestamp=soon)
    assert producer.flush(60) == 0
    findings = diagnose(workbench.include, workbench.resolve(), is_read_only=True, seconds=60)
    [clock] = [finding for finding in findings if finding.check == "kafka.clock"]
    assert (clock.severity, clock.used_by) == (Severity.WARNING, ("one",))
    ahead = float(clock.cause.partition("ahead_seconds=")[2].split()[0])
    assert 1500 < ahead <= 1800


def greet(listening: socket.socket) -> None:
    """Answer each client with HTTP/2's empty settings, and then with nothing more."""
    opened = []
    with suppress(OSError):
        while True:
            opened.append(listening.accept()[0])
            opened[-1].sendall(bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    for connection in opened:
        connection.close()


@pytest.mark.repeats("unit/tidegate/wiring/test_doctor.py::test_silent_servers_are_found_each_by_its_name")
def test_server_that_greets_and_answers_no_more_ends_with_the_process(workbench: Any) -> None:
    """The whole command: its exit code, and a thread that hangs does not delay the end."""
    topic = workbench.topic(2)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=greet, args=(listening,), daemon=True)
        thread.start()
        remote = f"sc://127.0.0.1:{listening.getsockname()[1]}"
        workbench.pipeline("one", [topic], key=KEY, value=VALUE, spark={"remote": remote})
        process = workbench.run_process("doctor", "--json", "--timeout", "30", "--read-only")
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(60)
    report = json.loads(process.stdout)
    assert (process.returncode, report["errors"], process.stderr) == (1, 1, "")
    finding = require_found("spark-stuck", [SimpleNamespace(**entry) for entry in report["findings"]])
    assert finding.used_by == ["one"]


@pytest.mark.repeats("test_documented_rights_are_enough_and_everything_is_looked_at")
def test_command_says_that_all_is_well(workbench: Any) -> None:
    topic = workbench.topic(2)
    workbench.pipeline("one", [topic], key=KEY, value=VALUE)
    process = workbench.run_cli("doctor", "--timeout", "120")
    assert process.returncode == 0, process.stdout
    assert process.stdout.splitlines()[-1].startswith("0 errors, 0 warnings, ")
    assert workbench.run_cli("doctor", "nobody").returncode == 1


@pytest.mark.repeats(
    "unit/tidegate/adapters/bigquery/test_probe.py::test_datasets_where_jobs_run_are_well_and_a_missing_one_is_made_by_the_first_flush"
)
def test_bigquery_is_looked_at_and_nothing_is_left(workbench: Any, dwh: Any) -> None:
    topic = workbench.topic(2)
    dwh.pipeline("one", [topic], key=KEY, value=VALUE)
    findings = diagnose(workbench.include, workbench.resolve(), seconds=60)
    assert list_errors(findings) == []
    assert {finding.check for finding in findings if "project=" in finding.cause} == {
        "catalog.reachable",
        "catalog.commit",
    }
    dwh.sql(f"CREATE SCHEMA {dwh.dataset}")
    findings = diagnose(workbench.include, workbench.resolve(), seconds=60)
    assert list_errors(findings) == []
    assert [finding.check for finding in findings if "dry run" in finding.cause] == ["catalog.commit"]
    assert (dwh.tables(), dwh.list_staging_files()) == ([], [])
