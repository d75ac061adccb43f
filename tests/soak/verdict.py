"""What must be so when the records have stopped: rows, places, history, branches, staged files, offsets."""

from typing import Any

from e2e.executors.verdict import list_repeats
from lake_servers import list_files
from pyiceberg.catalog import Catalog

from soak.pipelines import NAMESPACE, SoakPipeline, SoakTable
from soak.traffic import Traffic


def find_differences(catalog: Catalog, pipeline: SoakPipeline, traffic: Traffic) -> list[str]:
    """A line for each table that does not equal what was sent."""
    found: list[str] = []
    for table in pipeline.tables:
        if catalog.table_exists(table.name):
            rows = catalog.load_table(table.name).scan().to_arrow().to_pylist()
            found += [f"{table.name}: {line}" for line in _compare(rows, table, traffic)]
        else:
            found.append(f"{table.name} is not there")
    return found


def _compare(rows: list[dict[str, Any]], table: SoakTable, traffic: Traffic) -> list[str]:
    if table.is_journal:
        present = {(row["part"], row["place"]): row["name"] for row in rows}
        wanted_places = traffic.places[table.topic]
        repeated = [f"{len(rows) - len(present)} records stand twice"] if len(present) < len(rows) else []
        return [*repeated, *_count_differences(present, wanted_places)]
    names = {row["id"]: row["name"] for row in rows}
    repeated = [f"{len(rows) - len(names)} keys stand twice"] if len(names) < len(rows) else []
    wanted = traffic.rows[table.topic]
    if table.is_upper:
        wanted = {key: name.upper() for key, name in wanted.items()}
    return [*repeated, *_count_differences(names, wanted)]


def _count_differences(present: dict[Any, str], wanted: dict[Any, str]) -> list[str]:
    differ = [key for key in present.keys() | wanted.keys() if present.get(key) != wanted.get(key)]
    return [f"{len(differ)} of {len(wanted)} rows differ, such as {differ[0]}"] if differ else []


def find_leftovers(catalog: Catalog, pipeline: SoakPipeline) -> list[str]:
    """Branches of merges, and staged files, whether something refers to them or not."""
    found: list[str] = []
    for table in pipeline.tables:
        refs = catalog.load_table(table.name).metadata.refs
        found += [f"{table.name}: branch {ref}" for ref in refs if ref.startswith(f"tidegate_{pipeline.name}_")]
        staged = f"{table.name}_{pipeline.name}_tmp"
        if catalog.table_exists(staged):
            files = list_files(catalog.properties, f"{catalog.load_table(staged).location()}/data")
            found += [f"{staged}: {len(files)} files"] if files else []
    return found


def find_repeats(catalog: Catalog, pipeline: SoakPipeline) -> list[str]:
    """Batches and offsets that stand more than once in the history of a table."""
    history = catalog.load_table(f"{NAMESPACE}.tidegate_{pipeline.name}_batches").scan().to_arrow().to_pylist()
    return list_repeats(history)
