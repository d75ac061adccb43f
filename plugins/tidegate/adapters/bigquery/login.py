"""Who asks BigQuery, and how: what a Google connection says, read as Airflow's own hook reads it."""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tidegate.connections import Connection, Resolve, require_connection
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Catalog

DEFAULT_CONNECTION = "google_cloud_default"
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
WAYS = ("keyfile_dict", "key_path", "is_anonymous")
# the provider has the code for these; without a refusal another identity would act
PROVIDERS_OWN_WAYS = ("key_secret_name", "credential_config_file", "idp_issuer_url")
LEGACY_EXTRA_PREFIX = "extra__google_cloud_platform__"  # how older versions of Airflow named what they kept


class Login:
    """What Google's clients need beside the project, which is the catalog's."""

    def __init__(self, catalog: Catalog, resolve: Resolve) -> None:
        self._catalog = catalog
        self._resolve = resolve

    @cached_property
    def _connection(self) -> Connection:
        # the catalog's connection, else Airflow's default one, else application default credentials
        if self._catalog.connection:
            return require_connection(self._catalog.connection, self._resolve)
        if self._catalog.properties.get("endpoint"):
            return Connection(DEFAULT_CONNECTION)
        return self._resolve(DEFAULT_CONNECTION) or Connection(DEFAULT_CONNECTION)

    @cached_property
    def credentials(self) -> Any:
        from google.auth.credentials import AnonymousCredentials

        identities = (*WAYS, *PROVIDERS_OWN_WAYS, "impersonation_chain")
        has_identity = any(_get_extra(self._connection, name) for name in identities)
        # a test server asks for no identity, and the machine may have none
        if self._catalog.properties.get("endpoint") and not has_identity:
            return AnonymousCredentials()
        hooks = self._connection.hooks
        return (hooks and hooks.get_google_credentials()) or _build_credentials(self._connection)

    @property
    def location(self) -> str | None:
        location = self._catalog.properties.get("location") or _get_extra(self._connection, "location")
        return location and str(location)

    @property
    def labels(self) -> dict[str, str]:
        labels = _get_extra(self._connection, "labels") or {}
        try:
            decoded = json.loads(labels) if isinstance(labels, str) else labels
            return {str(name): str(value) for name, value in decoded.items()}
        except (ValueError, AttributeError):
            raise ConfigurationError(
                f'connection={self._connection.id}: labels={labels}: no JSON object; write it like {{"team": "shop"}}'
            ) from None

    @property
    def num_retries(self) -> int | None:
        """How often a request is tried again; None without a limit beside that of time."""
        text = _get_extra(self._connection, "num_retries")
        try:
            return None if text is None else int(text)
        except (ValueError, TypeError):
            raise ConfigurationError(
                f"connection={self._connection.id}: num_retries={text}: no whole number; correct it"
            ) from None


def _build_credentials(connection: Connection) -> Any:
    import google.auth
    from google.auth.credentials import AnonymousCredentials

    for name in PROVIDERS_OWN_WAYS:
        if _get_extra(connection, name):
            raise ConfigurationError(
                f"connection={connection.id}: {name} is understood by Airflow's Google provider only; give "
                "keyfile_dict or key_path, or neither and let the machine's own identity be impersonated "
                "(impersonation_chain)"
            )
    ways = [name for name in WAYS if _get_extra(connection, name)]
    if len(ways) > 1:
        raise ConfigurationError(f"connection={connection.id}: {', '.join(ways)}: each is an identity; keep one")
    if "is_anonymous" in ways:
        return AnonymousCredentials()
    scopes = _split(_get_extra(connection, "scope")) or SCOPES
    credentials = _load_key(connection, scopes) if ways else google.auth.default(scopes=scopes)[0]
    if chain := _split(_get_extra(connection, "impersonation_chain")):
        from google.auth import impersonated_credentials

        credentials = impersonated_credentials.Credentials(
            source_credentials=credentials, target_principal=chain[-1], delegates=chain[:-1], target_scopes=scopes
        )
    payer = _get_extra(connection, "quota_project_id")
    return credentials.with_quota_project(payer) if payer else credentials


def _load_key(connection: Connection, scopes: Sequence[str]) -> Any:
    from google.oauth2.service_account import Credentials

    key = _get_extra(connection, "keyfile_dict")
    try:
        if not key:
            return Credentials.from_service_account_file(_get_extra(connection, "key_path"), scopes=scopes)
        content = json.loads(key) if isinstance(key, str) else key
        private_key = content["private_key"].replace("\\n", "\n")  # as it comes out of some forms
        return Credentials.from_service_account_info({**content, "private_key": private_key}, scopes=scopes)
    except (ValueError, OSError, KeyError, TypeError, AttributeError):
        # the fault's own text may quote the key: it must not become this error's cause
        raise ConfigurationError(
            f"connection={connection.id}: its keyfile_dict or key_path holds no service account's key; correct it"
        ) from None


def _get_extra(connection: Connection, name: str) -> Any:
    value = connection.extra.get(name, connection.extra.get(LEGACY_EXTRA_PREFIX + name))
    return None if value == "" else value


def _split(names: str | Sequence[str] | None) -> list[str]:
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names or ())
