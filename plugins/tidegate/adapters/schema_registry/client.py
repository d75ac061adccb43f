"""Schemas of a record's key and value from a schema registry: all versions of a subject, before the first record."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from tidegate.adapters.port_errors import format_one_line
from tidegate.adapters.server_probe import Server, explain_address, require_server
from tidegate.connections import Resolve, require_connection
from tidegate.errors import ConfigurationError, GiveUp, RetryLater
from tidegate.redaction import mask_addresses

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)  # what odd answers make of code
TIMEOUT_SECONDS = 20  # seconds; the client would wait for ever
MAX_RETRIES = 2
NOT_FOUND_STATUS_CODES = (404,)
ACCESS_STATUS_CODES = (401, 403)
ACCESS_ADVICE = "check the connection's login, and give its user the right to read that docs/security.md lists"
SILENCE_ADVICE = "see that the registry runs and its address is right"


class Version(NamedTuple):
    """A registered schema: its id, its text, and the texts that it refers to by name; then its other ids."""

    id: int
    kind: str
    text: str
    references: dict[str, str]
    guid: str = ""
    global_id: int | None = None
    content_id: int | None = None
    subject: str = ""
    number: str = ""  # in its subject


class Registry:
    """One registry. `settings` are the client's, secrets included."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._name = name
        self._settings = {"timeout": TIMEOUT_SECONDS, "max.retries": MAX_RETRIES, **settings}
        self.read_versions = cache(self._read_versions)

    def _read_versions(self, subject: str) -> tuple[Version, ...]:
        require_registry(self._name, self._settings)
        import httpx
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            client = self._open_client()
            other_client = self._open_client()
            with client, other_client:
                alive = set(client.get_versions(subject))
                # the newest last; soft-deleted ones too, because their records are still there
                numbers = sorted(client.get_versions(subject, deleted=True), key=lambda n: (n in alive, n))
                versions = tuple(self._read_version(client, other_client, subject, number) for number in numbers)
        except SchemaRegistryError as fault:
            raise explain_status(
                self._name, subject, status=fault.http_status_code, message=fault.error_message
            ) from fault
        except (httpx.HTTPError, OSError) as fault:
            raise RetryLater(
                f"registry={self._name} cannot be asked for subject={subject}: {format_one_line(fault)}; "
                f"{SILENCE_ADVICE}"
            ) from fault
        except UNREADABLE as fault:
            raise explain_odd_answer(self._name, f"subject={subject}", fault) from fault
        if not alive:
            raise explain_status(self._name, subject, status=NOT_FOUND_STATUS_CODES[0], message="it has no version")
        return versions

    def read_text(self, number: int) -> tuple[str, str]:
        """Kind and text of the schema with this id, of any subject; `GiveUp` where there is none."""
        require_registry(self._name, self._settings)
        import httpx
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            with self._open_client() as client:
                schema = client.get_schema(number)
                _require_text(schema)
        except SchemaRegistryError as fault:
            if fault.http_status_code in ACCESS_STATUS_CODES:
                reason = f"access was refused: status={fault.http_status_code}; {ACCESS_ADVICE}"
            else:
                reason = f"{fault.error_message}; is it the right registry?"
            raise GiveUp(f"registry={self._name} id={number}: {reason}") from fault
        except (httpx.HTTPError, OSError) as fault:
            raise RetryLater(
                f"registry={self._name} cannot be asked for id={number}: {format_one_line(fault)}; {SILENCE_ADVICE}"
            ) from fault
        except UNREADABLE as fault:
            raise explain_odd_answer(self._name, f"id={number}", fault) from fault
        return schema.schema_type or "AVRO", str(schema.schema_str)

    def _open_client(self) -> Any:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        try:
            return SchemaRegistryClient(self._settings)
        except ValueError as fault:
            raise ConfigurationError(
                f"registry={self._name}: its settings are not usable: {format_one_line(fault)}"
            ) from fault

    def _read_version(self, client: Any, other_client: Any, subject: str, number: int) -> Version:
        version = client.get_version(subject, number, deleted=True)
        form = None
        kind = version.schema.schema_type or "AVRO"
        if kind == "PROTOBUF":  # as the compiler's own description, so that nobody has to compile it again
            # one client would remember the version in the form asked for first
            client = other_client
            form = "serialized"
            version = client.get_version(subject, number, deleted=True, fmt=form)
        _require_text(version.schema)
        texts: dict[str, str] = {}
        self._read_references(client, version.schema, texts, form)
        return Version(
            id=version.schema_id,
            kind=kind,
            text=version.schema.schema_str,
            references=texts,
            guid=version.guid or "",
            number=str(number),
        )

    def _read_references(self, client: Any, schema: Any, texts: dict[str, str], form: str | None) -> None:
        for reference in schema.references or ():
            if reference.name not in texts:
                version = client.get_version(reference.subject, reference.version, deleted=True, fmt=form)
                texts[reference.name] = version.schema.schema_str
                self._read_references(client, version.schema, texts, form)


def _require_text(schema: Any) -> None:
    if not isinstance(schema.schema_str, str):
        raise ValueError("a schema has no text")


def require_registry(name: str, settings: Mapping[str, Any]) -> None:
    """`RetryLater` without a server: the client would wait and try again for a minute."""
    require_server(Server.from_uris("schema registry", f"registry={name}", str(settings.get("url", ""))))


def explain_odd_answer(name: str, place: str, fault: Exception) -> ConfigurationError:
    """For an answer with status 200 that no registry sends: a proxy's page, or a schema without its text."""
    return ConfigurationError(
        f"registry={name} {place}: this is no answer of a schema registry: "
        f"{type(fault).__name__}: {format_one_line(fault)}; check the registry's address, and what stands before it"
    )


def explain_status(name: str, subject: str, *, status: int, message: str) -> Exception:
    """Whether a registry's refusal lasts, or a later try may succeed."""
    place = f"registry={name} subject={subject}"
    if status in NOT_FOUND_STATUS_CODES:
        return GiveUp(f"{place}: {message}; register a schema, or correct the subject")
    if status in ACCESS_STATUS_CODES:
        return GiveUp(
            f"{place}: access was refused when its versions were read: status={status}: {message}; {ACCESS_ADVICE}"
        )
    return RetryLater(f"{place}: status={status}: {message}")


def resolve_registry_settings(place: str, resolve: Resolve) -> dict[str, Any]:
    """The client's settings for an address, or for a connection with host or `extra.url`, login and `extra`."""
    settings = _find_settings(place, resolve)
    for url in str(settings["url"]).split(","):
        if (problem := explain_address(url)) is not None:
            raise ConfigurationError(f"registry={mask_addresses(place)}: {problem}")
    return settings


def _find_settings(place: str, resolve: Resolve) -> dict[str, Any]:
    if place.startswith(("http://", "https://")):
        return {"url": place}
    connection = require_connection(place, resolve)
    extra = dict(connection.extra)
    url = extra.pop("url", None) or _build_address(connection)
    if connection.login:
        extra["basic.auth.user.info"] = f"{connection.login}:{connection.password or ''}"
    return {"url": url, **extra}


def _build_address(connection: Any) -> str:
    if not connection.host:
        raise ConfigurationError(f"connection={connection.id}: no host; set it to the registry's http(s)://host")
    host = connection.host if "://" in connection.host else f"{connection.schema or 'http'}://{connection.host}"
    return f"{host}:{connection.port}" if connection.port else str(host)
