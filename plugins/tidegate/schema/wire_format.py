"""Which schema a record was written with: where its id lies, and which ids are those of other record types."""

from typing import Any

# options of a key or a value, as the job reads them
WIRE = "wire"
OTHER_IDS = "other_ids"
PLACES = "places"  # subject and version by schema id, and by schema id, blank and topic
KEYLESS = "keyless"  # an option of a value: ids of schemas that lack a field of the key, and the reasons
CONFLUENT_HEADER = "__{part}_schema_id"
APICURIO_HEADERS = ("apicurio.{part}.globalId", "apicurio.{part}.contentId")


def has_schema_ids_in_headers(options: dict[str, Any]) -> bool:
    """Whether the headers of a record are needed to read it."""
    return str((options.get(WIRE) or {}).get("format", "")).endswith("-header")
