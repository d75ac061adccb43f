"""A schema registry with log-ins and roles: the rights in docs/security.md suffice, and errors name a missing one."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Workbench
from guarded_registry import PASSWORD, GuardedRegistry, run_guarded_registry
from integration.test_registry import build_expected_orders, write_orders
from integration.test_security import find_files_with
from round_trip import read_committed

CONNECTION = "AIRFLOW_CONN_SCHEMA_REGISTRY_DEFAULT"
VERSIONS, VERSION = "GET /subjects/<subject>/versions", "GET /subjects/<subject>/versions/<number>"
REGISTER, NEWEST = "POST /subjects/<subject>/versions", "GET /subjects/<subject>/versions/latest"
WRONG = "an0ther-w0rd"
AVRO = {"key": {"format": "avro", "fields": ["id"]}, "value": {"format": "avro"}}
ROWS = [{"id": n, "name": f"n{n}"} for n in (1, 2, 3)]


class RegistryBench(Workbench):
    """A workbench that sends its requests to the registry as `user`."""

    def __init__(self, shared: Workbench, registry: GuardedRegistry) -> None:
        super().__init__(shared.stack, shared.admin, shared._producer, shared.folder / "registered")
        self.registry, self.user, self.password = registry, "reader", PASSWORD
        self.url = registry.build_url("writer")  # of those who write records

    def run_refused(self, *words: str) -> str:
        """What a command says that fails with one sentence."""
        process = self.run_cli(*words)
        assert process.returncode == 1, process.stdout
        assert process.stderr.count("\n") == 1, process.stderr
        return process.stderr

    def build_environment(self) -> dict[str, str]:
        return {**super().build_environment(), CONNECTION: self.registry.build_connection(self.user, self.password)}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedRegistry]:
    with run_guarded_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@pytest.fixture
def bench(workbench: Workbench, registry: GuardedRegistry) -> Iterator[RegistryBench]:
    registry.proxy.requests.clear()
    yield RegistryBench(workbench, registry)
    registry.refused = ()


@pytest.mark.repeats("unit/tidegate/wiring/test_doctor.py::test_password_that_the_registry_refuses_is_found")
def test_flush_asks_for_nothing_else_and_a_right_that_is_missing_is_named(bench: RegistryBench) -> None:
    """By a user who may only read, over two schema ids and two partitions."""
    topic, numbers = bench.topic(), list(range(1, 5))
    write_orders(bench, topic, *numbers)
    bench.pipeline("orders", [topic], **AVRO)
    bench.flush("orders")
    assert bench.read_rows("shop.orders") == build_expected_orders(1, 2, 3)
    assert bench.registry.list_seen() == {VERSIONS, VERSION}
    landed = [1, 2, 3]
    for first, refused in ((5, VERSIONS), (9, VERSION)):
        write_orders(bench, topic, *range(first, first + 4))
        bench.registry.refused = (refused,)
        message = bench.run_refused("flush", "orders")
        assert f"registry=schema_registry_default subject={topic}-" in message
        assert "access was refused when its versions were read: status=403" in message
        assert bench.read_rows("shop.orders") == build_expected_orders(*landed)
        bench.registry.refused = ()
        assert bench.drain("orders") == 1
        landed += range(first, first + 3)
        assert bench.read_rows("shop.orders") == build_expected_orders(*landed)


@pytest.mark.repeats("unit/tidegate/wiring/test_doctor.py::test_password_that_the_registry_refuses_is_found")
def test_user_without_a_role_and_one_without_the_password_read_nothing(bench: RegistryBench) -> None:
    topic = bench.topic()
    write_orders(bench, topic, 1, 2, 3, 4)
    bench.pipeline("orders", [topic], **AVRO)
    for user, password, status in (("nobody", PASSWORD, 403), ("reader", WRONG, 401)):
        bench.user, bench.password = user, password
        message = bench.run_refused("flush", "orders")
        assert f"access was refused when its versions were read: status={status}" in message
        assert password not in message
        findings = json.loads(bench.run_cli("doctor", "--json", "--timeout", "120").stdout)["findings"]
        errors = [
            finding
            for finding in findings
            if finding["check"].startswith("registry.") and finding["severity"] == "error"
        ]
        assert errors, findings
        process = bench.run_cli("init", "--topic", topic, "--to", "lake.shop.proposed", "--yes")
        assert process.returncode == 1, process.stdout
        assert f"access was refused: status={status}" in process.stderr
    assert not bench.exists("shop.orders")
    bench.user, bench.password = "reader", PASSWORD
    bench.flush("orders")
    assert bench.read_rows("shop.orders") == build_expected_orders(1, 2, 3)
    assert find_files_with(WRONG, bench.folder) == []


@pytest.mark.repeats(
    "unit/scenarios/test_publications.py::test_right_that_is_missing_is_named_and_no_reason_to_try_again"
)
def test_publication_registers_as_a_writer_and_is_refused_as_a_reader(bench: RegistryBench) -> None:
    topic = bench.topic()
    bench.pipeline("source", [topic], key={"fields": ["id"], "schema": "id BIGINT"},
                   value={"schema": "id BIGINT, name STRING"})  # fmt: skip
    bench.produce(topic, *(({"id": row["id"]}, row) for row in ROWS))
    bench.flush("source")
    (bench.include / "publications").mkdir(exist_ok=True)
    for kind in ("avro", "protobuf"):
        (bench.include / "publications" / f"out_{kind}.yaml").write_text(
            f"table: lake.shop.source\ntopic: {topic}.{kind}\nkey: {{format: {kind}, fields: [id]}}\n"
            f"value: {{format: {kind}}}\nsql: SELECT id, name FROM {{table}}\n"
        )
        _publish_when_allowed(bench, f"out_{kind}", f"{topic}.{kind}")
        bench.user = "reader"
        name = f"back_{kind}"
        bench.pipeline(name, [f"{topic}.{kind}"], key={"format": kind, "fields": ["id"]}, value={"format": kind})
        bench.flush(name)
        assert bench.read_rows(f"shop.{name}") == ROWS
    assert bench.registry.list_seen() == {VERSIONS, VERSION, REGISTER, NEWEST}


def _publish_when_allowed(bench: RegistryBench, name: str, topic: str) -> None:
    """As a reader, then without each right of a writer's that it needs, then with all."""
    tried: list[tuple[str, str, str]] = [("reader", "", "register a schema"), ("writer", REGISTER, "register a schema")]
    tried += [("writer", NEWEST, "read its newest schema")] if name.endswith("protobuf") else []
    for user, refused, right in tried:
        bench.user, bench.registry.refused = user, (refused,)
        message = bench.run_refused("publish", name)
        assert "access was refused by the registry: status=403" in message
        assert f"the right to {right}, as docs/security.md lists" in message
        assert _read_records(bench, topic) == []
    bench.user, bench.registry.refused = "writer", ()
    process = bench.run_cli("publish", name)
    assert process.returncode == 0, process.stderr
    assert len(_read_records(bench, topic)) == len(ROWS)


def _read_records(bench: RegistryBench, topic: str) -> list[Any]:
    return list(read_committed(bench.stack.kafka_bootstrap, topic)) if bench.exists_topic(topic) else []
