"""Who asks BigQuery: each field of a Google connection acts, or is refused; none is overlooked."""

import json
from pathlib import Path
from typing import Any

import pytest
from google.auth.credentials import AnonymousCredentials
from google_keys import build_key
from tidegate.adapters.bigquery.login import DEFAULT_CONNECTION, Login
from tidegate.connections import Connection, read_connection_from_env
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Catalog

SCOPE = "https://www.googleapis.com/auth/cloud-platform"


def build_catalog(connection: str | None = None, **properties: Any) -> Catalog:
    return Catalog("dwh", "bigquery", {"project": "p", **properties}, connection)


def log_in(**extra: Any) -> Any:
    return Login(build_catalog("gcp"), lambda _: Connection("gcp", extra=extra)).credentials


def refuse_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("google.auth.default", lambda scopes: pytest.fail("it would act as the machine"))


@pytest.mark.parametrize("name", ["is_anonymous", "extra__google_cloud_platform__is_anonymous"])
def test_anonymous_connection_does_not_act_as_the_machine(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_machine(monkeypatch)
    assert type(log_in(**{name: True})) is AnonymousCredentials


def test_anonymous_connection_in_airflows_uri_form_does_not_act_as_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_machine(monkeypatch)
    environ = {"AIRFLOW_CONN_GCP": "google-cloud-platform://?is_anonymous=true"}
    login = Login(build_catalog("gcp"), lambda name: read_connection_from_env(name, environ))
    assert type(login.credentials) is AnonymousCredentials


def test_key_acts_with_the_connections_scopes_and_quota_project(tmp_path: Path) -> None:
    key = build_key()
    file = tmp_path / "key.json"
    file.write_text(json.dumps(key))
    escaped = {**key, "private_key": key["private_key"].replace("\n", "\\n")}  # as Airflow's form may keep it
    for form in (
        {"keyfile_dict": key},
        {"keyfile_dict": json.dumps(key)},
        {"keyfile_dict": escaped},
        {"key_path": str(file)},
    ):
        plain, narrow = log_in(**form), log_in(**form, scope="a, b", quota_project_id="payer")
        assert (plain.service_account_email, plain.scopes, plain.quota_project_id) == (
            key["client_email"],
            (SCOPE,),
            None,
        )
        assert (narrow.scopes, narrow.quota_project_id) == (["a", "b"], "payer")


@pytest.mark.parametrize("name", ["keyfile_dict", "extra__google_cloud_platform__keyfile_dict"])
def test_a_connections_broken_key_is_refused_without_showing_it(name: str) -> None:
    with pytest.raises(ConfigurationError) as error_info:
        log_in(**{name: build_key() | {"private_key": "not a key"}})
    assert "connection=gcp" in str(error_info.value)
    assert "not a key" not in str(error_info.value)
    assert error_info.value.__cause__ is None


@pytest.mark.parametrize("name", ["key_secret_name", "credential_config_file", "idp_issuer_url"])
def test_a_way_to_log_in_that_only_airflow_knows_is_refused_and_not_overlooked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_machine(monkeypatch)
    with pytest.raises(
        ConfigurationError,
        match=f"connection=gcp: {name} is understood by Airflow's Google provider only; ",
    ):
        log_in(**{name: "x"})


def test_two_ways_to_log_in_are_refused_as_in_airflow() -> None:
    with pytest.raises(ConfigurationError, match=r"connection=gcp: keyfile_dict, is_anonymous: .*keep one"):
        log_in(keyfile_dict=build_key(), is_anonymous=True)


def test_without_a_connection_the_machine_says_who_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("google.auth.default", lambda scopes: ("the machine", "p"))
    assert Login(build_catalog(), lambda _: None).credentials == "the machine"
    assert DEFAULT_CONNECTION == "google_cloud_default"


def test_the_last_account_of_a_chain_acts_and_those_before_it_pass_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("google.auth.default", lambda scopes: (AnonymousCredentials(), "p"))
    credentials = log_in(impersonation_chain="one@x, two@x", scope="a", quota_project_id="payer")
    assert (credentials._target_principal, credentials._delegates) == ("two@x", ["one@x"])
    assert (credentials._target_scopes, credentials.quota_project_id) == (["a"], "payer")


def test_a_test_server_is_asked_without_an_identity_unless_its_connection_names_one() -> None:
    login = Login(build_catalog(endpoint="http://localhost:1"), lambda _: pytest.fail("no connection is needed"))
    assert type(login.credentials) is AnonymousCredentials
    key = build_key()
    named = build_catalog("gcp", endpoint="http://localhost:1")
    login = Login(named, lambda _: Connection("gcp", extra={"num_retries": 1}))
    assert (type(login.credentials), login.num_retries) == (AnonymousCredentials, 1)
    login = Login(named, lambda _: Connection("gcp", extra={"keyfile_dict": key}))
    assert login.credentials.service_account_email == key["client_email"]


def test_location_labels_and_retries_of_a_connection_reach_the_requests() -> None:
    extra = {"is_anonymous": True, "location": "EU", "num_retries": "2", "labels": '{"team": "shop"}'}
    login = Login(build_catalog("gcp"), lambda _: Connection("gcp", extra=extra))
    assert (login.location, login.num_retries, login.labels) == ("EU", 2, {"team": "shop"})
    login = Login(build_catalog("gcp"), lambda _: Connection("gcp", extra={"is_anonymous": True}))
    assert (login.location, login.num_retries, login.labels) == (None, None, {})


@pytest.mark.parametrize(("name", "value"), [("num_retries", "many"), ("labels", "[1]"), ("labels", "team=shop")])
def test_a_field_that_cannot_be_read_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=f"connection=gcp: {name}="):
        getattr(Login(build_catalog("gcp"), lambda _: Connection("gcp", extra={name: value})), name)
