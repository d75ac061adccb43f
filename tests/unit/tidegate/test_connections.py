"""Connections mean what Airflow makes of them, reach each client in its own words, and never show a secret."""

import json

import pytest
from tidegate.adapters.kafka.settings import resolve_kafka_settings, to_java_settings
from tidegate.adapters.schema_registry.client import resolve_registry_settings
from tidegate.adapters.spark.target import SubmitTarget, read_submit_target, resolve_spark_remote
from tidegate.connections import Connection, read_connection_from_env, require_connection
from tidegate.errors import ConfigurationError
from tidegate.spec.runtime import SparkTarget


def read(text: str) -> Connection:
    connection = read_connection_from_env("my_id", {"AIRFLOW_CONN_MY_ID": text})
    assert connection is not None
    return connection


def find_nothing(_: str) -> Connection | None:
    return None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{"conn_type": "spark-connect", "host": "sc://h", "port": "15002", "extra": {"use_ssl": true}}',
            Connection("my_id", "spark_connect", host="sc://h", port=15002, extra={"use_ssl": True}),
        ),
        ('{"conn_type": "kafka", "extra": "{\\"a\\": 1}"}', Connection("my_id", "kafka", extra={"a": 1})),
        (
            "postgresql://us%40er:p%3Aw%2F@Host:5432/d%2Fb?sslmode=require&n=3",
            Connection(
                "my_id", "postgres", "host", 5432, "us@er", "p:w/", "d/b", {"sslmode": "require", "n": 3}
            ),
        ),
        ("kafka://?__extra__=%7B%22a.b%22%3A%22b%3A1%22%7D", Connection("my_id", "kafka", extra={"a.b": "b:1"})),
        ("spark-connect://sc://h:15002", Connection("my_id", "spark_connect", "sc://h", 15002)),
        ("http://[::1]:80", Connection("my_id", "http", "::1", 80)),
    ],
)  # fmt: skip
def test_both_of_airflows_forms(text: str, expected: Connection) -> None:
    assert read(text) == expected


@pytest.mark.parametrize(
    "text",
    ['{"extra": {"a": null, "b": 0}}', '{"extra": "{\\"a\\": null, \\"b\\": 0}"}', "kafka://?a=null&b=0"],
)
def test_value_that_is_null_is_not_set(text: str) -> None:
    assert read(text).extra == {"b": 0}


def test_missing_connection_is_none() -> None:
    assert read_connection_from_env("my_id", {}) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"password": "geheim"',
        '{"port": "geheim"}',
        '{"extra": "geheim"}',
        '{"extra": "[\\"geheim\\"]"}',
        "geheim",
        "kafka://u:geheim@h:port",
        '{"conn_type": 5, "password": "geheim"}',
    ],
)
def test_an_unreadable_connection_never_shows_its_value(text: str) -> None:
    with pytest.raises(ConfigurationError, match="AIRFLOW_CONN_MY_ID") as error_info:
        read(text)
    assert "geheim" not in str(error_info.value)
    assert error_info.value.__cause__ is None
    assert error_info.value.__suppress_context__


def test_repr_hides_the_password_and_secret_extras() -> None:
    extra = {"sasl.password": "geheim", "bootstrap.servers": "b:1", "keyfile_dict": {"private_key": "geheim"}}
    text = repr(Connection("c", "kafka", password="geheim", extra=extra))
    assert "geheim" not in text
    assert "b:1" in text


def test_missing_kafka_connection_names_its_variable() -> None:
    with pytest.raises(ConfigurationError, match="AIRFLOW_CONN_KAFKA_DEFAULT"):
        resolve_kafka_settings("kafka_default", find_nothing)


def test_kafka_settings_from_extra_then_host_and_login() -> None:
    connection = Connection(
        "k", "kafka", "h", 9092, "u", "p", extra={"sasl.username": "x", "a": True, "group.id": "airflow"}
    )
    assert resolve_kafka_settings("k", lambda _: connection) == {
        "bootstrap.servers": "h:9092",
        "sasl.username": "x",
        "sasl.password": "p",
        "a": "true",
    }
    with pytest.raises(ConfigurationError, match=r"bootstrap\.servers is missing"):
        resolve_kafka_settings("k", lambda _: Connection("k", "kafka"))


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
@pytest.mark.parametrize("addresses", ["", " ", " , "])
def test_connection_whose_address_is_blank_is_refused_at_once(name: str, addresses: str) -> None:
    with pytest.raises(ConfigurationError, match=r"connection=k: bootstrap\.servers is missing; add it"):
        resolve_kafka_settings("k", lambda _: Connection("k", "kafka", extra={name: addresses, "client.id": "c"}))


NO_PORT, NO_NUMBER = (
    "it has no port; write host:port",
    "its port must be a number, 1 to 65535, and is not; write host:port",
)
WRONG_ADDRESSES = {
    "b": f"host=b: {NO_PORT}",
    "a:9092,b": f"host=b: {NO_PORT}",
    "a:9092, SASL_SSL://b:": f"host=b: {NO_PORT}",
    "[::1]": f"host=::1: {NO_PORT}",
    "b:kafka": f"host=b: {NO_NUMBER}",
    "b:0": f"host=b: {NO_NUMBER}",
    "b:65536": f"host=b: {NO_NUMBER}",
    "b:9092:9092": f"host=b: {NO_NUMBER}",
    "u:geheim@b:kafka": f"host=b: {NO_NUMBER}",
    ":9092": "an address without a host; write host:port",
    "[::1:9092": "an address without a host; write host:port",
}


@pytest.mark.parametrize("name", ["bootstrap.servers", "metadata.broker.list"])
@pytest.mark.parametrize("addresses", WRONG_ADDRESSES)
def test_broker_without_host_and_port_is_refused_at_once(name: str, addresses: str) -> None:
    """Clients look for it for half a minute, and Kafka's Java client refuses what librdkafka takes."""
    settings = {name: addresses, "client.id": "c"}
    with pytest.raises(ConfigurationError) as of_connection:
        resolve_kafka_settings("k", lambda _: Connection("k", "kafka", extra=settings))
    assert str(of_connection.value) == f"connection=k: bootstrap.servers: {WRONG_ADDRESSES[addresses]}"
    with pytest.raises(ConfigurationError, match=r"kafka of the file: bootstrap\.servers: "):
        resolve_kafka_settings(settings, find_nothing)


@pytest.mark.parametrize("addresses", ["b:1", "a:9092,b:9093", " SASL_SSL://a.b-c_d:1 , [::1]:65535,", "10.0.0.1:9092"])
def test_brokers_are_found_under_either_name(addresses: str) -> None:
    for name in ("bootstrap.servers", "metadata.broker.list"):
        settings = resolve_kafka_settings("k", lambda _, name=name: Connection("k", "kafka", extra={name: addresses}))
        assert settings == {"bootstrap.servers": addresses}


def test_host_of_a_kafka_connection_needs_its_port() -> None:
    with pytest.raises(ConfigurationError, match=f"connection=k: bootstrap.servers: host=h: {NO_PORT}"):
        resolve_kafka_settings("k", lambda _: Connection("k", "kafka", "h"))


@pytest.mark.parametrize(("host", "reason"), [("sc://h:spark", f"host=h: {NO_NUMBER}"), ("sc://", "without a host")])
def test_address_of_spark_with_another_port_than_a_number_is_refused_at_once(host: str, reason: str) -> None:
    for place, connection, environ in (
        (
            "connection=spark_default",
            Connection("spark_default", "spark_connect", host, login="u", password="geheim"),
            {},
        ),
        ("SPARK_REMOTE", None, {"SPARK_REMOTE": f"{host}/;token=geheim"}),
    ):
        with pytest.raises(ConfigurationError, match=f"^{place}: .*{reason}") as error_info:
            resolve_spark_remote(SparkTarget(), lambda _, connection=connection: connection, environ)
        assert "geheim" not in str(error_info.value)
    assert resolve_spark_remote(SparkTarget(), find_nothing, {"SPARK_REMOTE": "sc://h"}) == "sc://h", "its own port"


def test_master_of_spark_without_a_port_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match=f"connection=s: host=h: {NO_PORT}"):
        read_submit_target(SparkTarget(connection="s"), lambda _: Connection("s", "spark", "spark://h"))
    for master in ("yarn", "local[2]", "k8s://https://h", "spark://h:7077,i:7077"):
        target = read_submit_target(SparkTarget(), lambda _, master=master: Connection("s", "spark", master))
        assert target == SubmitTarget(master)


def test_address_of_a_registry_with_another_port_than_a_number_is_refused_at_once() -> None:
    for connection in (
        Connection("r", "http", "http://h:registry", login="u", password="geheim"),
        Connection("r", "http", extra={"url": "http://g:8081,http://h:registry"}),
    ):
        with pytest.raises(ConfigurationError, match=f"registry=r: host=h: {NO_NUMBER}"):
            resolve_registry_settings("r", lambda _, connection=connection: connection)
    assert resolve_registry_settings("http://h", find_nothing) == {"url": "http://h"}


@pytest.mark.parametrize(
    ("librdkafka", "java"),
    [
        ({"bootstrap.servers": "b:1"}, {"bootstrap.servers": "b:1"}),
        ({"metadata.broker.list": "b:1", "debug": "all", "group.id": "g"}, {"bootstrap.servers": "b:1"}),
        (
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "u",
                "sasl.password": 'p"\\',
            },
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'username="u" password="p\\"\\\\";',
            },
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "u", "sasl.password": "p"},
            {
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
                'username="u" password="p";',
            },
        ),
        (
            {
                "sasl.mechanisms": "OAUTHBEARER",
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "i",
                "sasl.oauthbearer.client.secret": "s",
                "sasl.oauthbearer.token.endpoint.url": "https://login/token",
                "sasl.oauthbearer.extensions": "logicalCluster=lkc-1,identityPoolId=pool-2",
            },
            {
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.oauthbearer.token.endpoint.url": "https://login/token",
                "sasl.jaas.config": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required "
                'clientId="i" clientSecret="s" extension_logicalCluster="lkc-1" extension_identityPoolId="pool-2";',
                "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
                "OAuthBearerLoginCallbackHandler",
            },
        ),
        ({"ssl.ca.location": "/ca.pem"}, {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}),
        (
            {"ssl.key.location": "/both.pem", "ssl.certificate.location": "/both.pem", "ssl.key.password": "p"},
            {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/both.pem", "ssl.key.password": "p"},
        ),
        ({"ssl.endpoint.identification.algorithm": "none"}, {"ssl.endpoint.identification.algorithm": ""}),
        ({"client.rack": "a", "partition.assignment.strategy": "roundrobin"}, {"client.rack": "a"}),
    ],
)
def test_the_java_client_gets_the_same_in_its_own_words(librdkafka: dict[str, str], java: dict[str, str]) -> None:
    assert to_java_settings(librdkafka) == java


@pytest.mark.parametrize(
    "librdkafka",
    [
        {"enable.ssl.certificate.verification": "false"},
        {"ssl.key.location": "/key.pem", "ssl.certificate.location": "/cert.pem"},
    ],
)
def test_what_the_java_client_cannot_do_is_refused_not_dropped(librdkafka: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError):
        to_java_settings(librdkafka)


def test_missing_connection_that_the_local_stack_has_is_told_with_the_file_to_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TIDEGATE_RUN", str(tmp_path))
    known = "connection=kafka_default: not found; create it in Airflow, or set AIRFLOW_CONN_KAFKA_DEFAULT outside of "
    known += "Airflow"
    with pytest.raises(ConfigurationError) as error_info:
        require_connection("kafka_default", find_nothing)
    assert str(error_info.value) == known
    (tmp_path / "env").write_text("export AIRFLOW_CONN_KAFKA_DEFAULT='{}'\nexport SPARK_REMOTE=sc://h:1\n")
    with pytest.raises(ConfigurationError) as error_info:
        require_connection("kafka_default", find_nothing)
    assert str(error_info.value) == f"{known}; the local stack has it: `source {tmp_path}/env`"
    with pytest.raises(ConfigurationError) as error_info:
        require_connection("kafka_other", find_nothing)
    assert "source" not in str(error_info.value)
    with pytest.raises(ConfigurationError, match=f"the local stack has it: `source {tmp_path}/env`"):
        resolve_spark_remote(SparkTarget(), find_nothing, {})


def test_spark_remote_of_pipeline_then_connection_then_environment() -> None:
    environ = {"SPARK_REMOTE": "sc://env:1"}
    connection = Connection("s", "spark_connect", "h", 2, "me", "tok/en", extra={"use_ssl": True})
    assert resolve_spark_remote(SparkTarget(remote="sc://own:3"), lambda _: connection, environ) == "sc://own:3"
    assert (
        resolve_spark_remote(SparkTarget(), lambda _: connection, environ)
        == "sc://h:2/;user_id=me;token=tok%2Fen;use_ssl=true"
    )
    assert (
        resolve_spark_remote(SparkTarget(), lambda _: Connection("s", "spark_connect", "sc://h", 2), {}) == "sc://h:2"
    )
    assert resolve_spark_remote(SparkTarget(), find_nothing, environ) == "sc://env:1"


@pytest.mark.parametrize("connection", [None, Connection("s", "spark", "yarn"), Connection("s", "spark_connect")])
def test_no_place_for_spark_is_refused_with_the_way_out(connection: Connection | None) -> None:
    with pytest.raises(ConfigurationError, match=r"sc://|spark_connect"):
        resolve_spark_remote(SparkTarget(), lambda _: connection, {})


def test_same_reading_as_airflow_itself() -> None:
    airflow = pytest.importorskip("airflow.sdk.definitions.connection", reason="Airflow is not installed")
    for uri in ("kafka://u:p%40@Host:1/s?a=b", "spark-connect://h:15002", "postgresql://h/db", "http://https://h:1"):
        airflow_connection, connection = airflow.Connection.from_uri(uri, conn_id="my_id"), read(uri)
        fields = ("conn_type", "host", "port", "login", "password")
        assert [getattr(connection, f) for f in fields] == [getattr(airflow_connection, f) or None for f in fields]
        assert connection.extra == json.loads(airflow_connection.extra or "{}")
