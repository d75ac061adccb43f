"""Where jobs are submitted to: what a Spark connection says, read as the `SparkSubmitHook` of Airflow reads it."""

import base64
from dataclasses import dataclass, field

from tidegate.adapters.spark.remote_address import explain_master
from tidegate.connections import Connection, Resolve, require_connection
from tidegate.errors import ConfigurationError
from tidegate.spec.runtime import SparkTarget

PROGRAM = "spark-submit"


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
    master = _build_master(connection)
    if (problem := explain_master(master)) is not None:
        raise ConfigurationError(f"connection={connection.id}: {problem}")
    options = list[str]()
    for name in ("principal", "queue"):
        options += [f"--{name}", str(extra[name])] if extra.get(name) else []
    if "k8s" in master and extra.get("namespace"):
        options += ["--conf", f"spark.kubernetes.namespace={extra['namespace']}"]
    return SubmitTarget(master, tuple(options), _decode_keytab(connection), _refuse_program(connection))


def _refuse_program(connection: Connection) -> str:
    program = connection.extra.get("spark-binary") or PROGRAM
    if program == PROGRAM:
        return ""
    return (
        f"connection={connection.id}: spark-binary={program} is understood in Airflow only; set SPARK_HOME to the "
        f"folder whose bin/{PROGRAM} shall run, and leave spark-binary out"
    )


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


def _build_master(connection: Connection) -> str:
    host = connection.host or ""
    # of a URI, the type is the protocol: spark://host:7077; a form has the protocol in its host: k8s://https://host
    is_whole = connection.conn_type == "spark" and host and ("://" in host or not connection.port)
    master = host if is_whole else f"{connection.conn_type}://{host}"
    return f"{master}:{connection.port}" if connection.port else master


def _decode_keytab(connection: Connection) -> bytes | None:
    text = connection.extra.get("keytab")
    try:
        return base64.b64decode(text) if text else None
    except (ValueError, TypeError):
        raise ConfigurationError(
            f"connection={connection.id}: its keytab is not in Base64; write what `base64 FILE` gives"
        ) from None
