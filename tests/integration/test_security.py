"""A pipeline on a broker that requires a password and rights: the documented ones suffice, and no secret shows."""

import json
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from conftest import DEADLINE_SECONDS, wait_until
from guarded_broker import GuardedBroker, run_guarded_broker
from round_trip import read_committed
from tidegate.adapters.kafka.broker import KafkaBroker
from tidegate.config.pipeline_file import load_pipeline
from tidegate.connections import read_connection_from_env
from tidegate.errors import GiveUp
from tidegate.jobs.stage_job import KAFKA_CONF
from tidegate.publications.publish import publish
from tidegate.wiring.pipeline import build_spark_conf
from tidegate.wiring.publication import assemble_publication
from tidegate_spark.session import close, connect_session, read_private_conf

PASSWORD = "s3cret-w0rd"
CLIENT = "cl1ent-w0rd"
WRONG = "an0ther-w0rd"
KEY = {"fields": ["id"], "schema": "id BIGINT"}
VALUE = {"schema": "id BIGINT, name STRING"}
# the secret of a REST catalog's client, under the name that Iceberg has for it
LAKE = {"AIRFLOW_CONN_LAKE": json.dumps({"conn_type": "generic", "extra": {"credential": f"flush:{CLIENT}"}})}
HOSTILE = [
    "'; DROP TABLE lake.shop.guarded; --",
    '"; rm -rf /',
    "{{ 7 * 7 }}",
    "${jndi:x}",
    "../../etc/passwd",
    "a`b;c",
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    with run_guarded_broker(tmp_path_factory.mktemp("guarded") / "broker") as running:
        futures = running.admin.create_topics([NewTopic(name, 2, 1) for name in ("orders", "submitted", "salaries")])
        for future in futures.values():
            future.result(60)
        running.add_user("tidegate", PASSWORD)
        yield running


def run(workbench: Any, broker: GuardedBroker, password: str, *words: str) -> "subprocess.CompletedProcess[str]":
    """A command of a user whose connection holds this password."""
    connection = json.dumps({"conn_type": "kafka", "extra": broker.settings("tidegate", password)})
    return subprocess.run(
        workbench.build_command("-v", *words),
        env={**workbench.build_environment(), "AIRFLOW_CONN_KAFKA_DEFAULT": connection, **LAKE},
        cwd=workbench.folder,
        capture_output=True,
        text=True,
        timeout=2 * DEADLINE_SECONDS,
        check=False,
    )


def produce(broker: GuardedBroker, topic: str, *rows: dict[str, Any]) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.backdoor, "log_level": 0})
    for row in rows:
        producer.produce(topic, json.dumps(row), json.dumps({"id": row["id"]}), partition=0)
    assert producer.flush(60) == 0


def find_files_with(word: str, *folders: Path) -> list[Path]:
    """Files below the folders that hold the word anywhere."""
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    return [file for file in files if word.encode() in file.read_bytes()]


@pytest.mark.repeats("test_the_documented_rights_are_enough_and_the_password_is_seen_nowhere[orders]", "submitted")
@pytest.mark.parametrize("topic", ["orders", "submitted"])
def test_the_documented_rights_are_enough_and_the_password_is_seen_nowhere(workbench, broker, topic: str) -> None:
    """By the Connect server, and by spark-submit: its event log and its command line are where a secret would show."""
    submits, name = topic == "submitted", f"guarded_{topic}"
    broker.allow_documented("tidegate", topic)
    events = workbench.folder / "events"
    events.mkdir()
    logged = {"spark.eventLog.enabled": True, "spark.eventLog.compress": False}
    catalogs = {"lake": {"type": "iceberg", "properties": workbench.properties, "connection": "lake"}}
    (workbench.include / "catalogs.yaml").write_text(json.dumps(catalogs))
    place = {"master": "local[1]", "conf": {**logged, "spark.eventLog.dir": f"file://{events}"}}
    more = {"spark": place} if submits else {}
    workbench.pipeline(name, [topic], key=KEY, value=VALUE, heartbeat={"produce": True}, **more)
    produce(broker, topic, *({"id": n, "name": text} for n, text in enumerate(HOSTILE)))
    wait_until(lambda: _may_read(broker, topic), "the rights")
    process = run(workbench, broker, PASSWORD, "flush", name, "--json")
    assert process.returncode == 0, process.stderr[-2000:]
    assert [row["name"] for row in workbench.read_rows(f"shop.{name}")] == HOSTILE
    status_process = run(workbench, broker, PASSWORD, "status", name, "--json")
    [status] = json.loads(status_process.stdout)["pipelines"]
    assert (status["lag"], status["warnings"]) == (0, [])
    assert [part["committed"] for part in status["partitions"]] == [len(HOSTILE), 0]
    assert any(events.iterdir()) == submits, "an event log is written by the submitted job alone"
    assert bool(find_files_with("catalog.lake.credential", events)) == submits, "the event log tells of such a setting"
    for secret in (PASSWORD, CLIENT):
        assert secret not in process.stdout + process.stderr + status_process.stdout + status_process.stderr
        assert find_files_with(secret, workbench.folder) == []
    _check_session_hides(workbench, broker, name)


def _check_session_hides(workbench: Any, broker: GuardedBroker, name: str) -> None:
    """A session of the Connect server, whose own configuration is not the product's, answers SET without a secret."""
    settings = json.dumps({"conn_type": "kafka", "extra": broker.settings("tidegate", PASSWORD)})
    resolve = partial(read_connection_from_env, environ={**LAKE, "AIRFLOW_CONN_KAFKA_DEFAULT": settings})
    pipeline_file = workbench.include / "pipelines" / f"{name}.yaml"
    conf = build_spark_conf(workbench.include, load_pipeline(pipeline_file), resolve)
    own = {name: value for name, value in conf.items() if "eventLog" not in name}  # an application's, not a session's
    session = connect_session(workbench.stack.spark_remote, own)
    try:
        session_settings = {row["key"]: row["value"] for row in session.sql("SET").collect()}
        assert PASSWORD in read_private_conf(session, KAFKA_CONF)
    finally:
        close(session)
    assert (
        session_settings["spark.sql.catalog.lake.credential"]
        == session_settings["tidegate.secret.kafka"]
        == "*********(redacted)"
    )
    assert not any(secret in text for text in session_settings.values() for secret in (PASSWORD, CLIENT))


def _may_read(broker: GuardedBroker, topic: str) -> bool:
    client = AdminClient({**broker.settings("tidegate", PASSWORD), "log_level": 0})
    return topic in client.list_topics(timeout=30).topics


@pytest.mark.repeats("test_the_documented_rights_are_enough_and_the_password_is_seen_nowhere[orders]")
def test_with_these_rights_nothing_else_can_be_read(workbench, broker) -> None:
    broker.allow_documented("tidegate", "orders")
    wait_until(lambda: _may_read(broker, "orders"), "the rights")
    assert not _may_read(broker, "salaries")
    own = KafkaBroker(broker.settings("tidegate", PASSWORD))
    assert set(own.list_topics(".*")) - {"connect-heartbeats", "submitted"} == {"orders"}
    with pytest.raises(GiveUp, match="salaries"):
        own.read_log(("salaries",), "read_committed")
    admin = AdminClient({**broker.settings("tidegate", PASSWORD), "log_level": 0})
    with pytest.raises(KafkaException, match="GROUP_AUTHORIZATION_FAILED"):
        admin.describe_consumer_groups(["somebody-elses"], request_timeout=30)["somebody-elses"].result(60)


@pytest.mark.repeats(
    "integration/test_doctor.py::test_mistakes_at_the_brokers_are_found_and_the_other_pipeline_is_looked_at"
)
def test_a_right_that_is_missing_is_named_at_once(workbench, broker) -> None:
    """A client that may not ask for its group would look for it until every call has timed out."""
    broker.allow_documented("tidegate", "orders")
    wait_until(lambda: _may_read(broker, "orders"), "the rights")
    own = KafkaBroker(broker.settings("tidegate", PASSWORD))
    with pytest.raises(GiveUp, match=r"group=elsewhere: GROUP_AUTHORIZATION_FAILED; .* needs: READ on the group"):
        own.commit("elsewhere", {"orders": {0: 0}})
    assert own.read_committed("tidegate-new", ("orders",)) == {}
    assert own.read_group_retention() is None, "it needs a right to the cluster, which the product goes without"
    assert KafkaBroker({"bootstrap.servers": broker.backdoor}).read_group_retention() == 60


def build_publication_ports(
    workbench: Any, broker: GuardedBroker, user: str, delivery: str, password: str = PASSWORD
) -> Any:
    """The ports of a publication of `lake.shop.public` whose user is that one."""
    out = {
        "topic": f"out-{user}",
        "state_topic": f"state-{user}",
        "key": {"fields": ["id"]},
        "kafka": "kafka_publisher",
    }
    folder = workbench.include / "publications"
    folder.mkdir(exist_ok=True)
    file = folder / f"{user}.yaml"
    file.write_text(json.dumps({"table": "lake.shop.public", "delivery": delivery, "parallelism": 2, **out}))
    connection = json.dumps({"conn_type": "kafka", "extra": broker.settings(user, password)})
    environment = {**workbench.stack.build_environment(), "AIRFLOW_CONN_KAFKA_PUBLISHER": connection}
    return assemble_publication(workbench.include, user, partial(read_connection_from_env, environ=environment))


def read_last_values(broker: GuardedBroker, topic: str) -> dict[str, Any]:
    """The last value of each key, as a reader of committed records sees it; None for a tombstone."""
    return {m.key().decode(): m.value() and json.loads(m.value()) for m in read_committed(broker.backdoor, topic)}


@pytest.mark.repeats(
    "unit/scenarios/test_publications.py::test_right_that_is_missing_is_named_and_no_reason_to_try_again"
)
@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_publication_runs_with_exactly_the_documented_rights(workbench, broker, delivery: str) -> None:
    """It makes its topics, goes on, and compares; a user without the right to its transactional ids gets nowhere."""
    user = f"publisher-{delivery}"
    broker.add_user(user, PASSWORD)
    broker.allow_publication(user, f"out-{user}", f"state-{user}")
    workbench.run_spark_sql("CREATE NAMESPACE IF NOT EXISTS lake.shop")
    rows = "SELECT 1L AS id, 'a' AS name UNION SELECT 2L, 'b' UNION SELECT 3L, 'c'"
    workbench.run_spark_sql(f"CREATE TABLE lake.shop.public USING iceberg AS {rows}")
    if delivery == "exactly-once":
        with pytest.raises(GiveUp, match=r"TRANSACTIONAL_ID_AUTHORIZATION_FAILED.*docs/security\.md"):
            publish(build_publication_ports(workbench, broker, user, delivery))
        assert read_last_values(broker, f"out-{user}") == {}
        broker.allow_exactly_once(user, f"state-{user}")
    publish(build_publication_ports(workbench, broker, user, delivery))
    first = {f'{{"id":{n}}}': {"id": n, "name": name} for n, name in enumerate("abc", 1)}
    assert read_last_values(broker, f"out-{user}") == first
    workbench.run_spark_sql("DELETE FROM lake.shop.public WHERE id = 2")
    workbench.run_spark_sql("INSERT INTO lake.shop.public VALUES (4, 'd')")
    publish(build_publication_ports(workbench, broker, user, delivery))
    second = {**first, '{"id":2}': None, '{"id":4}': {"id": 4, "name": "d"}}
    assert read_last_values(broker, f"out-{user}") == second
    publish(build_publication_ports(workbench, broker, user, delivery), resynchronise=True)
    assert read_last_values(broker, f"out-{user}") == second
    topics = AdminClient({**broker.settings(user, PASSWORD), "log_level": 0}).list_topics(timeout=30).topics
    assert set(topics) == {f"out-{user}", f"state-{user}"}


# a refused log-in is one sentence, of a pipeline and of a publication
@pytest.mark.repeats(
    "unit/tidegate/adapters/kafka/test_errors.py::test_refused_log_in_of_a_publication_is_a_sentence_that_needs_a_person_as_that_of_a_pipeline"
)
def test_a_wrong_password_is_one_clear_error_that_does_not_hold_it(workbench, broker) -> None:
    workbench.pipeline("locked", ["orders"], key=KEY, value=VALUE)
    for command in (("plan", "locked"), ("flush", "locked"), ("status", "locked")):
        process = run(workbench, broker, WRONG, *command)
        [line] = [line for line in process.stderr.splitlines() if "refuse the log-in" in line]
        assert process.returncode == 1
        assert "check user, password and mechanism" in line
        assert "Traceback" not in process.stderr
        assert WRONG not in process.stdout + process.stderr
    assert find_files_with(WRONG, workbench.folder) == []


# a refused log-in is one sentence, of a pipeline and of a publication
@pytest.mark.repeats(
    "unit/tidegate/adapters/kafka/test_errors.py::test_refused_log_in_of_a_publication_is_a_sentence_that_needs_a_person_as_that_of_a_pipeline"
)
def test_a_wrong_password_of_a_publication_is_one_clear_error_too(workbench, broker) -> None:
    broker.add_user("publisher-locked", PASSWORD)
    with pytest.raises(GiveUp, match=r"refuse the log-in: .*check user, password and mechanism") as error_info:
        publish(build_publication_ports(workbench, broker, "publisher-locked", "at-least-once", WRONG))
    assert WRONG not in str(error_info.value)
    assert len(str(error_info.value).splitlines()) == 1


@pytest.mark.repeats(
    "unit/tidegate/flush/test_heartbeat.py::test_run_without_work_commits_again_what_the_brokers_would_forget"
)
def test_a_quiet_partition_keeps_its_offset_while_an_unkept_group_loses_its_own(workbench, broker) -> None:
    """The broker forgets offsets a minute after their last commit, where others take seven days."""
    connection = {"bootstrap.servers": broker.backdoor}
    broker.admin.create_topics([NewTopic("quiet", 2, 1)])["quiet"].result(60)
    workbench.pipeline("quiet", ["quiet"], key=KEY, value=VALUE, source={"kafka": connection})
    produce(broker, "quiet", {"id": 1, "name": "a"})
    workbench.flush("quiet")
    own = KafkaBroker(connection)
    own.commit("unkept", {"quiet": {0: 1, 1: 0}})
    begun, beats = time.monotonic(), 0
    while own.read_committed("unkept", ("quiet",)):
        assert time.monotonic() - begun < 2 * DEADLINE_SECONDS, "the broker forgets nothing"
        workbench.drain("quiet")  # nothing to do but the heartbeat
        beats += 1
    assert beats > 1
    assert workbench.committed("quiet") == {"quiet": {0: 1, 1: 0}}
