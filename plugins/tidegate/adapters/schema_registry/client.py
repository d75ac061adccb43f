"""Schemas of a record's key and value from a schema registry: all versions of a subject, before the first record."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import quote

from tidegate.adapters.port_errors import format_one_line
from tidegate.adapters.server_probe import Server, explain_address, require_server
from tidegate.connections import Resolve, require_connection
from tidegate.errors import ConfigurationError, GiveUp, RetryLater
from tidegate.redaction import mask_addresses

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)  # what odd answers make of code
TIMEOUT_SECONDS = 20  # seconds; the client would wait for ever
MAX_RETRIES = 2
NOT_FOUND_STATUS_CODE = 404
ACCESS_STATUS_CODES = (401, 403)
ACCESS_ADVICE = "check the connection's login, and give its user the right to read that docs/security.md lists"


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
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            with (
                _translate_faults(self._name, f"subject={subject}"),
                self._open_client() as client,
                self._open_client() as other_client,
            ):
                alive = set(client.get_versions(subject))
                # the newest last; soft-deleted ones too, because their records are still there
                numbers = sorted(client.get_versions(subject, deleted=True), key=lambda n: (n in alive, n))
                versions = tuple(_read_version(client, other_client, subject, number) for number in numbers)
        except SchemaRegistryError as fault:
            raise explain_status(
                self._name, subject, status=fault.http_status_code, message=fault.error_message
            ) from fault
        if not alive:
            raise explain_status(self._name, subject, status=NOT_FOUND_STATUS_CODE, message="it has no version")
        return versions

    def read_text(self, number: int) -> tuple[str, str]:
        """Kind and text of the schema with this id, of any subject; `GiveUp` where there is none."""
        require_registry(self._name, self._settings)
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            with _translate_faults(self._name, f"id={number}"), self._open_client() as client:
                schema = client.get_schema(number)
                _require_text(schema)
        except SchemaRegistryError as fault:
            if fault.http_status_code in ACCESS_STATUS_CODES:
                reason = f"access was refused: status={fault.http_status_code}; {ACCESS_ADVICE}"
            else:
                reason = f"{fault.error_message}; check that this is the right registry"
            raise GiveUp(f"registry={self._name} id={number}: {reason}") from fault
        return schema.schema_type or "AVRO", str(schema.schema_str)

    def _open_client(self) -> Any:
        from confluent_kafka.schema_registry import SchemaRegistryClient

        try:
            return SchemaRegistryClient(self._settings)
        except ValueError as fault:
            raise ConfigurationError(
                f"registry={self._name}: its settings are not usable: {format_one_line(fault)}"
            ) from fault


def _read_version(client: Any, other_client: Any, subject: str, number: int) -> Version:
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
    _read_references(client, version.schema, texts, form)
    return Version(
        id=version.schema_id,
        kind=kind,
        text=version.schema.schema_str,
        references=texts,
        guid=version.guid or "",
        number=str(number),
    )


def _read_references(client: Any, schema: Any, texts: dict[str, str], form: str | None) -> None:
    for reference in schema.references or ():
        if reference.name not in texts:
            version = client.get_version(reference.subject, reference.version, deleted=True, fmt=form)
            texts[reference.name] = version.schema.schema_str
            _read_references(client, version.schema, texts, form)


def _require_text(schema: Any) -> None:
    if not isinstance(schema.schema_str, str):
        raise ValueError("a schema has no text")


def require_registry(name: str, settings: Mapping[str, Any]) -> None:
    """`RetryLater` without a server: the client would wait and try again for a minute."""
    require_server(Server.from_uris("schema registry", f"registry={name}", str(settings.get("url", ""))))


@contextmanager
def _translate_faults(name: str, place: str) -> Iterator[None]:
    import httpx

    try:
        yield
    except (httpx.HTTPError, OSError) as fault:
        raise RetryLater(
            f"registry={name} cannot be asked for {place}: {format_one_line(fault)}; see that the registry runs and "
            "its address is right"
        ) from fault
    # an answer with status 200 that no registry sends: a proxy's page, or a schema without its text
    except UNREADABLE as fault:
        raise ConfigurationError(
            f"registry={name} {place}: this is no answer of a schema registry: "
            f"{type(fault).__name__}: {format_one_line(fault)}; check the registry's address, and what stands before it"
        ) from fault


def explain_status(name: str, subject: str, *, status: int, message: str) -> Exception:
    """Whether a registry's refusal lasts, or a later try may succeed."""
    place = f"registry={name} subject={subject}"
    if status == NOT_FOUND_STATUS_CODE:
        return GiveUp(f"{place}: {message}; register a schema, or correct the subject")
    if status in ACCESS_STATUS_CODES:
        return GiveUp(
            f"{place}: access was refused when its versions were read: status={status}: {message}; {ACCESS_ADVICE}"
        )
    return RetryLater(f"{place}: status={status}: {message}")


def resolve_registry_settings(place: str, resolve: Resolve) -> dict[str, Any]:
    """The client's settings for an address, or for a connection with host or `extra.url`, login and `extra`."""
    if place.startswith(("http://", "https://")):
        settings: dict[str, Any] = {"url": place}
    else:
        connection = require_connection(place, resolve)
        settings = dict(connection.extra)
        settings["url"] = settings.get("url") or _build_address(connection)
        if connection.login:
            settings["basic.auth.user.info"] = f"{connection.login}:{connection.password or ''}"
    for url in str(settings["url"]).split(","):
        if (problem := explain_address(url)) is not None:
            raise ConfigurationError(f"registry={mask_addresses(place)}: {problem}")
    return settings


def _build_address(connection: Any) -> str:
    if not connection.host:
        raise ConfigurationError(f"connection={connection.id}: no host; set it to the registry's http(s)://host")
    host = connection.host if "://" in connection.host else f"{connection.schema or 'http'}://{connection.host}"
    return f"{host}:{connection.port}" if connection.port else str(host)


API_PATH = "/apis/registry/v"
PAGE_SIZE = 500  # versions of one answer
KNOWN_SETTINGS = {"url", "basic.auth.user.info", "bearer.auth.token", "ssl.ca.location"}
DEFAULT_ID_FIELDS = {"2": "globalId", "3": "contentId"}  # what Apicurio's serializers of that time write by default


def is_apicurio(url: str) -> bool:
    """Whether the address is of Apicurio's own API; its ccompat API is asked as Confluent's."""
    return API_PATH in url


class ApicurioRegistry:
    """One registry. `use_id`: which of a version's ids stand in records; by default that of the API's version."""

    def __init__(self, name: str, settings: Mapping[str, Any], use_id: str | None) -> None:
        self._name = name
        self._url = str(settings["url"]).rstrip("/")
        self._settings = settings
        self._use_id = use_id or DEFAULT_ID_FIELDS.get(self._url.partition(API_PATH)[2][:1], "contentId")
        unknown = sorted(set(settings) - KNOWN_SETTINGS)
        if unknown:
            raise ConfigurationError(
                f"registry={name}: {', '.join(unknown)} is no setting of Apicurio's API; remove it"
            )
        self.read_versions = cache(self._read_versions)

    def _read_versions(self, subject: str) -> tuple[Version, ...]:
        require_registry(self._name, self._settings)
        group, _, artifact = subject.rpartition("/")
        place = f"groups/{quote(group or 'default', safe='')}/artifacts/{quote(artifact, safe='')}/versions"
        with _translate_faults(self._name, f"subject={subject}"):
            versions = self._list_versions(place, subject)
            if not versions:
                raise explain_status(self._name, subject, status=NOT_FOUND_STATUS_CODE, message="it has no version")
            # the newest last; disabled ones before the others
            ordered_versions = sorted(versions, key=lambda v: (v.get("state") != "DISABLED", int(v["globalId"])))
            return tuple(self._read_version(version, subject) for version in ordered_versions)

    def _list_versions(self, place: str, subject: str) -> list[dict[str, Any]]:
        versions: list[dict[str, Any]] = []
        while True:
            page = self._get(f"{place}?limit={PAGE_SIZE}&offset={len(versions)}", subject).json()
            versions += page["versions"]
            if not page["versions"] or len(versions) >= int(page["count"]):
                return versions

    def _read_version(self, metadata: dict[str, Any], subject: str) -> Version:
        kind = str(metadata.get("artifactType") or metadata.get("type"))
        if kind not in ("AVRO", "JSON"):
            raise ConfigurationError(
                f"registry={self._name} subject={subject}: a schema of type={kind} is not read through Apicurio's own "
                "API; give the address of its ccompat API"
            )
        content = int(metadata["contentId"])
        texts = dict[str, str]()
        place = f"ids/contentIds/{content}"
        self._read_references(place, texts, subject)
        text = self._get(place, subject).text
        return Version(
            id=int(metadata[self._use_id]),
            kind=kind,
            text=text,
            references=texts,
            guid="",
            global_id=int(metadata["globalId"]),
            content_id=content,
            number=str(metadata.get("version", "")),
        )

    def _read_references(self, place: str, texts: dict[str, str], subject: str) -> None:
        for reference in self._get(f"{place}/references", subject).json():
            if reference["name"] in texts:
                continue
            names = [quote(str(reference.get(k) or "default"), safe="") for k in ("groupId", "artifactId", "version")]
            at = f"groups/{names[0]}/artifacts/{names[1]}/versions/{names[2]}"
            texts[reference["name"]] = self._get(f"{at}/content" if f"{API_PATH}3" in self._url else at, subject).text
            self._read_references(at, texts, subject)

    def _get(self, place: str, subject: str) -> Any:
        import httpx

        user, _, password = str(self._settings.get("basic.auth.user.info", "")).partition(":")
        token = self._settings.get("bearer.auth.token")
        verify = self._settings.get("ssl.ca.location") or True
        with httpx.Client(
            transport=httpx.HTTPTransport(retries=MAX_RETRIES, verify=verify),
            auth=(user, password) if user else None,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=TIMEOUT_SECONDS,
        ) as client:
            answer = client.get(f"{self._url}/{place}")
        if answer.status_code != 200:
            raise explain_status(self._name, subject, status=answer.status_code, message=answer.text[:200])
        return answer
