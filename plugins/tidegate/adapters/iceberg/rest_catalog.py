"""PyIceberg's REST catalog, which waits for an answer as long as it is told to: its own waits for ever."""

from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
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


def open_rest_catalog(name: str, properties: dict[str, Any]) -> RestCatalog:
    """The catalog with these properties and, below them, those of PyIceberg's own configuration."""
    given: dict[str, Any] = {key: str(value) for key, value in properties.items()}
    merged: dict[str, Any] = merge_config(Config().get_catalog_config(name) or {}, given)
    return PatientRestCatalog(name, **merged)
