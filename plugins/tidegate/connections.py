"""Reads the addresses and secrets of the systems on a record's way, as Airflow would, from the environment."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from tidegate.errors import ConfigurationError
from tidegate.redaction import SECRET_MASK, mask_addresses, mask_secrets
from tidegate.settings import find_local_stack, format_path

SCHEME_PATTERN = re.compile(r"^([A-Za-z][A-Za-z0-9+._-]*)://")
PROTOCOL_PATTERN = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*://")
ACCEPTED_FORMS = (
    'write Airflow\'s JSON form {"conn_type": ...} or its URI form type://login:password@host:port/schema?key=value'
)


class ProviderHooks(Protocol):
    """What the hooks of Airflow's providers make of a connection; None without the provider. Answers are secrets."""

    def get_google_credentials(self) -> Any | None: ...

    def get_spark_connect_url(self) -> str | None: ...


@dataclass(frozen=True)
class Connection:
    """An Airflow connection. `extra` is the decoded JSON object; secrets never show in `repr`.

    `hooks` are there in Airflow only; without them, or without a provider, the adapters read the same fields.
    """

    id: str
    conn_type: str = ""
    host: str | None = None
    port: int | None = None
    login: str | None = None
    password: str | None = None
    schema: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)
    hooks: ProviderHooks | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        host = None if self.host is None else mask_addresses(self.host)
        place = f"host={host!r}, port={self.port!r}, login={self.login!r}, schema={self.schema!r}"
        secret = SECRET_MASK if self.password else None
        identity = f"id={self.id!r}, conn_type={self.conn_type!r}"
        return f"Connection({identity}, {place}, password={secret}, extra={self._mask_extra()})"

    def _mask_extra(self) -> dict[str, Any]:
        return {name: SECRET_MASK if isinstance(v, dict | list) else v for name, v in mask_secrets(self.extra).items()}


Resolve = Callable[[str], Connection | None]


def cache_connections(resolve: Resolve) -> Resolve:
    connections: dict[str, Connection | None] = {}

    def resolve_once(conn_id: str) -> Connection | None:
        if conn_id not in connections:
            connections[conn_id] = resolve(conn_id)
        return connections[conn_id]

    return resolve_once


def name_variable(conn_id: str) -> str:
    """Return the variable that holds a connection: ``kafka_default`` -> ``AIRFLOW_CONN_KAFKA_DEFAULT``."""
    return f"AIRFLOW_CONN_{conn_id.upper()}"


def read_connection_from_env(conn_id: str, environ: Mapping[str, str] | None = None) -> Connection | None:
    """Read a connection, None without its variable. `ConfigurationError` never shows the value."""
    text = (os.environ if environ is None else environ).get(name_variable(conn_id), "").strip()
    if not text:
        return None
    try:
        return _from_json(conn_id, text) if text.startswith("{") else _from_uri(conn_id, text)
    except (ValueError, TypeError, AttributeError):
        # The fault's own text quotes the value, password included: it must not become this error's cause.
        raise build_unreadable_variable_error(conn_id) from None


def build_unreadable_variable_error(conn_id: str) -> ConfigurationError:
    """Build the error for a connection's variable whose value has no known form; never shows the value."""
    return ConfigurationError(f"{name_variable(conn_id)}: cannot be read; {ACCEPTED_FORMS}")


def require_connection(conn_id: str, resolve: Resolve) -> Connection:
    connection = resolve(conn_id)
    if connection is None:
        variable = name_variable(conn_id)
        raise ConfigurationError(
            f"connection={conn_id}: not found; create it in Airflow, or set {variable} outside of Airflow"
            f"{point_to_local_stack(variable)}"
        )
    return connection


def point_to_local_stack(variable: str) -> str:
    """Say that a missing variable is in the running stack's file, if it is; else empty."""
    file = find_local_stack(variable)
    return "" if file is None else f"; the local stack has it: `source {format_path(file)}`"


def normalize_type(conn_type: str) -> str:
    """Spell a connection type as Airflow does: no dashes, and postgres for postgresql."""
    return "postgres" if conn_type == "postgresql" else conn_type.replace("-", "_")


def _from_json(conn_id: str, text: str) -> Connection:
    data = json.loads(text)
    port = data.get("port")
    return Connection(
        id=conn_id,
        conn_type=normalize_type(data.get("conn_type") or ""),
        host=data.get("host"),
        port=int(port) if port not in (None, "") else None,
        login=data.get("login"),
        password=data.get("password"),
        schema=data.get("schema"),
        extra=parse_extra(data.get("extra")),
    )


def _from_uri(conn_id: str, text: str) -> Connection:
    match = SCHEME_PATTERN.match(text)
    if match is None:
        raise ValueError("no connection type")
    address_text = text[match.end() :]
    protocol = PROTOCOL_PATTERN.match(address_text)
    parts = urlsplit(f"//{address_text[protocol.end() :] if protocol else address_text}")
    host = _parse_host(parts.netloc)
    return Connection(
        id=conn_id,
        conn_type=normalize_type(match.group(1)),
        host=protocol.group() + (host or "") if protocol else host,
        port=parts.port,
        login=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        schema=unquote(parts.path[1:]) or None,
        extra=_parse_query_extra(parts.query),
    )


def _parse_host(netloc: str) -> str | None:
    # as Airflow reads it; a path in its place keeps its case
    place = netloc.rpartition("@")[2]
    host = place[: place.index("]") + 1].strip("[]") if place.startswith("[") else place.partition(":")[0]
    name = unquote(host)
    return (name if "/" in name else name.lower()) or None


def _parse_query_extra(query: str) -> dict[str, Any]:
    pairs = dict(parse_qsl(query, keep_blank_values=True))
    if "__extra__" in pairs:
        return parse_extra(pairs["__extra__"])
    return parse_extra({name: _parse_json_or_text(value) for name, value in pairs.items()})


def _parse_json_or_text(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def parse_extra(extra: Any) -> dict[str, Any]:
    """Parse a connection's extra, as JSON text or decoded; without what is null.

    ValueError or TypeError, which quote it, for anything else.
    """
    text = extra.strip() if isinstance(extra, str) else extra
    decoded = json.loads(text) if text and isinstance(text, str) else text or {}
    if not isinstance(decoded, dict):
        raise TypeError("extra is not an object")
    return {name: value for name, value in decoded.items() if value is not None}
