"""The catalog that the parts of a stack make together: its entry, the secrets of its connection, what is missing."""

import json
from functools import partial
from pathlib import Path

import pytest
import yaml
from tidegate.adapters.iceberg.catalog_conf import resolve_catalog_properties
from tidegate.config.catalogs_file import load_catalogs
from tidegate.connections import read_connection_from_env

from local.__main__ import main
from local.errors import StackError
from local.lake import postgres, rest, s3
from local.lake.catalog import (
    ADDRESSES,
    VARIABLE,
    Secrets,
    build_connection,
    describe_catalog,
    name_variables,
    resolve_properties,
)
from local.lake.plan import plan_lake
from local.layout import RunDir

SECRETS = Secrets("p4ssword", "access", "s3cret")
KEYS = {"s3.access-key-id": "access", "s3.secret-access-key": "s3cret"}
FOLDER = Path("/run/lake")
STORE = {"s3.endpoint": "http://127.0.0.1:3", "s3.region": "us-east-1"}
SQLITE, POSTGRES, REST = (
    {"type": "sql", "uri": "sqlite:////run/lake/catalog.db"},
    {"type": "sql", "uri": "postgresql://127.0.0.1:1/postgres"},
    {"type": "rest", "uri": "http://127.0.0.1:2"},
)


@pytest.mark.parametrize(
    ("parts", "properties", "secrets"),
    [
        ((), {**SQLITE, "warehouse": "file:///run/lake/warehouse"}, None),
        (
            ("postgres",),
            {**POSTGRES, "warehouse": "file:///run/lake/warehouse"},
            {"login": "tidegate", "password": "p4ssword"},
        ),
        (("rest",), REST, None),
        (("s3",), {**SQLITE, "warehouse": "s3://lake/lake", **STORE}, {"extra": KEYS}),
        (("rest", "postgres", "s3"), {**REST, **STORE}, {"extra": KEYS}),
    ],
)
def test_catalog_of_some_parts_names_them_and_its_connection_holds_their_secrets(parts, properties, secrets) -> None:
    addresses = {
        "postgres": ("POSTGRES_URI", POSTGRES["uri"]),
        "rest": ("REST_CATALOG_URI", REST["uri"]),
        "s3": ("S3_ENDPOINT", STORE["s3.endpoint"]),
    }
    connection = build_connection(list(parts), SECRETS)
    entry = describe_catalog({**dict(addresses[part] for part in parts), **connection}, FOLDER)
    connection_name = {"connection": "lake"} if secrets else {}
    assert entry == {"type": "iceberg", "properties": properties, **connection_name}
    assert {name: json.loads(text) for name, text in connection.items()} == (
        {VARIABLE: {"conn_type": "generic", **secrets}} if secrets else {}
    )


def test_passwords_and_keys_are_on_no_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.lake.environment.is_built", lambda: True)
    monkeypatch.setattr(rest, "JARS", tmp_path)
    monkeypatch.setattr(postgres, "find_programs", lambda _: Path("/usr/bin"))
    (tmp_path / "rest").mkdir()
    plan = plan_lake(RunDir(tmp_path), ["postgres", "rest", "s3"], {"postgres": 1, "rest": 2, "s3": 3})
    keys = json.loads(plan.variables[VARIABLE])["extra"]
    catalog = next(server for server in plan.servers if server.name == "rest")
    assert catalog.env["CATALOG_URI"] == "jdbc:postgresql://127.0.0.1:1/postgres"
    assert catalog.env["CATALOG_JDBC_PASSWORD"] == plan.variables["POSTGRES_PASSWORD"]
    assert catalog.env["CATALOG_S3_SECRET__ACCESS__KEY"] == keys["s3.secret-access-key"]
    words = " ".join(word for server in plan.servers for word in server.command)
    assert not [secret for secret in (plan.variables["POSTGRES_PASSWORD"], *keys.values()) if secret in words]


def test_address_of_the_rest_catalog_is_told_by_its_old_name_too(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(rest, "JARS", tmp_path)
    (tmp_path / "rest").mkdir()
    variables = plan_lake(RunDir(tmp_path), ["rest"], {"rest": 2}).variables
    assert variables["REST_CATALOG_URI"] == variables["REST_URI"] == "http://127.0.0.1:2"


def test_part_that_was_not_fetched_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local.lake.environment.is_built", lambda: False)
    monkeypatch.setattr(rest, "JARS", tmp_path)
    monkeypatch.setattr(postgres, "find_programs", lambda _: None)
    with pytest.raises(StackError, match=r"^s3: .* run make setup WITH=s3$"):
        s3.build_server(RunDir(tmp_path), 1)
    with pytest.raises(StackError, match=r"^rest: .* run make setup WITH=rest$"):
        rest.build_server(RunDir(tmp_path), 1, {})
    with pytest.raises(StackError, match=r"^postgres: .*Debian: postgresql"):
        postgres.build_server(RunDir(tmp_path), 1, "p")


def test_unknown_part_is_refused_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--with", "rest minio"]) == 1
    assert capsys.readouterr().err == (
        "up: WITH=minio is not known; use some of airflow, bigquery, brokers, celery, postgres, rabbitmq, registry, "
        "rest, s3, schedulers, secure, or leave it out\n"
    )


@pytest.mark.parametrize("parts", [(), ("postgres",), ("rest",), ("postgres", "s3"), ("rest", "postgres", "s3")])
def test_catalog_that_is_written_before_its_stack_is_up_is_the_one_that_is_opened_then(
    parts, tmp_path, monkeypatch
) -> None:
    connection = build_connection(parts, SECRETS)
    addresses = {"POSTGRES_URI": POSTGRES["uri"], "REST_CATALOG_URI": REST["uri"], "S3_ENDPOINT": STORE["s3.endpoint"]}
    variables = {**{ADDRESSES[part]: addresses[ADDRESSES[part]] for part in parts}, **connection}
    entry = describe_catalog(name_variables(parts), tmp_path)
    (tmp_path / "catalogs.yaml").write_text(yaml.safe_dump({"lake": entry}))
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    catalog = load_catalogs(tmp_path)["lake"]
    resolve = partial(read_connection_from_env, environ=variables)
    catalog_properties, own = resolve_catalog_properties(catalog, resolve), resolve_properties(variables, tmp_path)
    timeouts = {name: value for name, value in catalog_properties.items() if name.startswith("rest.client.")}
    uri = catalog_properties["uri"].partition("?")[0]  # without the time-outs
    assert {**own, **timeouts, "uri": own["uri"].replace("+psycopg2", "")} == {**catalog_properties, "uri": uri}
