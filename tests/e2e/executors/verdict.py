"""What must be so when the records have stopped: rows, places, history, branches, staged batches, offsets."""

import json
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from e2e.airflow_client import wait_until
from e2e.executors.pipelines import JOURNAL, NAMESPACE, PARTITIONS
from e2e.executors.traffic import Traffic
from pyiceberg.catalog import Catalog

Tables = dict[str, list[str]]


def wait_until_clean(find: Callable[[], list[str]], expectation: str, seconds: float) -> None:
    """Wait until `find` finds nothing; the error contains what it still finds."""
    differences = [""]

    def is_over() -> bool:
        differences[:] = find()
        return not differences

    try:
        wait_until(is_over, expectation, seconds, pause=2)
    except AssertionError as failure:
        raise AssertionError(f"{failure}: {differences}") from None


def compare_rows(catalog: Catalog, traffic: Traffic, tables: Tables) -> list[str]:
    """A line for each table that does not equal the records that were sent."""
    differences: list[str] = []
    for pipeline, names in tables.items():
        for name in names:
            differences += _compare(catalog, pipeline, name, traffic)
    return differences


def _compare(catalog: Catalog, pipeline: str, name: str, traffic: Traffic) -> list[str]:
    if not catalog.table_exists(f"{NAMESPACE}.{name}"):
        return [f"{name} is not there"]
    rows = catalog.load_table(f"{NAMESPACE}.{name}").scan().to_arrow().to_pylist()
    if pipeline == JOURNAL:
        places = [(row["part"], row["place"]) for row in rows]
        assert len(set(places)) == len(places), "a record stands twice in the journal"
        missing = len(traffic.places - set(places))
        return [f"{name}: {missing} records are missing"] if missing or len(places) != len(traffic.places) else []
    assert len({row["id"] for row in rows}) == len(rows), f"{name}: a key stands twice"
    present = {row["id"]: row["name"] for row in rows}
    capitals = name.endswith("_upper")
    sent_rows = {key: text.upper() if capitals else text for key, text in traffic.rows[pipeline].items()}
    differ = sum(present.get(key) != sent_rows.get(key) for key in present.keys() | sent_rows.keys())
    return [f"{name}: {differ} rows differ"] if differ else []


def find_leftovers(catalog: Catalog, tables: Tables) -> list[str]:
    """Branches of merges, and staged batches."""
    leftovers: list[str] = []
    for pipeline, names in tables.items():
        for name in names:
            refs = catalog.load_table(f"{NAMESPACE}.{name}").metadata.refs
            leftovers += [f"{name}: branch {ref}" for ref in refs if ref.startswith(f"tidegate_{pipeline}_")]
            staged = f"{NAMESPACE}.{name}_{pipeline}_tmp"
            if catalog.table_exists(staged) and (rows := catalog.load_table(staged).scan().to_arrow().num_rows):
                leftovers.append(f"{name}: {rows} staged rows")
    return leftovers


def find_repeats(catalog: Catalog, pipeline: str) -> list[str]:
    """Batches and offsets that occur more than once in the history of a table."""
    return list_repeats(catalog.load_table(f"{NAMESPACE}.tidegate_{pipeline}_batches").scan().to_arrow().to_pylist())


def list_repeats(history: list[dict[str, Any]]) -> list[str]:
    """The batches that occur twice in the rows of a pipeline's history, and those that repeat offsets."""
    repeats: list[str] = []
    ends: dict[tuple[str, str, str], int] = defaultdict(int)
    batches: set[tuple[str, int]] = set()
    for row in sorted(history, key=lambda row: (row["table"], row["batch"])):
        batch = (row["table"], row["batch"])
        repeats += [f"batch={row['batch']} of {row['table']} stands twice"] if batch in batches else []
        batches.add(batch)
        for topic, ranges in json.loads(row["ranges"]).items():
            for partition, (start, end) in ranges.items():
                place = (row["table"], topic, partition)
                if start < ends[place]:
                    repeats.append(f"batch={row['batch']} of {row['table']} repeats {topic}/{partition} from {start}")
                ends[place] = end
    return repeats


def find_lag(bootstrap: str, pipeline: str) -> dict[int, Any]:
    """Of each partition whose end the consumer group has not reached, where it is and where the end is."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"tidegate-{pipeline}"})
    try:
        partitions = [TopicPartition(pipeline, number) for number in range(PARTITIONS)]
        committed = {place.partition: place.offset for place in consumer.committed(partitions, timeout=60)}
        ends = {place.partition: consumer.get_watermark_offsets(place, timeout=60)[1] for place in partitions}
        return {number: (committed[number], end) for number, end in ends.items() if 0 < end != committed[number]}
    finally:
        consumer.close()
