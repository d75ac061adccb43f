"""Owns how the servers of a stack make one Iceberg catalog: its properties, and the connection with its secrets."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local.lake import s3

PARTS = ("postgres", "rest", "s3")
CONNECTION = "lake"
VARIABLE = "AIRFLOW_CONN_LAKE"
ADDRESSES = {"postgres": "POSTGRES_URI", "rest": "REST_CATALOG_URI", "s3": "S3_ENDPOINT"}


@dataclass(frozen=True)
class Secrets:
    """The passwords and keys of one stack's servers; each stack gets new ones."""

    password: str
    access_key: str
    secret_key: str


def build_connection(parts: Collection[str], secrets: Secrets) -> dict[str, str]:
    """The Airflow connection `lake` by its environment variable: a database's login, an object store's keys."""
    connection: dict[str, Any] = {"conn_type": "generic"}
    if "postgres" in parts and "rest" not in parts:
        connection["login"], connection["password"] = "tidegate", secrets.password
    if "s3" in parts:
        keys = {"s3.access-key-id": secrets.access_key, "s3.secret-access-key": secrets.secret_key}
        connection["extra"] = keys
    return {VARIABLE: json.dumps(connection)} if len(connection) > 1 else {}


def name_variables(parts: Collection[str]) -> dict[str, str]:
    """For a stack that is not up yet: its variables, each as the place of its value in `catalogs.yaml`."""
    secrets = Secrets("", "", "")
    variables = [ADDRESSES[part] for part in parts if part in ADDRESSES] + list(build_connection(parts, secrets))
    return {name: f"${{{name}}}" for name in variables}


def resolve_properties(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What PyIceberg needs to open the catalog of a stack that is up, its secrets too."""
    properties: dict[str, str] = describe_catalog(variables, folder)["properties"]
    connection = json.loads(variables.get(VARIABLE, "{}"))
    if password := connection.get("password"):
        place = properties["uri"].partition("://")[2]
        properties["uri"] = f"postgresql+psycopg2://{connection['login']}:{password}@{place}"
    return {**properties, **connection.get("extra", {})}


def describe_catalog(variables: Mapping[str, str], folder: Path) -> dict[str, Any]:
    """The catalog's entry of `catalogs.yaml`, for the parts that a stack's variables name; what has no server is below
    `folder`.
    """
    properties = _describe_tables(variables, folder)
    if endpoint := variables.get("S3_ENDPOINT"):
        properties |= {"s3.endpoint": endpoint, "s3.region": s3.REGION}
    if properties["type"] == "sql":  # a REST catalog's server knows its own
        properties["warehouse"] = f"s3://{s3.BUCKET}/{folder.name}" if endpoint else f"file://{folder}/warehouse"
    entry: dict[str, Any] = {"type": "iceberg", "properties": properties}
    return {**entry, "connection": CONNECTION} if VARIABLE in variables else entry


def _describe_tables(variables: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Where the catalog keeps its table of tables."""
    if uri := variables.get("REST_CATALOG_URI"):
        return {"type": "rest", "uri": uri}
    if uri := variables.get("POSTGRES_URI"):
        return {"type": "sql", "uri": uri}
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db"}
