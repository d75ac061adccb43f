"""Airflow's connections as the core knows them, and how the hooks of Airflow's providers read one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException
from tidegate.connections import Connection, build_unreadable_variable_error, parse_extra
from tidegate.errors import ConfigurationError, RetryLater


def resolve_connection(conn_id: str) -> Connection | None:
    """Return the connection wherever Airflow keeps it, None if there is none.

    `RetryLater` if that is unknown now, `ConfigurationError` if it is kept and cannot be read.
    """
    from airflow.exceptions import AirflowNotFoundException
    from airflow.sdk import Connection as AirflowConnection

    try:
        connection = AirflowConnection.get(conn_id)
    except AirflowNotFoundException:
        _require_missing(conn_id)
        return None
    except PermissionError:
        raise RetryLater(
            f"connection={conn_id}: Airflow's API server denies it to this task; give it to the task's team, or name "
            "another one"
        ) from None
    # Airflow gives an empty object for what it cannot decode, and what is no object as it is
    try:
        extra = parse_extra(connection.extra)
    except (ValueError, TypeError):  # the fault's own text quotes the value
        raise ConfigurationError(
            f'connection={conn_id}: its extra is no JSON object; correct it, like {{"security.protocol": "SSL"}}'
        ) from None
    connection.extra_dejson  # noqa: B018 (it hides the secrets in logs, each by its name)
    return Connection(
        id=conn_id,
        conn_type=connection.conn_type,
        host=connection.host,
        port=connection.port,
        login=connection.login,
        password=connection.password,
        schema=connection.schema,
        extra=extra,
        hooks=AirflowHooks(conn_id),
    )


def _require_missing(conn_id: str) -> None:
    from airflow.secrets.environment_variables import EnvironmentVariablesBackend

    try:
        from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded
    except ImportError:  # not a part of Airflow's public interface
        return
    # if one does not answer, Airflow asks the next, and says in the end that there is no such connection
    for backend in ensure_secrets_backend_loaded():
        try:
            is_found = _ask(backend, conn_id)
        except RetryLater:
            raise
        except Exception as fault:  # its text may quote a secret
            if isinstance(backend, EnvironmentVariablesBackend):
                raise build_unreadable_variable_error(conn_id) from None
            place = type(backend).__name__
            raise RetryLater(
                f"connection={conn_id}: {place}, where Airflow keeps it, cannot be read: {type(fault).__name__}; see "
                "whether it answers, and whether the key is the one that it was written with"
            ) from None
        if is_found:
            raise RetryLater(f"connection={conn_id}: Airflow did not return it at first; it is asked for again")


def _ask(backend: Any, conn_id: str) -> Any:
    from airflow.sdk.execution_time.secrets import ExecutionAPISecretsBackend

    if isinstance(backend, ExecutionAPISecretsBackend):
        return _ask_api_server(conn_id)
    connection = backend.get_connection(conn_id=conn_id)
    if connection:
        connection.get_uri()  # a password is decrypted when it is used
    return connection


def _ask_api_server(conn_id: str) -> Any:
    # through the task's supervisor; the server may be away, or without its database
    from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType
    from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    try:
        answer: Any = SUPERVISOR_COMMS.send(GetConnection(conn_id=conn_id))
    except AirflowRuntimeError as api_error:
        answer = api_error.error
    if not isinstance(answer, ErrorResponse):
        return answer
    if answer.error == ErrorType.CONNECTION_NOT_FOUND:
        return None
    detail = answer.detail or {}
    status = detail.get("status_code")
    kind = detail.get("exception_type", answer.error)
    reason = f"status={status}" if status else kind
    raise RetryLater(
        f"connection={conn_id}: Airflow's API server did not return it: {reason}; see that server's log, and whether "
        "its database answers"
    )


@dataclass(frozen=True)
class AirflowHooks:
    """`ProviderHooks` of one connection. A hook is imported when it is asked: Google's takes most of a second."""

    conn_id: str

    def get_google_credentials(self) -> Any | None:
        """The credentials of any operator of Google's with this connection. Google's own errors pass."""
        try:
            from airflow.providers.google.common.hooks.base_google import GoogleBaseHook
        except ImportError:
            return None
        with self._translate_errors("Google's hook"):
            return GoogleBaseHook(gcp_conn_id=self.conn_id).get_credentials()

    def get_spark_connect_url(self) -> str | None:
        try:
            from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
        except ImportError:
            return None
        with self._translate_errors("Spark Connect's hook"):
            address, slash, parameters = SparkConnectHook(self.conn_id).get_connection_url().partition("/;")
        # the hook leaves a slash in a token as it is, and PySpark takes what follows for a path
        return f"{address}{slash}{parameters.replace('/', '%2F')}"

    @contextmanager
    def _translate_errors(self, hook: str) -> Iterator[None]:
        try:
            yield
        except AirflowNotFoundException:
            raise RetryLater(
                f"connection={self.conn_id}: Airflow did not return it a second time; it is asked for again"
            ) from None
        # the fault's own text may quote a key: only Airflow's is shown
        except (AirflowException, ValueError, TypeError, KeyError, FileNotFoundError, PermissionError) as fault:
            reason = str(fault) if isinstance(fault, AirflowException) else type(fault).__name__
            raise ConfigurationError(
                f"connection={self.conn_id}: {hook} cannot use it: {reason}; correct it in Airflow"
            ) from None
