"""Names of topics and of tables that are files, by OpenLineage's naming rules, never with a login."""

from urllib.parse import urlsplit, urlunsplit

from tidegate.lineage.dataset import DatasetName

LOCAL_SCHEMES = ("", "file")
KEY_SCHEMES = ("s3", "gs", "abfss", "wasbs")  # what lies there has a key, which begins without a slash
SAME_SCHEMES = {"s3a": "s3", "s3n": "s3", "abfs": "abfss", "wasb": "wasbs"}
DEFAULT_BROKER_PORT = 9092


def name_broker_namespace(servers: str) -> str:
    """The namespace of topics, of ``bootstrap.servers``: the first address."""
    server = servers.split(",", maxsplit=1)[0].strip().rpartition("://")[2]
    has_port = server.rpartition(":")[2].isdecimal() and not server.endswith("]")
    return f"kafka://{server}" if has_port else f"kafka://{server}:{DEFAULT_BROKER_PORT}"


def name_iceberg_table(location: str, catalog_uri: str, identifier: str) -> DatasetName:
    """A table by where its files lie, as OpenLineage's own integration with Spark names it, and by its catalog."""
    parts = urlsplit(location)
    table = (name_catalog(catalog_uri), identifier)
    if parts.scheme in LOCAL_SCHEMES:
        return DatasetName("file", parts.path, table)
    scheme = SAME_SCHEMES.get(parts.scheme, parts.scheme)
    path = parts.path.lstrip("/") if scheme in KEY_SCHEMES else parts.path
    return DatasetName(f"{scheme}://{parts.netloc}", path, table)


def name_catalog(uri: str) -> str:
    """A catalog's address without login, options and driver."""
    parts = urlsplit(uri)
    if parts.scheme.startswith("sqlite"):
        return f"sqlite:{uri.partition(':')[2].partition('?')[0]}"
    return urlunsplit((parts.scheme.partition("+")[0], parts.netloc.rpartition("@")[2], parts.path, "", ""))
