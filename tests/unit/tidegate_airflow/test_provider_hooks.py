"""What a Google or Spark connection means in Airflow is what its provider's own hook makes of it."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google_keys import EMAIL, build_key
from tidegate.adapters.bigquery.catalog import Warehouse
from tidegate.adapters.bigquery.login import Login
from tidegate.adapters.spark.target import resolve_spark_remote
from tidegate.connections import read_connection_from_env
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Catalog
from tidegate.spec.runtime import SparkTarget
from tidegate_airflow.connections import resolve_connection

CATALOG = Catalog("dwh", "bigquery", {"project": "catalogs-own"}, "gcp")
# what Google says of the function by which Airflow's hook reads a configuration
of_google = pytest.mark.filterwarnings("ignore:The load_credentials_from:DeprecationWarning")
# a pool without a project of its own: Google's library asks no server for that project's name
WORKFORCE = "//iam.googleapis.com/locations/global/workforcePools/shop/providers/own"
SCOPE = "https://www.googleapis.com/auth/cloud-platform"


@pytest.fixture
def keep(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Keep a connection where Airflow finds it, with the extras of its provider's form."""

    def keep_connection(conn_id: str, conn_type: str, extra: dict[str, Any], **fields: Any) -> None:
        text = json.dumps({"conn_type": conn_type, "extra": extra, **fields})
        monkeypatch.setenv(f"AIRFLOW_CONN_{conn_id.upper()}", text)

    return keep_connection


@pytest.fixture
def log_in(keep: Callable[..., None]) -> Callable[..., Any]:
    def log_in_with(**extra: Any) -> Any:
        keep("gcp", "google_cloud_platform", {"num_retries": 5, **extra})
        return Login(CATALOG, resolve_connection).credentials

    return log_in_with


def test_each_form_of_a_google_connection_logs_in_as_the_providers_hook_does(
    log_in: Callable[..., Any], tmp_path: Path
) -> None:
    key = build_key()
    file = tmp_path / "key.json"
    file.write_text(json.dumps(key))
    for form in ({"key_path": str(file)}, {"keyfile_dict": json.dumps(key)}, {"keyfile_dict": key}):
        assert (log_in(**form).service_account_email, list(log_in(**form).scopes)) == (EMAIL, [SCOPE])
    assert log_in(keyfile_dict=key, scope="a,b").scopes == ["a", "b"]
    assert log_in(keyfile_dict=key, quota_project_id="payer-project").quota_project_id == "payer-project"
    assert type(log_in(is_anonymous=True)) is AnonymousCredentials
    assert log_in(extra__google_cloud_platform__keyfile_dict=json.dumps(key)).service_account_email == EMAIL


def test_last_account_of_a_chain_acts(log_in: Callable[..., Any]) -> None:
    credentials = log_in(keyfile_dict=build_key(), impersonation_chain="one@x.y, two@p.iam.gserviceaccount.com")
    assert (type(credentials).__module__, credentials._source_credentials.service_account_email) == (
        "google.auth.impersonated_credentials",
        EMAIL,
    )
    assert (credentials._target_principal, credentials._delegates) == ("two@p.iam.gserviceaccount.com", ["one@x.y"])


@of_google
@pytest.mark.parametrize("is_file", [True, False])
def test_credential_configuration_is_taken_as_a_file_and_as_text(
    is_file: bool, log_in: Callable[..., Any], tmp_path: Path
) -> None:
    config = {
        "type": "external_account",
        "audience": WORKFORCE,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
        "credential_source": {"file": str(tmp_path / "token")},
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    credentials = log_in(credential_config_file=str(file) if is_file else json.dumps(config))
    assert type(credentials).__module__ == "google.auth.identity_pool"


def test_key_in_secret_manager_is_fetched_by_the_hook(
    log_in: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secret Manager itself cannot be started here: its client, of the provider, is asked for the key."""
    from airflow.providers.google.cloud.utils import credentials_provider

    secrets = {("shop-key", "keys"): json.dumps(build_key())}
    client = SimpleNamespace(
        is_valid_secret_name=lambda name: True, get_secret=lambda secret_id, project_id: secrets[secret_id, project_id]
    )
    monkeypatch.setattr("google.auth.default", lambda scopes: (AnonymousCredentials(), "machine"))
    monkeypatch.setattr(credentials_provider, "_SecretManagerClient", lambda credentials: client)
    credentials = log_in(key_secret_name="shop-key", key_secret_project_id="keys")
    assert credentials.service_account_email == EMAIL


@of_google
def test_identity_provider_is_asked_as_by_the_hook(log_in: Callable[..., Any]) -> None:
    config = {
        "type": "external_account",
        "audience": WORKFORCE,
        "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        "token_url": "https://sts.googleapis.com/v1/token",
    }
    issuer = {"idp_issuer_url": "https://issuer", "client_id": "me", "client_secret": "geheim"}
    credentials = log_in(credential_config_file=json.dumps(config), **issuer)
    assert type(credentials).__module__ == "google.auth.identity_pool"


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"keyfile_dict": "{geheim"}, "Invalid key JSON"),
        ({"keyfile_dict": {**build_key(), "private_key": "geheim"}}, "Error"),
        ({"keyfile_dict": {"geheim": 1}}, "KeyError"),
        ({"key_path": "/nowhere/geheim.json"}, "FileNotFoundError"),
        ({"key_path": "/nowhere/key.json", "is_anonymous": True}, "mutually exclusive"),
        ({"is_anonymous": False, "keyfile_dict": build_key(), "quota_project_id": "No project!"}, "ValueError"),
    ],
)
def test_connection_that_the_hook_refuses_is_one_sentence_without_the_key(
    extra: dict[str, Any], reason: str, log_in: Callable[..., Any]
) -> None:
    with pytest.raises(ConfigurationError, match=rf"^connection=gcp: Google's hook cannot use it: .*{reason}") as error:
        log_in(**extra)
    assert "geheim" not in str(error.value)
    assert error.value.__cause__ is None


def test_client_asks_for_the_catalogs_project_at_the_connections_location(
    keep: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")  # behind one no direct way to the service is tried
    extra = {"keyfile_dict": build_key(), "project": "connections-own", "location": "EU", "labels": '{"team": "Shop"}'}
    keep("gcp", "gcpbigquery", extra)
    warehouse = Warehouse(CATALOG, resolve_connection)
    assert (warehouse.client.project, warehouse.client.location) == ("catalogs-own", "EU")
    assert warehouse.build_labels({"tidegate_table": "t"}) == {"team": "shop", "tidegate_table": "t"}
    named = Catalog("dwh", "bigquery", {"project": "catalogs-own", "location": "US"}, "gcp")
    assert Warehouse(named, resolve_connection).client.location == "US"


@pytest.mark.parametrize(
    "fields",
    [
        {"host": "spark"},
        {"host": "spark", "port": 15002},
        {"host": "sc://spark", "port": 15002},
        {"host": "sc://spark:15003"},
        {"host": "spark", "port": 1, "login": "me"},
        {"host": "spark", "port": 1, "password": "t0ken"},
        {"host": "spark", "port": 1, "password": "t/o+k=e;n", "login": "me@example.com"},
        {"host": "spark", "port": 1, "extra": {"use_ssl": True}},
        {"host": "spark", "port": 1, "extra": {"use_ssl": False}},
        {"host": "spark", "port": 1, "login": "me", "password": "t", "extra": {"use_ssl": "true", "other": "x"}},
    ],
)
def test_spark_connect_is_reached_as_by_the_providers_hook(keep: Callable[..., None], fields: dict[str, Any]) -> None:
    """In Airflow and outside of it; compared as PySpark takes the address apart."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    keep("spark_default", "spark_connect", **{"extra": {}, **fields})
    in_airflow = resolve_spark_remote(SparkTarget(), resolve_connection)
    outside = resolve_spark_remote(SparkTarget(), lambda name: read_connection_from_env(name, os.environ))
    taken = [DefaultChannelBuilder(address) for address in (in_airflow, outside)]
    inside, own = [
        (builder.endpoint, builder.userId, builder.token, builder.secure, builder._params) for builder in taken
    ]
    lower = {"use_ssl": str(inside[4]["use_ssl"]).lower()} if "use_ssl" in inside[4] else {}
    assert (*inside[:4], {**inside[4], **lower}) == own
    assert (inside[1] or None, inside[2]) == (fields.get("login"), fields.get("password"))


def test_spark_connect_address_comes_from_the_hook_in_airflow(keep: Callable[..., None]) -> None:
    keep("spark_default", "spark_connect", {"use_ssl": True}, host="spark", port=1, password="t/n")
    assert resolve_spark_remote(SparkTarget(), resolve_connection) == "sc://spark:1/;token=t%2Fn;use_ssl=True"


def test_spark_connect_address_that_the_hook_refuses_is_one_sentence(keep: Callable[..., None]) -> None:
    keep("spark_default", "spark_connect", {}, host="sc://spark/path")
    with pytest.raises(ConfigurationError, match=r"^connection=spark_default: Spark Connect's hook cannot use it: Val"):
        resolve_spark_remote(SparkTarget(), resolve_connection)


def test_without_the_providers_the_same_fields_are_read(
    log_in: Callable[..., Any], keep: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`tidegate[all]` brings no Google provider, which has a hundred dependencies."""
    for name in ("google.common.hooks.base_google", "apache.spark.hooks.spark_connect"):
        monkeypatch.setitem(sys.modules, f"airflow.providers.{name}", None)
    credentials = log_in(keyfile_dict=build_key(), quota_project_id="payer-project")
    assert (credentials.service_account_email, credentials.quota_project_id) == (EMAIL, "payer-project")
    with pytest.raises(ConfigurationError, match="key_secret_name is understood by Airflow's Google provider only"):
        log_in(key_secret_name="x")
    keep("spark_default", "spark_connect", {"use_ssl": True}, host="spark", port=1)
    assert resolve_spark_remote(SparkTarget(), resolve_connection) == "sc://spark:1/;use_ssl=true"
