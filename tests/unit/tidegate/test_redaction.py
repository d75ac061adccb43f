"""Which settings Spark hides, and that a server which would show a catalog's secret is sent none."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tidegate.adapters.spark.entry_points import build_private_conf
from tidegate.adapters.spark.submit import pack_files
from tidegate.errors import ConfigurationError
from tidegate.jobs.stage_job import KAFKA_CONF
from tidegate.redaction import (
    CORE_REGEX,
    CORE_REGEX_KEY,
    OPTIONS_REGEX_KEY,
    SECRET_NAME_PATTERN,
    SecretMask,
    has_secret,
    is_secret_name,
    mask_addresses,
)
from tidegate_spark import session

ROOT = Path(__file__).parents[3]
CATALOG = "spark.sql.catalog.lake"
SECRETS = [
    "credential", "token", "jdbc.password", "s3.secret-access-key", "s3.access-key-id", "s3.session-token",
    "rest.auth.basic.password", "header.Authorization", "header.X-Api-Key",
    "adls.auth.shared-key.account.key", "adls.sas-token.store",
    "gcs.oauth2.token",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_secret_of_a_catalog_is_hidden_by_its_name_in_sessions_and_in_applications(name: str) -> None:
    private = build_private_conf({f"{CATALOG}.{name}": "x", OPTIONS_REGEX_KEY: "mine"}, {})
    with pack_files({**private, CORE_REGEX_KEY: "theirs"}) as files:
        lines = dict(
            line.split(" ", 1) for line in Path(files.properties).read_text().replace("\\\\", "\\").splitlines()
        )
    for regex in (
        private[OPTIONS_REGEX_KEY].replace("mine|", ""),
        lines[OPTIONS_REGEX_KEY].replace("mine|", ""),
        lines[CORE_REGEX_KEY].replace("theirs|", ""),
    ):
        assert re.search(regex, f"{CATALOG}.{name}")
    assert lines[CORE_REGEX_KEY].startswith("theirs|")
    assert lines[OPTIONS_REGEX_KEY] == private[OPTIONS_REGEX_KEY], "nothing is said twice"
    assert lines[OPTIONS_REGEX_KEY].startswith("mine|")


def test_names_that_hold_no_secret_are_shown() -> None:
    for name in ("uri", "type", "warehouse", "io-impl", "client.region", "s3.endpoint", "cache-enabled"):
        assert not re.search(CORE_REGEX, f"{CATALOG}.{name}")


def test_every_word_of_a_secrets_name_that_the_product_knows_is_hidden_by_spark_too() -> None:
    for word in (
        "password",
        "passwd",
        "passphrase",
        "secret",
        "token",
        "credential",
        "private_key",
        "account-key",
        "jaas",
    ):
        assert SECRET_NAME_PATTERN.search(word)
        assert re.search(CORE_REGEX, f"x.{word.upper()}")


def test_the_servers_program_hides_what_the_jobs_hide() -> None:
    spec = importlib.util.spec_from_file_location("serve", ROOT / "jobs" / "serve.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.SERVER_CONF[CORE_REGEX_KEY] == CORE_REGEX


class Client:
    """A Connect client, and its channel."""

    def __init__(self) -> None:
        self._channel = self

    def release_session(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _cleanup_ml_cache(self) -> None:
        pass


class Session:
    """A session of a Connect server with this configuration of its own."""

    def __init__(self, **own: str) -> None:
        self.values = {name.replace("_", "."): value for name, value in own.items()}
        self.conf, self.client, self.stopped = self, Client(), False

    def get(self, name: str, default: Any = ...) -> Any:
        return self.values[name] if default is ... else self.values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self.values[name] = value

    def stop(self) -> None:
        self.stopped = True


def connect_session(monkeypatch: pytest.MonkeyPatch, server: Session, conf: dict[str, str]) -> Session:
    builder = type("Builder", (), {"remote": lambda self, _: self, "create": lambda self: server})()
    monkeypatch.setattr(session, "SparkSession", type("Sessions", (), {"builder": builder}))
    session.connect_session("sc://here", conf)
    return server


CONF = {f"{CATALOG}.type": "rest", f"{CATALOG}.credential": "client:hunter2"}


@pytest.mark.guard(
    "no catalog's secret goes to a server that would write it to its event log",
    file="jobs/tidegate_spark/session.py",
    text="    check_event_log(spark, conf)\n",
    off="    pass\n",
)
def test_server_with_an_event_log_gets_no_catalogs_secret_unless_it_hides_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for own in ({}, {CORE_REGEX_KEY: CORE_REGEX}, {f"{CATALOG}.credential": "from the jobs"}):
        server = Session(spark_eventLog_enabled="true")
        server.values |= own
        with pytest.raises(
            ConfigurationError, match=rf"event log.*settings={CATALOG}\.credential; nothing was sent"
        ) as error_info:
            connect_session(monkeypatch, server, CONF)
        assert "hunter2" not in f"{error_info.value}{server.values}"
        assert server.stopped
    server = Session(spark_eventLog_enabled="true")
    server.values |= {CORE_REGEX_KEY: CORE_REGEX, f"{CATALOG}.credential": "from the jobs"}
    assert connect_session(monkeypatch, server, CONF).values[f"{CATALOG}.credential"] == "client:hunter2"


def test_server_without_an_event_log_and_catalog_without_a_secret_need_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert connect_session(monkeypatch, Session(), CONF).values[f"{CATALOG}.credential"] == "client:hunter2"
    open_catalog = {f"{CATALOG}.type": "rest"}
    assert not connect_session(monkeypatch, Session(spark_eventLog_enabled="true"), open_catalog).stopped


def test_kafkas_password_never_has_a_name_that_jobs_carry_into_the_event_log(monkeypatch: pytest.MonkeyPatch) -> None:
    private = build_private_conf({}, {"sasl.password": "hunter2"})
    server = connect_session(monkeypatch, Session(spark_eventLog_enabled="true"), private)
    assert [name for name, value in server.values.items() if "hunter2" in value] == ["tidegate.secret.kafka"]
    assert re.search(server.values[OPTIONS_REGEX_KEY], "tidegate.secret.kafka")
    for spark in (server, Session(**{KAFKA_CONF.replace(".", "_"): private[KAFKA_CONF]})):
        assert json.loads(session.read_private_conf(spark, KAFKA_CONF)) == {"kafka.sasl.password": "hunter2"}


@pytest.mark.parametrize("password", ["geheim/x", "ge@heim", "a@b/c@geheim", ":geheim", "%40geheim"])
def test_password_with_letters_that_addresses_have_is_hidden_whole(password: str) -> None:
    message = f"no route to postgresql://lake:{password}@db:5432/x; see http://docs:80/page"
    masked_message = "no route to postgresql://***@db:5432/x; see http://docs:80/page"
    assert mask_addresses(message) == masked_message
    assert SecretMask().mask(message) == masked_message


@pytest.mark.parametrize(
    ("text", "masked_text"),
    [
        ("postgresql://h/d?user=u&password=geheim&x=1", "postgresql://h/d?user=u&password=***&x=1"),
        ("jdbc:sqlserver://h;user=u;password=geheim", "jdbc:sqlserver://h;user=u;password=***"),
        ("https://h/x?access_token=geheim", "https://h/x?access_token=***"),
        ("https://a.blob.core.windows.net/c?se=1&sig=geheim", "https://a.blob.core.windows.net/c?se=1&sig=***"),
        ("DefaultEndpointsProtocol=https;AccountKey=geheim==", "DefaultEndpointsProtocol=https;AccountKey=***"),
        ("-Da=b -Djavax.net.ssl.trustStorePassword=geheim", "-Da=b -Djavax.net.ssl.trustStorePassword=***"),
        ('Module required username="u" password="ge heim";', 'Module required username="u" password=***;'),
        ("https://hooks.slack.com/services/T0/B0/geheim", "https://hooks.slack.com/services/***"),
        ("https://discord.com/api/webhooks/1/geheim", "https://discord.com/api/webhooks/***"),
        ("sc://h:1/;use_ssl=true;token=geheim", "sc://h:1/;use_ssl=true;token=***"),
    ],
)
def test_secret_among_the_parts_of_an_address_is_known_by_its_shape(text: str, masked_text: str) -> None:
    assert has_secret(text)
    assert (
        mask_addresses(f"no answer of {text}, see http://docs/page")
        == f"no answer of {masked_text}, see http://docs/page"
    )


@pytest.mark.parametrize(
    "text",
    [
        "https://h/x?token={{ var.value.token }}",
        "https://h/?password=${PASSWORD}",
        "https://h/x?page=1&sort=token",
        "{{ dag.dag_id }} failed: the token of the password's bearer",
        "https://slack.com/docs",
        "password = other.password",
        "postgresql://h/d?sslmode=require",
        "abfss://container@account.dfs.core.windows.net/lake",
        "Bearer of bad news",
    ],
)
def test_text_that_only_names_secrets_holds_none(text: str) -> None:
    assert not has_secret(text)


@pytest.mark.parametrize("text", ["Bearer geheim", "-----BEGIN EC PRIVATE KEY-----\ngeheim"])
def test_header_of_a_bearer_and_a_private_key_are_secrets(text: str) -> None:
    assert has_secret(text)


def test_names_of_headers_that_let_in_hold_secrets_and_names_of_addresses_do_not() -> None:
    for name in (
        "Authorization",
        "header.Authorization",
        "proxy-authorization",
        "api_key",
        "header.X-Api-Key",
        "apikey",
    ):
        assert is_secret_name(name), name
    for name in ("authorization-url", "authorization.enabled", "api-key-file", "group-authorization-failed"):
        assert not is_secret_name(name), name
