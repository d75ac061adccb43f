"""PyIceberg's REST catalog, which waits for an answer as long as it is told to: its own waits for ever."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from traceback import clear_frames
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from pyiceberg.utils.config import Config, merge_config

TIMEOUTS = (
    "rest.client.connection-timeout-ms",
    "rest.client.socket-timeout-ms",
)  # in the words of Iceberg's Java client


class PatientRestCatalog(RestCatalog):
    """Gives up a request, to the catalog or for a token, by the timeouts among its properties."""

    def _config_headers(self, session: Any) -> None:
        """What every session of the catalog passes before its first request."""
        super()._config_headers(session)
        connect, read = (float(self.properties[name]) / 1000 if name in self.properties else None for name in TIMEOUTS)
        session.request = partial(session.request, timeout=(connect, read))

    def load_table(self, identifier: str | Identifier) -> Table:
        """See PyIceberg: a table that is not there is an error, and usual."""
        with _forget_frames():
            table: Table = super().load_table(identifier)
        return table

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """See PyIceberg: a commit that another one has overtaken is an error, and usual."""
        with _forget_frames():
            answer: CommitTableResponse = super().commit_table(table, requirements, updates)
        return answer


@contextmanager
def _forget_frames() -> Iterator[None]:
    """Let an error hold no values of the calls that it came through.

    PyIceberg's retries keep the error, and the error keeps them by its traceback. So all callers' values, with the
    Kafka client of their flush, would stay until Python's collector comes.
    """
    try:
        yield
    except Exception as error:
        for exception in (error, error.__cause__, error.__context__):
            if exception is not None:
                clear_frames(exception.__traceback__)
        raise


def open_rest_catalog(name: str, properties: dict[str, Any]) -> RestCatalog:
    """The catalog with these properties and, below them, those of PyIceberg's own configuration."""
    texts: dict[str, Any] = {key: str(value) for key, value in properties.items()}
    catalog_properties: dict[str, Any] = merge_config(Config().get_catalog_config(name) or {}, texts)
    return PatientRestCatalog(name, **catalog_properties)
