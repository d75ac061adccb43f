"""An Iceberg catalog's settings for Java: an entry of catalogs.yaml with PyIceberg's, without secrets."""

import re
from collections.abc import Collection
from urllib.parse import parse_qsl, urlencode, urlsplit

from tidegate.config.destinations.registry import SPARK_DESTINATION
from tidegate.migration.draft import Draft, SettingsLedger
from tidegate.redaction import has_secret, is_secret_name

CATALOG_NAME_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
DERIVED = "Spark's side is derived from PyIceberg's properties"
SAME_NAMES = (
    "warehouse", "oauth2-server-uri", "scope", "audience", "resource", "s3.endpoint", "s3.region", "gcs.project-id",
    "adls.account-name", "rest.sigv4-enabled", "rest.signing-region", "rest.signing-name", "prefix",
)  # fmt: skip
RENAMED = {"client.region": "s3.region", "rest-sigv4-enabled": "rest.sigv4-enabled"}
UNNEEDED_SETTINGS = {
    "io-impl": DERIVED,
    "s3.path-style-access": f"{DERIVED}; with s3.endpoint paths are the default",
    "cache-enabled": "tables are loaded afresh",
    "cache.expiration-interval-ms": "tables are loaded afresh",
    "clients": "there is one client for each process",
    "jdbc.schema-version": f"{DERIVED}: V1",
    "jdbc.verifyServerCertificate": "put sslmode into the address",
    "header.X-Iceberg-Access-Delegation": "PyIceberg asks for vended credentials by itself",
    "s3.staging-dir": "files are written by Spark",
    "s3.preload-client-enabled": DERIVED,
    "lock-impl": "commits go through the catalog",
}
SECRET_NAMES = {
    "jdbc.user": "the database's user as login",
    "jdbc.password": "the database's password as password",
    "credential": "the credential as login and password (client id and secret)",
    "token": "the token as password",
}
WAYS_OUT = {
    "hive": "put a REST catalog before the Hive metastore, and name that in catalogs.yaml",
    "hadoop": "a Hadoop catalog has no atomic commit; register the tables in a SQL or REST catalog",
    "glue": "name Glue's own REST address: https://glue.<region>.amazonaws.com/iceberg, with rest.sigv4-enabled: true",
    "nessie": "name Nessie's own REST address: http://<host>/iceberg/<branch>",
    "dynamodb": "register the tables in a SQL or REST catalog",
    "snowflake": "name the REST address of the catalog (Polaris)",
}


def plan_catalog(
    ledger: SettingsLedger, draft: Draft, skipped_words: Collection[str] = (), kind_word: str = "type"
) -> None:
    """Fill the draft's catalog from its settings.

    `skipped_words` are no properties of the catalog; `kind_word` is the setting with the kind of catalog.
    """
    properties: dict[str, str] = {}
    draft.catalog |= {"type": SPARK_DESTINATION.name, "properties": properties}
    implementation = ledger.get("catalog-impl").rpartition(".")[2].removesuffix("Catalog")
    kind = (ledger.get(kind_word) or implementation).casefold()
    _plan_kind(ledger, draft, kind, kind_word)
    for word in ledger.list_names():
        if word not in (*skipped_words, kind_word, "catalog-impl", "uri"):
            _plan_property(ledger, draft, word)
    if any(note.id == name_catalog_connection(draft) for note in draft.connections):
        draft.catalog = {"type": draft.catalog["type"], "connection": name_catalog_connection(draft)} | draft.catalog


def name_catalog_connection(draft: Draft) -> str:
    return f"{draft.catalog_name.replace('-', '_')}_catalog"


def _plan_kind(ledger: SettingsLedger, draft: Draft, kind: str, kind_word: str) -> None:
    properties = draft.catalog["properties"]
    uri = ledger.get("uri")
    way_out = WAYS_OUT.get(kind, "use a REST or SQL catalog")
    for word in (kind_word, "catalog-impl"):
        if kind in ("rest", "jdbc"):
            ledger.map(word, "catalogs.yaml: properties.type")
        else:
            ledger.refuse(word, f"{kind or 'no type'}: {way_out}")
    if kind == "rest":
        properties["type"] = "rest"
        _plan_uri(ledger, draft, uri)
    elif kind == "jdbc":
        properties["type"] = "sql"
        _plan_uri(ledger, draft, _translate_jdbc(uri))
    else:
        properties |= {"type": "rest", "uri": "http://FILL-IN:8181"}
        shown = f"of type {kind or 'unknown'}"
        ledger.refuse("uri", f"the address of a catalog {shown}, which Spark and PyIceberg do not share")
        draft.catalog_comments[("properties",)] = f"FILL IN: the connector's catalog is {shown}; {way_out}."
        draft.to_fill_in.append(f"catalogs.yaml, {draft.catalog_name}.properties: the address of a REST or SQL catalog")


def _translate_jdbc(uri: str) -> str:
    plain = uri.removeprefix("jdbc:")
    if plain.startswith("sqlite:"):
        path = plain.removeprefix("sqlite:").partition("?")[0]
        return f"sqlite:///{path.removeprefix('file:')}"
    parts = urlsplit(plain)
    options = [(name, value) for name, value in parse_qsl(parts.query) if name not in ("user", "password")]
    query = f"?{urlencode(options)}" if options else ""
    return f"{parts.scheme}+psycopg2://{parts.netloc}{parts.path}{query}" if parts.scheme == "postgresql" else plain


def _plan_uri(ledger: SettingsLedger, draft: Draft, uri: str) -> None:
    if has_secret(uri) or "password=" in ledger.get("uri"):
        holds = "the log-in that the address holds, as login and password"
        draft.need_connection(name_catalog_connection(draft), holds)
        parts = urlsplit(uri)
        options = [
            (option, value)
            for option, value in parse_qsl(parts.query, keep_blank_values=True)
            if not (is_secret_name(option) or has_secret(f"?{option}={value}"))
        ]
        uri = parts._replace(netloc=parts.netloc.rpartition("@")[2], query=urlencode(options)).geturl()
    draft.catalog["properties"]["uri"] = escape_variables(uri)
    ledger.map("uri", "catalogs.yaml: properties.uri")


def _plan_property(ledger: SettingsLedger, draft: Draft, word: str) -> None:
    value = ledger.get(word)
    if word in SECRET_NAMES or is_secret_name(word) or word.endswith("access-key-id") or has_secret(value):
        holds = SECRET_NAMES.get(word, f"{word} in its extra")
        draft.need_connection(name_catalog_connection(draft), holds)
        ledger.map(word, "catalogs.yaml: connection", f"connection {name_catalog_connection(draft)} holds it")
    elif word in UNNEEDED_SETTINGS:
        ledger.drop(word, UNNEEDED_SETTINGS[word])
    elif word in SAME_NAMES or word in RENAMED:
        key = RENAMED.get(word, word)
        text = value.replace("s3a://", "s3://", 1) if key == "warehouse" else value
        draft.catalog["properties"][key] = escape_variables(text)
        ledger.map(word, f"catalogs.yaml: properties.{key}")
    else:
        problem = (
            "a property of Java's catalog; if PyIceberg has one for the same (py.iceberg.apache.org/configuration)"
        )
        ledger.refuse(word, f"{problem}, add it to the properties of {draft.catalog_name}")


def escape_variables(text: str) -> str:
    """Escape ``${file:...}`` of the connector's config providers: it is no variable of catalogs.yaml."""
    return text.replace("${", "$${")


def choose_catalog_name(wanted_name: str) -> str:
    """A catalog's name as catalogs.yaml accepts it."""
    return wanted_name if CATALOG_NAME_PATTERN.fullmatch(wanted_name) and wanted_name != "spark_catalog" else "lake"
