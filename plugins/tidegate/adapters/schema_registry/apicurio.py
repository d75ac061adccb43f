"""Schemas of a record's key and value from Apicurio Registry's own API, v2 or v3: all versions of an artifact."""

from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import quote

from tidegate.adapters.port_errors import format_one_line
from tidegate.adapters.schema_registry.client import (
    MAX_RETRIES,
    SILENCE_ADVICE,
    TIMEOUT_SECONDS,
    UNREADABLE,
    Version,
    explain_odd_answer,
    explain_status,
    require_registry,
)
from tidegate.errors import ConfigurationError, RetryLater

API_PATH = "/apis/registry/v"
PAGE_SIZE = 500  # versions of one answer
KNOWN_SETTINGS = {"url", "basic.auth.user.info", "bearer.auth.token", "ssl.ca.location"}
DEFAULT_ID_FIELDS = {"2": "globalId", "3": "contentId"}  # what Apicurio's serializers of that time write by default


def is_apicurio(url: str) -> bool:
    """Whether the address is of Apicurio's own API; its ccompat API is asked as Confluent's."""
    return API_PATH in url


class ApicurioRegistry:
    """One registry. `use_id`: which of a version's ids stand in records; by default that of the API's version."""

    def __init__(self, name: str, settings: Mapping[str, Any], use_id: str | None = None) -> None:
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
        try:
            versions = self._list_versions(place, subject)
            if not versions:
                raise self._explain(subject, 404, "it has no version")
            # the newest last; disabled ones before the others
            ordered_versions = sorted(versions, key=lambda v: (v.get("state") != "DISABLED", int(v["globalId"])))
            return tuple(self._read_version(version, subject) for version in ordered_versions)
        except UNREADABLE as fault:
            raise explain_odd_answer(self._name, f"subject={subject}", fault) from fault

    def _list_versions(self, place: str, subject: str) -> list[dict[str, Any]]:
        versions: list[dict[str, Any]] = []
        while True:
            page = self._get_json(f"{place}?limit={PAGE_SIZE}&offset={len(versions)}", subject)
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
        for reference in self._get_json(f"{place}/references", subject):
            if reference["name"] in texts:
                continue
            names = [quote(str(reference.get(k) or "default"), safe="") for k in ("groupId", "artifactId", "version")]
            at = f"groups/{names[0]}/artifacts/{names[1]}/versions/{names[2]}"
            texts[reference["name"]] = self._get(f"{at}/content" if f"{API_PATH}3" in self._url else at, subject).text
            self._read_references(at, texts, subject)

    def _get_json(self, place: str, subject: str) -> Any:
        return self._get(place, subject).json()

    def _get(self, place: str, subject: str) -> Any:
        import httpx

        user, _, password = str(self._settings.get("basic.auth.user.info", "")).partition(":")
        token = self._settings.get("bearer.auth.token")
        try:
            with httpx.Client(
                transport=httpx.HTTPTransport(
                    retries=MAX_RETRIES, verify=self._settings.get("ssl.ca.location") or True
                ),
                auth=(user, password) if user else None,
                headers={"Authorization": f"Bearer {token}"} if token else {},
                timeout=TIMEOUT_SECONDS,
            ) as client:
                answer = client.get(f"{self._url}/{place}")
        except (httpx.HTTPError, OSError) as fault:
            raise RetryLater(
                f"registry={self._name} cannot be asked for subject={subject}: {format_one_line(fault)}; "
                f"{SILENCE_ADVICE}"
            ) from fault
        if answer.status_code != 200:
            raise self._explain(subject, answer.status_code, answer.text[:200])
        return answer

    def _explain(self, subject: str, status: int, message: str) -> Exception:
        return explain_status(self._name, subject, status=status, message=message)
