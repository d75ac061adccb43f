"""Finds the address of the Spark Connect server."""

import os
from collections.abc import Mapping
from urllib.parse import quote

from tidegate.adapters.server_probe import explain_address
from tidegate.connections import Connection, Resolve, name_variable, point_to_local_stack
from tidegate.errors import ConfigurationError
from tidegate.spec.runtime import SparkTarget


def resolve_spark_remote(spark: SparkTarget, resolve: Resolve, environ: Mapping[str, str] | None = None) -> str:
    """``sc://host:port``: the pipeline's own, its connection's, or `SPARK_REMOTE`. May hold a token: never log it."""
    remote = _find_remote(spark, resolve, environ)
    if (problem := explain_address(remote)) is not None:
        raise ConfigurationError(f"{describe_spark_place(spark, resolve)}: {problem}")
    return remote


def _find_remote(spark: SparkTarget, resolve: Resolve, environ: Mapping[str, str] | None) -> str:
    if spark.remote:
        return spark.remote
    connection = resolve(spark.connection)
    if connection is not None:
        return _build_address(connection)
    remote = (os.environ if environ is None else environ).get("SPARK_REMOTE", "")
    if not remote:
        raise ConfigurationError(
            f"connection={spark.connection}: not found and SPARK_REMOTE is not set; run `make up` for a local server, "
            f"or set {name_variable(spark.connection)}, SPARK_REMOTE or the pipeline's spark.remote to sc://host:port"
            f"{point_to_local_stack('SPARK_REMOTE')}"
        )
    return remote


def describe_spark_place(spark: SparkTarget, resolve: Resolve) -> str:
    if spark.remote:
        return "spark.remote of the file"
    return f"connection={spark.connection}" if resolve(spark.connection) is not None else "SPARK_REMOTE"


def explain_master(master: str) -> str | None:
    """Why no master of a standalone cluster can be there, with the way out; None for others."""
    addresses = master.removeprefix("spark://").split(",") if master.startswith("spark://") else []
    problems = (explain_address(address, needs_port=True) for address in addresses)
    return next((problem for problem in problems if problem is not None), None)


def _build_address(connection: Connection) -> str:
    if connection.conn_type != "spark_connect":
        raise ConfigurationError(
            f"connection={connection.id} conn_type={connection.conn_type}: mode connect needs the type spark_connect; "
            "change it, or set spark.mode: submit"
        )
    if not connection.host:
        raise ConfigurationError(f"connection={connection.id}: no host; set it to sc://host and the port beside it")
    if connection.hooks and (url := connection.hooks.get_spark_connect_url()):
        return url
    host = connection.host if "://" in connection.host else f"sc://{connection.host}"
    address = f"{host}:{connection.port}" if connection.port else host
    parameters = {"user_id": connection.login, "token": connection.password, "use_ssl": connection.extra.get("use_ssl")}
    options = "".join(
        f";{name}={quote(_format_value(value), safe='')}"
        for name, value in parameters.items()
        if value is not None and value != ""
    )
    return f"{address}/{options}" if options else address


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
