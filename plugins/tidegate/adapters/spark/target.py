"""Where Spark is: the address of a Connect server, or where to submit; a connection is read as Airflow's hooks do."""

import base64
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

from tidegate.adapters.server_probe import explain_address
from tidegate.connections import Connection, Resolve, name_variable, point_to_local_stack, require_connection
from tidegate.errors import ConfigurationError
from tidegate.settings import is_checkout
from tidegate.spec.runtime import SparkTarget

PROGRAM = "spark-submit"
LOCAL_SERVER = "; or run `make up` for a local server"


def resolve_spark_remote(spark: SparkTarget, resolve: Resolve, environ: Mapping[str, str] | None = None) -> str:
    """``sc://host:port``: the pipeline's own, its connection's, or `SPARK_REMOTE`. May hold a token: never log it."""
    remote = spark.remote
    if not remote and (connection := resolve(spark.connection)) is not None:
        remote = _build_address(connection)
    remote = remote or (os.environ if environ is None else environ).get("SPARK_REMOTE", "")
    if not remote:
        raise ConfigurationError(
            f"connection={spark.connection}: not found and SPARK_REMOTE is not set; create the connection in Airflow, "
            f"or set {name_variable(spark.connection)}, SPARK_REMOTE or the pipeline's spark.remote to sc://host:port"
            f"{LOCAL_SERVER if is_checkout() else ''}"
            f"{point_to_local_stack('SPARK_REMOTE')}"
        )
    if (problem := explain_address(remote)) is not None:
        raise ConfigurationError(f"{describe_spark_place(spark, resolve)}: {problem}")
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
    texts = {name: str(value).lower() if isinstance(value, bool) else value for name, value in parameters.items()}
    options = "".join(f";{name}={quote(str(text), safe='')}" for name, text in texts.items() if text not in (None, ""))
    return f"{address}/{options}" if options else address


@dataclass(frozen=True)
class SubmitTarget:
    """The master, further options of spark-submit, and the content of a keytab."""

    master: str
    options: tuple[str, ...] = ()
    keytab: bytes | None = field(default=None, repr=False)
    refusal: str = ""  # why a job cannot be submitted from here; in Airflow its operator submits


def read_submit_target(spark: SparkTarget, resolve: Resolve) -> SubmitTarget:
    """By the pipeline's own master, or by all of its connection. `ConfigurationError` for what cannot be done."""
    if spark.master:
        return SubmitTarget(spark.master)
    connection = require_submit_connection(spark.connection, resolve)
    extra = connection.extra
    host = connection.host or ""
    # of a URI, the type is the protocol: spark://host:7077; a form has the protocol in its host: k8s://https://host
    is_whole = connection.conn_type == "spark" and host and ("://" in host or not connection.port)
    master = host if is_whole else f"{connection.conn_type}://{host}"
    master = f"{master}:{connection.port}" if connection.port else master
    if (problem := explain_master(master)) is not None:
        raise ConfigurationError(f"connection={connection.id}: {problem}")
    options = list[str]()
    for name in ("principal", "queue"):
        options += [f"--{name}", str(extra[name])] if extra.get(name) else []
    if "k8s" in master and extra.get("namespace"):
        options += ["--conf", f"spark.kubernetes.namespace={extra['namespace']}"]
    try:
        keytab = base64.b64decode(extra["keytab"]) if extra.get("keytab") else None
    except (ValueError, TypeError):
        raise ConfigurationError(
            f"connection={connection.id}: its keytab is not in Base64; write what `base64 FILE` gives"
        ) from None
    refusal = ""
    if (program := extra.get("spark-binary") or PROGRAM) != PROGRAM:
        refusal = (
            f"connection={connection.id}: spark-binary={program} is understood in Airflow only; set SPARK_HOME to the "
            f"folder whose bin/{PROGRAM} shall run, and leave spark-binary out"
        )
    return SubmitTarget(master, tuple(options), keytab, refusal)


def require_submit_connection(conn_id: str, resolve: Resolve) -> Connection:
    """A connection that jobs can be submitted by: the hook would take YARN for one that is missing."""
    connection = require_connection(conn_id, resolve)
    mode = connection.extra.get("deploy-mode") or "client"
    if mode != "client":
        raise ConfigurationError(
            f"connection={conn_id}: deploy-mode={mode}: a job's driver must run where its step runs, because it leaves "
            "there why it failed; set deploy-mode to client"
        )
    if connection.extra.get("spark-home"):
        raise ConfigurationError(
            f"connection={conn_id}: spark-home is not taken, neither by Airflow; set SPARK_HOME instead"
        )
    return connection
