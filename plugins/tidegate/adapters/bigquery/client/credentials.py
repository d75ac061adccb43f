"""Which identity Tidegate uses on Google Cloud: that of an Airflow connection, of the machine, or none on a test
server.
"""

import json
from typing import Any

from tidegate.connections import Connection, Resolve, require_connection
from tidegate.errors import ConfigurationError
from tidegate.spec.catalog import Catalog

DEFAULT_CONNECTION = "google_cloud_default"
SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
# Airflow's other ways to log in: without a refusal another identity would be used
UNSUPPORTED_EXTRAS = ("key_secret_name", "credential_config_file", "idp_issuer_url")
LEGACY_EXTRA_PREFIX = "extra__google_cloud_platform__"  # how older versions of Airflow named what they kept


def build_credentials(catalog: Catalog, resolve: Resolve) -> Any:
    """Credentials for a catalog. `endpoint` means a test server, which asks for none.

    The connection's keyfile_dict or key_path, else application default credentials; then the connection's
    impersonation_chain, whose last account is the one that acts.
    """
    import google.auth
    from google.auth.credentials import AnonymousCredentials

    if catalog.properties.get("endpoint"):
        return AnonymousCredentials()
    connection = require_connection(catalog.connection, resolve) if catalog.connection else resolve(DEFAULT_CONNECTION)
    source = _load_key_credentials(connection) if connection else None
    if source is None:
        source, _ = google.auth.default(scopes=SCOPES)
    chain = _get_extra(connection, "impersonation_chain") if connection else None
    return _impersonate(source, chain) if chain else source


def _load_key_credentials(connection: Connection) -> Any:
    from google.oauth2 import service_account

    key = _get_extra(connection, "keyfile_dict")
    path = _get_extra(connection, "key_path")
    for name in UNSUPPORTED_EXTRAS:
        if _get_extra(connection, name):
            raise ConfigurationError(
                f"connection={connection.id}: {name} is not taken for BigQuery catalogs; give keyfile_dict or "
                "key_path, or neither and let the machine's own identity be impersonated (impersonation_chain)"
            )
    try:
        if key:
            content = json.loads(key) if isinstance(key, str) else key
            return service_account.Credentials.from_service_account_info(content, scopes=SCOPES)
        if path:
            return service_account.Credentials.from_service_account_file(path, scopes=SCOPES)
    except (ValueError, OSError):  # the fault's own text may quote the key: it must not become this error's cause
        raise ConfigurationError(
            f"connection={connection.id}: its keyfile_dict or key_path holds no service account's key; correct it"
        ) from None
    return None


def _get_extra(connection: Connection, name: str) -> Any:
    return connection.extra.get(name) or connection.extra.get(LEGACY_EXTRA_PREFIX + name)


def _impersonate(source: Any, chain: str | list[str]) -> Any:
    from google.auth import impersonated_credentials

    accounts = [a.strip() for a in chain.split(",")] if isinstance(chain, str) else list(chain)
    return impersonated_credentials.Credentials(
        source_credentials=source, target_principal=accounts[-1], delegates=accounts[:-1], target_scopes=SCOPES
    )
