"""What must be so when the records have stopped: rows, places, history, branches, staged files, offsets."""

from typing import Any

from e2e.executors.verdict import list_repeats
from lake_servers import list_files
from pyiceberg.catalog import Catalog
from tidegate.reprocess.verify import verify_table

from soak.pipelines import NAMESPACE, SoakPipeline, SoakTable
from soak.traffic import Traffic


def find_differences(catalog: Catalog, pipeline: SoakPipeline, traffic: Traffic) -> list[str]:
    """A line for each table that differs from the records that were sent."""
    problems: list[str] = []
    for table in pipeline.tables:
        if catalog.table_exists(table.name):
            rows = catalog.load_table(table.name).scan().to_arrow().to_pylist()
            problems += [f"{table.name}: {line}" for line in _compare(rows, table, traffic)]
        else:
            problems.append(f"{table.name} is not there")
    return problems


def _compare(rows: list[dict[str, Any]], table: SoakTable, traffic: Traffic) -> list[str]:
    if table.is_journal:
        actual_names = {(row["part"], row["place"]): row["name"] for row in rows}
        wanted_places = traffic.places[table.topic]
        duplicates = [f"{len(rows) - len(actual_names)} records stand twice"] if len(actual_names) < len(rows) else []
        return [*duplicates, *_count_differences(actual_names, wanted_places)]
    names = {row["id"]: row["name"] for row in rows}
    duplicates = [f"{len(rows) - len(names)} keys stand twice"] if len(names) < len(rows) else []
    expected_names = traffic.rows[table.topic]
    if table.is_upper:
        expected_names = {key: name.upper() for key, name in expected_names.items()}
    return [*duplicates, *_count_differences(names, expected_names)]


def _count_differences(actual_rows: dict[Any, str], expected_rows: dict[Any, str]) -> list[str]:
    differ = [
        key for key in actual_rows.keys() | expected_rows.keys() if actual_rows.get(key) != expected_rows.get(key)
    ]
    return [f"{len(differ)} of {len(expected_rows)} rows differ, such as {differ[0]}"] if differ else []


def find_leftovers(catalog: Catalog, pipeline: SoakPipeline) -> list[str]:
    """Branches of merges, and staged files, whether something refers to them or not."""
    leftovers: list[str] = []
    for table in pipeline.tables:
        refs = catalog.load_table(table.name).metadata.refs
        leftovers += [f"{table.name}: branch {ref}" for ref in refs if ref.startswith(f"tidegate_{pipeline.name}_")]
        staged = f"{table.name}_{pipeline.name}_tmp"
        if catalog.table_exists(staged):
            files = list_files(catalog.properties, f"{catalog.load_table(staged).location()}/data")
            leftovers += [f"{staged}: {len(files)} files"] if files else []
    return leftovers


def find_unverified(session: Any, pipeline: SoakPipeline) -> list[str]:
    """Tables that differ from the log by the product's own comparison; a journal has no key to compare by."""
    names = [f"{pipeline.catalog}.{table.name}" for table in pipeline.tables if not table.is_journal]
    results = [verify_table(session, name) for name in names]
    return [f"{result}" for result in results if result.wrong or result.unknowable or not result.equal]


def find_repeats(catalog: Catalog, pipeline: SoakPipeline) -> list[str]:
    """Batches and offsets that occur more than once in the history of a table."""
    history = catalog.load_table(f"{NAMESPACE}.tidegate_{pipeline.name}_batches").scan().to_arrow().to_pylist()
    return list_repeats(history)
