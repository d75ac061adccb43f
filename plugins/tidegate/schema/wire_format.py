"""Which schema a record was written with: where its id lies, and which ids are those of other record types."""

from collections.abc import Iterable
from typing import Any, Protocol

# options of a key or a value, as the job reads them
WIRE = "wire"
OTHER_IDS = "other_ids"
PLACES = "places"  # subject and version by schema id, and by schema id, blank and topic
KEYLESS = "keyless"  # an option of a value: ids of schemas that lack a field of the key, and the reasons
CONFLUENT_HEADER = "__{part}_schema_id"
APICURIO_HEADERS = ("apicurio.{part}.globalId", "apicurio.{part}.contentId")
GUID_WIDTH = 17  # a byte 01 and the schema's GUID


class Ids(Protocol):
    """The ids of one version of a subject; None or empty if the registry does not tell."""

    @property
    def id(self) -> int:
        """The id that stands before records."""

    @property
    def guid(self) -> str:
        """Confluent's name of it in every registry."""

    @property
    def global_id(self) -> int | None:
        """Apicurio's, of each version."""

    @property
    def content_id(self) -> int | None:
        """Apicurio's, of each content."""


def lay_out(word: str, versions: Iterable[Ids]) -> dict[str, Any] | None:
    """Describe this wire format to the job; None if the id stands before the bytes, as decoders expect it."""
    schema_ids = list(versions)
    if word == "confluent-header":
        guids = {f"01{v.guid.replace('-', '').upper()}": v.id for v in schema_ids if v.guid}
        return {"format": word, "width": GUID_WIDTH, "headers": {CONFLUENT_HEADER: guids}}
    if word == "apicurio-header":
        by_global = {f"{v.global_id:016X}": v.id for v in schema_ids if v.global_id is not None}
        by_content = {f"{v.content_id:016X}": v.id for v in schema_ids if v.content_id is not None}
        return {"format": word, "headers": dict(zip(APICURIO_HEADERS, (by_global, by_content), strict=True))}
    return {"format": word} if word == "apicurio" else None


def has_schema_ids_in_headers(options: dict[str, Any]) -> bool:
    """Whether the headers of a record are needed to read it."""
    return str((options.get(WIRE) or {}).get("format", "")).endswith("-header")
