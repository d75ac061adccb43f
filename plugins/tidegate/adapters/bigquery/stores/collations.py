"""Finds the texts of a table that BigQuery does not compare letter by letter."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def find_collated_texts(schema: Iterable[Mapping[str, Any]], *above: str) -> Iterator[tuple[tuple[str, ...], str]]:
    """Paths of the texts that BigQuery compares by a collation, as without case, from the fields of the REST API."""
    for field in schema:
        path = (*above, str(field["name"]))
        if field.get("collation"):
            yield path, str(field["collation"])
        yield from find_collated_texts(field.get("fields", ()), *path)
