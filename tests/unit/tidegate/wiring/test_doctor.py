"""Mistakes of a first hour, sown into an include folder, connections, catalogs and a registry: each one is found."""

import json
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from schema_registry import SchemaRegistry
from seeded_mistakes import require_found
from tidegate.adapters.iceberg.catalog import Catalogs
from tidegate.connections import read_connection_from_env
from tidegate.diagnosis.finding import Severity
from tidegate.errors import ConfigurationError
from tidegate.wiring.doctor import diagnose, has_airflow

PASSWORD = "s3cret-w0rd"


class House:
    """An include folder with two pipelines into two catalogs, and the environment beside it; no server runs."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.closed = f"127.0.0.1:{listener.getsockname()[1]}"
        self.folder, self.include = folder, folder / "include"
        (self.include / "pipelines").mkdir(parents=True)
        (self.include / "publications").mkdir()
        self.catalogs = {name: self.make_catalog(name) for name in ("lake", "pond")}
        self.write("catalogs.yaml", self.catalogs)
        self.pipeline("one", "lake")
        self.pipeline("two", "pond")
        self.environment = {
            "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps({"conn_type": "kafka", "host": self.closed}),
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark_connect", "host": f"sc://{self.closed}"}),
        }

    def make_catalog(self, name: str) -> dict[str, Any]:
        properties = {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/{name}.db",
            "warehouse": f"file://{self.folder}/w",
        }
        return {"type": "iceberg", "properties": properties}

    def pipeline(self, name: str, catalog: str = "lake", *, table: Any = None, **source: Any) -> None:
        text = {
            "source": {
                "topics": [f"t.{name}"],
                "key": {"format": "json", "fields": ["id"], "schema": "id BIGINT"},
                "value": {"format": "json", "schema": "id BIGINT, name STRING"},
                **source,
            },
            "tables": [{"name": f"{catalog}.shop.{name}", **(table or {})}],
        }
        self.write(f"pipelines/{name}.yaml", text)

    def change(self, file: str, old: str, new: str) -> None:
        path = self.include / file
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def write(self, file: str, content: Any) -> None:
        text = content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False)
        (self.include / file).write_text(text)

    def table(self, name: str, *columns: str) -> None:
        """A table of text columns in the catalog lake."""
        from pyiceberg.schema import Schema
        from pyiceberg.types import NestedField, StringType

        fields = [NestedField(n, column, StringType(), required=False) for n, column in enumerate(columns, 1)]
        catalog = Catalogs({"lake": self.catalogs["lake"]["properties"]}).catalog("lake")
        catalog.create_namespace_if_not_exists("shop")
        catalog.create_table(f"shop.{name}", Schema(*fields))

    def doctor(self, *names: str, **words: Any) -> list[Any]:
        resolve: Callable[[str], Any] = lambda connection_id: read_connection_from_env(connection_id, self.environment)  # noqa: E731
        return diagnose(self.include, resolve, names, **{"seconds": 15.0, **words})


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    for name in ("SPARK_REMOTE", "AIRFLOW_HOME"):
        monkeypatch.delenv(name, raising=False)
    return House(tmp_path)


FILE_MISTAKES = {
    "unknown-key": ("pipelines/one.yaml", "topics:", "topic:"),
    "no-tables": ("pipelines/one.yaml", "tables:\n- name: lake.shop.one\n", ""),
    "catalog-not-declared": ("pipelines/one.yaml", "lake.shop", "sea.shop"),
    "bad-interval": ("pipelines/one.yaml", "tables:", "merge: {interval: often}\ntables:"),
    "bad-type": ("pipelines/one.yaml", "name STRING", "name STRNG"),
    "unknown-format": ("pipelines/one.yaml", "value:\n    format: json", "value:\n    format: jsno"),
    "key-without-type": ("pipelines/one.yaml", "    - id\n", "    - id\n    - nobody\n"),
    "yaml-broken": ("pipelines/one.yaml", "source:", "source: ["),
    "catalog-variable-unset": ("catalogs.yaml", "type: iceberg", "type: iceberg\n  connection: ${NOWHERE_SET}"),
    "catalog-type-unknown": ("catalogs.yaml", "type: iceberg", "type: icebreg"),
    "catalog-relative-path": ("catalogs.yaml", "sqlite:////", "sqlite:///"),
    "secret-in-kafka": (
        "pipelines/one.yaml", "source:", f"source:\n  kafka: {{bootstrap.servers: 'b:1', sasl.password: {PASSWORD}}}",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FILE_MISTAKES)
def test_mistake_in_a_file_is_found_and_hides_nothing_of_the_other_pipeline(house: House, name: str) -> None:
    house.change(*FILE_MISTAKES[name])
    findings = house.doctor(is_read_only=True)
    require_found(name, findings)
    if "catalog" not in name:
        assert any(finding.check == "catalog.reachable" and "two" in finding.used_by for finding in findings)
    assert PASSWORD not in str(findings)


def test_folder_that_is_not_there_is_told_alone(house: House) -> None:
    house.include = house.folder / "nowhere"
    findings = house.doctor()
    require_found("folder-missing", findings)
    assert len(findings) == 1


def test_two_pipelines_that_need_one_table_are_found(house: House) -> None:
    house.pipeline("one_two", table={"name": "lake.shop.one_one_tmp"})
    require_found("two-owners", house.doctor(is_read_only=True))


def test_two_pipelines_that_commit_a_topic_to_one_group_are_found(house: House) -> None:
    house.pipeline("one", group="g")
    house.pipeline("two", "pond", group="g", topics=["t.one"])
    require_found("shared-group", house.doctor(is_read_only=True))


def test_publication_with_a_wrong_key_is_found(house: House) -> None:
    house.write("publications/out.yaml", "table: lake.shop.one\ntopik: t.out\nkey: {fields: [id]}\n")
    require_found("publication-key-unknown", house.doctor(is_read_only=True))


def test_secrets_in_any_file_are_found_and_not_repeated(house: House) -> None:
    house.write("notes.txt", f"Addresses\npostgresql://flush:{PASSWORD}@db/lake\n")
    house.write("client.pem", "-----BEGIN RSA PRIVATE KEY-----\nabc\n")
    house.change("catalogs.yaml", f"sqlite:///{house.folder}/pond.db", f"postgresql://u:{PASSWORD}@db/pond")
    findings = house.doctor(is_read_only=True)
    for name in ("secret-in-notes", "private-key-in-folder", "secret-in-catalogs"):
        require_found(name, findings)
    assert PASSWORD not in str(findings)
    causes = [finding.cause for finding in findings if finding.check == "files.secrets"]
    assert len(causes) == 3, causes


SECRET_FILES = {
    ".env": f"# PASSWORD=example\nexport LAKE_PASSWORD={PASSWORD}\n",
    "kafka.properties": f'security.protocol=SASL_SSL\nsasl.jaas.config=Module required password="{PASSWORD}";\n',
    "notifiers.yml": f"hooks:\n  slack: https://hooks.slack.com/services/T0/B0/{PASSWORD}\n",
    "run.sh": f"set -e\ncurl http://u:{PASSWORD}@connect:8083/connectors\n",
}


@pytest.mark.parametrize("name", SECRET_FILES)
def test_secret_is_found_in_any_file_by_its_shape(house: House, name: str) -> None:
    house.write(name, SECRET_FILES[name])
    findings = house.doctor(is_read_only=True)
    causes = [finding.cause for finding in findings if finding.check == "files.secrets"]
    assert [cause.rpartition("/")[2] for cause in causes] == [
        f"{name}:2: file={name} holds what looks like a password or a private key"
    ]
    assert PASSWORD not in str(findings)


def test_examples_and_places_of_secrets_are_none(house: House) -> None:
    lines = ("token_url: http://h/token", "password: ${PASSWORD}", "passwordFile = /run/secrets/x", "tokens: 12",
             '"credential": {', "secrets:", "password: <yours>", "use_token: true", "# token: abc")  # fmt: skip
    house.write("settings.conf", "\n".join(lines))
    examples = ("postgresql://user:password@host/db", "sc://h/;token=<yours>", "http://u:${PASSWORD}@h",
                'PASSWORD="$(cat /run/secrets/p)"', "?password=...", "--from-file=password=$FILE")  # fmt: skip
    house.write("README.md", "\n".join(examples))
    house.change("pipelines/one.yaml", "name STRING", "name STRING, token STRING, password STRING")
    assert not [finding for finding in house.doctor(is_read_only=True) if finding.check == "files.secrets"]


def test_connection_that_nobody_defined_is_found_with_those_who_name_it(house: House) -> None:
    house.pipeline("one", kafka="kafka_other")
    finding = require_found("connection-missing", house.doctor(is_read_only=True))
    assert finding.used_by == ("one",)


def test_connection_of_heartbeats_that_nobody_defined_is_found(house: House) -> None:
    house.change("pipelines/one.yaml", "tables:", "heartbeat: {produce: true, kafka: kafka_other}\ntables:")
    finding = require_found("connection-missing", house.doctor(is_read_only=True))
    assert finding.used_by == ("one",)


def test_connection_that_cannot_be_read_is_found_and_not_shown(house: House) -> None:
    house.environment["AIRFLOW_CONN_KAFKA_DEFAULT"] = f'{{"password": "{PASSWORD}"'
    findings = house.doctor(is_read_only=True)
    require_found("connection-unreadable", findings)
    assert PASSWORD not in str(findings)


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("kafka-without-servers", {"security.protocol": "PLAINTEXT"}),
        ("kafka-setting-unknown", {"bootstrap.servers": "b:1", "acks.of.nobody": "1"}),
        ("kafka-java-refuses", {"bootstrap.servers": "b:1", "enable.ssl.certificate.verification": "false"}),
    ],
)
def test_mistake_in_the_kafka_connection_is_found(house: House, name: str, extra: dict[str, str]) -> None:
    house.environment["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "extra": extra})
    require_found(name, house.doctor(is_read_only=True))


def test_servers_that_are_down_are_found_each_once_and_nothing_that_follows(house: House) -> None:
    findings = house.doctor(is_read_only=True)
    require_found("kafka-down", findings)
    require_found("spark-down", findings)
    assert [finding.check for finding in findings if finding.severity is Severity.ERROR] == [
        "kafka.reachable",
        "spark.reachable",
    ]
    assert {finding.used_by for finding in findings if finding.check == "catalog.tables"} == {("one",), ("two",)}
    assert not [finding for finding in findings if finding.check in ("pipeline.position", "spark.catalogs")]


def test_spark_that_nobody_has_named_is_found(house: House) -> None:
    del house.environment["AIRFLOW_CONN_SPARK_DEFAULT"]
    require_found("spark-nowhere", house.doctor(is_read_only=True))


def test_spark_connection_of_another_type_is_found(house: House) -> None:
    house.environment["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": "spark://m"})
    require_found("spark-connection-type", house.doctor(is_read_only=True))


def test_java_that_is_missing_is_found_where_jobs_are_submitted(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.change("pipelines/one.yaml", "tables:", "spark: {master: 'local[1]'}\ntables:")
    monkeypatch.setenv("JAVA_HOME", str(house.folder))
    require_found("java-missing", house.doctor("one", is_read_only=True))


def test_name_that_no_file_has_is_refused(house: House) -> None:
    with pytest.raises(ConfigurationError, match="name=three: no such pipeline or publication; there are: one, two"):
        house.doctor("three")


# catalogs


def test_scratch_table_proves_the_rights_and_nothing_is_left(house: House) -> None:
    before = sorted(house.folder.rglob("*"))
    findings = house.doctor()
    causes = [finding.cause for finding in findings if finding.check == "catalog.commit"]
    assert [text.partition(": made")[0] for text in causes] == [
        "catalog=lake of catalogs.yaml namespace=shop",
        "catalog=pond of catalogs.yaml namespace=shop",
    ]
    new_files = [path for path in sorted(house.folder.rglob("*")) if path not in before and path.is_file()]
    assert {path.name.partition(".")[0] for path in new_files} == {"lake", "pond"}, "the catalogs' own databases"
    for name in ("lake", "pond"):
        with closing(sqlite3.connect(house.folder / f"{name}.db")) as database, database:
            assert database.execute("SELECT count(*) FROM iceberg_tables").fetchone() == (0,)
            assert database.execute("SELECT count(*) FROM iceberg_namespace_properties").fetchone() == (0,)
        database.close()


def test_read_only_makes_nothing(house: House) -> None:
    findings = house.doctor(is_read_only=True)
    assert [finding.cause for finding in findings if finding.check == "catalog.commit"] == [
        f"catalog={name} of catalogs.yaml namespace=shop will be created" for name in ("lake", "pond")
    ]
    assert not (house.folder / "w").exists()


def test_catalog_whose_folder_is_not_mounted_is_found(house: House) -> None:
    house.change("catalogs.yaml", f"{house.folder}/lake.db", f"{house.folder}/gone/away/lake.db")
    findings = house.doctor()
    require_found("catalog-folder-missing", findings)
    assert any(finding.check == "catalog.commit" and "catalog=pond" in finding.cause for finding in findings)
    assert not [finding for finding in findings if finding.check == "catalog.tables" and finding.used_by == ("one",)]


def test_warehouse_that_cannot_be_written_is_found(house: House) -> None:
    (house.folder / "w").write_text("a file in the way")
    findings = house.doctor()
    require_found("warehouse-not-writable", findings)
    causes = [finding.cause for finding in findings if finding.check == "catalog.commit"]
    assert [cause.partition(".shop")[0] for cause in causes] == ["table=lake", "table=pond"]


def test_catalog_that_takes_no_commit_is_found(house: House) -> None:
    """As a role of PostgreSQL that may only read: here a trigger of the catalog's database refuses new tables."""
    house.table("two", "id")
    with closing(sqlite3.connect(house.folder / "lake.db")) as database, database:
        database.execute("CREATE TRIGGER no BEFORE INSERT ON iceberg_tables BEGIN SELECT RAISE(FAIL, 'read only'); END")
    database.close()
    require_found("catalog-read-only", house.doctor())


def test_rest_catalog_that_is_down_is_found(house: House) -> None:
    catalogs = {
        **house.catalogs,
        "lake": {"type": "iceberg", "properties": {"type": "rest", "uri": f"http://{house.closed}"}},
    }
    house.write("catalogs.yaml", catalogs)
    require_found("catalog-down", house.doctor())


def test_password_that_the_catalog_refuses_is_found(house: House) -> None:
    """The schema registry of the tests asks for a password on every address, as a REST catalog does."""
    server = SchemaRegistry(login=("flush", PASSWORD))
    house.environment["AIRFLOW_CONN_LAKE"] = json.dumps({"conn_type": "generic", "extra": {"token": "an0ther-w0rd"}})
    properties = {"type": "rest", "uri": server.url}
    lake = {"type": "iceberg", "connection": "lake", "properties": properties}
    house.write("catalogs.yaml", {**house.catalogs, "lake": lake})
    try:
        findings = house.doctor()
    finally:
        server.close()
    require_found("catalog-password-wrong", findings)
    assert "an0ther-w0rd" not in str(findings)


def test_namespace_is_told_for_the_pipelines_that_write_it_and_no_others(house: House) -> None:
    house.pipeline("three", "lake", table={"name": "lake.bank.three"})
    house.pipeline("four", "lake", table={"name": "lake.bank.four"})
    findings = [
        finding for finding in house.doctor() if "catalog=lake" in finding.cause and " namespace=" in finding.cause
    ]
    users = {
        (finding.cause.partition("namespace=")[2].partition(" ")[0].rstrip(":"), finding.used_by)
        for finding in findings
    }
    assert users == {("shop", ("one",)), ("bank", ("four", "three"))}


def test_table_that_nobody_creates_is_found(house: House) -> None:
    house.pipeline("one", table={"create": {"enabled": False}})
    require_found("table-missing", house.doctor(is_read_only=True))


def test_table_whose_columns_do_not_fit_is_found(house: House) -> None:
    house.table("one", "id", "name")
    house.change("pipelines/one.yaml", "id BIGINT, name STRING", "id BIGINT, name INT")
    require_found("table-of-other-type", house.doctor(is_read_only=True))


# schema registry


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    schema_registry = SchemaRegistry(login=("flush", PASSWORD))
    yield schema_registry
    schema_registry.close()


def use_registry(house: House, url: str, password: str = PASSWORD, **options: Any) -> None:
    connection = {"conn_type": "http", "host": url, "login": "flush", "password": password}
    house.environment["AIRFLOW_CONN_REGISTRY"] = json.dumps(connection)
    house.pipeline("one", value={"format": "avro", "avro": {"registry": "registry"}, **options})


def build_avro_schema(*fields: tuple[str, str]) -> dict[str, Any]:
    record = {"type": "record", "name": "One", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    return {"schema": json.dumps(record)}


def test_registry_that_is_down_is_found(house: House) -> None:
    use_registry(house, f"http://{house.closed}")
    findings = house.doctor(is_read_only=True)
    require_found("registry-down", findings)
    assert len([finding for finding in findings if finding.check == "registry.schema"]) == 1


def test_password_that_the_registry_refuses_is_found(house: House, registry: SchemaRegistry) -> None:
    use_registry(house, registry.url, "an0ther-w0rd")
    findings = house.doctor(is_read_only=True)
    require_found("registry-password-wrong", findings)
    assert "an0ther-w0rd" not in str(findings)


def test_subject_that_is_missing_is_found(house: House, registry: SchemaRegistry) -> None:
    use_registry(house, registry.url)
    require_found("subject-missing", house.doctor(is_read_only=True))


def test_schema_of_another_kind_is_found(house: House, registry: SchemaRegistry) -> None:
    registry.register("t.one-value", {"schema": "{}", "schemaType": "JSON"})
    use_registry(house, registry.url)
    require_found("schema-of-other-kind", house.doctor(is_read_only=True))


def test_schema_that_lacks_a_declared_column_is_found(house: House, registry: SchemaRegistry) -> None:
    registry.register("t.one-value", build_avro_schema(("id", "long")))
    use_registry(house, registry.url, schema="id BIGINT, name STRING")
    require_found("schema-without-column", house.doctor(is_read_only=True))


def test_schema_that_fits_is_told_as_right(house: House, registry: SchemaRegistry) -> None:
    registry.register("t.one-value", build_avro_schema(("id", "long"), ("name", "string")))
    use_registry(house, registry.url)
    findings = house.doctor(is_read_only=True)
    assert [finding.cause for finding in findings if finding.check == "catalog.tables"] == [
        "tables=1 of pipeline=one: columns and key fit",
        "tables=1 of pipeline=two: columns and key fit",
    ]


def test_airflow_is_looked_at_only_where_it_is_set_up(tmp_path: Path) -> None:
    assert not has_airflow({})
    assert not has_airflow({"AIRFLOW_HOME": str(tmp_path), "AIRFLOW_CONN_KAFKA_DEFAULT": "{}"})
    (tmp_path / "airflow.cfg").write_text("")
    assert has_airflow({"AIRFLOW_HOME": str(tmp_path)})
    assert has_airflow({"AIRFLOW__CORE__DAGS_FOLDER": "/dags"})


def test_silent_servers_are_found_each_by_its_name(house: House) -> None:
    """Each takes connections and never answers."""
    with ExitStack() as stack:
        broker, registry, catalog, spark = (
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)
        )
        place = {
            name: f"127.0.0.1:{server_socket.getsockname()[1]}"
            for name, server_socket in (("k", broker), ("r", registry), ("c", catalog), ("s", spark))
        }
        rest_properties = {"type": "rest", "uri": f"http://{place['c']}"}
        house.write("catalogs.yaml", house.catalogs | {"lake": {"type": "iceberg", "properties": rest_properties}})
        value = {"format": "avro", "avro": {"registry": f"http://{place['r']}"}}
        house.pipeline("two", "pond", value=value)
        house.environment["AIRFLOW_CONN_KAFKA_DEFAULT"] = json.dumps({"conn_type": "kafka", "host": place["k"]})
        house.environment["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(
            {"conn_type": "spark_connect", "host": f"sc://{place['s']}"}
        )
        resolve = partial(read_connection_from_env, environ=house.environment)
        findings = diagnose(house.include, resolve, is_read_only=True, seconds=1)
    for name in ("kafka-silent", "registry-silent", "catalog-silent", "spark-silent"):
        require_found(name, findings)
