"""What pipelines leave behind in a catalog when their file is deleted: tables of their own, and marks in others."""

from collections.abc import Collection, Iterator
from typing import Any

from tidegate import names
from tidegate.adapters.iceberg_catalogs import Catalogs
from tidegate.spark_sql import literal, quoted_name

OWN, CONTROL, LETTERS, NAMES = "tidegate_", "_batches", "_dead_letters", "_names"


def leftovers(catalogs: Catalogs, catalog: str, kept: Collection[str]) -> list[dict[str, Any]]:
    """For each pipeline without a file: its tables, the destinations that it has marked, and what removes both.

    A pipeline is known by its control table; `kept` are those that have a file, right or broken. Nothing is changed.
    """
    tables = {namespace: catalogs.names_in(namespace) for namespace in _namespaces(catalogs, catalog)}
    gone = {pipeline for found in tables.values() for pipeline in _recorded(found)} - set(kept)
    return [_of_pipeline(catalogs, pipeline, tables, kept) for pipeline in sorted(gone)]


def _namespaces(catalogs: Catalogs, catalog: str) -> Iterator[str]:
    for namespace in catalogs.catalog(catalog).list_namespaces():
        yield ".".join((catalog, *namespace))


def _recorded(tables: list[str]) -> Iterator[str]:
    for table in tables:
        if table.startswith(OWN) and table.endswith(CONTROL):
            yield table[len(OWN) : -len(CONTROL)]


def _of_pipeline(
    catalogs: Catalogs, pipeline: str, tables: dict[str, list[str]], kept: Collection[str]
) -> dict[str, Any]:
    own = [f"{space}.{table}" for space, found in tables.items() for table in found if _is_own(table, pipeline)]
    staged = [f"{space}.{table}" for space, found in tables.items() for table in _intermediate(found, pipeline, kept)]
    others = [f"{space}.{table}" for space, found in tables.items() for table in found]
    marked = [table for table in others if table not in own + staged and _marks(catalogs, table, pipeline)]
    return {
        "pipeline": pipeline,
        "tables": sorted(own + staged),
        "destinations": marked,
        "remove": [f"DROP TABLE {quoted_name(table)} PURGE" for table in sorted(own + staged)]
        + [statement for table in marked for statement in _unmark(catalogs, table, pipeline)]
        + [f"kafka-consumer-groups.sh --delete --group tidegate-{pipeline}"],
    }


def _is_own(table: str, pipeline: str) -> bool:
    return table in {OWN + pipeline + end for end in (CONTROL, LETTERS, NAMES)}


def _intermediate(tables: list[str], pipeline: str, kept: Collection[str]) -> Iterator[str]:
    """Tables named after another table and the pipeline; of two pipelines that fit the longer name has it."""
    longer = [name for name in kept if name.startswith(f"{pipeline}_")]
    for table in tables:
        for destination in tables:
            mine = table.startswith(f"{destination}_{pipeline}_")
            if mine and not any(table.startswith(f"{destination}_{name}_") for name in longer):
                yield table
                break


def _marks(catalogs: Catalogs, table: str, pipeline: str) -> list[str]:
    """The properties that a pipeline has set on a table."""
    found = catalogs.table(table)
    prefix = names.mark(pipeline, "")
    return [] if found is None else sorted(name for name in found.metadata.properties if name.startswith(prefix))


def _unmark(catalogs: Catalogs, table: str, pipeline: str) -> Iterator[str]:
    properties = ", ".join(literal(name) for name in _marks(catalogs, table, pipeline))
    yield f"ALTER TABLE {quoted_name(table)} DROP TAG IF EXISTS {quoted_name(names.tag(pipeline))}"
    yield f"ALTER TABLE {quoted_name(table)} UNSET TBLPROPERTIES ({properties})"
