"""How Airflow's own hooks read a connection: who logs in to Google, and where Spark Connect answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException
from tidegate.errors import ConfigurationError, RetryLater


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
