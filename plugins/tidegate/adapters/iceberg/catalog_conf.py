"""Derives Spark's settings of a catalog from PyIceberg's, so that both write into the very same table."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from tidegate.connections import Resolve, require_connection
from tidegate.errors import ConfigurationError
from tidegate.spec.pipeline import Catalog

# Words that only PyIceberg understands.
PYICEBERG_ONLY_PREFIXES = (
    "py-",
    "echo",
    "pool_pre_ping",
    "init_catalog_tables",
    "downcast-ns-timestamp",
    "s3.force-virtual",
)
# Connections live as long as the server: of these answers of PostgreSQL, to a session that it has ended, Iceberg would
# not connect again. It has not run the statement, or has undone it.
RECONNECT_SQLSTATES = "57P01,57P02,57P03,57P05"
CLIENT_CREDENTIALS = ("access-key-id", "secret-access-key", "session-token")  # PyIceberg has them as client.*, too
DELEGATION_HEADER = "header.X-Iceberg-Access-Delegation"
# Iceberg's words for how long a REST catalog is waited for. Without them a server that took a connection and says
# nothing would keep a flush for ever; a commit of a large table may take a server a minute.
REST_TIMEOUTS_MS = {"rest.client.connection-timeout-ms": "30000", "rest.client.socket-timeout-ms": "120000"}
# The same for PostgreSQL. A peer that is gone without a word is noticed by libpq's keep-alives and by data that nobody
# acknowledges; JDBC's driver also gives up one that is there and does not answer. It waits 10 s for a connection.
LIBPQ_TIMEOUTS = {
    "connect_timeout": "30",  # seconds, as the next two
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "9",
    "tcp_user_timeout": "120000",  # milliseconds
}
JDBC_TIMEOUTS = {"jdbc.socketTimeout": "120", "jdbc.tcpKeepAlive": "true"}  # seconds
BUSY_TIMEOUT_MS = 30_000  # how long SQLite's second writer waits; its own default gives up at once


def resolve_catalog_properties(catalog: Catalog, resolve: Resolve) -> dict[str, str]:
    """PyIceberg's properties with the connection's secrets. Never log them."""
    properties = {name: str(value) for name, value in catalog.properties.items()}
    if catalog.connection is not None:
        connection = require_connection(catalog.connection, resolve)
        properties |= {name: str(value) for name, value in connection.extra.items()}
        if properties.get("type") == "sql" and connection.login:
            parts = urlsplit(properties["uri"])
            secret = f":{quote(connection.password, safe='')}" if connection.password else ""
            place = f"{quote(connection.login, safe='')}{secret}@{parts.netloc.rpartition('@')[2]}"
            properties["uri"] = parts._replace(netloc=place).geturl()
        elif properties.get("type") == "rest" and connection.login:
            properties.setdefault("credential", f"{connection.login}:{connection.password or ''}")
        elif properties.get("type") == "rest" and connection.password:
            properties.setdefault("token", connection.password)
    if properties.get("type") == "rest":
        return REST_TIMEOUTS_MS | properties
    if properties.get("uri", "").startswith("postgresql"):
        parts = urlsplit(properties["uri"])
        given = dict(parse_qsl(parts.query, keep_blank_values=True))
        missing = {name: value for name, value in LIBPQ_TIMEOUTS.items() if name not in given}
        query = "&".join(filter(None, (parts.query, urlencode(missing))))
        properties["uri"] = parts._replace(query=query).geturl()
    return properties


def build_spark_catalog_conf(catalog: Catalog, properties: Mapping[str, Any]) -> dict[str, str]:
    """Spark's settings of `catalog`, from `resolve_catalog_properties`. Never log them."""
    settings = {name: str(value) for name, value in properties.items() if not name.startswith(PYICEBERG_ONLY_PREFIXES)}
    kind = settings.get("type")
    if kind not in ("sql", "rest"):
        raise ConfigurationError(
            f"catalog={catalog.name} type={kind}: only sql and rest have settings for Spark; use one of them"
        )
    if kind == "sql":
        catalog_settings = _to_jdbc_conf(settings["uri"])
    else:
        # PyIceberg asks for keys to a table's files unasked; a server may give none without this header
        is_chosen = any(name.lower() == DELEGATION_HEADER.lower() for name in settings)
        catalog_settings = {} if is_chosen else {DELEGATION_HEADER: "vended-credentials"}
    words = settings | catalog_settings | _to_s3_conf(properties)
    words.setdefault("cache-enabled", "false")  # a cached table would hide the branch that PyIceberg has just cut
    if words.get("uri", "").startswith("jdbc:postgresql:"):
        words = JDBC_TIMEOUTS | {"retryable_status_codes": RECONNECT_SQLSTATES} | words
    prefix = f"spark.sql.catalog.{catalog.name}"
    return {prefix: "org.apache.iceberg.spark.SparkCatalog"} | {f"{prefix}.{n}": v for n, v in sorted(words.items())}


def _to_jdbc_conf(uri: str) -> dict[str, str]:
    # V1 is the table layout that PyIceberg writes
    shared = {"type": "jdbc", "jdbc.schema-version": "V1"}
    if uri.startswith("sqlite"):
        return shared | {"uri": f"jdbc:sqlite:{find_sqlite_file(uri)}?busy_timeout={BUSY_TIMEOUT_MS}"}
    parts = urlsplit(uri)
    options = {name: value for name, value in parse_qsl(parts.query) if name not in LIBPQ_TIMEOUTS}
    place = parts.netloc.rpartition("@")[2] + parts.path
    words = shared | {"uri": f"jdbc:postgresql://{place}" + (f"?{urlencode(options)}" if options else "")}
    login = {"jdbc.user": parts.username, "jdbc.password": parts.password}
    return words | {name: unquote(value) for name, value in login.items() if value}


def find_sqlite_file(uri: str) -> str:
    """The path in a catalog's address, whose escapes SQLAlchemy reads as those of the web."""
    return unquote(uri.partition(":///")[2].partition("?")[0])


def _to_s3_conf(properties: Mapping[str, Any]) -> dict[str, str]:
    settings = {name: str(value) for name, value in properties.items()}
    in_s3 = settings.get("warehouse", "").startswith(("s3://", "s3a://"))
    # a REST catalog's warehouse is often a name: then settings for S3 tell where the files are
    if not in_s3 and not any(name.startswith("s3.") for name in settings):
        return {}
    words = {"io-impl": settings.get("io-impl", "org.apache.iceberg.aws.s3.S3FileIO")} if in_s3 else {}
    unified = {name: settings[f"client.{name}"] for name in CLIENT_CREDENTIALS if f"client.{name}" in settings}
    words |= {f"s3.{name}": value for name, value in unified.items() if f"s3.{name}" not in settings}
    if region := settings.get("client.region", settings.get("s3.region")):
        words["client.region"] = region
    if "s3.endpoint" in settings and "s3.path-style-access" not in settings:
        virtual = settings.get("s3.force-virtual-addressing", "false").lower() == "true"
        words["s3.path-style-access"] = "false" if virtual else "true"
    return words
