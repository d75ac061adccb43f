"""PyIceberg and Spark see the same tables from one declaration, whose mistakes are named like a pipeline's."""

from pathlib import Path

import pytest
from tidegate.adapters.iceberg.catalog_conf import build_spark_catalog_conf, resolve_catalog_properties
from tidegate.config.catalogs_file import load_catalogs, read_catalogs
from tidegate.connections import Connection
from tidegate.errors import ConfigurationError
from tidegate.settings import find_home_folder, find_include_folder
from tidegate.spec.pipeline import Catalog

PREFIX = "spark.sql.catalog.lake"


def write(folder: Path, text: str) -> Path:
    (folder / "catalogs.yaml").write_text(text)
    return folder


VENDED = {"header.X-Iceberg-Access-Delegation": "vended-credentials"}
REST_TIMEOUTS = {"rest.client.connection-timeout-ms": "30000", "rest.client.socket-timeout-ms": "120000"}


def build_conf(properties: dict[str, str], connection: Connection | None = None) -> dict[str, str]:
    catalog = Catalog("lake", "iceberg", properties, connection.id if connection else None)
    derived = build_spark_catalog_conf(catalog, resolve_catalog_properties(catalog, lambda _: connection))
    assert derived.pop(PREFIX) == "org.apache.iceberg.spark.SparkCatalog"
    assert derived.pop(f"{PREFIX}.cache-enabled") == "false"
    return {name.removeprefix(f"{PREFIX}."): value for name, value in derived.items()}


def test_shipped_catalog_lies_in_the_repository() -> None:
    lake = load_catalogs(find_home_folder() / "include")["lake"]
    assert lake.properties["uri"] == f"sqlite:///{find_home_folder()}/.run/lake/catalog.db"


def test_include_folder_can_be_another_one(tmp_path: Path) -> None:
    assert find_include_folder({"TIDEGATE_INCLUDE": str(tmp_path)}) == tmp_path
    assert find_include_folder({}) == find_home_folder() / "include"


def test_environment_fills_in_and_an_unset_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "/data")
    monkeypatch.delenv("NOWHERE", raising=False)
    text = "a: {type: iceberg, properties: {type: rest, uri: 'http://h', warehouse: '${PLACE}/$${x}'}}\n"
    assert load_catalogs(write(tmp_path, text))["a"].properties["warehouse"] == "/data/${x}"
    with pytest.raises(ConfigurationError, match=r"catalogs\.yaml:1: a.properties.uri=.*NOWHERE.* is not set"):
        load_catalogs(write(tmp_path, "a: {type: iceberg, properties: {type: rest, uri: '${NOWHERE}'}}"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ":1: no catalog declared"),
        ("a: 5", ":1: a=5: unknown type of catalog"),
        ("a: {type: icberg}", "a.type=icberg: unknown type of catalog; did you mean iceberg?"),
        ("a: {type: iceberg, propertis: {}}", "a.propertis: unknown key; did you mean properties?"),
        ("a: {type: bigquery, project: p, <: 1}", "a.<=1: unknown key; allowed: connection, endpoint, "),
        ("a: {type: iceberg, properties: {type: sql}}", "a.properties: uri is missing"),
        ("a: {type: iceberg, properties: {type: sql, uri: 'sqlite:///rel.db', warehouse: x}}", "Spark cannot share it"),
        ("a: {type: iceberg, properties: {type: sql, uri: 'sqlite:////c.db'}}", "warehouse is missing"),
        ("a: {type: iceberg, properties: {type: sql, uri: 'sqlite:////c.db', warehouse: L/w}}", "warehouse=L/w: each"),
        ("a: {type: iceberg, properties: {type: sql, uri: 'sqlite:////c', warehouse: 'file:w'}}", "=file:w: each"),
        ("a: {type: iceberg, properties: {type: rest, uri: 'localhost:8181'}}", "uri=localhost:8181: not the address"),
        ("a: {type: iceberg, properties: {type: glue, uri: x}}", "a.properties.type=glue"),
        ("a: {type: bigquery}", "a.project: missing"),
        (f"{'a' * 101}: {{type: bigquery, project: p}}", "not a catalog name"),
        ("spark_catalog: {type: bigquery, project: p}", "not a catalog name"),
        ("a: {type: iceberg, properties: {type: rest, uri: x, token: geheim}}", "a.properties.token=***: a secret"),
        ("a: {type: iceberg, properties: {type: rest, uri: 'http://u:geheim@h'}}", "a.properties.uri=***: a secret"),
        ("a: {type: iceberg, properties: {type: sql, uri: 'postgresql://u:ge/heim@h/d', warehouse: x}}", "uri=***"),
        ("a: {type: iceberg, properties: {type: rest, uri: x, s3.secret-access-key: geheim}}", "=***: a secret"),
        ("a: {type: iceberg, properties: {type: rest, uri: x, header.Authorization: geheim}}", "=***: a secret"),
        ("a: {type: iceberg, properties: {type: rest, uri: x, header.X-Api-Key: geheim}}", "=***: a secret"),
        ("a: {type: iceberg, properties: {type: rest, uri: x, header.X: 'Bearer geheim'}}", "=***: a secret"),
        ("a: {type: iceberg, properties: {type: sql, uri: 'postgresql://h/d?password=geheim'}}", "uri=***: a secret"),
        ("a: {type: bigquery, project: p, endpoint: 'http://u:geheim@h'}", "a.endpoint=***: a secret"),
        ("a: {type: bigquery, project: p, staging: 's3://b?secret=geheim'}", "a.staging=***: a secret"),
        ("a: {type: iceberg, connection: 'http://u:geheim@h', properties: {type: rest, uri: x}}", "=***: a secret"),
    ],
)
def test_refused_with_value_and_way_out(tmp_path: Path, text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as error_info:
        load_catalogs(write(tmp_path, text))
    assert expected in str(error_info.value)
    assert "heim" not in str(error_info.value)


def test_name_that_is_set_to_nothing_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address without its host would be that of another server."""
    monkeypatch.setenv("DB_HOST", "")
    monkeypatch.setenv("DB", "Lake")
    uri = "postgresql+psycopg2://${DB_HOST}:5432/${DB}"
    text = f"a: {{type: iceberg, properties: {{type: sql, uri: '{uri}', warehouse: 's3://b/w'}}}}\n"
    with pytest.raises(ConfigurationError, match=r"catalogs\.yaml:1: a\.properties\.uri=.*: \$\{DB_HOST\} is empty in"):
        load_catalogs(write(tmp_path, text))
    monkeypatch.setenv("DB_HOST", "db")
    assert load_catalogs(write(tmp_path, text))["a"].properties["uri"] == "postgresql+psycopg2://db:5432/Lake"


def test_catalog_with_an_unset_name_is_not_used_without_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOWHERE", raising=False)
    text = (
        "good: {type: bigquery, project: p}\n"
        "a: {type: iceberg, properties: {type: rest, uri: 'http://h', warehouse: '${NOWHERE}/lake'}}\n"
        "b: {type: bigquery, project: '${NOWHERE}'}\n"
    )
    catalogs = read_catalogs(write(tmp_path, text))
    assert isinstance(catalogs["good"], Catalog)
    for name, line in (("a", 2), ("b", 3)):
        assert f"catalogs.yaml:{line}: {name}." in str(catalogs[name])
        assert "${NOWHERE} is not set in the environment" in str(catalogs[name])


def test_catalog_of_a_merge_key_is_read_beside_one_that_yaml_cannot_read(tmp_path: Path) -> None:
    text = "x: &x {type: bigquery, project: 2026-13-45}\n<<: {lake: {type: bigquery, project: p}}\n"
    assert "put it in quotes" in str(read_catalogs(write(tmp_path, text))["lake"])


def test_a_broken_catalog_leaves_the_others_usable(tmp_path: Path) -> None:
    text = "good: {type: bigquery, project: p}\nbad: {type: iceberg, properties: {type: sql}}\n"
    catalogs = read_catalogs(write(tmp_path, text))
    assert isinstance(catalogs["good"], Catalog)
    assert "uri is missing" in str(catalogs["bad"])


def test_sqlite_is_one_file_for_both_and_the_second_writer_waits() -> None:
    assert build_conf({"type": "sql", "uri": "sqlite:////a b/c.db", "warehouse": "file:///w", "echo": "true"}) == {
        "type": "jdbc",
        "uri": "jdbc:sqlite:/a b/c.db?busy_timeout=30000",
        "jdbc.schema-version": "V1",
        "warehouse": "file:///w",
    }


def test_postgresql_gets_its_login_from_the_connection() -> None:
    connection = Connection("c", "postgres", login="us@er", password="p/w")
    properties = {"type": "sql", "uri": "postgresql+psycopg2://h:5432/db?sslmode=require", "warehouse": "file:///w"}
    assert build_conf(properties, connection) == {
        "type": "jdbc",
        "uri": "jdbc:postgresql://h:5432/db?sslmode=require",
        "jdbc.socketTimeout": "120",
        "jdbc.tcpKeepAlive": "true",
        "jdbc.user": "us@er",
        "jdbc.password": "p/w",
        "jdbc.schema-version": "V1",
        "retryable_status_codes": "57P01,57P02,57P03,57P05",
        "warehouse": "file:///w",
    }
    conf = build_conf({**properties, "retryable_status_codes": "57P01"}, connection)
    assert conf["retryable_status_codes"] == "57P01"


def test_both_clients_give_up_a_postgresql_that_is_gone_or_silent_and_the_file_may_say_when() -> None:
    """Without a limit each waits for a peer that left without a word for as long as the system keeps the connection."""
    properties = {"type": "sql", "uri": "postgresql://h/db?sslmode=require", "warehouse": "file:///w"}
    assert build_conf({**properties, "jdbc.socketTimeout": "7"})["jdbc.socketTimeout"] == "7"
    rest = "keepalives_idle=30&keepalives_interval=10&keepalives_count=9&tcp_user_timeout=120000"
    assert resolve_uri("sslmode=require") == f"postgresql://h/db?sslmode=require&connect_timeout=30&{rest}"
    assert resolve_uri("connect_timeout=5") == f"postgresql://h/db?connect_timeout=5&{rest}"
    assert build_conf({**properties, "uri": "postgresql://h/db?connect_timeout=5"})["uri"] == "jdbc:postgresql://h/db"


def resolve_uri(options: str) -> str:
    """The address that PyIceberg gets of one with these options."""
    properties = {"type": "sql", "uri": f"postgresql://h/db?{options}", "warehouse": "file:///w"}
    return resolve_catalog_properties(Catalog("lake", "iceberg", properties), lambda _: None)["uri"]


def test_rest_on_s3_compatible_store() -> None:
    connection = Connection("c", login="id", password="secret", extra={"s3.secret-access-key": "k"})
    properties = {
        "type": "rest",
        "uri": "http://h",
        "warehouse": "s3://b/p",
        "s3.endpoint": "http://m",
        "s3.region": "r",
    }
    assert build_conf(properties, connection) == properties | {
        **VENDED,
        **REST_TIMEOUTS,
        "credential": "id:secret",
        "s3.secret-access-key": "k",
        "client.region": "r",
        "s3.path-style-access": "true",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
    }


def test_rest_whose_warehouse_is_a_name_has_its_s3_settings_in_sparks_words_and_its_own_file_reader() -> None:
    login = {"client.access-key-id": "a", "client.secret-access-key": "k", "client.session-token": "t"}
    connection = Connection("c", login="id", password="secret", extra=login)
    properties = {"type": "rest", "uri": "http://h", "warehouse": "lake", "s3.endpoint": "http://m", "s3.region": "r"}
    assert build_conf(properties, connection) == properties | login | {
        **VENDED,
        **REST_TIMEOUTS,
        "credential": "id:secret",
        "client.region": "r",
        "s3.path-style-access": "true",
        "s3.access-key-id": "a",
        "s3.secret-access-key": "k",
        "s3.session-token": "t",
    }
    virtual = {"s3.force-virtual-addressing": "true", "s3.secret-access-key": "own"}
    conf = build_conf({**properties, **virtual}, connection)
    assert (conf["s3.path-style-access"], conf["s3.secret-access-key"]) == ("false", "own")
    plain = {"type": "rest", "uri": "http://h", "warehouse": "lake"}
    assert build_conf(plain) == {**plain, **VENDED, **REST_TIMEOUTS}, "nothing of S3 where nothing says so"


def test_spark_asks_a_rest_catalog_for_keys_to_its_files_as_pyiceberg_does_unless_the_file_says_otherwise() -> None:
    rest_properties = {"type": "rest", "uri": "http://h", "header.x-iceberg-access-delegation": "remote-signing"}
    own = {**REST_TIMEOUTS, "rest.client.socket-timeout-ms": "9"}
    assert build_conf({**rest_properties, **own}) == {**rest_properties, **own}
    assert not {name for name in build_conf({"type": "sql", "uri": "sqlite:////c.db"}) if name.startswith("header.")}


def test_missing_connection_names_its_variable() -> None:
    with pytest.raises(ConfigurationError, match="AIRFLOW_CONN_MY_DB"):
        resolve_catalog_properties(Catalog("lake", "iceberg", {"type": "sql"}, "my_db"), lambda _: None)
